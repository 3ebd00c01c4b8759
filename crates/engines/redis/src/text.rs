//! A claim as one text: what a holder's key has in it, what stands in line, and what scripts compare.
//!
//! `session (32 hex digits), number (12 hex digits) : kept (4 digits) : kind : weight : capacity : ttl : lease : note`,
//! times in milliseconds. The first 44 characters are the claim's identity. The kind is `m` for a mutex without a lease,
//! which most are, and else `o`: it stands where a script finds it without reading on. A holder's text may be followed by
//! `|` and its fence.

use std::{fmt::Write, sync::Arc, time::Duration};

use bramah_core::{Break, Claim, ClaimId, Error, ErrorKind, Fence, Name, Result, SessionId, Wait};

/// How long the identity is.
pub(crate) const ID: usize = 44;

/// The largest number that has its 12 digits.
const MOST_SEQ: u64 = (1 << 48) - 1;

/// The text of a claim.
///
/// # Errors
/// `Invalid` for a claim with a number that no process reaches.
pub(crate) fn encode(claim: &Claim) -> Result<String> {
    if claim.id.seq > MOST_SEQ {
        return Err(Error::new(
            ErrorKind::Invalid,
            "a session has used up its claims on Redis; open a new one",
        ));
    }
    let mut text = String::with_capacity(96 + claim.note.len());
    identify(&mut text, claim.id);
    text.push(':');
    let kept = millis(claim.kept());
    // It is five seconds at the most.
    text.extend([1000, 100, 10].into_iter().filter(|unit| kept < *unit).map(|_| '0'));
    decimal(&mut text, kept);
    text.push_str(if claim.capacity == 1 && claim.lease.is_none() { ":m" } else { ":o" });
    let fields =
        [claim.weight.into(), claim.capacity.into(), millis(claim.ttl), claim.lease.map_or(0, millis)];
    for field in fields {
        text.push(':');
        decimal(&mut text, field);
    }
    text.push(':');
    escape(&mut text, &claim.note);
    Ok(text)
}

/// The first part of a claim's text.
pub(crate) fn identity(id: ClaimId) -> String {
    let mut text = String::with_capacity(ID);
    identify(&mut text, id);
    text
}

/// By hand, as is [`decimal`]: this is a good part of what a lock costs its caller.
fn identify(text: &mut String, id: ClaimId) {
    hex(text, id.session.bits(), 32);
    hex(text, id.seq.into(), 12);
}

fn hex(text: &mut String, number: u128, digits: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for place in (0..digits).rev() {
        text.push(char::from(DIGITS[(number >> (4 * place) & 15) as usize]));
    }
}

fn decimal(text: &mut String, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(digits[at..].iter().map(|&digit| char::from(digit)));
}

/// At least one: a time of nothing would be no time at all to Redis.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

/// A claim as it was found, with its fence if that was beside it.
#[derive(Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) claim: Claim,
    pub(crate) fence: Option<Fence>,
}

/// Reads a text back. `None` if it is none of ours.
pub(crate) fn decode(name: &Name, text: &str) -> Option<Found> {
    let (text, stamp) = text.split_once('|').map_or((text, None), |(text, stamp)| (text, Some(stamp)));
    let (id, rest) = text.split_at_checked(ID)?;
    let mut fields = rest.strip_prefix(':')?.splitn(7, ':');
    let (_kept, _kind) = (fields.next()?, fields.next()?);
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (weight, capacity, ttl, lease) = (number()?, number()?, number()?, number()?);
    let note = unescape(fields.next()?);
    let fence = match stamp {
        Some(stamp) => Some(Fence::new(stamp.parse().ok()?)),
        None => None,
    };
    let claim = Claim {
        id: read_identity(id)?,
        name: name.clone(),
        capacity: u32::try_from(capacity).ok().filter(|&capacity| capacity > 0)?,
        weight: u32::try_from(weight).ok().filter(|&weight| weight > 0)?,
        wait: Wait::Line,
        again: true,
        floor: None,
        ttl: Duration::from_millis(ttl),
        lease: (lease > 0).then(|| Duration::from_millis(lease)),
        note: note.into(),
    };
    Some(Found { claim, fence })
}

/// The claim that 44 characters stand for.
pub(crate) fn read_identity(text: &str) -> Option<ClaimId> {
    let (session, seq) = text.split_at_checked(32)?;
    let is_number = seq.len() == 12 && seq.bytes().all(|byte| byte.is_ascii_hexdigit());
    let seq = u64::from_str_radix(seq, 16).ok().filter(|_| is_number)?;
    Some(ClaimId { session: session.parse::<SessionId>().ok()?, seq })
}

/// The record of a break: of which claim, when (ms), by whom and why.
pub(crate) fn encode_break(id: ClaimId, at_ms: u64, cause: &Break) -> String {
    let mut text = format!("1 {} {at_ms} ", identity(id));
    escape(&mut text, &cause.by);
    text.push(' ');
    escape(&mut text, &cause.reason);
    text
}

pub(crate) fn decode_break(text: &str) -> Option<(ClaimId, u64, Arc<Break>)> {
    let mut words = text.splitn(5, ' ');
    if words.next()? != "1" {
        return None;
    }
    let (id, at_ms) = (read_identity(words.next()?)?, words.next()?.parse().ok()?);
    let (by, reason) = (unescape(words.next()?).into(), unescape(words.next()?).into());
    Some((id, at_ms, Arc::new(Break { by, reason })))
}

/// What would end a field, or make a key's value awkward to read by hand.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        if matches!(c, '%' | '|' | ' ') || c.is_control() {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                let _ = write!(out, "%{byte:02x}");
            }
        } else {
            out.push(c);
        }
    }
}

fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail
            .get(..2)
            .filter(|_| byte == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(byte));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_back(
            session: u128, seq in 0..=MOST_SEQ, weight in 1..u32::MAX, capacity in 1..=u32::MAX,
            ttl in 1u64..1 << 40, lease in 0u64..1 << 40, note in ".*", fence in proptest::option::of(0u64..1 << 53),
        ) {
            let name = Name::new("a/b").unwrap();
            let claim = Claim {
                id: ClaimId { session: SessionId::from_bits(session), seq },
                name: name.clone(), capacity, weight, wait: Wait::Line, again: true, floor: None,
                ttl: Duration::from_millis(ttl), lease: (lease > 0).then(|| Duration::from_millis(lease)),
                note: note.into(),
            };
            let mut text = encode(&claim).unwrap();
            prop_assert_eq!(&text[..ID], identity(claim.id));
            if let Some(fence) = fence {
                text.push_str(&format!("|{fence}"));
            }
            prop_assert_eq!(decode(&name, &text), Some(Found { claim, fence: fence.map(Fence::new) }));
        }

        #[test]
        fn a_break_is_read_back(session: u128, at: u64, by in ".*", reason in ".*") {
            let id = ClaimId { session: SessionId::from_bits(session), seq: 7 };
            let cause = Break { by: by.into(), reason: reason.into() };
            let read = decode_break(&encode_break(id, at, &cause)).unwrap();
            prop_assert_eq!(read, (id, at, Arc::new(cause)));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (decode(&Name::new("x").unwrap(), &text), decode_break(&text));
        }
    }
}
