//! What Redisson calls its keys and owners.

use bramah_core::{ClaimId, SessionId};

use crate::{script, text};

/// Redisson's rule for a key that belongs to another one: a name that has a brace in it is taken to have a tag.
pub(crate) fn with_prefix(prefix: &str, key: &str) -> String {
    if key.contains('{') { format!("{prefix}:{key}") } else { format!("{prefix}:{{{key}}}") }
}

/// And for one that ends differently.
pub(crate) fn tagged(key: &str) -> String {
    if key.contains('{') { key.to_owned() } else { format!("{{{key}}}") }
}

/// What Redisson calls the owner: a client's UUID and a thread's number. Of one with another name its hash.
pub(crate) fn owner(id: ClaimId) -> String {
    let session = id.session.to_string();
    if id.seq == 0 {
        return format!("#{session}");
    }
    let part = |from: usize, to: usize| session.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}:{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32), id.seq)
}

/// The claim that an owner stands for. One with a name of another form is known by its hash, under the number 0.
pub(crate) fn read_owner(text: &[u8]) -> ClaimId {
    let known = || {
        let (client, thread) = std::str::from_utf8(text).ok()?.split_once(':')?;
        let dashes = client.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
        if client.len() != 36 || !dashes.eq([8, 13, 18, 23]) {
            return None;
        }
        let session = client.replace('-', "").parse().ok()?;
        let seq = thread
            .parse()
            .ok()
            .filter(|seq: &u64| *seq != 0 && *seq < 1 << 48 && seq.to_string() == thread)?;
        Some(ClaimId { session, seq })
    };
    known().unwrap_or_else(|| {
        let hash = script::sha1_hex(text);
        let session = hash.get(..32).and_then(|half| half.parse().ok()).unwrap_or(SessionId::from_bits(0));
        ClaimId { session, seq: 0 }
    })
}

/// What the permits of a claim begin with, in hex: twelve bytes; of one that is not ours all its sixteen.
pub(crate) fn permits_of(id: ClaimId) -> String {
    if id.seq == 0 {
        return id.session.to_string();
    }
    let mut hash = script::sha1_hex(text::identity(id).as_bytes());
    hash.truncate(24);
    hash
}

pub(crate) fn raw(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).filter_map(|d| u8::try_from(d).ok()).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
}

/// The keys of locks that a key may belong to.
pub(crate) fn locks_at(key: &str) -> Vec<&str> {
    let beside = ["redisson_lock_token:", "redisson_lock_timeout:", "redisson_unlock_latch:"];
    if beside.iter().any(|prefix| key.starts_with(prefix)) || key.contains(":rwlock_timeout:") {
        return Vec::new();
    }
    if let Some(rest) = key.strip_prefix("redisson_lock_queue:") {
        return vec![untagged(rest)];
    }
    let mut found = vec![key];
    found.extend(key.strip_suffix(":timeout").map(untagged));
    found
}

pub(crate) fn untagged(text: &str) -> &str {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inner.filter(|inner| !inner.contains('{')).unwrap_or(text)
}
