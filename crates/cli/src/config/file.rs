//! Configuration files: their fields, how they are found, and when they are refused or ignored.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::Deserialize;

use super::file_trust::distrust_reason;
use super::secret::{Secret, TokenLocation};
use crate::failure::Failure;
use crate::{private_file, toml_lines};

pub(super) const PROJECT_FILE: &str = "taskqueue.toml";
/// Relative to the user's configuration folder.
pub(super) const USER_FILE: &str = "taskqueue/config.toml";
/// Seven settings take a few hundred bytes; a larger file is something else.
const FILE_BYTES: u64 = 65_536;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    pub(super) url: Option<String>,
    pub(super) queue: Option<String>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    pub(super) allow_insecure_token: Option<bool>,
    pub(super) tls_pin: Option<String>,
    pub(super) tls_ca: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

impl ConfigFile {
    /// The nearest project file: in `directory` or a parent of it. Untrusted files are skipped with a warning.
    pub(super) fn find_upwards(directory: &Path, warnings: &mut Vec<String>) -> Result<Option<Self>, Failure> {
        for folder in directory.ancestors() {
            let path = folder.join(PROJECT_FILE);
            // Checked before it is opened, so that an ignored file can neither block nor cause an error.
            let Some(metadata) = found(&path, fs::symlink_metadata(&path))? else { continue };
            match read_trusted(&path, &metadata)? {
                ProjectFile::Trusted(file) => return Ok(Some(file)),
                ProjectFile::Untrusted(reason) => warnings.push(format!("{} is ignored: {reason}", path.display())),
                ProjectFile::Missing => {}
            }
        }
        Ok(None)
    }

    pub(super) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let Some((file, metadata)) = open(path)? else { return Ok(None) };
        Self::parse(path, file, &metadata).map(Some)
    }

    fn parse(path: &Path, file: File, metadata: &Metadata) -> Result<Self, Failure> {
        let mut text = String::new();
        file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| cannot_read(path, &error))?;
        if text.len() as u64 > FILE_BYTES {
            return Err(Failure::Refused(format!("{} has more than {FILE_BYTES} bytes", path.display())));
        }
        let content = parse(&text)
            .map_err(|message| Failure::Usage(format!("{} is not a valid configuration: {message}", path.display())))?;
        if content.token.is_some() {
            private_file::check(path.display(), path, metadata)?;
        }
        Ok(Self { path: path.to_owned(), content })
    }

    /// The token, if the file itself holds it.
    pub(super) fn token_text(&self) -> Option<TokenLocation> {
        self.content.token.clone().map(|text| TokenLocation::Text(Secret::new(text)))
    }

    /// Relative to the folder of this file.
    pub(super) fn token_file(&self) -> Option<TokenLocation> {
        self.content.token_file.as_ref().map(|path| TokenLocation::File(self.folder().join(path)))
    }

    /// The same, but the token file must be inside the folder of this file.
    pub(super) fn token_file_in_folder(&self) -> Option<TokenLocation> {
        self.content.token_file.as_ref().map(|path| TokenLocation::FileInside {
            folder: self.folder().to_owned(),
            path: path.clone(),
            named_by: self.path.clone(),
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }
}

enum ProjectFile {
    Trusted(ConfigFile),
    /// With the reason.
    Untrusted(&'static str),
    Missing,
}

/// Reads the project file at `path` if it is trusted. `metadata` may be that of a link.
fn read_trusted(path: &Path, metadata: &Metadata) -> Result<ProjectFile, Failure> {
    if let Some(reason) = distrust_reason(metadata) {
        return Ok(ProjectFile::Untrusted(reason));
    }
    let Some((file, metadata)) = open(path)? else { return Ok(ProjectFile::Missing) };
    match distrust_reason(&metadata) {
        Some(reason) => Ok(ProjectFile::Untrusted(reason)),
        None => ConfigFile::parse(path, file, &metadata).map(ProjectFile::Trusted),
    }
}

/// The file and the metadata of that open file, which nobody can exchange in between.
fn open(path: &Path) -> Result<Option<(File, Metadata)>, Failure> {
    // Opening a pipe without a writer must not block.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let Some(file) = found(path, OpenOptions::new().read(true).custom_flags(nonblocking).open(path))? else {
        return Ok(None);
    };
    let metadata = file.metadata().map_err(|error| cannot_read(path, &error))?;
    Ok(Some((file, metadata)))
}

/// None if there is no such file.
fn found<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>, Failure> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(cannot_read(path, &error)),
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    Failure::cannot_read(path.display(), error)
}

fn parse(text: &str) -> Result<Content, String> {
    let content: Content = toml::from_str(text).map_err(|error| toml_lines::describe(text, &error))?;
    match (&content.token, &content.token_file) {
        (Some(_), Some(_)) => Err("give token or token_file, not both".to_owned()),
        _ => Ok(content),
    }
}

/// The keys that a file may have, as the refusal of another one lists them.
#[cfg(test)]
pub(crate) fn keys() -> Vec<String> {
    let refusal = parse("no_such_key = 1").unwrap_err();
    let (_, keys) = refusal.split_once("expected one of").unwrap();
    keys.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The user's file: below `XDG_CONFIG_HOME`, or else below `.config` of the home folder.
pub(super) fn user_file(config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    // The XDG specification says that relative paths are ignored.
    let config_home = config_home.filter(|path| path.is_absolute());
    let folder = config_home.or_else(|| home.map(|home| home.join(".config")));
    folder.map(|folder| folder.join(USER_FILE))
}

/// The current folder with links resolved, so that its real parents are searched.
pub(super) fn current_directory() -> Option<PathBuf> {
    std::env::current_dir().ok().map(|path| fs::canonicalize(&path).unwrap_or(path))
}
