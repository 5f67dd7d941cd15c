//! The rows of `taskqueue config show`: each value, its source, and for each token whether it is sent. The tokens
//! themselves are never shown. Those of `taskqueue serve --check` look the same and are made in `args/serve_settings.rs`.

use taskqueue_client::Config;

use super::source::Sourced;
use super::{ClientConfig, Secret};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) source: String,
}

impl ClientConfig {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![
            setting("url", &self.url.value, &self.url.source.to_string()),
            setting("queue", self.queue.value.as_str(), &self.queue.source.to_string()),
        ];
        settings.extend(self.tokens());
        settings.extend(
            self.trust.iter().map(|trust| setting(trust.value.name(), &trust.value.text(), &trust.source.to_string())),
        );
        let insecure = if self.allow_insecure_token.value { "true" } else { "false" };
        settings.push(setting("allow_insecure_token", insecure, &self.allow_insecure_token.source.to_string()));
        settings
    }

    /// One row per token, the one that is sent first.
    fn tokens(&self) -> Vec<Setting> {
        let sent =
            self.token.iter().map(|token| setting("token", &self.token_status(token), &token.source.to_string()));
        let withheld = "withheld: a project file names the URL";
        let withheld = self.withheld.iter().map(|source| setting("token", withheld, &source.to_string()));
        let tokens: Vec<Setting> = sent.chain(withheld).collect();
        if tokens.is_empty() { vec![setting("token", "not set", "-")] } else { tokens }
    }

    /// Whether the chosen token is sent. The client library can still refuse it.
    fn token_status(&self, token: &Sourced<Secret>) -> String {
        let Ok(client) = Config::new(&self.url.value) else { return "not sent: the URL cannot be used".to_owned() };
        let Ok(mut client) = client.token(token.value.expose()) else {
            return "not sent: it must be visible ASCII characters without blanks".to_owned();
        };
        if self.allow_insecure_token.value {
            client = client.allow_insecure_token();
        }
        match client.refuses_insecure_token() {
            true => "not sent: the connection is not encrypted".to_owned(),
            false => format!("sent to {}", self.url.value),
        }
    }
}

fn setting(name: &str, value: &str, source: &str) -> Setting {
    Setting { name: name.to_owned(), value: value.to_owned(), source: source.to_owned() }
}
