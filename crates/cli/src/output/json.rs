//! Writes JSON objects field by field, in the contract's order of fields. Values that are JSON text already are taken as
//! they are, so that integers of 64 bits and the forms of floats survive.

use taskqueue_core::json::{write_integer, write_string};
use taskqueue_core::time::Timestamp;

/// An object that is being written.
#[derive(Debug)]
pub(crate) struct JsonFields(Vec<u8>);

impl JsonFields {
    pub(crate) fn new() -> Self {
        Self(vec![b'{'])
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        write_string(&mut self.0, name);
        self.0.push(b':');
    }

    pub(crate) fn json(mut self, name: &str, json: &str) -> Self {
        self.name(name);
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    pub(crate) fn text(mut self, name: &str, text: &str) -> Self {
        self.name(name);
        write_string(&mut self.0, text);
        self
    }

    pub(crate) fn text_or_null(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self.json(name, "null"),
        }
    }

    pub(crate) fn integer(mut self, name: &str, value: i64) -> Self {
        self.name(name);
        write_integer(&mut self.0, value);
        self
    }

    pub(crate) fn count(self, name: &str, value: u64) -> Self {
        self.json(name, &value.to_string())
    }

    pub(crate) fn boolean(self, name: &str, value: bool) -> Self {
        self.json(name, if value { "true" } else { "false" })
    }

    pub(crate) fn time(self, name: &str, at: Timestamp) -> Self {
        self.text(name, &at.to_string())
    }

    pub(crate) fn time_or_null(self, name: &str, at: Option<Timestamp>) -> Self {
        match at {
            Some(at) => self.time(name, at),
            None => self.json(name, "null"),
        }
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push(b'}');
        // Only whole pieces of UTF-8 were written.
        String::from_utf8(self.0).unwrap_or_default()
    }
}
