//! The health of a server. The answers are constant.

use taskqueue_core::json::Value;
use utoipa::ToSchema;

use crate::object_reader::{ObjectReader, Unreadable};

/// Whether the server and its database work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub is_ok: bool,
    /// The version of the API, `2`.
    pub api_version: String,
}

impl Health {
    pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
        let health = ObjectReader::of(value, "health")?;
        let is_ok = health.text("status")? == "ok" && health.text("database")? == "ok";
        Ok(Self { is_ok, api_version: health.text("api_version")?.to_owned() })
    }
}

/// A server that works.
#[derive(ToSchema)]
#[schema(as = Health)]
pub struct Healthy {
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

impl Healthy {
    pub const JSON: &'static str = r#"{"status":"ok","api_version":"2","database":"ok"}"#;
}

/// A server whose database does not work.
#[derive(ToSchema)]
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
    pub const JSON: &'static str = r#"{"status":"error","api_version":"2","database":"error"}"#;
}

/// A server that answers, or that takes requests: which of both is the question of the path.
#[derive(ToSchema)]
pub struct Probe {
    /// `ok`
    #[schema(pattern = "^ok$")]
    pub status: String,
}

impl Probe {
    pub const JSON: &'static str = r#"{"status":"ok"}"#;
}
