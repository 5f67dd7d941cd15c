//! The wire of the v2 API, free of any web framework: what request bodies may hold ([`bodies`]), how answers are written
//! ([`mod@write`]), the same as schemas ([`schema`]), error codes, paths and header names.

pub mod bodies;
pub mod details;
pub mod error_code;
pub mod headers;
pub mod paths;
pub mod schema;
pub mod write;

pub use error_code::ErrorCode;
