//! TLS: rustls with ring; the operating system verifies certificates. Nothing is installed process-wide, so the rest of the
//! program may use another provider.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::config::ConfigError;

pub(crate) fn for_https() -> Result<ClientConfig, ConfigError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(tls_error)?;
    Ok(builder.with_platform_verifier().map_err(tls_error)?.with_no_client_auth())
}

/// A configuration that trusts no certificate. The HTTP library requires one also for plain HTTP, and with this one the
/// system's certificates are not read.
pub(crate) fn for_plain_http() -> Result<ClientConfig, ConfigError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(tls_error)?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn tls_error(error: rustls::Error) -> ConfigError {
    ConfigError::Tls { reason: error.to_string() }
}
