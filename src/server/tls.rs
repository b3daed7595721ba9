//! TLS of the listener: builds rustls settings from PEM files, and swaps them when the files' bytes
//! change. Owns the certificate in use; nothing here logs or keeps the bytes of a key.
//!
//! Invariant: a new set of files is taken whole or not at all; a broken one leaves the old in use.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::WebPkiClientVerifier,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::config::ServerTls;

/// How often the files are read. A revoked or renewed certificate is in use this long after.
const PERIOD: Duration = Duration::from_secs(1);

/// Accepts TLS connections with the newest good certificate. Clones share it.
#[derive(Clone)]
pub struct Acceptor {
    current: Arc<ArcSwap<ServerConfig>>,
    files: Arc<ServerTls>,
}

impl Acceptor {
    /// Loads the files once.
    ///
    /// # Errors
    /// Says which file is at fault and why.
    pub fn load(files: &ServerTls) -> Result<(Self, Reloader), String> {
        let bytes = FileBytes::read(files)?;
        let acceptor = Self {
            current: Arc::new(ArcSwap::from_pointee(bytes.settings(files)?)),
            files: Arc::new(files.clone()),
        };
        let reloader = Reloader { acceptor: acceptor.clone(), seen: bytes.digest() };
        Ok((acceptor, reloader))
    }

    /// Performs one handshake.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.current.load_full()).accept(stream).await
    }
}

/// Watches the files of an [`Acceptor`].
pub struct Reloader {
    acceptor: Acceptor,
    /// Digest of what was last tried, good or bad, so that each change is reported once.
    seen: [u8; 32],
}

impl Reloader {
    /// Compares the files' bytes once a second, for ever. Inode watches would miss the symlink swaps by
    /// which mounted volumes change.
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(PERIOD).await;
            self.look();
        }
    }

    /// Looks once; returns whether a new certificate is in use. Files that change while they are read
    /// fail as a set that does not fit, and are read whole the next time.
    pub fn look(&mut self) -> bool {
        let files = Arc::clone(&self.acceptor.files);
        let loaded = match FileBytes::read(&files) {
            Ok(bytes) => {
                let digest = bytes.digest();
                if std::mem::replace(&mut self.seen, digest) == digest {
                    return false;
                }
                bytes.settings(&files)
            }
            // The digest of the message stands for the state of the files.
            Err(e) => {
                let digest = Sha256::digest(e.as_bytes()).into();
                if std::mem::replace(&mut self.seen, digest) == digest {
                    return false;
                }
                Err(e)
            }
        };
        match loaded {
            Ok(settings) => {
                self.acceptor.current.store(Arc::new(settings));
                tracing::info!("TLS certificate reloaded");
                true
            }
            Err(e) => {
                tracing::error!(error = %e, "TLS files are not usable, keeping the old certificate");
                false
            }
        }
    }
}

struct FileBytes {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl FileBytes {
    fn read(files: &ServerTls) -> Result<Self, String> {
        Ok(Self {
            cert: read(&files.cert)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for part in [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()].into_iter().flatten() {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    fn settings(&self, files: &ServerTls) -> Result<ServerConfig, String> {
        let chain = certificates(&self.cert, &files.cert)?;
        let key = private_key(&self.key, &files.key)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?;
        let builder = match (&self.client_ca, &files.client_ca) {
            (Some(ca), Some(path)) => builder.with_client_cert_verifier(client_verifier(ca, path, provider)?),
            _ => builder.with_no_client_auth(),
        };
        let mut settings = builder
            .with_single_cert(chain, key)
            .map_err(|e| format!("{} and {}: {e}", files.cert.display(), files.key.display()))?;
        settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(settings)
    }
}

fn client_verifier(
    ca: &[u8],
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let roots = Arc::new(roots(ca, path)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
    verifier.map_err(|e| format!("{}: {e}", path.display()))
}

fn roots(ca: &[u8], path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(ca, path)? {
        roots.add(cert).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(roots)
}

/// Reads a file, naming it in the error.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The certificates in a PEM text: at least one.
pub(crate) fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certs: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certs {
        Ok(certs) if certs.is_empty() => Err(format!("{}: no certificate in it", path.display())),
        Ok(certs) => Ok(certs),
        Err(_) => Err(format!("{}: not a PEM certificate", path.display())),
    }
}

/// The first private key in a PEM text. The error never quotes the text.
pub(crate) fn private_key(pem: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| format!("{}: no PEM private key in it", path.display()))
}
