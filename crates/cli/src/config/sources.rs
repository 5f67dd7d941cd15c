//! The sources below the flags: the environment and the two files, the first that has a value wins.

use std::ffi::OsString;
use std::path::PathBuf;

use taskqueue_core::ids::QueueName;

use super::Sourced;
use super::file::{self, ConfigFile};
use super::secret::Secret;
use crate::args::queue_name;
use crate::failure::Failure;
use crate::token;

const URL: &str = "TASKQUEUE_URL";
const QUEUE: &str = "TASKQUEUE_QUEUE";

/// What can be known without the flags.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(super) url: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) token: Option<Secret>,
    /// The project's file before the user's.
    pub(super) files: Vec<ConfigFile>,
}

impl Sources {
    /// The environment of this process and the files that it finds.
    pub(crate) fn of_process() -> Result<Self, Failure> {
        let project = file::current_directory().map(|path| ConfigFile::above(&path)).transpose()?.flatten();
        let user = file::user_file(path_in("XDG_CONFIG_HOME"), path_in("HOME"));
        let user = user.map(|path| ConfigFile::read(&path)).transpose()?.flatten();
        Ok(Self {
            url: variable(URL)?,
            queue: variable(QUEUE)?,
            token: variable(token::VARIABLE)?.map(Secret::new),
            files: project.into_iter().chain(user).collect(),
        })
    }

    pub(super) fn url(&self) -> Option<Sourced<String>> {
        from_environment(self.url.clone(), URL).or_else(|| self.in_files(|file| file.url().map(str::to_owned)))
    }

    pub(super) fn queue(&self) -> Result<Option<Sourced<QueueName>>, Failure> {
        let found = from_environment(self.queue.clone(), QUEUE);
        let found = found.or_else(|| self.in_files(|file| file.queue().map(str::to_owned)));
        let Some(Sourced { value, source }) = found else { return Ok(None) };
        Ok(Some(Sourced { value: queue_of(&value, &source)?, source }))
    }

    pub(super) fn token(&self) -> Result<Option<Sourced<Secret>>, Failure> {
        if let Some(token) = from_environment(self.token.clone(), token::VARIABLE) {
            return Ok(Some(token));
        }
        for file in &self.files {
            let source = format!("file {}", file.path.display());
            if let Some(text) = file.token() {
                return Ok(Some(Sourced { value: Secret::new(text.to_owned()), source }));
            }
            if let Some(path) = file.token_file() {
                return Ok(Some(Sourced { value: Secret::from_file(&path)?, source }));
            }
        }
        Ok(None)
    }

    pub(super) fn allow_insecure_token(&self) -> Option<Sourced<bool>> {
        self.in_files(ConfigFile::allow_insecure_token)
    }

    fn in_files<T>(&self, value: impl Fn(&ConfigFile) -> Option<T>) -> Option<Sourced<T>> {
        let found = |file: &ConfigFile| Some((value(file)?, format!("file {}", file.path.display())));
        self.files.iter().find_map(found).map(|(value, source)| Sourced { value, source })
    }
}

/// The queue name in a value of the configuration.
pub(super) fn queue_of(text: &str, source: &str) -> Result<QueueName, Failure> {
    queue_name(text).map_err(|rule| Failure::Usage(format!("the queue from {source} cannot be used: {rule}")))
}

fn from_environment<T>(value: Option<T>, name: &str) -> Option<Sourced<T>> {
    value.map(|value| Sourced { value, source: format!("environment {name}") })
}

/// A variable that is set and not empty: many scripts set variables to nothing to take them away.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    let text = value.map(OsString::into_string).transpose();
    text.map_err(|_| Failure::Usage(format!("the environment variable {name} is not UTF-8")))
}

fn path_in(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
