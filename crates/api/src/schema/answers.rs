//! Queues, health and errors.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::scalars::{JsonObject, QueueName};
use crate::ErrorCode;

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
}

/// The one form of every error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorEnvelope {
    /// The error.
    pub error: Error,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Error {
    /// What clients branch on.
    pub code: ErrorCode,
    /// What to do, for people.
    pub message: String,
    /// Informative.
    #[schema(value_type = Object)]
    pub details: JsonObject,
}

/// A server that works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`
    #[schema(pattern = "^ok$")]
    pub status: String,
    /// `2`
    #[schema(pattern = "^2$")]
    pub api_version: String,
    /// `ok`
    #[schema(pattern = "^ok$")]
    pub database: String,
}

impl Health {
    /// The answer while the database works.
    pub const OK: &'static str = r#"{"status":"ok","api_version":"2","database":"ok"}"#;
}

/// A server whose database does not work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Unhealthy {
    /// `error`
    #[schema(pattern = "^error$")]
    pub status: String,
    /// `2`
    #[schema(pattern = "^2$")]
    pub api_version: String,
    /// `error`
    #[schema(pattern = "^error$")]
    pub database: String,
}

impl Unhealthy {
    /// The answer while the database does not work.
    pub const ERROR: &'static str = r#"{"status":"error","api_version":"2","database":"error"}"#;
}
