//! The configuration file: its fields, where it is found, and when it is refused or ignored.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::Deserialize;

use super::file_trust;
use super::secret::{Secret, TokenPlace};
use crate::failure::Failure;

/// The name of the file of a project.
pub(super) const PROJECT_FILE: &str = "taskqueue.toml";
/// The user's file below the configuration folder.
pub(super) const USER_FILE: &str = "taskqueue/config.toml";
/// Read, write or execute for the group or for everybody.
const OTHERS: u32 = 0o077;
/// Five settings take a few hundred bytes; what is larger is something else.
const FILE_BYTES: u64 = 65_536;

/// What a file may say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    url: Option<String>,
    queue: Option<String>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    allow_insecure_token: Option<bool>,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    content: Content,
}

impl ConfigFile {
    /// The nearest file of a project: in `directory` or above it. One that is somebody else's is passed over, and
    /// `warnings` tells so.
    pub(super) fn above(directory: &Path, warnings: &mut Vec<String>) -> Result<Option<Self>, Failure> {
        for folder in directory.ancestors() {
            let path = folder.join(PROJECT_FILE);
            // Looked at before it is opened: what is ignored cannot hold us up or be in the way either.
            let Some(metadata) = lookup(&path)? else { continue };
            match read_own(&path, &metadata)? {
                Found::Own(file) => return Ok(Some(file)),
                Found::Foreign(reason) => warnings.push(format!("{} is ignored: {reason}", path.display())),
                Found::Gone => {}
            }
        }
        Ok(None)
    }

    /// The file, if there is one.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let Some((file, metadata)) = open(path)? else { return Ok(None) };
        Self::parse(path, file, &metadata).map(Some)
    }

    fn parse(path: &Path, file: File, metadata: &Metadata) -> Result<Self, Failure> {
        let mut text = String::new();
        file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| refused(path, &error))?;
        if text.len() as u64 > FILE_BYTES {
            return Err(Failure::Refused(format!("{} has more than {FILE_BYTES} bytes", path.display())));
        }
        let content = parse(&text)
            .map_err(|message| Failure::Usage(format!("{} cannot be understood: {message}", path.display())))?;
        if content.token.is_some() && metadata.mode() & OTHERS != 0 {
            let name = path.display();
            return Err(Failure::Refused(format!(
                "{name} holds a token and others may read it; run: chmod 600 {name}"
            )));
        }
        Ok(Self { path: path.to_owned(), content })
    }

    pub(super) fn url(&self) -> Option<&str> {
        self.content.url.as_deref()
    }

    pub(super) fn queue(&self) -> Option<&str> {
        self.content.queue.as_deref()
    }

    /// The token, if the file itself holds it.
    pub(super) fn token_text(&self) -> Option<TokenPlace> {
        self.content.token.clone().map(|text| TokenPlace::Text(Secret::new(text)))
    }

    /// The file with the token, relative to the folder of this file.
    pub(super) fn token_anywhere(&self) -> Option<TokenPlace> {
        self.content.token_file.as_ref().map(|path| TokenPlace::File(self.folder().join(path)))
    }

    /// The file with the token, which must be inside the folder of this file.
    pub(super) fn token_inside(&self) -> Option<TokenPlace> {
        self.content.token_file.as_ref().map(|path| TokenPlace::FileInside {
            folder: self.folder().to_owned(),
            path: path.clone(),
            named_by: self.path.clone(),
        })
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    pub(super) fn allow_insecure_token(&self) -> Option<bool> {
        self.content.allow_insecure_token
    }
}

/// What a project file turned out to be.
enum Found {
    Own(ConfigFile),
    Foreign(&'static str),
    Gone,
}

/// The project file at `path`, unless it is somebody else's. `metadata` is what was seen there, maybe a link.
fn read_own(path: &Path, metadata: &Metadata) -> Result<Found, Failure> {
    if let Some(reason) = why_foreign(metadata) {
        return Ok(Found::Foreign(reason));
    }
    let Some((file, metadata)) = open(path)? else { return Ok(Found::Gone) };
    match why_foreign(&metadata) {
        Some(reason) => Ok(Found::Foreign(reason)),
        None => ConfigFile::parse(path, file, &metadata).map(Found::Own),
    }
}

fn why_foreign(metadata: &Metadata) -> Option<&'static str> {
    file_trust::why_foreign(metadata, geteuid().as_raw())
}

/// What is at `path`, a link not followed.
fn lookup(path: &Path) -> Result<Option<Metadata>, Failure> {
    if_there(path, fs::symlink_metadata(path))
}

/// The file and what is known of that very file, not of what another may put into its place.
fn open(path: &Path) -> Result<Option<(File, Metadata)>, Failure> {
    // A pipe without a writer must not hold us up.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let Some(file) = if_there(path, OpenOptions::new().read(true).custom_flags(nonblocking).open(path))? else {
        return Ok(None);
    };
    let metadata = file.metadata().map_err(|error| refused(path, &error))?;
    Ok(Some((file, metadata)))
}

fn if_there<T>(path: &Path, found: io::Result<T>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(refused(path, &error)),
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("cannot read {}: {error}", path.display()))
}

fn parse(text: &str) -> Result<Content, String> {
    let content: Content = toml::from_str(text).map_err(|error| describe(text, &error))?;
    match (&content.token, &content.token_file) {
        (Some(_), Some(_)) => Err("give token or token_file, not both".to_owned()),
        _ => Ok(content),
    }
}

/// What is wrong and in which line. The library's own text would repeat the line, and with it maybe the token.
fn describe(text: &str, error: &toml::de::Error) -> String {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {}", error.message())
}

/// The user's file: below `XDG_CONFIG_HOME`, or else below `.config` of the home folder.
pub(super) fn user_file(config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    // The specification of these folders wants relative paths ignored.
    let config_home = config_home.filter(|path| path.is_absolute());
    let folder = config_home.or_else(|| home.map(|home| home.join(".config")));
    folder.map(|folder| folder.join(USER_FILE))
}

/// The current folder with its links resolved, so that what is above it is found.
pub(super) fn current_directory() -> Option<PathBuf> {
    std::env::current_dir().ok().map(|path| fs::canonicalize(&path).unwrap_or(path))
}
