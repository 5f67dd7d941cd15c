//! JSON as the contract wants it (docs/reference/http-api.md §3.3 and §3.5): reading bodies, the canonical text of
//! args, metadata and result, looking into that text, merging patches into it, and writing objects. Which field takes which value is
//! not decided here.

mod canonical;
mod lookup;
mod object;
mod parse;
mod paths;
mod strings;

pub use canonical::{
    JsonObject, LoneSurrogateKeys, ObjectError, PathStep, Unusable, Value, integer_len, write_integer, write_value,
};
#[cfg(test)]
pub(crate) use lookup::scanned::scanned_bytes;
pub use lookup::{Found, elements, has_key, lookup, members, merge_patch};
pub use object::{ObjectWriter, write_array, write_time};
pub use parse::{ParseError, Reader, parse};
pub use paths::{Pass, Paths};
pub(crate) use strings::escaped_byte;
pub use strings::{JsonStr, string_len, write_string, written_prefix};
