#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

use std::net::IpAddr;

use tokio_postgres::config::{ChannelBinding, Host as DriverHost};

use super::*;

fn address(text: &str) -> Address {
    Address::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    Address::parse(text).unwrap_err().to_string()
}

#[test]
fn a_url_is_read_as_libpq_reads_it() {
    let address =
        address("postgresql://me:se%20cret@db.example:6000/work%20load?application_name=mine&options=-c%20a%3Db");
    assert_eq!(address.to_string(), "postgres://me@db.example:6000/work load");
    let config = &address.host_configs()[0].config;
    assert_eq!(config.get_user(), Some("me"));
    assert_eq!(config.get_password(), Some(b"se cret".as_slice()));
    assert_eq!(config.get_dbname(), Some("work load"));
    assert_eq!(config.get_application_name(), Some("mine"));
    assert_eq!(config.get_options(), Some("-c a=b"));
    assert_eq!(config.get_hosts(), [DriverHost::Tcp("db.example".into())]);
    assert_eq!(config.get_ports(), [6000]);
}

#[test]
fn what_is_not_said_is_filled_in() {
    let address = address("postgres://db");
    assert_eq!(address.connect_timeout(), Duration::from_secs(3));
    let config = &address.host_configs()[0].config;
    assert_eq!(config.get_application_name(), Some("taskqueue"));
    assert_eq!(config.get_ssl_mode(), SslMode::Prefer);
    assert_eq!(config.get_keepalives_idle(), Duration::from_secs(30));
    assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(10)));
    assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    assert_eq!(config.get_ports(), [5432]);
}

#[test]
fn a_command_that_runs_once_has_longer_to_connect_unless_the_url_says_how_long() {
    assert_eq!(address("postgres://db").for_command().connect_timeout(), Duration::from_secs(30));
    assert_eq!(address("postgres://db?connect_timeout=7").for_command().connect_timeout(), Duration::from_secs(7));
}

#[test]
fn what_is_said_is_kept() {
    let query = "connect_timeout=7&tcp_user_timeout=2500&keepalives=0&keepalives_idle=9&keepalives_count=4\
        &channel_binding=require&target_session_attrs=any&load_balance_hosts=random&sslnegotiation=direct&sslmode=require";
    let address = address(&format!("postgres://db?{query}"));
    assert_eq!(address.connect_timeout(), Duration::from_secs(7));
    assert!(address.is_balanced() && address.is_direct());
    let config = &address.host_configs()[0].config;
    assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_millis(2500)));
    assert!(!config.get_keepalives());
    assert_eq!(config.get_keepalives_idle(), Duration::from_secs(9));
    assert_eq!(config.get_keepalives_retries(), Some(4));
    assert_eq!(config.get_channel_binding(), ChannelBinding::Require);
    assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::Any);
}

#[test]
fn hosts_are_tried_one_by_one_with_equal_shares_of_the_time() {
    let address = address("postgres://me@one:1,two,[::1]:3/db?connect_timeout=6");
    assert_eq!(address.hosts(), "one:1,two:5432,[::1]:3");
    let hosts = address.host_configs();
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["one:1", "two:5432", "[::1]:3"]);
    for host in &hosts {
        assert_eq!(host.config.get_hosts().len(), 1);
        assert_eq!(host.config.get_connect_timeout(), Some(&Duration::from_secs(1)));
    }
}

#[test]
fn a_unix_socket_is_a_folder_in_host_and_has_no_tls() {
    for text in [
        "postgres://me@/db?host=/run/pg&port=6",
        "postgres://me@%2Frun%2Fpg:6/db",
        "postgres://me@x/db?host=%2Frun%2Fpg&port=6",
    ] {
        let address = address(&format!("{text}{}sslmode=require", if text.contains('?') { "&" } else { "?" }));
        assert_eq!(address.hosts(), "/run/pg/.s.PGSQL.6", "{text}");
        let config = &address.host_configs()[0].config;
        assert_eq!(config.get_hosts(), [DriverHost::Unix("/run/pg".into())]);
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
    }
}

#[test]
fn an_ip_address_stands_for_a_name_that_is_not_said() {
    let given: IpAddr = "10.0.0.1".parse().unwrap();
    let (bare, named) =
        (address("postgres:///db?hostaddr=10.0.0.1"), address("postgres://db.example/?hostaddr=10.0.0.1"));
    assert_eq!(bare.host_configs()[0].config.get_hosts(), [DriverHost::Tcp("10.0.0.1".into())]);
    assert_eq!(named.host_configs()[0].config.get_hosts(), [DriverHost::Tcp("db.example".into())]);
    assert_eq!(named.host_configs()[0].config.get_hostaddrs(), [given]);
}

#[test]
fn the_password_of_the_url_comes_before_the_callers() {
    let password = |address: Address| address.host_configs()[0].config.get_password().map(<[u8]>::to_vec);
    assert_eq!(password(address("postgres://me@db").with_password(Some("other".into()))), Some(b"other".to_vec()));
    assert_eq!(password(address("postgres://me:own@db").with_password(Some("other".into()))), Some(b"own".to_vec()));
    assert_eq!(password(address("postgres://me@db").with_password(None)), None);
}

#[test]
fn no_secret_is_shown() {
    let texts = [
        "postgres://me:hidden@db/work?options=-c%20app.key=hidden",
        "postgres://me@db/work?password=hidden&application_name=hidden&sslcert=hidden&sslkey=hidden",
    ];
    for address in
        texts.map(address).into_iter().chain([address("postgres://me@db").with_password(Some("hidden".into()))])
    {
        let shown = format!("{address} {address:?} {address:#?}");
        assert!(!shown.contains("hidden"), "{shown}");
        assert!(shown.contains("me@db"), "{shown}");
    }
}

#[test]
fn no_error_repeats_a_password() {
    let texts = "hidden postgres://me:hid@den@db/work postgres://me:hid/den@db/work postgres://me:hid?den@db/work \
         postgres://me:hid:den@db:den/work postgres://me@db/work?password=hid@den&sslmode=hid \
         postgres://me@db/work?password=hid&den=1 postgres://me@db/work?password=hid&den \
         postgres://me:hid&den@db/work?keepalives=hid postgres://me:%ff@db/work";
    for text in texts.split(' ') {
        let error = format!("{} {:?}", refused(text), Address::parse(text));
        assert!(!error.contains("hid") && !error.contains("den"), "{text}: {error}");
    }
}

#[test]
fn an_error_says_what_to_write() {
    for (text, part) in [
        ("mysql://db", "must begin with postgres://"),
        ("postgres:///work", "?host=/FOLDER"),
        ("postgres://a,,b/work", "names no host"),
        ("postgres://me:p@ss@db/work", "%40"),
        ("postgres://db?sslmode", "?name=value"),
        ("postgres://db?sslmod=disable", "unknown parameter sslmod"),
        ("postgres://db?sslmode=allow", "sslmode must be disable, prefer, require, verify-ca or verify-full"),
        ("postgres://db?sslcert=a.pem", "together with sslkey"),
        ("postgres://db?sslkey=a.pem", "together with sslcert"),
        ("postgres://db?sslmode=require&sslrootcert=system", "verify-full"),
        ("postgres://db?sslnegotiation=direct", "sslmode=require"),
        ("postgres://db?target_session_attrs=read-only", "any, read-write or primary"),
        ("postgres://db:port/work", "port must be one port"),
        ("postgres://a,b,c/work?port=1,2", "as many as there are hosts"),
        ("postgres://a,b/work?hostaddr=1.1.1.1", "as many IP addresses"),
        ("postgres://db?connect_timeout=0", "at least 1"),
        ("postgres://db?keepalives=yes", "0 or 1"),
    ] {
        let error = refused(text);
        assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
    }
}
