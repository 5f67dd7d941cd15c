//! The configuration of client commands. Each value comes from the first source that has it: flags, then the environment,
//! then the nearest `taskqueue.toml`, then the user's file, then the built-in default. Which token may be sent to the
//! resulting URL is decided in `config/source.rs`. Here are also the rows of `taskqueue config show`, in which no token is shown.
//!
//! What every client command needs is made from it: the client, the queue and the printer; the runtime; and commands to copy into a shell.

mod source;
#[cfg(test)]
pub(crate) mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use taskqueue_client::{Client, Config, ConfigError, QueueName, Retries, TraceParent};
use taskqueue_core::shell::CommandLine;
use taskqueue_worker::command::{TLS_CA, TLS_PIN, URL_FILE_VARIABLE};
use tokio::runtime::Builder;

use self::source::{ConfigFile, Content, TokenLocation, choose, may_be_sent, may_count};
pub(crate) use self::source::{Secret, Source, Sourced, Trust, read_authorities, user_folder};
use crate::args::{ConnectionArgs, OutputArgs, QueueArg, queue_name};
use crate::failure::{CommandError, Failure, explain};
use crate::output::{self, Printer};
use crate::token;

/// The address on which `taskqueue serve` listens by default.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8000";
const TOKEN_FILE_FLAG: &str = "--token-file";

#[derive(Debug)]
pub(crate) struct ClientConfig {
    pub(crate) url: Sourced<String>,
    pub(crate) queue: Sourced<QueueName>,
    pub(crate) token: Option<Sourced<Secret>>,
    /// The sources of tokens that must not be sent to the URL.
    pub(crate) withheld: Vec<Source>,
    pub(crate) allow_insecure_token: Sourced<bool>,
    /// Whom to trust behind `https://` instead of the system's authorities.
    pub(crate) trust: Option<Sourced<Trust>>,
    /// Settings and files that are ignored.
    pub(crate) warnings: Vec<String>,
}

impl ClientConfig {
    pub(crate) fn load(connection: &ConnectionArgs, queue: &QueueArg) -> Result<Self, Failure> {
        Self::resolve(connection, queue, &Layers::load()?)
    }

    pub(crate) fn resolve(connection: &ConnectionArgs, queue: &QueueArg, layers: &Layers) -> Result<Self, Failure> {
        let url = connection.url.clone().map(|url| Sourced::new(url, Source::Flag("--url")));
        let url = url.or_else(|| layers.url());
        let url = url.unwrap_or_else(|| Sourced::new(DEFAULT_URL.to_owned(), Source::BuiltIn));
        let queue = match queue.queue.clone() {
            Some(queue) => Sourced::new(queue, Source::Flag("--queue")),
            None => layers.queue()?,
        };
        let flag = Sourced::new(true, Source::Flag("--allow-insecure-token"));
        let insecure = connection.allow_insecure_token.then_some(flag).or_else(|| layers.allow_insecure_token());
        let insecure = insecure.unwrap_or_else(|| Sourced::new(false, Source::BuiltIn));
        let in_flag = connection.token_file.clone().map(TokenLocation::File);
        let in_flag = in_flag.map(|file| Sourced::new(file, Source::Flag(TOKEN_FILE_FLAG)));
        let tokens = in_flag.into_iter().chain(layers.tokens()).collect();
        let (sent, withheld) = choose(&url.source, tokens, may_be_sent);
        let token = sent.map(|token| Ok(Sourced::new(token.value.read()?, token.source)));
        let (pin, authorities) = (connection.tls_pin.as_deref(), connection.tls_ca.as_deref());
        let flag = Source::Flag(if pin.is_some() { "--tls-pin" } else { "--tls-ca" });
        let in_flag = Trust::of(pin, authorities, Path::new(""), &flag)?;
        let found = in_flag.into_iter().chain(layers.trust()?).collect();
        let (trust, ignored) = choose(&url.source, found, may_count);
        let ignored = if trust.is_none() { ignored } else { Vec::new() };
        let ignored = ignored.iter().map(|from| ignored_trust(from, &url));
        let warnings = layers.warnings().into_iter().chain(ignored).collect();
        Ok(Self { trust, url, queue, token: token.transpose()?, withheld, allow_insecure_token: insecure, warnings })
    }

    /// Explains why no token is sent although there is one.
    pub(crate) fn withheld_note(&self) -> Option<String> {
        let first = self.withheld.first().filter(|_| self.token.is_none())?;
        let Sourced { value: url, source } = &self.url;
        Some(format!(
            "the token ({first}) is not sent to {url}, because a project file names that URL ({source}); \
             to send it there, add --url {url} or set TASKQUEUE_URL"
        ))
    }

    /// Refuses a token from the command line that must not be sent. Sending another token, or none, would silently do
    /// something else than the command line says.
    pub(crate) fn check_token_flag(&self) -> Result<(), Failure> {
        let Sourced { value: url, source } = &self.url;
        match self.withheld.contains(&Source::Flag(TOKEN_FILE_FLAG)) {
            true => Err(Failure::Usage(format!(
                "the token of {TOKEN_FILE_FLAG} is not sent to {url}, because a project file names that URL ({source}); \
                 to send it there, add --url {url}"
            ))),
            false => Ok(()),
        }
    }

    pub(crate) fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![
            setting("url", &self.url.value, &self.url.source),
            setting("queue", self.queue.value.as_str(), &self.queue.source),
        ];
        settings.extend(self.tokens());
        settings.extend(self.trust.iter().map(|trust| setting(trust.value.name(), trust.value.text(), &trust.source)));
        let Sourced { value, source } = &self.allow_insecure_token;
        settings.push(setting("allow_insecure_token", value.to_string(), source));
        settings
    }

    /// One row per token, the one that is sent first.
    fn tokens(&self) -> Vec<Setting> {
        let sent = self.token.iter().map(|token| setting("token", self.token_status(token), &token.source));
        let withheld = "withheld: a project file names the URL";
        let withheld = self.withheld.iter().map(|source| setting("token", withheld, source));
        let tokens: Vec<Setting> = sent.chain(withheld).collect();
        if tokens.is_empty() { vec![setting("token", "not set", "-")] } else { tokens }
    }

    /// Returns whether the chosen token is sent. The client library can still refuse it.
    fn token_status(&self, token: &Sourced<Secret>) -> String {
        let Ok(client) = Config::new(&self.url.value) else { return "not sent: the URL cannot be used".to_owned() };
        let Ok(mut client) = client.token(token.value.expose()) else {
            return "not sent: it must be visible ASCII characters without blanks".to_owned();
        };
        client.allow_insecure_token = self.allow_insecure_token.value;
        match client.refuses_insecure_token() {
            true => "not sent: the connection is not encrypted".to_owned(),
            false => format!("sent to {}", self.url.value),
        }
    }
}

/// Returns why what a file says about TLS does not count.
fn ignored_trust(from: &Source, url: &Sourced<String>) -> String {
    format!(
        "the TLS pin or authorities of {from} are ignored, because that file does not name the server {} ({}); \
         give --tls-pin or --tls-ca",
        url.value, url.source
    )
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) source: String,
}

fn setting(name: &str, value: impl Into<String>, source: impl ToString) -> Setting {
    Setting { name: name.to_owned(), value: value.into(), source: source.to_string() }
}

const URL: &str = "TASKQUEUE_URL";
const QUEUE: &str = "TASKQUEUE_QUEUE";
pub(crate) const DEFAULT_QUEUE: &str = "default";

/// The variables of the environment that are settings of clients.
pub(crate) const VARIABLES: [&str; 6] = [URL, QUEUE, TLS_PIN, TLS_CA, URL_FILE_VARIABLE, token::VARIABLE];

#[derive(Debug, Default)]
pub(crate) struct Layers {
    url: Option<String>,
    /// The project file from which the URL in the environment was read. A worker passes both to its commands, so that such
    /// a URL is not treated as one that the user has set.
    url_file: Option<PathBuf>,
    queue: Option<String>,
    token: Option<Secret>,
    tls_pin: Option<String>,
    tls_ca: Option<PathBuf>,
    project: Option<ConfigFile>,
    user: Option<ConfigFile>,
    warnings: Vec<String>,
}

impl Layers {
    pub(crate) fn load() -> Result<Self, Failure> {
        let mut warnings = Vec::new();
        let project = match std::env::current_dir() {
            // With links resolved, so that its real parents are searched.
            Ok(path) => ConfigFile::find_upwards(&path.canonicalize().unwrap_or(path), &mut warnings)?,
            Err(_) => None,
        };
        let user = source::user_file(path_in("XDG_CONFIG_HOME"), path_in("HOME"));
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

    fn url(&self) -> Option<Sourced<String>> {
        let in_environment = self.url.clone().map(|url| Sourced::new(url, self.source_of_variable(URL)));
        in_environment.or_else(|| self.in_files(|content| content.url.clone()))
    }

    /// Whoever wrote the project file that names the URL of the environment may have decided what else a worker passes on
    /// about the server.
    fn source_of_variable(&self, name: &'static str) -> Source {
        if let Some(path) = &self.url_file { Source::ProjectFile(path.clone()) } else { Source::Environment(name) }
    }

    /// Whom each source trusts, sorted by precedence.
    fn trust(&self) -> Result<Vec<Sourced<Trust>>, Failure> {
        let here = Path::new("");
        let variable = self.source_of_variable(if self.tls_pin.is_some() { TLS_PIN } else { TLS_CA });
        let mut found = vec![Trust::of(self.tls_pin.as_deref(), self.tls_ca.as_deref(), here, &variable)?];
        for (file, source) in self.files() {
            let Content { tls_pin, tls_ca, .. } = &file.content;
            found.push(Trust::of(tls_pin.as_deref(), tls_ca.as_deref(), file.folder(), &source)?);
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// The queue, or the default one.
    fn queue(&self) -> Result<Sourced<QueueName>, Failure> {
        let in_environment = self.queue.clone().map(|queue| Sourced::new(queue, Source::Environment(QUEUE)));
        let found = in_environment.or_else(|| self.in_files(|content| content.queue.clone()));
        let queue = found.unwrap_or_else(|| Sourced::new(DEFAULT_QUEUE.to_owned(), Source::BuiltIn));
        let Sourced { value, source } = queue;
        let parsed = queue_name(&value);
        let parsed = parsed.map_err(|rule| format!("the queue from {source} cannot be used: {rule}"));
        Ok(Sourced::new(parsed.map_err(Failure::Usage)?, source))
    }

    /// All tokens, sorted by precedence.
    fn tokens(&self) -> Vec<Sourced<TokenLocation>> {
        let in_environment = self
            .token
            .clone()
            .map(|secret| Sourced::new(TokenLocation::Text(secret), Source::Environment(token::VARIABLE)));
        let in_files = self.files().filter_map(|(file, source)| {
            Some(Sourced::new(file.token(matches!(source, Source::ProjectFile(_)))?, source))
        });
        in_environment.into_iter().chain(in_files).collect()
    }

    /// Only the user's own file may allow this, not a project file that others may have written.
    fn allow_insecure_token(&self) -> Option<Sourced<bool>> {
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

    fn warnings(&self) -> Vec<String> {
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

pub(crate) fn path_in(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The timeout of commands that do their own retries. Their requests are small; one that takes longer counts as lost.
const SHORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of times that the client repeats a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retrying {
    Interactive,
    LongRunning,
    /// The command repeats requests itself, and soon.
    Never,
    /// The command repeats requests itself; they may be large.
    NeverButPatient,
}

#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) client: Client,
    pub(crate) queue: QueueName,
    pub(crate) url: String,
    pub(crate) config: ClientConfig,
    pub(crate) printer: Printer,
}

impl ClientContext {
    /// Makes the client and prints warnings about the configuration. Sends nothing yet.
    pub(crate) fn open(
        connection: &ConnectionArgs,
        queue: &QueueArg,
        output: OutputArgs,
        retrying: Retrying,
    ) -> Result<Self, Failure> {
        let config = ClientConfig::load(connection, queue)?;
        print_warnings(&config);
        config.check_token_flag()?;
        let (client, printer) = (client(&config, retrying)?, Printer::new(output));
        let (queue, url) = (config.queue.value.clone(), config.url.value.clone());
        Ok(Self { client, queue, url, config, printer })
    }

    /// Runs a client command on one thread, turns a failed call into a message and prints the server's warnings. `filter` is the filter
    /// expression of the command, for messages about it.
    pub(crate) fn run<F>(&self, filter: Option<&str>, command: F) -> Result<(), Failure>
    where
        F: AsyncFnOnce(&Self) -> Result<(), CommandError>,
    {
        // Starting more threads takes longer than most commands run.
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Failure::because("cannot start"))?;
        let outcome = runtime.block_on(async {
            let outcome = match command(self).await {
                Ok(()) => Ok(()),
                Err(CommandError::Failure(failure)) => Err(failure),
                Err(CommandError::Call(error)) => Err(explain(self, error, filter).await),
            };
            self.print_server_warnings();
            outcome
        });
        // A lookup of a host name cannot be interrupted; the command does not wait for one that it no longer needs.
        runtime.shutdown_background();
        outcome
    }

    pub(crate) fn print_server_warnings(&self) {
        while let Some(warning) = self.client.take_warning() {
            output::warning(&warning.to_string());
        }
    }
}

/// Prints what is ignored in the configuration, and which token is not sent.
pub(crate) fn print_warnings(config: &ClientConfig) {
    config.warnings.iter().for_each(|warning| output::warning(warning));
    if let Some(note) = config.withheld_note() {
        output::note(&note);
    }
}

fn client(config: &ClientConfig, retrying: Retrying) -> Result<Client, Failure> {
    let tries_of =
        |tries| Retries { tries, first_pause: Duration::from_millis(100), longest_pause: Duration::from_secs(5) };
    let retries = match retrying {
        // Somebody waits for the answer.
        Retrying::Interactive => tries_of(3),
        // About half a minute: enough for a server to restart.
        Retrying::LongRunning => tries_of(12),
        Retrying::Never | Retrying::NeverButPatient => Retries::NONE,
    };
    let mut client = Config::new(&config.url.value).map_err(|error| config_failure(&error, config))?;
    client.retries = retries;
    if retrying == Retrying::Never {
        client.request_timeout = SHORT_TIMEOUT;
    }
    if let Some(token) = &config.token {
        client = client.token(token.value.expose()).map_err(|error| config_failure(&error, config))?;
    }
    client.allow_insecure_token = config.allow_insecure_token.value;
    if let Some(Sourced { value, source }) = &config.trust {
        let trusting = match value {
            Trust::Pins(pins) => client.trust_keys(pins.clone()),
            Trust::Authorities(path) => client.trust_authorities(&read_authorities(path, source)?),
        };
        client = trusting.map_err(|error| config_failure(&error, config))?;
    }
    let client = Client::new(client).map_err(|error| config_failure(&error, config))?;
    // The trace that this command is a part of: that of the run in which it is called, or of any other caller who says so.
    Ok(client.traced(std::env::var("TRACEPARENT").ok().and_then(|text| TraceParent::parse(&text))))
}

/// Names the source of the wrong value.
fn config_failure(error: &ConfigError, config: &ClientConfig) -> Failure {
    let Sourced { value: url, source } = &config.url;
    match error {
        ConfigError::BaseUrl { reason } => Failure::Usage(format!("the URL {url} ({source}) cannot be used: {reason}")),
        ConfigError::Token => {
            let source = config.token.as_ref().map(|token| token.source.to_string()).unwrap_or_default();
            Failure::Usage(format!("the token ({source}) must be visible ASCII characters without blanks"))
        }
        ConfigError::InsecureToken => Failure::Refused(format!(
            "the token would be sent unencrypted to {url} ({source}); use https:// or --allow-insecure-token"
        )),
        ConfigError::TrustWithoutTls => Failure::Usage(format!(
            "the TLS pin or authorities ({}) are for https:// only, and the URL is {url} ({source})",
            trust_source(config)
        )),
        ConfigError::Authorities { reason } => {
            Failure::Usage(format!("the file of TLS authorities ({}) cannot be used: {reason}", trust_source(config)))
        }
        other => Failure::Refused(other.to_string()),
    }
}

fn trust_source(config: &ClientConfig) -> String {
    config.trust.as_ref().map(|trust| trust.source.to_string()).unwrap_or_default()
}

/// Returns a command to copy into a shell, for the same server and queue as the command that prints it. `words` are subcommands, such as
/// `task list`. What the environment and the files configure is not repeated, because the next command finds it there, too.
pub(crate) fn command_line(context: &ClientContext, words: &str) -> CommandLine {
    let is_named = context.config.queue.source != Source::BuiltIn;
    server_command_line(context, words).optional("--queue", is_named.then_some(context.queue.as_str()))
}

/// Returns a command that names its queue itself, such as `queue resume`.
pub(crate) fn server_command_line(context: &ClientContext, words: &str) -> CommandLine {
    let is_named = matches!(context.config.url.source, Source::Flag(_));
    let command = CommandLine::new(words).optional("--url", is_named.then_some(&context.url));
    match &context.config.trust {
        Some(Sourced { value, source: Source::Flag(flag) }) => command.flag(flag, &value.text()),
        _ => command,
    }
}
