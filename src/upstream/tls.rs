//! TLS towards upstreams: whom we trust and who we say we are. Owns the rustls client settings.
//!
//! Invariant: a certificate is always verified; there is no switch to turn that off.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::{CryptoProvider, ring},
};
use rustls_pki_types::CertificateDer;
use rustls_platform_verifier::Verifier;

use crate::{
    config::UpstreamTls,
    server::tls::{certificates, private_key, read},
};

/// Client settings for one upstream: the system's roots and its private CA, and a client certificate
/// if both its files are named.
///
/// # Errors
/// Says which file is at fault and why; never quotes its contents.
pub(crate) fn client(files: &UpstreamTls) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let private = match &files.ca {
        Some(path) => certificates(&read(path)?, path)?,
        None => Vec::new(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier(private, provider)?);
    match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates(&read(cert)?, cert)?;
            let secret = private_key(&read(key)?, key)?;
            builder
                .with_client_auth_cert(chain, secret)
                .map_err(|e| format!("{} and {}: {e}", cert.display(), key.display()))
        }
        (None, None) => Ok(builder.with_no_client_auth()),
        _ => Err("a client certificate needs both `cert` and `key`".into()),
    }
}

/// The system's verifier, or, where the system has no roots at all (a bare container image), one with
/// Mozilla's.
fn verifier(
    private: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    if let Ok(verifier) = Verifier::new_with_extra_roots(private.iter().cloned(), Arc::clone(&provider)) {
        return Ok(Arc::new(verifier));
    }
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for cert in private {
        roots.add(cert).map_err(|e| format!("private CA: {e}"))?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map(|v| v as Arc<dyn ServerCertVerifier>).map_err(|e| e.to_string())
}
