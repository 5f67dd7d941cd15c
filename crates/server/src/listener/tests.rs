//! Listening at real addresses: what is bound, what is refused, what is left behind.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::*;

async fn bind(address: &str, has_token: bool) -> Result<Listener, ListenError> {
    Listener::bind(&address.parse().unwrap(), has_token).await
}

/// A directory of its own for each test, removed with the value.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tq-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> (PathBuf, String) {
        let path = self.0.join("s");
        let address = format!("unix:{}", path.display());
        (path, address)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
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
    let directory = Directory::new("private");
    let (path, address) = directory.socket();
    let listener = bind(&address, false).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(listener.base_url(), address);
    UnixStream::connect(&path).unwrap();
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn the_socket_file_of_a_dead_server_is_replaced() {
    let directory = Directory::new("stale");
    let (path, address) = directory.socket();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = bind(&address, false).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    UnixStream::connect(&path).unwrap();
    drop(listener);
}

#[tokio::test]
async fn the_socket_file_of_a_living_server_is_left_alone() {
    let directory = Directory::new("living");
    let (path, address) = directory.socket();
    let living = bind(&address, false).await.unwrap();
    assert_eq!(bind(&address, false).await.unwrap_err(), ListenError::InUse(address));
    UnixStream::connect(&path).unwrap();
    drop(living);
}

#[tokio::test]
async fn a_listener_does_not_remove_the_socket_file_of_its_successor() {
    let directory = Directory::new("successor");
    let (path, address) = directory.socket();
    let first = bind(&address, false).await.unwrap();
    fs::rename(&path, directory.0.join("moved")).unwrap();
    let second = bind(&address, false).await.unwrap();
    drop(first);
    UnixStream::connect(&path).unwrap();
    drop(second);
}

#[tokio::test]
async fn other_files_and_missing_directories_are_refused() {
    let directory = Directory::new("other");
    let (path, address) = directory.socket();
    fs::write(&path, "precious").unwrap();
    assert_eq!(bind(&address, false).await.unwrap_err(), ListenError::NotASocket(path.clone()));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    let missing = format!("unix:{}/no/such/s", directory.0.display());
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
