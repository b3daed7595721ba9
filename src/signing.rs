//! Ed25519 (RFC 8032) for the journal's checkpoints: keys in the forms that people have them in, signing, checking. Owns
//! what is signed; knows nothing of journals. Invariant: a private key is in nobody's `Debug`, error or log.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};

/// What comes before the 32 bytes in PKCS#8 (RFC 8410, section 7) and in a public key's SPKI (section 4).
const PKCS8: &[u8] = &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const SPKI: &[u8] = &[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
/// The first line of what is signed: says what it is for, so that no other signature of the key can stand for it.
const PURPOSE: &str = "smartgate audit checkpoint v1";

/// What a checkpoint says, signed or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement<'a> {
    pub(crate) boot: &'a str,
    pub(crate) seq: u64,
    pub(crate) time: &'a str,
    /// Lines of the boot before this one.
    pub(crate) records: u64,
    pub(crate) reason: &'a str,
    pub(crate) prev: &'a str,
}

impl Statement<'_> {
    fn message(&self) -> String {
        let Self { boot, seq, time, records, reason, prev } = self;
        format!("{PURPOSE}\n{boot}\n{seq}\n{time}\n{records}\n{reason}\n{prev}\n")
    }
}

/// The private key.
pub(crate) struct Signer {
    pair: Ed25519KeyPair,
    id: String,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Signer {
    /// From PKCS#8 in PEM, as `audit keygen` and `openssl genpkey` write it, or a seed of 32 bytes in hex or base64.
    ///
    /// # Errors
    /// It is none of these; what it is instead is not said.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let wrong = || {
            "is no Ed25519 private key: neither PKCS#8 in PEM nor 32 bytes in hex or base64; \
             `smartgate audit keygen FILE` makes one"
                .to_owned()
        };
        let pair = match pem(text, "PRIVATE KEY") {
            Some(der) => Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(|_| wrong())?,
            None => {
                Ed25519KeyPair::from_seed_unchecked(&bytes32(text).ok_or_else(wrong)?).map_err(|_| wrong())?
            }
        };
        let id = PublicKey::of(&pair).id();
        Ok(Self { pair, id })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The signature, in hex.
    pub(crate) fn sign(&self, statement: Statement<'_>) -> String {
        hex::encode(self.pair.sign(statement.message().as_bytes()).as_ref())
    }
}

/// Whether this can be `audit.signing_key`.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn check_signing_key(text: &str) -> Result<(), String> {
    Signer::read(text).map(drop)
}

/// A public key, for whoever checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    fn of(pair: &Ed25519KeyPair) -> Self {
        let mut key = [0; 32];
        key.copy_from_slice(pair.public_key().as_ref());
        Self(key)
    }

    /// From 32 bytes in hex or base64, or SPKI in PEM.
    ///
    /// # Errors
    /// It is none of these.
    pub fn read(text: &str) -> Result<Self, String> {
        let found = match pem(text, "PUBLIC KEY") {
            Some(der) => der.strip_prefix(SPKI).and_then(|key| key.try_into().ok()),
            None => bytes32(text),
        };
        let wrong = "is no Ed25519 public key: neither 32 bytes in hex or base64 nor PEM";
        found.map(Self).ok_or_else(|| wrong.to_owned())
    }

    /// How checkpoints name the key: the first 16 hex digits of the SHA-256 of its 32 bytes.
    #[must_use]
    pub fn id(&self) -> String {
        hex::encode(&Sha256::digest(self.0)[..8])
    }

    /// In hex.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Whether `signature` (hex) is of this key and for this statement.
    pub(crate) fn confirms(&self, statement: Statement<'_>, signature: &str) -> bool {
        let Ok(signature) = hex::decode(signature) else { return false };
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        key.verify(statement.message().as_bytes(), &signature).is_ok()
    }
}

/// A new key: the private one as PKCS#8 in PEM, and the public one.
///
/// # Errors
/// The system gives no random bytes.
pub fn new_key() -> Result<(String, PublicKey), String> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|e| format!("cannot get random bytes: {e}"))?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| "cannot make a key".to_owned())?;
    let der = [PKCS8, &seed].concat();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der));
    Ok((pem, PublicKey::of(&pair)))
}

/// The DER inside the first PEM block with this label.
fn pem(text: &str, label: &str) -> Option<Vec<u8>> {
    let inside = text.split_once(&format!("-----BEGIN {label}-----"))?.1;
    let base64 = inside.split_once(&format!("-----END {label}-----"))?.0;
    STANDARD.decode(base64.split_ascii_whitespace().collect::<String>()).ok()
}

fn bytes32(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    let bytes = hex::decode(text).or_else(|_| STANDARD.decode(text)).ok()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032, section 7.1, test 1.
    const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    #[test]
    fn a_seed_gives_the_public_key_of_the_standard() {
        let signer = Signer::read(SEED).unwrap();
        assert_eq!(PublicKey::of(&signer.pair).to_hex(), PUBLIC);
        let base64 = STANDARD.encode(hex::decode(SEED).unwrap());
        assert_eq!(Signer::read(&base64).unwrap().id(), PublicKey::read(PUBLIC).unwrap().id());
    }

    #[test]
    fn a_new_key_signs_and_its_public_key_confirms() {
        let (pem, public) = new_key().unwrap();
        let signer = Signer::read(&pem).unwrap();
        assert_eq!(signer.id(), public.id());
        let statement = Statement { boot: "B", seq: 7, time: "T", records: 6, reason: "stop", prev: "00" };
        let signature = signer.sign(statement);
        assert!(public.confirms(statement, &signature));
        assert!(!public.confirms(Statement { seq: 8, ..statement }, &signature));
        assert!(!PublicKey::read(PUBLIC).unwrap().confirms(statement, &signature));
        assert!(!public.confirms(statement, "not hex"));
    }

    #[test]
    fn public_keys_are_read_from_pem_too() {
        let der = [SPKI, &hex::decode(PUBLIC).unwrap()].concat();
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der));
        assert_eq!(PublicKey::read(&pem).unwrap().to_hex(), PUBLIC);
    }

    #[test]
    fn what_is_no_key_is_not_repeated() {
        for text in
            ["hunter2", "", &SEED[..40], "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"]
        {
            let why = Signer::read(text).unwrap_err();
            assert!(text.is_empty() || !why.contains(text), "{why}");
        }
        let signer = Signer::read(SEED).unwrap();
        assert!(!format!("{signer:?}").contains("9d61"));
    }
}
