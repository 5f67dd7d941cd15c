//! The configuration sources below the flags: the environment, the project's file and the user's file. `config.rs` combines
//! them with the flags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use taskqueue_core::ids::QueueName;
use taskqueue_worker::command::URL_FILE_VARIABLE;

use super::file::{self, ConfigFile, Content, Secret, TokenLocation};
use super::source::{Source, Sourced, Trust};
use crate::args::queue_name;
use crate::failure::Failure;
use crate::token;

const URL: &str = "TASKQUEUE_URL";
const QUEUE: &str = "TASKQUEUE_QUEUE";
pub(super) const TLS_PIN: &str = "TASKQUEUE_TLS_PIN";
pub(super) const TLS_CA: &str = "TASKQUEUE_TLS_CA";
pub(crate) const DEFAULT_QUEUE: &str = "default";

/// The variables of the environment that are settings of clients.
pub(crate) const VARIABLES: [&str; 6] = [URL, QUEUE, TLS_PIN, TLS_CA, URL_FILE_VARIABLE, token::VARIABLE];

#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(super) url: Option<String>,
    /// The project file from which the URL in the environment was read. A worker passes both to its commands, so that such
    /// a URL is not treated as one that the user has set.
    pub(super) url_file: Option<PathBuf>,
    pub(super) queue: Option<String>,
    pub(super) token: Option<Secret>,
    pub(super) tls_pin: Option<String>,
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) project: Option<ConfigFile>,
    pub(super) user: Option<ConfigFile>,
    pub(super) warnings: Vec<String>,
}

impl Layers {
    pub(crate) fn load() -> Result<Self, Failure> {
        let mut warnings = Vec::new();
        let project = match file::current_directory() {
            Some(path) => ConfigFile::find_upwards(&path, &mut warnings)?,
            None => None,
        };
        let user = file::user_file(path_in("XDG_CONFIG_HOME"), path_in("HOME"));
        let user = user.map(|path| ConfigFile::read(&path)).transpose()?.flatten();
        Ok(Self {
            url: variable(URL)?,
            url_file: path_in(URL_FILE_VARIABLE),
            queue: variable(QUEUE)?,
            token: variable(token::VARIABLE)?.map(Secret::new),
            tls_pin: variable(TLS_PIN)?,
            tls_ca: path_in(TLS_CA),
            project,
            user,
            warnings,
        })
    }

    pub(super) fn url(&self) -> Option<Sourced<String>> {
        let in_environment = self.url.clone().map(|url| Sourced::new(url, self.source_of_variable(URL)));
        in_environment.or_else(|| self.in_files(|content| content.url.clone()))
    }

    /// Whoever wrote the project file that names the URL of the environment may have decided what else a worker passes on
    /// about the server.
    fn source_of_variable(&self, name: &'static str) -> Source {
        match &self.url_file {
            Some(path) => Source::ProjectFile(path.clone()),
            None => Source::Environment(name),
        }
    }

    /// Whom each source trusts, sorted by precedence.
    pub(super) fn trust(&self) -> Result<Vec<Sourced<Trust>>, Failure> {
        let here = Path::new("");
        let variable = self.source_of_variable(if self.tls_pin.is_some() { TLS_PIN } else { TLS_CA });
        let in_environment = Trust::of(self.tls_pin.as_deref(), self.tls_ca.as_deref(), here, &variable)?;
        let mut found = vec![in_environment];
        for (file, source) in self.files() {
            let Content { tls_pin, tls_ca, .. } = &file.content;
            found.push(Trust::of(tls_pin.as_deref(), tls_ca.as_deref(), file.folder(), &source)?);
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// The queue, or the default one.
    pub(super) fn queue(&self) -> Result<Sourced<QueueName>, Failure> {
        let in_environment = self.queue.clone().map(|queue| Sourced::new(queue, Source::Environment(QUEUE)));
        let found = in_environment.or_else(|| self.in_files(|content| content.queue.clone()));
        let queue = found.unwrap_or_else(|| Sourced::new(DEFAULT_QUEUE.to_owned(), Source::BuiltIn));
        let Sourced { value, source } = queue;
        let parsed = queue_name(&value);
        let parsed = parsed.map_err(|rule| format!("the queue from {source} cannot be used: {rule}"));
        Ok(Sourced::new(parsed.map_err(Failure::Usage)?, source))
    }

    /// All tokens, sorted by precedence.
    pub(super) fn tokens(&self) -> Vec<Sourced<TokenLocation>> {
        let in_environment = self
            .token
            .clone()
            .map(|secret| Sourced::new(TokenLocation::Text(secret), Source::Environment(token::VARIABLE)));
        let in_files = self.files().filter_map(|(file, source)| {
            let file_token = match source {
                Source::ProjectFile(_) => file.token_file_in_folder(),
                _ => file.token_file(),
            };
            Some(Sourced::new(file.token_text().or(file_token)?, source))
        });
        in_environment.into_iter().chain(in_files).collect()
    }

    /// Only the user's own file may allow this, not a project file that others may have written.
    pub(super) fn allow_insecure_token(&self) -> Option<Sourced<bool>> {
        let file = self.user.as_ref()?;
        Some(Sourced::new(file.content.allow_insecure_token?, Source::UserFile(file.path.clone())))
    }

    /// The value of the project's file, or else of the user's.
    fn in_files<T>(&self, value: impl Fn(&Content) -> Option<T>) -> Option<Sourced<T>> {
        self.files().find_map(|(file, source)| Some(Sourced::new(value(&file.content)?, source)))
    }

    /// The project's file and the user's.
    fn files(&self) -> impl Iterator<Item = (&ConfigFile, Source)> {
        let project = self.project.iter().map(|file| (file, Source::ProjectFile(file.path.clone())));
        project.chain(self.user.iter().map(|file| (file, Source::UserFile(file.path.clone()))))
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let ignored = self.project.as_ref().filter(|file| file.content.allow_insecure_token.is_some()).map(|file| {
            format!(
                "allow_insecure_token in {} is ignored; it counts in the user's own file and as --allow-insecure-token",
                file.path.display()
            )
        });
        self.warnings.iter().cloned().chain(ignored).collect()
    }
}

/// The value of a variable. An empty one counts as not set, because many scripts clear variables that way.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    let text = value.map(OsString::into_string).transpose();
    text.map_err(|_| Failure::Usage(format!("the environment variable {name} is not UTF-8")))
}

fn path_in(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
