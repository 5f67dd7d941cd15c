//! The TLS of `taskqueue serve`: which certificate it shows, from files or made here, and what clients need to trust it.

mod pair_files;
mod self_signed;
mod watch;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use taskqueue_server::tls::{Identity, Tls, Validity};
use taskqueue_server::{ListenError, Listener};
use tracing::{info, warn};

use self::pair_files::PairFiles;
use crate::args::TlsArgs;
use crate::failure::Failure;
use crate::open_store::Database;
use crate::server_signals::Reloads;

/// A listener, with TLS if that is wanted.
pub(crate) struct Encrypted {
    pub(crate) listener: Listener,
    /// The command with which a client tries the connection, if it needs to be told whom to trust.
    pub(crate) client_command: Option<String>,
}

/// Adds what the flags say about TLS to a listener. From now on the files are watched for changes.
pub(crate) fn encrypt(
    listener: Listener,
    args: &TlsArgs,
    database: &Database,
    reloads: Reloads,
) -> Result<Encrypted, Failure> {
    if !args.is_given() {
        return Ok(Encrypted { listener, client_command: None });
    }
    let (files, is_self_signed) = (pair_of(args, database)?, args.tls_cert.is_none());
    let address = listener.local_address().ok_or_else(|| {
        Failure::Usage(format!("{}; leave out the TLS flags, or listen on HOST:PORT", ListenError::UnixWithTls))
    })?;
    if is_self_signed {
        self_signed::make_unless_there(&files, address, SystemTime::now())?;
    }
    let stamps = watch::stamps(&files);
    let identity = files.read()?;
    warn_of_dates(&identity, &files, SystemTime::now());
    info!(pin = identity.pin(), certificate = %files.certificate.display(), "connections are encrypted");
    let client_command = is_self_signed.then(|| self_signed::client_command(address, identity.pin()));
    let tls = Tls::new(identity).map_err(|error| Failure::Refused(format!("TLS cannot be set up: {error}")))?;
    tokio::spawn(watch::follow_changes(files, stamps, tls.clone(), reloads));
    let listener = listener.with_tls(tls).map_err(|error| Failure::Refused(error.to_string()))?;
    Ok(Encrypted { listener, client_command })
}

/// The files of certificate and key that the flags name. Without a flag they are those that a server makes for itself if it is not
/// told where: what a backup looks for.
pub(crate) fn pair_of(args: &TlsArgs, database: &Database) -> Result<PairFiles, Failure> {
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        return Ok(PairFiles { certificate: certificate.clone(), key: key.clone() });
    }
    let named = args.tls_self_signed.as_ref().and_then(Option::as_deref);
    Ok(PairFiles::in_folder(&folder_for(named, database)?))
}

/// Where the key of a server that made its own is kept: beside the database, or where the flag says.
fn folder_for(named: Option<&Path>, database: &Database) -> Result<PathBuf, Failure> {
    match (named, database) {
        (Some(folder), _) => Ok(folder.to_owned()),
        (None, Database::Sqlite(path)) => {
            let mut folder = path.clone().into_os_string();
            folder.push(".tls");
            Ok(folder.into())
        }
        (None, Database::Postgres(_)) => Err(Failure::Usage(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_key_is_kept_beside_the_database_and_postgresql_needs_a_folder() {
        let sqlite: Database = "data/q.db".parse().unwrap();
        let postgres: Database = "postgres://user@host/database".parse().unwrap();
        let named = Some(Path::new("/etc/keys"));
        assert_eq!(folder_for(None, &sqlite), Ok("data/q.db.tls".into()));
        assert_eq!(folder_for(named, &sqlite), Ok("/etc/keys".into()));
        assert_eq!(folder_for(named, &postgres), Ok("/etc/keys".into()));
        let refused = folder_for(None, &postgres).unwrap_err();
        assert!(refused.message().unwrap().contains("--tls-self-signed=DIR"), "{refused:?}");
    }
}
