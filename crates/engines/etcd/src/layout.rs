//! The names of keys.
//!
//! ```text
//! <prefix><name>/<lease>             a claim of capacity 1, the lease in hex: what `etcdctl lock <prefix><name>` takes
//! <prefix><name>/<lease>.<seq>       a claim of a larger capacity, its number in its session in hex
//! <prefix>/bramah/floor/<name>       a fence that later ones have to be above
//! <prefix>/bramah/broken/<name>      the last hold that was ended by force
//! <prefix>/bramah/ending/<lease>/…   somebody is about to end this lease, because nothing hangs from it
//! <prefix>/bramah/asked/<session>/<seq>   somebody asks the holder of this claim to let go
//! ```
//!
//! A session has one claim on a mutex at a time, and any number of claims on a read-write lock or a semaphore. Earlier versions had
//! one key for those, too, without the number.
//!
//! No name begins with a slash, so what is below `<prefix>/bramah/` is in no line. Nobody but the children of `<name>/` is in the
//! line of `name`: what has one more slash belongs to another name.

use bramah_core::{Claim, ClaimId, Name, SessionId};

/// The names of keys under a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    prefix: String,
}

/// A range of keys, the end excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Vec<u8>,
    /// Empty for one key.
    pub(crate) to: Vec<u8>,
}

impl Span {
    pub(crate) fn one(key: &[u8]) -> Self {
        Self { from: key.to_vec(), to: Vec::new() }
    }

    /// Everything that starts with this, which is valid UTF-8 and so never ends in the last byte that there is.
    fn below(start: String) -> Self {
        if start.is_empty() {
            // All keys there are, in etcd's words.
            return Self { from: vec![0], to: vec![0] };
        }
        let mut to = start.clone().into_bytes();
        if let Some(last) = to.last_mut() {
            *last += 1;
        }
        Self { from: start.into_bytes(), to }
    }
}

impl Layout {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The key of a claim.
    pub(crate) fn claim(&self, claim: &Claim) -> Vec<u8> {
        let mut key = self.mutex(&claim.name, claim.id.session);
        if claim.capacity > 1 {
            key.extend_from_slice(format!(".{:x}", claim.id.seq).as_bytes());
        }
        key
    }

    /// The keys that a claim may have which an earlier version entered.
    pub(crate) fn candidates(&self, claim: &Claim) -> Vec<Vec<u8>> {
        let mut keys = vec![self.claim(claim), self.mutex(&claim.name, claim.id.session)];
        keys.dedup();
        keys
    }

    /// The key of a session's claim on a mutex.
    pub(crate) fn mutex(&self, name: &Name, session: SessionId) -> Vec<u8> {
        format!("{}{name}/{:x}", self.prefix, lease(session)).into_bytes()
    }

    /// The line of a name, and all names below it.
    pub(crate) fn line(&self, name: &Name) -> Span {
        Span::below(format!("{}{name}/", self.prefix))
    }

    /// Every line.
    pub(crate) fn all(&self) -> Span {
        Span::below(self.prefix.clone())
    }

    pub(crate) fn floor(&self, name: &Name) -> Vec<u8> {
        format!("{}/bramah/floor/{name}", self.prefix).into_bytes()
    }

    pub(crate) fn broken(&self, name: &Name) -> Vec<u8> {
        format!("{}/bramah/broken/{name}", self.prefix).into_bytes()
    }

    /// Everybody who is about to end a lease.
    pub(crate) fn endings(&self, lease: i64) -> Span {
        Span::below(format!("{}/bramah/ending/{lease:x}/", self.prefix))
    }

    /// The mark of one who is about to end a lease. Each has its own, so that one who changes its mind takes away no other's.
    pub(crate) fn ending(&self, lease: i64, number: u64) -> Vec<u8> {
        format!("{}/bramah/ending/{lease:x}/{number:x}", self.prefix).into_bytes()
    }

    /// Somebody asks the holder of a claim to let go.
    pub(crate) fn wish(&self, id: ClaimId) -> Vec<u8> {
        format!("{}/bramah/asked/{}/{:x}", self.prefix, id.session, id.seq).into_bytes()
    }

    /// All wishes for the claims of a session.
    pub(crate) fn wishes(&self, session: SessionId) -> Span {
        Span::below(format!("{}/bramah/asked/{session}/", self.prefix))
    }

    /// The claim of a session that a wish is for.
    pub(crate) fn wished(&self, session: SessionId, key: &[u8]) -> Option<ClaimId> {
        let seq = std::str::from_utf8(key.strip_prefix(&*self.wishes(session).from)?).ok()?;
        Some(ClaimId { session, seq: u64::from_str_radix(seq, 16).ok()? })
    }

    /// Whether a key is a wish.
    pub(crate) fn is_wish(&self, key: &[u8]) -> bool {
        key.strip_prefix(self.prefix.as_bytes()).is_some_and(|rest| rest.starts_with(b"/bramah/asked/"))
    }

    /// The records of all breaks below a name, without its own; of all there are if none is given.
    pub(crate) fn breaks(&self, below: Option<&Name>) -> Span {
        Span::below(match below {
            Some(name) => format!("{}/bramah/broken/{name}/", self.prefix),
            None => format!("{}/bramah/broken/", self.prefix),
        })
    }

    /// The lock that a record is about.
    pub(crate) fn name_of_break(&self, key: &[u8]) -> Option<Name> {
        let text = std::str::from_utf8(key).ok()?.strip_prefix(&*self.prefix)?;
        Name::new(text.strip_prefix("/bramah/broken/")?).ok()
    }

    /// The lock that a key is in the line of, and the rest of the key.
    pub(crate) fn name_of<'k>(&self, key: &'k [u8]) -> Option<(Name, &'k str)> {
        let text = std::str::from_utf8(key).ok()?.strip_prefix(&*self.prefix)?;
        let (name, leaf) = text.rsplit_once('/')?;
        Some((Name::new(name).ok()?, leaf))
    }
}

/// Whether a key is a child of the line's start and not of something below it.
pub(crate) fn is_child(start: &[u8], key: &[u8]) -> bool {
    key.strip_prefix(start).is_some_and(|leaf| !leaf.contains(&b'/'))
}

/// The lease of a session: its lowest 63 bits, which are not all zero.
pub(crate) fn lease(session: SessionId) -> i64 {
    let low = session.bits() & u128::from(u64::MAX >> 1);
    i64::try_from(low).unwrap_or(i64::MAX).max(1)
}

/// The lease of a session whose ttl was changed, for etcd has no way to change that of a lease. Asked for again, it is the same.
pub(crate) fn other_lease(session: SessionId, from: i64, seconds: i64) -> i64 {
    let high = session.bits() >> 64;
    let mixed = high ^ u128::from(seconds.unsigned_abs()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    lease(SessionId::from_bits(mixed ^ u128::from(from.unsigned_abs()).wrapping_mul(0xbf58_476d_1ce4_e5b9)))
}

/// The lease of a session that has had another one, which ended. Never an id that was used before: a request that revokes the one that
/// ended may reach etcd later than this. Nobody else's either: the session's own bits are in it.
pub(crate) fn new_lease(session: SessionId) -> i64 {
    lease(SessionId::from_bits((session.bits() >> 64) ^ u128::from(fastrand::u64(..))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bramah_core::{ClaimId, Wait};

    use super::*;

    #[test]
    fn a_claim_has_the_key_that_etcdctl_gives_it() {
        let layout = Layout::new("p/");
        let session = SessionId::from_bits(u128::from(u64::MAX) << 64 | 0x8000_0000_0000_0abc);
        let name = Name::new("a/b").unwrap();
        let key = layout.mutex(&name, session);
        assert_eq!(key, b"p/a/b/abc");
        assert_eq!(layout.name_of(&key), Some((name.clone(), "abc")));
        assert_eq!(layout.line(&name), Span { from: b"p/a/b/".into(), to: b"p/a/b0".into() });
        assert_eq!(layout.all(), Span { from: b"p/".into(), to: b"p0".into() });
        assert_eq!(Layout::new("").all(), Span { from: vec![0], to: vec![0] });
        assert!(
            is_child(b"p/a/", b"p/a/1") && !is_child(b"p/a/", b"p/a/b/1") && !is_child(b"p/a/", b"p/b/1")
        );
        assert_ne!(lease(SessionId::from_bits(0)), 0);
        assert_ne!(other_lease(session, 1, 5), other_lease(session, 1, 6));
        assert_ne!(other_lease(session, 1, 5), other_lease(session, 2, 5));
        assert_ne!(new_lease(session), new_lease(session));
    }

    #[test]
    fn claims_of_one_session_have_keys_of_their_own_where_they_may_hold_together() {
        let layout = Layout::new("p/");
        let claim = |capacity, seq| Claim {
            id: ClaimId { session: SessionId::from_bits(0xabc), seq },
            name: Name::new("a/b").unwrap(),
            capacity,
            weight: 1,
            wait: Wait::Line,
            again: false,
            floor: None,
            ttl: Duration::from_secs(1),
            lease: None,
            note: "".into(),
        };
        assert_eq!(layout.claim(&claim(1, 17)), b"p/a/b/abc");
        assert_eq!(layout.claim(&claim(3, 17)), b"p/a/b/abc.11");
        assert_eq!(layout.candidates(&claim(1, 17)), [b"p/a/b/abc".to_vec()]);
        assert_eq!(layout.candidates(&claim(3, 17)), [b"p/a/b/abc.11".to_vec(), b"p/a/b/abc".to_vec()]);
        let key = layout.claim(&claim(3, 17));
        assert_eq!(layout.name_of(&key), Some((Name::new("a/b").unwrap(), "abc.11")));
        assert!(is_child(&layout.line(&Name::new("a/b").unwrap()).from, &key));
    }

    #[test]
    fn records_are_in_no_line() {
        let layout = Layout::new("");
        let name = Name::new("bramah").unwrap();
        let id = ClaimId { session: SessionId::from_bits(0xabc), seq: 17 };
        assert_eq!(layout.wished(id.session, &layout.wish(id)), Some(id));
        assert_eq!(layout.wished(SessionId::from_bits(0xab), &layout.wish(id)), None);
        assert!(layout.is_wish(&layout.wish(id)) && !layout.is_wish(&layout.floor(&name)));
        for key in [layout.floor(&name), layout.broken(&name), layout.wish(id)] {
            assert_eq!(layout.name_of(&key), None);
            assert!(key < layout.line(&name).from || key >= layout.line(&name).to);
        }
        assert_eq!(layout.name_of_break(&layout.broken(&name)), Some(name));
    }
}
