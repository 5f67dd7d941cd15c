//! Why a text is not a valid filter, and at which position.

use std::fmt;

use crate::limits::FILTER_BYTES;

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// It has more than [`FILTER_BYTES`] bytes.
    TooLarge,
    /// It breaks the grammar or the rules of types.
    Invalid {
        /// Where the error begins: 1-based, in characters.
        column: usize,
        /// What was expected there.
        message: String,
    },
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the filter is larger than {FILTER_BYTES} bytes"),
            Self::Invalid { column, message } => write!(f, "invalid filter at column {column}: {message}"),
        }
    }
}

impl std::error::Error for FilterError {}

/// Something that begins at a place of the text, in bytes.
#[derive(Debug)]
pub(super) struct At<T> {
    pub(super) offset: usize,
    pub(super) value: T,
}

/// An error that begins at a place of the text, in bytes.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) offset: usize,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }

    pub(super) fn column(&self, text: &str) -> usize {
        text.char_indices().take_while(|(offset, _)| *offset < self.offset).count() + 1
    }
}
