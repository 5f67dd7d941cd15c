//! The wire of the v2 API, free of any web framework. One file per resource declares its shapes, each once: struct,
//! schema, writer and reader. Bodies are read strictly ([`body`]), answers tolerantly ([`object_reader`]). Error codes,
//! paths and header names are here, too.

/// Declares texts as constants, and the list of all of them.
macro_rules! listed_texts {
    ($(#[$about:meta])* $all:ident; $( $(#[$doc:meta])* $name:ident = $text:literal; )+) => {
        $( $(#[$doc])* pub const $name: &str = $text; )+

        $(#[$about])*
        pub const $all: [&str; [$($text),+].len()] = [$($name),+];
    };
}

pub mod batch;
pub mod body;
pub mod bulk_action;
pub mod capabilities;
pub mod error;
pub mod explain;
pub mod headers;
pub mod lists;
pub mod object_reader;
pub mod output;
pub mod parameters;
pub mod paths;
pub mod queue;
pub mod run;
pub mod schema;
pub mod stats;
pub mod task;
mod task_body;
pub mod task_line;
pub mod worker;

pub use error::ErrorCode;

#[cfg(test)]
mod tests;
