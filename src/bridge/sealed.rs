//! Sealed values: what the gateway hands out and wants back unread and unchanged. Session ids, request states,
//! cursors, ids of tasks and of server-to-client requests are all the same envelope, told apart by their purpose.
//!
//! Form: `v1.` and base64url of key id (4 bytes), nonce (24), XChaCha20-Poly1305 ciphertext. Purpose and principal are
//! associated data, so that a value opens for nobody else and as nothing else. Invariant: [`Sealer::open`] is the only
//! way in, and checks key, purpose, principal and expiry before a byte of the payload is looked at.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

const VERSION: &str = "v1.";
const KEY_ID: usize = 4;
const NONCE: usize = 24;
const EXPIRY: usize = 8;
/// Longest value that is looked at, in bytes.
const LONGEST: usize = 64 * 1024;

/// What a sealed value is for. A value of one purpose never opens as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// `Mcp-Session-Id` of a legacy client.
    Session = 1,
    /// `requestState` of an `input_required` result.
    RequestState = 2,
    /// `nextCursor` of a merged list.
    Cursor = 3,
    /// Id of a request from a server to a client.
    ServerRequest = 4,
    /// Id of a task at one of several servers.
    Task = 5,
}

/// Why a value does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsealed {
    /// Not ours, altered, of another purpose or principal, or sealed with a key that is gone.
    Foreign,
    /// Its time is over.
    Expired,
}

/// One key.
struct Key {
    id: [u8; KEY_ID],
    cipher: XChaCha20Poly1305,
    /// Makes the nonces of names.
    naming: [u8; 32],
}

impl Key {
    fn encrypt(&self, nonce: [u8; NONCE], plain: &[u8], aad: &[u8]) -> String {
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad });
        let sealed = sealed.expect("a short text can be encrypted");
        let mut text = String::from(VERSION);
        URL_SAFE_NO_PAD.encode_string([&self.id[..], &nonce, &sealed].concat(), &mut text);
        text
    }
}

/// Seals with the newest key, opens with any. `Debug` shows no key.
pub struct Sealer {
    keys: Vec<Key>,
    is_shared: bool,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("keys", &self.keys.len()).finish()
    }
}

impl Sealer {
    /// A sealer of these secrets, the newest first. Each is hashed to the cipher's key.
    #[must_use]
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let keys = secrets.into_iter().map(|secret| {
            let key = Sha256::new().chain_update(b"smartgate seal key v1").chain_update(secret).finalize();
            let id = Sha256::new().chain_update(b"smartgate seal key id v1").chain_update(key).finalize();
            let mut short = [0; KEY_ID];
            short.copy_from_slice(&id[..KEY_ID]);
            Key {
                id: short,
                cipher: XChaCha20Poly1305::new_from_slice(&key).expect("SHA-256 has 32 bytes"),
                naming: Sha256::new()
                    .chain_update(b"smartgate name key v1")
                    .chain_update(key)
                    .finalize()
                    .into(),
            }
        });
        Self { keys: keys.collect(), is_shared: true }
    }

    /// A sealer of this process alone: what it seals nobody else opens, and it not after a restart.
    #[must_use]
    pub fn of_this_process() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the system gives random bytes");
        Self { is_shared: false, ..Self::new([&secret[..]]) }
    }

    /// Whether others may have its keys: other processes, or this one after a restart.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Seals `value` for `principal`, good until `lifetime` from now.
    #[must_use]
    pub fn seal<T: Serialize>(
        &self,
        purpose: Purpose,
        principal: &str,
        lifetime: Duration,
        value: &T,
    ) -> String {
        let expires = (SystemTime::now() + lifetime).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).expect("the system gives random bytes");
        self.keys[0].encrypt(nonce, &payload(expires, value), &associated(purpose, principal))
    }

    /// Seals `value` for `principal` for good. Equal values become equal texts, so that it can be a name: the nonce is
    /// a keyed hash of what is sealed, and tells nothing but that.
    #[must_use]
    pub fn seal_name<T: Serialize>(&self, purpose: Purpose, principal: &str, value: &T) -> String {
        let (plain, aad) = (payload(u64::MAX, value), associated(purpose, principal));
        let key = &self.keys[0];
        // The length keeps what is associated and what is sealed apart.
        let length = (aad.len() as u64).to_be_bytes();
        let parts = [&key.naming[..], &length, &aad, &plain];
        let inner = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize();
        let outer = Sha256::new().chain_update(key.naming).chain_update(inner).finalize();
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&outer[..NONCE]);
        key.encrypt(nonce, &plain, &aad)
    }

    /// Opens a value that was sealed for this purpose and principal.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn open<T: DeserializeOwned>(
        &self,
        purpose: Purpose,
        principal: &str,
        text: &str,
    ) -> Result<T, Unsealed> {
        let plain = self.decrypt(purpose, principal, text).ok_or(Unsealed::Foreign)?;
        let (expires, payload) = plain.split_first_chunk::<EXPIRY>().ok_or(Unsealed::Foreign)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if u64::from_be_bytes(*expires) < now {
            return Err(Unsealed::Expired);
        }
        serde_json::from_slice(payload).map_err(|_| Unsealed::Foreign)
    }

    fn decrypt(&self, purpose: Purpose, principal: &str, text: &str) -> Option<Vec<u8>> {
        let encoded = text.strip_prefix(VERSION).filter(|t| t.len() <= LONGEST)?;
        let envelope = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let (id, rest) = envelope.split_first_chunk::<KEY_ID>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>()?;
        let aad = associated(purpose, principal);
        let payload = || Payload { msg: sealed, aad: &aad };
        self.keys
            .iter()
            .filter(|key| key.id == *id)
            .find_map(|key| key.cipher.decrypt(&XNonce::from(*nonce), payload()).ok())
    }
}

/// What is encrypted: the second in which it ends, and the value.
fn payload<T: Serialize>(expires: u64, value: &T) -> Vec<u8> {
    let mut plain = expires.to_be_bytes().to_vec();
    serde_json::to_writer(&mut plain, value).expect("claims are plain data");
    plain
}

/// The purpose comes first and has one byte, so no two pairs are the same bytes.
fn associated(purpose: Purpose, principal: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + principal.len());
    bytes.push(purpose as u8);
    bytes.extend_from_slice(principal.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_value_opens_for_its_purpose_and_principal_alone() {
        let sealer = Sealer::new([&b"one"[..]]);
        let sealed = sealer.seal(Purpose::Session, "ada", HOUR, &("files", 7));
        assert_eq!(sealer.open(Purpose::Session, "ada", &sealed), Ok(("files".to_owned(), 7)));
        assert_eq!(sealer.open::<(String, u8)>(Purpose::Cursor, "ada", &sealed), Err(Unsealed::Foreign));
        assert_eq!(sealer.open::<(String, u8)>(Purpose::Session, "bob", &sealed), Err(Unsealed::Foreign));
        assert_eq!(
            Sealer::of_this_process().open::<(String, u8)>(Purpose::Session, "ada", &sealed),
            Err(Unsealed::Foreign)
        );
    }

    #[test]
    fn a_name_is_the_same_each_time_and_for_nobody_else() {
        let sealer = Sealer::new([&b"one"[..]]);
        let name = |who: &str, id: &str| sealer.seal_name(Purpose::Task, who, &("files", id));
        assert_eq!(name("ada", "7"), name("ada", "7"));
        assert_ne!(name("ada", "7"), name("ada", "8"));
        assert_ne!(name("ada", "7"), name("bob", "7"));
        // The nonce differs, too: one of two texts would give the other away.
        let nonce =
            |name: &str| URL_SAFE_NO_PAD.decode(&name[VERSION.len()..]).unwrap()[KEY_ID..][..NONCE].to_vec();
        assert_ne!(nonce(&name("ada", "7")), nonce(&name("bob", "7")));
        let open = |who| sealer.open::<(String, String)>(Purpose::Task, who, &name("ada", "7"));
        assert_eq!(open("ada"), Ok(("files".to_owned(), "7".to_owned())));
        assert_eq!(open("bob"), Err(Unsealed::Foreign));
        let after = Sealer::new([&b"two"[..], b"one"]);
        assert!(after.open::<(String, String)>(Purpose::Task, "ada", &name("ada", "7")).is_ok());
    }

    #[test]
    fn old_keys_open_and_the_newest_seals() {
        let before = Sealer::new([&b"one"[..]]);
        let after = Sealer::new([&b"two"[..], b"one"]);
        let old = before.seal(Purpose::Session, "", HOUR, &1);
        assert_eq!(after.open(Purpose::Session, "", &old), Ok(1));
        let new = after.seal(Purpose::Session, "", HOUR, &1);
        assert_eq!(before.open::<u8>(Purpose::Session, "", &new), Err(Unsealed::Foreign));
    }

    #[test]
    fn an_altered_byte_anywhere_closes_it() {
        let sealer = Sealer::new([&b"one"[..]]);
        let sealed = sealer.seal(Purpose::RequestState, "ada", HOUR, &"state");
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(bytes).expect("ASCII");
            let opened = sealer.open::<String>(Purpose::RequestState, "ada", &altered);
            // The last character of base64 may carry bits that mean nothing; then it is refused as malformed.
            assert_eq!(opened, Err(Unsealed::Foreign), "at {at}");
        }
        for text in ["", "v1.", "v1.AAAA", "v2.AAAA", "\u{0}"] {
            assert_eq!(sealer.open::<String>(Purpose::RequestState, "ada", text), Err(Unsealed::Foreign));
        }
    }

    #[test]
    fn time_runs_out() {
        let sealer = Sealer::new([&b"one"[..]]);
        let past = sealer.seal(Purpose::Session, "", Duration::ZERO, &1);
        // Its second may not be over yet; a minute before now is.
        assert!(sealer.open::<u8>(Purpose::Session, "", &past).is_ok());
        let key = &sealer.keys[0];
        let mut plain = 60_u64.to_be_bytes().to_vec();
        plain.push(b'1');
        let aad = associated(Purpose::Session, "");
        let sealed =
            key.cipher.encrypt(&XNonce::from([0; NONCE]), Payload { msg: &plain, aad: &aad }).expect("short");
        let envelope = [&key.id[..], &[0; NONCE], &sealed].concat();
        let text = format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(envelope));
        assert_eq!(sealer.open::<u8>(Purpose::Session, "", &text), Err(Unsealed::Expired));
    }
}
