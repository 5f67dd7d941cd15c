//! The error envelope: the one form of every answer that is not a success.

use std::borrow::BorrowMut;
use std::fmt;

use taskqueue_core::json::{JsonObject, ObjectWriter, Value};
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::object_reader::{ObjectReader, Unreadable};

/// The one form of every error.
#[derive(ToSchema)]
pub struct ErrorEnvelope {
    /// The error.
    pub error: Error,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
pub struct Error {
    /// What clients branch on.
    #[schema(value_type = ErrorCode)]
    pub code: Code,
    /// What to do, for people.
    pub message: String,
    /// Informative.
    #[schema(value_type = Object)]
    pub details: JsonObject,
}

impl Error {
    /// Appends the error in its envelope.
    pub fn write(out: &mut Vec<u8>, code: ErrorCode, message: &str, details: ObjectWriter) {
        Self::write_field(ObjectWriter::append_to(out), code, message, details).end();
    }

    /// Adds the error to an object, as its envelope has it.
    pub(crate) fn write_field<B: BorrowMut<Vec<u8>>>(
        object: ObjectWriter<B>,
        code: ErrorCode,
        message: &str,
        details: ObjectWriter,
    ) -> ObjectWriter<B> {
        object.object("error", |error| {
            let error = error.text("code", code.as_str()).text("message", message);
            error.field("details", |out| out.extend_from_slice(&details.end()))
        })
    }

    /// Reads the error in its envelope, or in an item of a batch.
    pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
        let error = ObjectReader::of(value, "answer")?.object("error")?;
        Ok(Self {
            code: Code::from(error.text("code")?),
            message: error.text("message")?.to_owned(),
            // Informative only: details that cannot be read are no reason to lose the code.
            details: error.json("details").unwrap_or(JsonObject::empty()),
        })
    }
}

/// What callers branch on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// A code of the contract.
    Known(ErrorCode),
    /// A code of a newer server.
    Other(String),
}

impl Code {
    /// The text in `error.code`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(code) => code.as_str(),
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for Code {
    fn from(text: &str) -> Self {
        ErrorCode::parse(text).map_or_else(|| Self::Other(text.to_owned()), Self::Known)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
