//! What is known of the server and of the way to it, and its tokens: as they stand in its file, and a new one.

use anstyle::AnsiColor;
use taskqueue_client::Health;
use taskqueue_core::json::{ObjectWriter, write_array, write_string};
use taskqueue_core::time::Timestamp;
use taskqueue_core::words;

use crate::config::Setting;
use crate::output::{Cell, Columns, Record, columns};
use crate::tokens_file::FileToken;

/// The health of a server.
#[derive(Debug)]
pub(crate) struct HealthRecord<'a> {
    /// Its address.
    pub(crate) url: &'a str,
    /// Its answer.
    pub(crate) health: Health,
}

impl HealthRecord<'_> {
    fn word(&self) -> &'static str {
        if self.health.is_ok { "ok" } else { "error" }
    }
}

impl Record for HealthRecord<'_> {
    const COLUMNS: Columns = columns![text "status", text "api_version", text "url"];

    const FIELDS: &'static str = "status,api_version,url";

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let colour = if self.health.is_ok { AnsiColor::Green } else { AnsiColor::Red };
        vec![Cell::new(self.word()).coloured(colour), Cell::new(&self.health.api_version), Cell::new(self.url)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out)
            .text("status", self.word())
            .text("api_version", &self.health.api_version)
            .text("url", self.url)
            .end();
    }
}

/// One value of the configuration and where it comes from. The token is not among the values.
#[derive(Debug)]
pub(crate) struct SettingRecord<'a>(pub(crate) &'a Setting);

impl Record for SettingRecord<'_> {
    const COLUMNS: Columns = columns![text "NAME", text "VALUE", shrinking "SOURCE"];

    const FIELDS: &'static str = "name,value,source";

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(&self.0.name), Cell::new(&self.0.value), Cell::new(&self.0.source)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let Setting { name, value, source } = self.0;
        ObjectWriter::append_to(out).text("name", name).text("value", value).text("source", source).end();
    }

    fn key(&self) -> String {
        format!("{}={}", self.0.name, self.0.value)
    }
}

/// A token of a file, without the token.
#[derive(Debug)]
pub(crate) struct TokenRecord<'a>(pub(crate) &'a FileToken);

impl Record for TokenRecord<'_> {
    const COLUMNS: Columns = columns![text "NAME", text "SCOPES", text "QUEUES", text "EXPIRES"];

    const FIELDS: &'static str = "name,scopes,queues,expires_at";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let expires = match self.0.expires_at {
            None => Cell::new("never").dimmed(),
            Some(end) if end <= now => Cell::new(format!("expired {}", words::age(end, now))).coloured(AnsiColor::Red),
            Some(end) => Cell::new(words::age(end, now)),
        };
        vec![Cell::new(&self.0.name), Cell::new(scopes(self.0).join(",")), Cell::new(queues(self.0).join(",")), expires]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        members(ObjectWriter::append_to(out), self.0).end();
    }
}

/// A new token, which is shown this once.
pub(crate) struct NewTokenRecord<'a> {
    pub(crate) token: &'a str,
    pub(crate) entry: &'a FileToken,
}

impl Record for NewTokenRecord<'_> {
    const COLUMNS: Columns = columns![text "NAME", text "TOKEN"];

    const FIELDS: &'static str = "name,token,sha256";

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(&self.entry.name), Cell::new(self.token)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let object = members(ObjectWriter::append_to(out).text("token", self.token), self.entry);
        object.text("lines", &self.entry.to_string()).end();
    }

    fn key(&self) -> String {
        self.token.to_owned()
    }
}

fn scopes(token: &FileToken) -> Vec<&str> {
    token.grant.scopes.named().map(|scope| scope.as_str()).collect()
}

fn queues(token: &FileToken) -> Vec<&str> {
    token.grant.queues.iter().map(|pattern| pattern.as_str()).collect()
}

/// Writes what the file says of a token.
fn members<'o>(object: ObjectWriter<&'o mut Vec<u8>>, token: &FileToken) -> ObjectWriter<&'o mut Vec<u8>> {
    let end = token.expires_at.map(|end| end.to_string());
    object
        .text("name", &token.name)
        .text("sha256", &token.digest_text())
        .field("scopes", |out| write_array(out, scopes(token), write_string))
        .field("queues", |out| write_array(out, queues(token), write_string))
        .text_or_null("expires_at", end.as_deref())
}
