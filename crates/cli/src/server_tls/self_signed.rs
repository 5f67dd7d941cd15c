//! A key and a certificate that the server makes for itself. Both stay over restarts. Clients trust the key (`--tls-pin`), so
//! the certificate may be made again for the same key without any client noticing.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, KeyPair};
use taskqueue_store_sqlite::new_file::sync_folder;

use super::PairFiles;
use crate::failure::Failure;
use crate::files::write_private;

const DAY: Duration = Duration::from_secs(86_400);
/// Nobody renews a certificate that nobody issued. Clients that pin do not look at its dates; for others it lasts longer
/// than the machine.
const VALID: Duration = Duration::from_secs(10 * 365 * 86_400);
/// A certificate with less time left is made again at a start.
const LEFT: Duration = Duration::from_secs(365 * 86_400);

/// Makes what is missing of the pair.
pub(super) fn make_unless_there(files: &PairFiles, address: SocketAddr, now: SystemTime) -> Result<(), Failure> {
    let folder = files.key.parent().unwrap_or(Path::new("."));
    let made = DirBuilder::new().mode(0o700).recursive(true).create(folder);
    made.map_err(|error| cannot_write(folder, &error))?;
    if !files.key.exists() {
        let key = KeyPair::generate().map_err(Failure::because("no TLS key can be made"))?;
        write_new(&files.key, key.serialize_pem().as_bytes()).map_err(|error| cannot_write(&files.key, &error))?;
    }
    if files.certificate.exists() && files.read()?.time_left(now) > LEFT {
        return Ok(());
    }
    let certificate = certificate(&files.read_key()?, address, now)
        .map_err(Failure::because(format!("no certificate can be made for {}", files.key.display())))?;
    replace(&files.certificate, certificate.as_bytes()).map_err(|error| cannot_write(&files.certificate, &error))
}

fn certificate(key: &[u8], address: SocketAddr, now: SystemTime) -> Result<String, rcgen::Error> {
    let key = KeyPair::from_pem(&String::from_utf8_lossy(key))?;
    let mut params = CertificateParams::new(names(address, &host_name()))?;
    params.distinguished_name.push(DnType::CommonName, "taskqueue");
    // Yesterday, for clients whose clock is behind.
    (params.not_before, params.not_after) = ((now - DAY).into(), (now + VALID).into());
    Ok(params.self_signed(&key)?.pem())
}

/// The names and addresses by which clients on this machine and on others may call the server. An address that stands for all
/// of the machine's is none of them.
fn names(address: SocketAddr, host_name: &str) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let is_name = |name: &&str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    names.extend(Some(host_name).filter(is_name).map(str::to_owned));
    names.extend((!address.ip().is_unspecified()).then(|| address.ip().to_string()));
    names.sort();
    names.dedup();
    names
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The command to run on a client to see whether it works.
pub(super) fn client_command(address: SocketAddr, pin: &str) -> String {
    let host = if address.ip().is_unspecified() { host_name() } else { host_of(address) };
    format!("taskqueue health --url https://{host}:{} --tls-pin {pin}", address.port())
}

fn host_of(address: SocketAddr) -> String {
    if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() }
}

/// Writes a file that only its owner can read, whole or not at all. One that another process has just made stays.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = write_temporary(path, content)?;
    // Unlike a rename, this does not replace a file.
    let made = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary)?;
    // Clients are told the pin as soon as the server is ready; a power cut must not exchange the key after that.
    sync_folder(path)?;
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::rename(write_temporary(path, content)?, path)?;
    sync_folder(path)
}

/// A file beside `path` with this content, on the disk.
fn write_temporary(path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let temporary = path.with_extension(format!("pem.{}", std::process::id()));
    // What an earlier start with this process id may have left behind. A link of somebody else is not followed.
    drop(fs::remove_file(&temporary));
    write_private(&temporary, content)?;
    Ok(temporary)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!(
        "{} cannot be written ({error}); give --tls-self-signed=DIR with a folder that can",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn address() -> SocketAddr {
        "127.0.0.1:8000".parse().unwrap()
    }

    #[test]
    fn a_pair_is_made_once_for_its_owner_only_and_a_lost_certificate_keeps_its_pin() {
        let (folder, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let files = PairFiles::in_folder(&folder.path().join("deep/tls"));
        make_unless_there(&files, address(), now).unwrap();
        let (pin, certificate) = (files.read().unwrap().pin().to_owned(), fs::read(&files.certificate).unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&files.key), mode(files.key.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read_dir(folder.path().join("deep/tls")).unwrap().count(), 2, "nothing else is left behind");

        make_unless_there(&files, address(), now).unwrap();
        assert_eq!(fs::read(&files.certificate).unwrap(), certificate, "it stays");
        make_unless_there(&files, address(), now + VALID - LEFT).unwrap();
        assert_ne!(fs::read(&files.certificate).unwrap(), certificate, "it is made again in time");
        fs::remove_file(&files.certificate).unwrap();
        make_unless_there(&files, address(), now).unwrap();
        assert_eq!(files.read().unwrap().pin(), pin);
    }

    #[test]
    fn a_key_that_another_process_has_just_made_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        write_new(&path, b"first").unwrap();
        write_new(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_certificate_names_the_machine_and_the_address_that_was_asked_for() {
        let here = ["127.0.0.1", "192.0.2.7", "::1", "lab-3", "localhost"];
        assert_eq!(names("192.0.2.7:1".parse().unwrap(), "lab-3"), here);
        let everywhere = ["127.0.0.1", "::1", "lab-3", "localhost"];
        assert_eq!(names("0.0.0.0:1".parse().unwrap(), "lab-3"), everywhere);
        assert_eq!(names("[::1]:1".parse().unwrap(), "not a name"), ["127.0.0.1", "::1", "localhost"]);
        let command = client_command("[::1]:8000".parse().unwrap(), "sha256:ab");
        assert_eq!(command, "taskqueue health --url https://[::1]:8000 --tls-pin sha256:ab");
    }
}
