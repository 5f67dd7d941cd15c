//! Listening at real addresses: what is bound, what is refused, what is left behind.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use tempfile::TempDir;

use super::*;

async fn bind(address: &str, has_token: bool) -> Result<Listener, ListenError> {
    Listener::bind(&address.parse().unwrap(), has_token).await
}

/// The path of a socket in a folder, and the address of that.
fn socket_in(folder: &TempDir) -> (PathBuf, String) {
    let path = folder.path().join("s");
    let address = format!("unix:{}", path.display());
    (path, address)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn port_zero_picks_a_port_that_the_base_url_tells() {
    let listener = bind("127.0.0.1:0", false).await.unwrap();
    let url = listener.base_url();
    let address = url.strip_prefix("http://127.0.0.1:").unwrap();
    let port: u16 = address.parse().unwrap();
    assert_ne!(port, 0);
    TcpStream::connect(("127.0.0.1", port)).unwrap();
}

#[tokio::test]
async fn a_taken_port_is_refused() {
    let first = bind("127.0.0.1:0", false).await.unwrap();
    let address = first.base_url().trim_start_matches("http://").to_owned();
    assert_eq!(bind(&address, false).await.unwrap_err(), ListenError::InUse(address));
}

#[tokio::test]
async fn an_address_is_checked_without_being_bound() {
    let taken = bind("127.0.0.1:0", false).await.unwrap();
    let local = taken.local_address().unwrap();
    let check = async |address: &str, has_token| Listener::check(&address.parse().unwrap(), has_token).await;
    assert_eq!(check(&local.to_string(), false).await, Ok(vec![local]));
    assert!(matches!(check("0.0.0.0:0", false).await, Err(ListenError::NeedsToken(_))));
    assert_eq!(check("0.0.0.0:0", true).await.map(|found| found.len()), Ok(1));
    assert_eq!(check("unix:/no/such/folder/s", false).await, Ok(Vec::new()));
}

#[tokio::test]
async fn an_address_for_other_machines_needs_a_token() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let error = bind(address, false).await.unwrap_err();
        assert!(matches!(error, ListenError::NeedsToken(_)), "{address}: {error}");
    }
    bind("0.0.0.0:0", true).await.unwrap();
    bind("localhost:0", false).await.unwrap();
    assert!(matches!(bind("192.0.2.1:0", true).await.unwrap_err(), ListenError::Failed(..)));
}

#[tokio::test]
async fn a_socket_file_is_private_and_goes_with_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket_in(&folder);
    let listener = bind(&address, false).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(listener.base_url(), address);
    UnixStream::connect(&path).unwrap();
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn the_socket_file_of_a_dead_server_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket_in(&folder);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = bind(&address, false).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    UnixStream::connect(&path).unwrap();
    drop(listener);
}

#[tokio::test]
async fn the_socket_file_of_a_living_server_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket_in(&folder);
    let living = bind(&address, false).await.unwrap();
    assert_eq!(bind(&address, false).await.unwrap_err(), ListenError::InUse(address));
    UnixStream::connect(&path).unwrap();
    drop(living);
}

#[tokio::test]
async fn a_listener_does_not_remove_the_socket_file_of_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket_in(&folder);
    let first = bind(&address, false).await.unwrap();
    fs::rename(&path, folder.path().join("moved")).unwrap();
    let second = bind(&address, false).await.unwrap();
    drop(first);
    UnixStream::connect(&path).unwrap();
    drop(second);
}

#[tokio::test]
async fn other_files_and_missing_directories_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = socket_in(&folder);
    fs::write(&path, "precious").unwrap();
    assert_eq!(bind(&address, false).await.unwrap_err(), ListenError::NotASocket(path.clone()));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    let missing = format!("unix:{}/no/such/s", folder.path().display());
    assert!(matches!(bind(&missing, false).await.unwrap_err(), ListenError::Failed(..)));
}

#[test]
fn an_address_is_read_and_written_alike() {
    for text in ["127.0.0.1:8000", "localhost:0", "[::1]:8000", "0.0.0.0:65535", "unix:/run/tq.sock", "unix:tq"] {
        assert_eq!(text.parse::<ListenAddress>().map(|address| address.to_string()), Ok(text.to_owned()));
    }
}

#[test]
fn anything_else_is_refused() {
    let cases = ": 8000 :8000 localhost localhost: localhost:http localhost:+80 localhost:65536 ::1:8000 [::1] [::1]8000 \
         [localhost]:80 []:80 unix: http://localhost:80";
    for text in cases.split(' ').chain(["", "a b:80"]) {
        assert!(text.parse::<ListenAddress>().is_err(), "{text:?}");
    }
}
