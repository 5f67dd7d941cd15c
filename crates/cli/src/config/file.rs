//! The configuration file: its fields, where it is found, and when it is refused.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;

/// The name of the file of a project.
pub(super) const PROJECT_FILE: &str = "taskqueue.toml";
/// The user's file below the configuration folder.
pub(super) const USER_FILE: &str = "taskqueue/config.toml";
/// Read, write or execute for the group or for everybody.
const OTHERS: u32 = 0o077;

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
    /// The nearest file of a project: in `directory` or above it.
    pub(super) fn above(directory: &Path) -> Result<Option<Self>, Failure> {
        for folder in directory.ancestors() {
            if let Some(file) = Self::read(&folder.join(PROJECT_FILE))? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// The file, if there is one.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let refused = |error: io::Error| Failure::Refused(format!("cannot read {}: {error}", path.display()));
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(refused(error)),
        };
        let metadata = file.metadata().map_err(refused)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(refused)?;
        let content = parse(&text)
            .map_err(|message| Failure::Usage(format!("{} cannot be understood: {message}", path.display())))?;
        if content.token.is_some() && metadata.mode() & OTHERS != 0 {
            let name = path.display();
            return Err(Failure::Refused(format!(
                "{name} holds a token and others may read it; run: chmod 600 {name}"
            )));
        }
        Ok(Some(Self { path: path.to_owned(), content }))
    }

    pub(super) fn url(&self) -> Option<&str> {
        self.content.url.as_deref()
    }

    pub(super) fn queue(&self) -> Option<&str> {
        self.content.queue.as_deref()
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.content.token.as_deref()
    }

    /// The file with the token; relative to the folder of this file.
    pub(super) fn token_file(&self) -> Option<PathBuf> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        self.content.token_file.as_ref().map(|path| folder.join(path))
    }

    pub(super) fn allow_insecure_token(&self) -> Option<bool> {
        self.content.allow_insecure_token
    }
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
