//! A private certificate authority and what it issues, as PEM files in a folder of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use smartgate::config::{ServerTls, UpstreamTls};
use tempfile::TempDir;

/// A CA and the folder with its files.
pub(crate) struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) folder: TempDir,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca = Self { issuer, folder: TempDir::new().unwrap() };
        fs::write(ca.path("ca.crt"), ca.issuer.pem()).unwrap();
        ca
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Issues a certificate for localhost and 127.0.0.1; returns the PEM of chain and key.
    pub(crate) fn issue(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(["localhost".into(), "127.0.0.1".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    /// Issues into `NAME.crt` and `NAME.key`.
    pub(crate) fn issue_files(&self, name: &str) -> (PathBuf, PathBuf) {
        let (cert, key) = self.issue(name);
        let paths = (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        fs::write(&paths.0, cert).unwrap();
        fs::write(&paths.1, key).unwrap();
        paths
    }

    /// Settings of a listener with a fresh certificate, asking for client certificates of `clients`.
    pub(crate) fn listener(&self, clients: Option<&Ca>) -> ServerTls {
        let (cert, key) = self.issue_files("server");
        ServerTls { cert, key, client_ca: clients.map(|ca| ca.path("ca.crt")) }
    }

    /// Settings of an upstream of this CA, with a client certificate of `identity`.
    pub(crate) fn upstream(&self, identity: Option<&Ca>) -> UpstreamTls {
        let (cert, key) = match identity.map(|ca| ca.issue_files("client")) {
            Some((cert, key)) => (Some(cert), Some(key)),
            None => (None, None),
        };
        UpstreamTls { ca: Some(self.path("ca.crt")), cert, key }
    }

    /// Settings of a client that trusts this CA.
    pub(crate) fn client(&self, identity: Option<&Ca>, alpn: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.issuer.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity.map(|ca| ca.issue("client")) {
            Some((cert, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

/// Puts `files` into a new folder `version` under `root` and points the symlink `root/..data` at it in
/// one step, as a mounted ConfigMap or Secret does.
pub(crate) fn swap(root: &Path, version: &str, files: &[(&str, &str)]) {
    let folder = root.join(version);
    fs::create_dir(&folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    let next = root.join("..data_tmp");
    std::os::unix::fs::symlink(version, &next).unwrap();
    fs::rename(next, root.join("..data")).unwrap();
}
