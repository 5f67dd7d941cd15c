//! Encryption: rustls with ring, certificates judged the way the operating system does. Nothing is installed process-wide:
//! whoever uses this crate keeps the choice for everything else.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::config::ConfigError;

/// What an `https://` server is talked to with.
pub(crate) fn encrypted() -> Result<ClientConfig, ConfigError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(broken)?;
    Ok(builder.with_platform_verifier().map_err(broken)?.with_no_client_auth())
}

/// What the HTTP library is given where nothing is encrypted: it trusts nobody, and the system's certificates need not be
/// read.
pub(crate) fn unused() -> Result<ClientConfig, ConfigError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(broken)?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn broken(error: rustls::Error) -> ConfigError {
    ConfigError::Tls { reason: error.to_string() }
}
