//! What belongs to an installation besides its tasks: the files of a backup with secrets (docs/decisions/0056), how they are found
//! by the flags of `serve`, where they are put back, and `manifest.json`, which is written last: each file with its size, its SHA-256 and
//! where it came from. No message shows what a secret holds.

mod folder;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest, Sha256};
use taskqueue_api::object_reader::{ObjectReader, Unreadable};
use taskqueue_core::json::{self, ObjectWriter, Value, write_array};

pub(crate) use self::folder::{NewFolder, PutBack, Secret};
use crate::args::SecretArgs;
use crate::failure::Failure;
use crate::files::{absolute, hex};
use crate::open_store::Database;
use crate::{output, server_tls, token, tokens_file};

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

    /// Returns how it is said that a backup has none. A certificate is missed together with its key.
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
    let (_, certificate, key) = files.read_bytes()?;
    Ok(vec![
        Secret { part: Part::Certificate, bytes: certificate, path: whole_path(&files.certificate) },
        Secret { part: Part::Key, bytes: key, path: whole_path(&files.key) },
    ])
}

/// Returns where a part of a backup is put back, as the flags of `serve` say.
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

/// The absolute path, for people who may be elsewhere when they read it.
pub(crate) fn whole_path(path: &Path) -> String {
    absolute(path).display().to_string()
}

pub(crate) const MANIFEST: &str = "manifest.json";

/// The version of the manifest. A later one that needs more than this one knows counts it up.
const FORMAT: i64 = 1;

/// Five files with long paths take a tenth of it.
const MANIFEST_BYTES: u64 = 65_536;

/// The modes that let others than its owner read a file.
const READ_FOR_OTHERS: u32 = 0o044;

/// The part of a file that is read at a time.
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) part: Part,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// Its origin: a path, or the name of a variable.
    pub(crate) from: String,
}

impl Entry {
    pub(crate) fn of_bytes(part: Part, content: &[u8], from: String) -> Self {
        Self { part, bytes: content.len() as u64, sha256: hex(&Sha256::digest(content)), from }
    }

    /// The entry of a file that may be large.
    pub(crate) fn of_file(part: Part, path: &Path, from: String, stop: &AtomicBool) -> Result<Self, Failure> {
        let (bytes, sha256) = digest(path, stop)?;
        Ok(Self { part, bytes, sha256, from })
    }

    /// Returns what is wrong with the file of this entry in a folder.
    pub(crate) fn problem(&self, folder: &Path, stop: &AtomicBool) -> Result<Option<String>, Failure> {
        let name = self.part.file_name();
        let path = folder.join(name);
        let Ok(found) = fs::symlink_metadata(&path) else { return Ok(Some(format!("{name} is missing"))) };
        if !found.is_file() {
            return Ok(Some(format!("{name} is not a file")));
        }
        if found.len() != self.bytes {
            return Ok(Some(format!("{name} has {} bytes, and had {}", found.len(), self.bytes)));
        }
        let (_, sha256) = digest(&path, stop)?;
        Ok((sha256 != self.sha256).then(|| format!("{name} was changed: it has another SHA-256")))
    }
}

impl Manifest {
    /// Reads the manifest of a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(MANIFEST);
        if !path.is_file() {
            return Err(Failure::Refused(format!(
                "{} has no {MANIFEST}, so it is no backup of taskqueue backup --with-secrets",
                folder.display()
            )));
        }
        let mut text = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(MANIFEST_BYTES).read_to_end(&mut text))
            .map_err(Failure::cannot_read(path.display()))?;
        parse(&text).map_err(Failure::because(format!("{} cannot be used", path.display())))
    }

    pub(crate) fn has(&self, part: Part) -> bool {
        self.entries.iter().any(|entry| entry.part == part)
    }

    /// The parts that a backup may have and this one has not.
    pub(crate) fn absent(&self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().filter(|part| !self.has(*part))
    }

    /// The files that are not as they were written, each with what is wrong.
    pub(crate) fn problems(&self, folder: &Path, stop: &AtomicBool) -> Result<Vec<(Part, String)>, Failure> {
        let problem = |entry: &Entry| Some(entry.problem(folder, stop).transpose()?.map(|what| (entry.part, what)));
        self.entries.iter().filter_map(problem).collect()
    }

    /// The files that others can read and should not, each with what helps. A copy of the folder may have lost the modes that a
    /// backup is written with.
    pub(crate) fn open_to_others(&self, folder: &Path) -> Vec<String> {
        let secret = self.entries.iter().map(|entry| entry.part).filter(|part| !part.is_for_everybody());
        let found = secret.filter_map(|part| {
            let path = folder.join(part.file_name());
            let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
            let mode = found.mode() & 0o7777;
            (mode & READ_FOR_OTHERS != 0).then(|| {
                format!("others than its owner can read {0} (mode {mode:04o}); run: chmod go= {0}", path.display())
            })
        });
        found.collect()
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ObjectWriter::append_to(&mut out)
            .integer("format", FORMAT)
            .text("version", env!("CARGO_PKG_VERSION"))
            .time("created_at", output::now())
            .field("files", |out| {
                write_array(out, &self.entries, |out, entry| {
                    ObjectWriter::append_to(out)
                        .text("name", entry.part.file_name())
                        .integer("bytes", entry.bytes)
                        .text("sha256", &entry.sha256)
                        .text("from", &entry.from)
                        .end();
                });
            })
            .end();
        out.push(b'\n');
        out
    }
}

fn parse(text: &[u8]) -> Result<Manifest, &'static str> {
    const DAMAGED: &str = "it is damaged or no manifest of taskqueue";
    let value = json::parse(text).map_err(|_| DAMAGED)?;
    let content = ObjectReader::of(&value, MANIFEST).map_err(|_| DAMAGED)?;
    if content.integer("format").map_err(|_| DAMAGED)? != FORMAT {
        return Err("it is of a newer version of taskqueue");
    }
    let mut manifest = Manifest::default();
    for file in content.list("files").map_err(|_| DAMAGED)? {
        let entry = entry(file).map_err(|_| DAMAGED)?;
        if manifest.has(entry.part) {
            return Err(DAMAGED);
        }
        manifest.entries.push(entry);
    }
    Ok(manifest)
}

fn entry<'v>(file: &'v Value<'v>) -> Result<Entry, Unreadable> {
    let file = ObjectReader::of(file, "file")?;
    Ok(Entry {
        part: file.parsed("name", |name| Part::ALL.into_iter().find(|part| part.file_name() == name))?,
        bytes: file.count("bytes")?,
        sha256: file.text("sha256")?.to_owned(),
        from: file.text("from")?.to_owned(),
    })
}

/// The size and the SHA-256 of a file.
fn digest(path: &Path, stop: &AtomicBool) -> Result<(u64, String), Failure> {
    let cannot_read = Failure::cannot_read(path.display());
    let mut file = File::open(path).map_err(&cannot_read)?;
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted("interrupted; nothing was changed".to_owned()));
        }
        let read = file.read(&mut chunk).map_err(&cannot_read)?;
        if read == 0 {
            return Ok((bytes, hex(&hash.finalize())));
        }
        hash.update(&chunk[..read]);
        bytes += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn manifest() -> Manifest {
        let of = |part, content: &[u8]| Entry::of_bytes(part, content, "/etc/tq/\"odd\"".to_owned());
        Manifest { entries: vec![of(Part::Token, b"hush\n"), of(Part::Tokens, b"")] }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let written = manifest();
        let read = parse(&written.to_json()).unwrap();
        assert_eq!(read.entries, written.entries);
        assert!(read.has(Part::Token) && !read.has(Part::Database));
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(read.entries[1].sha256, empty);
    }

    #[test]
    fn a_manifest_never_shows_a_secret_nor_leads_out_of_its_folder() {
        let json = String::from_utf8(manifest().to_json()).unwrap();
        assert!(!json.contains("hush"), "{json}");
        let cases = [
            (json.replace("\"token\"", "\"../token\""), "damaged"),
            (json.replace("\"token\"", "\"tokens.toml\""), "damaged"),
            (json.replace("\"format\":1", "\"format\":2"), "newer"),
            (json.replace("\"files\"", "\"file\""), "damaged"),
            (json[..json.len() / 2].to_owned(), "damaged"),
            (String::new(), "damaged"),
        ];
        for (text, expected) in cases {
            assert!(parse(text.as_bytes()).is_err_and(|why| why.contains(expected)), "{text}");
        }
    }

    #[test]
    fn a_secret_that_others_can_read_is_named_and_what_everybody_may_read_is_not() {
        let (folder, names) = (tempfile::tempdir().unwrap(), ["token", "tokens.toml"]);
        assert!(manifest().open_to_others(folder.path()).is_empty(), "nothing is there");
        for (mode, is_open) in [(0o600, false), (0o700, false), (0o640, true), (0o604, true)] {
            for path in names.map(|name| folder.path().join(name)) {
                fs::write(&path, "").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
            let found = manifest().open_to_others(folder.path());
            assert_eq!(found.len(), usize::from(is_open), "{mode:o}: {found:?}");
            assert!(found.iter().all(|what| what.ends_with("/token")), "{found:?}");
        }
    }

    #[test]
    fn a_file_that_is_gone_or_has_other_content_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let (manifest, path) = (manifest(), folder.path().join("token"));
        let problem = || manifest.entries[0].problem(folder.path(), &STOP).unwrap();
        assert!(problem().unwrap().ends_with("is missing"));
        let cases = [("hush\n", None), ("hush", Some("has 4 bytes, and had 5")), ("hash\n", Some("was changed"))];
        for (content, expected) in cases {
            fs::write(&path, content).unwrap();
            let found = problem();
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.is_none_or(|what| what.contains(expected.unwrap_or_default())), "{content:?}");
        }
    }
}
