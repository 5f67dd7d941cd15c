//! The TLS of `taskqueue serve`: which certificate it shows, from files or made here, and what clients need to trust it. The key must be
//! for its owner only, like a token. A key and a certificate that the server makes for itself stay over restarts. Clients trust the key
//! (`--tls-pin`), so the certificate may be made again for the same key without any client noticing.
//!
//! The files are looked at by name every two seconds. That sees what programs do that renew certificates: a file renamed
//! over the other (certbot's links, `install`), a folder exchanged by a link (Kubernetes), a file written in place. At SIGHUP they are
//! read at once, changed or not. A pair that cannot be used is logged once, and the one before it stays.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, KeyPair};
use taskqueue_server::tls::{Identity, IdentityError, Tls, Validity};
use taskqueue_server::{ListenAddress, ListenError, Listener};
use taskqueue_store_sqlite::new_file::sync_folder;
use tracing::{info, warn};

use crate::args::{OwnKey, TlsArgs};
use crate::failure::Failure;
use crate::files::{check_key, open_at_once, read_bytes, write_private};
use crate::open_store::Database;
use crate::server_process::{Reloads, follow};

/// Adds what the flags say about TLS to a listener. Returns also the command with which a client tries the connection, if it needs to be told
/// whom to trust. From now on the files are watched for changes.
pub(crate) fn encrypt(
    listener: Listener,
    args: &TlsArgs,
    database: &Database,
    reloads: Reloads,
) -> Result<(Listener, Option<String>), Failure> {
    let Some((files, is_self_signed)) = chosen_files(args, database)? else {
        return Ok((listener, None));
    };
    let address = listener.local_address().ok_or_else(unix_with_tls)?;
    if is_self_signed {
        make_unless_there(&files, address, SystemTime::now())?;
    }
    let settled = stamps(&files);
    let identity = files.read()?;
    warn_of_dates(&identity, &files, SystemTime::now());
    info!(pin = identity.pin(), certificate = %files.certificate.display(), "connections are encrypted");
    let client_command = is_self_signed.then(|| client_command(address, identity.pin()));
    let tls = Tls::new(identity).map_err(Failure::because("TLS cannot be set up"))?;
    tokio::spawn(follow_changes(files, settled, tls.clone(), reloads));
    let listener = listener.with_tls(tls).map_err(|error| Failure::Refused(error.to_string()))?;
    Ok((listener, client_command))
}

/// The files of certificate and key that the flags name. Without a flag they are those that a server makes for itself if it is not
/// told where: what a backup looks for.
pub(crate) fn pair_of(args: &TlsArgs, database: &Database) -> Result<PairFiles, Failure> {
    if let Some((files, _)) = chosen_files(args, database)? {
        return Ok(files);
    }
    Ok(PairFiles::in_folder(&folder_for(&OwnKey::BesideDatabase, database)?.unwrap_or_default()))
}

/// Looks whether a server could encrypt connections. Nothing is made or changed.
pub(crate) fn check(listen: &ListenAddress, args: &TlsArgs, database: &Database) -> Result<(), Failure> {
    let Some((files, is_self_signed)) = chosen_files(args, database)? else { return Ok(()) };
    if matches!(listen, ListenAddress::Unix(_)) {
        return Err(unix_with_tls());
    }
    // What a server makes for itself need not be there yet.
    if is_self_signed && !(files.key.exists() && files.certificate.exists()) {
        return Ok(());
    }
    warn_of_dates(&files.read()?, &files, SystemTime::now());
    Ok(())
}

/// The files of the certificate and its key, if TLS is wanted, and whether the server makes them itself.
fn chosen_files(args: &TlsArgs, database: &Database) -> Result<Option<(PairFiles, bool)>, Failure> {
    Ok(match (&args.tls_cert, &args.tls_key, &args.tls_self_signed) {
        (Some(certificate), Some(key), _) => {
            Some((PairFiles { certificate: certificate.clone(), key: key.clone() }, false))
        }
        (_, _, Some(own)) => folder_for(own, database)?.map(|folder| (PairFiles::in_folder(&folder), true)),
        _ => None,
    })
}

fn unix_with_tls() -> Failure {
    Failure::Usage(format!("{}; leave out the TLS flags, or listen on HOST:PORT", ListenError::UnixWithTls))
}

/// Returns where the key of a server that made its own is kept: beside the database, or where the flag says.
fn folder_for(own: &OwnKey, database: &Database) -> Result<Option<PathBuf>, Failure> {
    match (own, database) {
        (OwnKey::No, _) => Ok(None),
        (OwnKey::In(folder), _) => Ok(Some(folder.clone())),
        (OwnKey::BesideDatabase, Database::Sqlite(path)) => {
            let mut folder = path.clone().into_os_string();
            folder.push(".tls");
            Ok(Some(folder.into()))
        }
        (OwnKey::BesideDatabase, Database::Postgres(_)) => Err(Failure::Usage(
            "with PostgreSQL there is no file beside which the key could be kept; name a folder on this machine: \
             --tls-self-signed=DIR"
                .to_owned(),
        )),
    }
}

/// Clients refuse a certificate by its dates; whoever runs the server should know first.
fn warn_of_dates(identity: &Identity, files: &PairFiles, now: SystemTime) {
    let certificate = files.certificate.display();
    match identity.validity(now) {
        Validity::Valid => {}
        Validity::NotYet => warn!(%certificate, "the TLS certificate is not valid yet; is the clock right?"),
        Validity::EndsInDays(days) => warn!(%certificate, days, "the TLS certificate expires soon; renew it"),
        Validity::Expired => warn!(%certificate, "the TLS certificate has expired; clients will refuse it; renew it"),
    }
}

/// Long chains have some ten thousand bytes.
const FILE_BYTES: u64 = 1_048_576;

#[derive(Clone, Debug)]
pub(crate) struct PairFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl PairFiles {
    /// The names of files that this program makes.
    fn in_folder(folder: &Path) -> Self {
        Self { certificate: folder.join("cert.pem"), key: folder.join("key.pem") }
    }

    /// The certificate and its key, which belong together.
    fn read(&self) -> Result<Identity, Failure> {
        self.read_bytes().map(|(identity, ..)| identity)
    }

    /// Reads the pair, and returns also the bytes of the certificate and of the key.
    pub(crate) fn read_bytes(&self) -> Result<(Identity, Vec<u8>, Vec<u8>), Failure> {
        let certificate = read(&self.certificate, &self.certificate_name(), |_| Ok(()))?;
        let key = self.read_key()?;
        let identity = Identity::from_pem(&certificate, &key).map_err(|error| {
            Failure::Refused(match &error {
                IdentityError::Certificate(reason) => format!("{} cannot be used: {reason}", self.certificate_name()),
                IdentityError::Key(reason) => format!("{} cannot be used: {reason}", self.key_name()),
                IdentityError::Mismatch => {
                    format!("{} and {} do not belong together: {error}", self.certificate_name(), self.key_name())
                }
            })
        })?;
        Ok((identity, certificate, key))
    }

    fn read_key(&self) -> Result<Vec<u8>, Failure> {
        let name = self.key_name();
        read(&self.key, &name, |metadata| check_key(&name, &self.key, metadata))
    }

    fn certificate_name(&self) -> String {
        format!("the TLS certificate {}", self.certificate.display())
    }

    fn key_name(&self) -> String {
        format!("the TLS key {}", self.key.display())
    }
}

fn read(path: &Path, name: &str, check: impl Fn(&Metadata) -> Result<(), Failure>) -> Result<Vec<u8>, Failure> {
    let (file, metadata) = open_at_once(path).map_err(Failure::cannot_read(name))?;
    if !metadata.is_file() {
        return Err(Failure::Refused(format!("{name} is not a regular file, so it cannot be read again later")));
    }
    check(&metadata)?;
    read_bytes(file, FILE_BYTES).map_err(Failure::cannot_read(name))
}

const INTERVAL: Duration = Duration::from_secs(2);

/// The numbers that tell one version of a file from another, behind links; `None` if it cannot be looked at.
type Stamp = Option<[i64; 7]>;

/// The stamps of the certificate and of the key.
type Stamps = [Stamp; 2];

fn stamps(files: &PairFiles) -> Stamps {
    [stamp(&files.certificate), stamp(&files.key)]
}

fn stamp(path: &Path) -> Stamp {
    let file = fs::metadata(path).ok()?;
    let number = |value: u64| value.cast_signed();
    let (modified, changed) = ([file.mtime(), file.mtime_nsec()], [file.ctime(), file.ctime_nsec()]);
    Some([number(file.dev()), number(file.ino()), number(file.len()), modified[0], modified[1], changed[0], changed[1]])
}

/// Goes on for as long as the server runs. `settled` are the stamps of the pair that is shown, from before it was read.
async fn follow_changes(files: PairFiles, settled: Stamps, tls: Tls, reloads: Reloads) {
    let looked_at = files.clone();
    let look = move |watch: &mut PairWatch, is_asked| {
        let before = watch.settled;
        let found = watch.look(stamps(&looked_at), is_asked, || looked_at.read())?;
        Some(found.map(|identity| (identity, watch.settled != before)))
    };
    let tell = |found: Option<Result<_, Failure>>| match found {
        None => {}
        Some(Ok((identity, has_changed))) => show(&tls, identity, &files, has_changed),
        Some(Err(failure)) => {
            let reason = failure.message().unwrap_or_default();
            warn!(reason, "the TLS files cannot be used; the certificate from before is still shown");
        }
    };
    follow(PairWatch { settled, unfinished: None }, Some(INTERVAL), reloads, look, tell).await;
}

fn show(tls: &Tls, identity: Identity, files: &PairFiles, has_changed: bool) {
    let certificate = files.certificate.display();
    if has_changed {
        info!(pin = identity.pin(), %certificate, "another TLS certificate is shown from now on");
    } else {
        info!(pin = identity.pin(), %certificate, "the TLS certificate was read again, and is as before");
    }
    warn_of_dates(&identity, files, SystemTime::now());
    tls.replace(identity);
}

struct PairWatch {
    /// The stamps of the pair that is shown, or was found to be of no use.
    settled: Stamps,
    /// The stamps of a pair that could not be used at the last look, perhaps because the second file is still to come.
    unfinished: Option<Stamps>,
}

impl PairWatch {
    /// Returns what a look finds: another identity, or that the files cannot be used; nothing if there is nothing to say. Who has
    /// asked is told in any case.
    fn look<E>(
        &mut self,
        found: Stamps,
        is_asked: bool,
        read: impl FnOnce() -> Result<Identity, E>,
    ) -> Option<Result<Identity, E>> {
        if found == self.settled && !is_asked {
            self.unfinished = None;
            return None;
        }
        let outcome = read();
        if outcome.is_err() && self.unfinished != Some(found) && !is_asked {
            self.unfinished = Some(found);
            return None;
        }
        (self.settled, self.unfinished) = (found, None);
        Some(outcome)
    }
}

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

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn an_own_key_is_kept_beside_the_database_and_postgresql_needs_a_folder() {
        let sqlite: Database = "data/q.db".parse().unwrap();
        let postgres: Database = "postgres://user@host/database".parse().unwrap();
        let (beside, named) = (OwnKey::BesideDatabase, OwnKey::In("/etc/keys".into()));
        assert_eq!(folder_for(&beside, &sqlite), Ok(Some("data/q.db.tls".into())));
        assert_eq!(folder_for(&named, &sqlite), Ok(Some("/etc/keys".into())));
        assert_eq!(folder_for(&named, &postgres), Ok(Some("/etc/keys".into())));
        assert_eq!(folder_for(&OwnKey::No, &postgres), Ok(None));
        let refused = folder_for(&beside, &postgres).unwrap_err();
        assert!(refused.message().unwrap().contains("--tls-self-signed=DIR"), "{refused:?}");
    }

    fn identity() -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }

    #[test]
    fn a_change_is_taken_at_once_and_one_of_no_use_is_told_once_when_it_has_stayed() {
        let stamps = |certificate, key| [Some([certificate; 7]), Some([key; 7])];
        let mut watch = PairWatch { settled: stamps(1, 1), unfinished: None };
        // What the files are at each look, whether they can be used, and what is said.
        let looks = [
            (stamps(1, 1), true, ""),
            (stamps(2, 2), true, "shown"),
            (stamps(2, 2), true, ""),
            // The certificate comes first, its key a moment later.
            (stamps(3, 2), false, ""),
            (stamps(3, 3), true, "shown"),
            (stamps(4, 3), false, ""),
            (stamps(4, 3), false, "of no use"),
            (stamps(4, 3), false, ""),
            (stamps(5, 3), false, ""),
            (stamps(4, 3), false, ""),
            ([None, None], false, ""),
            ([None, None], false, "of no use"),
            (stamps(6, 6), true, "shown"),
        ];
        for (at, (stamps, usable, expected)) in looks.into_iter().enumerate() {
            let said = watch.look(stamps, false, || if usable { Ok(identity()) } else { Err(()) });
            let said = said.map_or("", |said| if said.is_ok() { "shown" } else { "of no use" });
            assert_eq!(said, expected, "look {at}");
        }
    }

    #[test]
    fn who_asks_is_told_at_once_what_there_is() {
        let stamps = |number| [Some([number; 7]); 2];
        let mut watch = PairWatch { settled: stamps(1), unfinished: None };
        for (number, is_usable) in [(1, true), (2, false), (2, false), (3, true), (3, true)] {
            let said = watch.look(stamps(number), true, || if is_usable { Ok(identity()) } else { Err(()) });
            assert_eq!(said.map(|said| said.is_ok()), Some(is_usable), "{number}");
            assert!(watch.look(stamps(number), false, || Err(())).is_none(), "{number}: it was told");
        }
    }

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
