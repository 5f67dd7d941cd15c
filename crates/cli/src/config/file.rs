//! Configuration files: their fields, how they are found, when they are refused or ignored, and the tokens that they hold or name, which
//! no message shows. A project file that another account may have written is ignored, because it would choose the server that gets this
//! user's tasks.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::process::geteuid;
use serde::Deserialize;

use crate::failure::Failure;
use crate::files::{describe_toml_error, open_at_once, read_text};
use crate::{private_file, token};

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
            // Checked before it is opened, so that an ignored file can neither block nor cause an error, and again when it is open.
            let Some(metadata) = found(&path, fs::symlink_metadata(&path))? else { continue };
            let mut distrust = distrust_reason(&metadata);
            if distrust.is_none() {
                let Some((file, metadata)) = found(&path, open_at_once(&path))? else { continue };
                distrust = distrust_reason(&metadata);
                if distrust.is_none() {
                    return Self::parse(&path, file, &metadata).map(Some);
                }
            }
            warnings.extend(distrust.map(|reason| format!("{} is ignored: {reason}", path.display())));
        }
        Ok(None)
    }

    pub(super) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let Some((file, metadata)) = found(path, open_at_once(path))? else { return Ok(None) };
        Self::parse(path, file, &metadata).map(Some)
    }

    fn parse(path: &Path, file: File, metadata: &Metadata) -> Result<Self, Failure> {
        let text = read_text(file, FILE_BYTES).map_err(Failure::cannot_read(path.display()))?;
        let content = parse(&text)
            .map_err(|message| Failure::Usage(format!("{} is not a valid configuration: {message}", path.display())))?;
        if content.token.is_some() {
            private_file::check(path.display(), path, metadata)?;
        }
        Ok(Self { path: path.to_owned(), content })
    }

    /// Returns where the token is: in this file, or in one that it names relative to its folder. That of a project file must be inside.
    pub(super) fn token(&self, is_project: bool) -> Option<TokenLocation> {
        if let Some(text) = self.content.token.clone() {
            return Some(TokenLocation::Text(Secret::new(text)));
        }
        let (folder, path) = (self.folder().to_owned(), self.content.token_file.clone()?);
        Some(match is_project {
            true => TokenLocation::FileInside { folder, path, named_by: self.path.clone() },
            false => TokenLocation::File(folder.join(path)),
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }
}

/// None if there is no such file.
fn found<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>, Failure> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Failure::cannot_read(path.display())(error)),
    }
}

fn parse(text: &str) -> Result<Content, String> {
    let content: Content = toml::from_str(text).map_err(|error| describe_toml_error(text, &error))?;
    match (&content.token, &content.token_file) {
        (Some(_), Some(_)) => Err("give token or token_file, not both".to_owned()),
        _ => Ok(content),
    }
}

/// The user's file: below `XDG_CONFIG_HOME`, or else below `.config` of the home folder.
pub(super) fn user_file(config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    user_folder(config_home, home, ".config").map(|folder| folder.join(USER_FILE))
}

/// A base directory of the user, as the XDG specification says: that of its variable, or else one in the home folder.
pub(crate) fn user_folder(variable: Option<PathBuf>, home: Option<PathBuf>, in_home: &str) -> Option<PathBuf> {
    // Relative paths are ignored.
    variable.filter(|path| path.is_absolute()).or_else(|| home.map(|home| home.join(in_home)))
}

const ROOT: u32 = 0;
const WRITE_FOR_ALL: u32 = 0o002;

/// Returns why a file is not trusted; none if it is.
pub(super) fn distrust_reason(metadata: &Metadata) -> Option<&'static str> {
    let links_have_no_mode = metadata.is_symlink();
    reason(metadata.uid(), if links_have_no_mode { 0 } else { metadata.mode() }, geteuid().as_raw())
}

fn reason(owner: u32, mode: u32, me: u32) -> Option<&'static str> {
    if owner != me && owner != ROOT {
        Some("it belongs to another account; if you trust it, copy it")
    } else if mode & WRITE_FOR_ALL != 0 {
        // Group write is allowed: many systems give each account its own group, and shared projects need it.
        Some("everybody may write to it; if it is yours, run: chmod o-w on it")
    } else {
        None
    }
}

/// The regular file at `path`, which is inside `folder` or relative to it.
fn open_inside(folder: &Path, path: &Path) -> io::Result<File> {
    let outside = || io::Error::other("it must stay inside the folder of the file that names it, without `..`");
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(outside());
    }
    let folder = fs::canonicalize(folder)?;
    let resolved = fs::canonicalize(folder.join(path))?;
    let relative = resolved.strip_prefix(&folder).map_err(|_| outside())?;
    // Opening a pipe without a writer must not block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::open(&folder)?;
    // Links are resolved already; NOFOLLOW refuses a component that became a link since.
    for name in relative {
        file = openat(&file, Path::new(name), flags, Mode::empty())?.into();
    }
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it must be a regular file")) }
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The place of a token. It is read only if it is sent.
#[derive(Clone, Debug)]
pub(super) enum TokenLocation {
    Text(Secret),
    /// A file that the user has named.
    File(PathBuf),
    /// A file that a project file names. It must be inside the folder of the project file.
    FileInside {
        folder: PathBuf,
        path: PathBuf,
        named_by: PathBuf,
    },
}

impl TokenLocation {
    pub(super) fn read(self) -> Result<Secret, Failure> {
        match self {
            Self::Text(secret) => Ok(secret),
            Self::File(path) => token::read_file(&path).map(Secret),
            Self::FileInside { folder, path, named_by } => {
                let named = format!("the token_file {} of {}", path.display(), named_by.display());
                let file = open_inside(&folder, &path).map_err(Failure::because(format!("{named} cannot be used")))?;
                token::read_open_file(file, &folder.join(path), &named).map(Secret)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_ours_when_only_this_account_or_root_can_have_written_it() {
        let cases = [
            (1000, 0o644, 1000, true),
            (1000, 0o664, 1000, true),
            (0, 0o644, 1000, true),
            (0, 0o644, 0, true),
            (1001, 0o600, 1000, false),
            (1000, 0o644, 0, false),
            (1000, 0o666, 1000, false),
            (0, 0o602, 1000, false),
            (0, 0o777, 0, false),
        ];
        for (owner, mode, me, ours) in cases {
            assert_eq!(reason(owner, mode, me).is_none(), ours, "{owner} {mode:o} {me}");
        }
    }
}
