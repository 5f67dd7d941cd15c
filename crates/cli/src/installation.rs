//! What belongs to an installation besides its tasks: the files of a backup with secrets (docs/decisions/0056), how they are found
//! by the flags of `serve`, and where they are put back. No message shows what a secret holds.

mod manifest;
mod new_folder;
mod put_back;

use std::path::{Path, PathBuf};

pub(crate) use self::manifest::{Entry, FILE_NAME as MANIFEST, Manifest};
pub(crate) use self::new_folder::NewFolder;
pub(crate) use self::put_back::{PutBack, Secret};
use crate::args::SecretArgs;
use crate::failure::Failure;
use crate::open_store::Database;
use crate::{server_tls, token, tokens_file};

/// One file of a backup with secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Database,
    Certificate,
    Key,
    Token,
    Tokens,
}

impl Part {
    pub(crate) const ALL: [Self; 5] = [Self::Database, Self::Certificate, Self::Key, Self::Token, Self::Tokens];

    /// Its name in the folder. The names are fixed, so that no manifest leads out of its folder.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::Database => "taskqueue.db",
            Self::Certificate => "tls-cert.pem",
            Self::Key => "tls-key.pem",
            Self::Token => "token",
            Self::Tokens => "tokens.toml",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.file_name() == name)
    }

    /// How it is said that a backup has none. A certificate is missed together with its key.
    pub(crate) fn absence(self) -> Option<&'static str> {
        match self {
            Self::Database => Some("the database (PostgreSQL has its own tools: pg_dump)"),
            Self::Certificate => None,
            Self::Key => Some("a TLS key (no TLS flag, and none in DATABASE.tls)"),
            Self::Token => Some("a token (no --token-file, no TASKQUEUE_TOKEN)"),
            Self::Tokens => Some("a tokens file (no --tokens)"),
        }
    }

    /// The mode of a file that is put back. The server may be another user than the one who restores; a certificate and the
    /// digests of tokens open nothing, and everybody may read them.
    fn mode(self) -> u32 {
        match self {
            Self::Certificate | Self::Tokens => 0o644,
            Self::Database | Self::Key | Self::Token => 0o600,
        }
    }

    fn is_for_everybody(self) -> bool {
        self.mode() & 0o004 != 0
    }
}

/// Reads the secrets that the flags of `serve` name, with the checks of `serve`. Without a TLS flag the key that a server has made
/// beside its database is taken, if there is one.
pub(crate) async fn read_secrets(args: &SecretArgs, database: &Database) -> Result<Vec<Secret>, Failure> {
    let mut secrets = pair(args, database)?;
    let variable = std::env::var_os(token::VARIABLE);
    if let Some((_, mut text)) = token::load_text(args.token_file.as_deref(), variable)? {
        text.push('\n');
        let from = args.token_file.as_deref().map_or_else(|| token::VARIABLE.to_owned(), whole_path);
        secrets.push(Secret { part: Part::Token, bytes: text.into_bytes(), path: from });
    }
    if let Some(path) = &args.tokens {
        let (_, text) = tokens_file::load_settled(path).await.map_err(Failure::Refused)?;
        secrets.push(Secret { part: Part::Tokens, bytes: text.into_bytes(), path: whole_path(path) });
    }
    Ok(secrets)
}

/// The certificate and its key.
fn pair(args: &SecretArgs, database: &Database) -> Result<Vec<Secret>, Failure> {
    if !args.tls.is_given() && matches!(database, Database::Postgres(_)) {
        return Ok(Vec::new());
    }
    let files = server_tls::pair_of(&args.tls, database)?;
    if !args.tls.is_given() && !files.key.exists() {
        return Ok(Vec::new());
    }
    let (_, bytes) = files.read_bytes()?;
    Ok(vec![
        Secret { part: Part::Certificate, bytes: bytes.certificate, path: whole_path(&files.certificate) },
        Secret { part: Part::Key, bytes: bytes.key, path: whole_path(&files.key) },
    ])
}

/// Where a part of a backup is put back, as the flags of `serve` say.
pub(crate) fn place_of(part: Part, args: &SecretArgs, database: &Database) -> Result<PathBuf, Failure> {
    let unnamed = |flag: &str| {
        Failure::Usage(format!(
            "the backup has {}, and {flag} does not say where it shall be; name the place that the server is started with, or \
             restore the database alone: --from DIR/{}",
            part.file_name(),
            Part::Database.file_name()
        ))
    };
    match (part, database) {
        (Part::Certificate, _) => Ok(server_tls::pair_of(&args.tls, database)?.certificate),
        (Part::Key, _) => Ok(server_tls::pair_of(&args.tls, database)?.key),
        (Part::Token, _) => args.token_file.clone().ok_or_else(|| unnamed("--token-file")),
        (Part::Tokens, _) => args.tokens.clone().ok_or_else(|| unnamed("--tokens")),
        (Part::Database, Database::Sqlite(path)) => Ok(path.clone()),
        (Part::Database, Database::Postgres(_)) => Err(Failure::Usage(
            "the backup holds an SQLite database, which does not fit into PostgreSQL; name a file with --database, and move \
             it with taskqueue migrate afterwards"
                .to_owned(),
        )),
    }
}

/// For people, who may be elsewhere when they read it.
pub(crate) fn whole_path(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}
