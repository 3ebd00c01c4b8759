//! A ledger as bytes.
//!
//! ```text
//! 0   magic      8 bytes
//! 8   version    u32
//! 12  body size  u32
//! 16  body at    u64   64 when it fits the first page, else a page boundary behind it
//! 24  sequence   u64   goes up with every write
//! 32  last fence u64   0 for none
//! 40  boot       u64   which boot of the machine wrote it
//! 48  body sum   u64
//! 56  header sum u64   over the 56 bytes before
//! ```
//! Numbers are little-endian. The header can be read alone; the body is the line.

use std::{sync::Arc, time::Duration};

use bramah_core::{ClaimId, Fence, Name, SessionId, line::Line};

use crate::state::{Entry, Scar, State};

/// The version of this format.
pub(crate) const VERSION: u32 = 1;
/// What one write replaces in one piece.
pub(crate) const PAGE: usize = 4096;
/// The size of the header.
pub(crate) const HEADER: usize = 64;
/// The longest body: about 100,000 claims.
pub(crate) const MAX_BODY: usize = 8 << 20;

const MAGIC: &[u8; 8] = b"bramah\0L";

/// Why bytes are not a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// They never were.
    Foreign,
    /// A later version wrote them.
    Newer(u32),
    /// They were and are damaged.
    Damaged(&'static str),
}

/// The first bytes of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) body_len: usize,
    pub(crate) body_at: u64,
    pub(crate) sequence: u64,
    pub(crate) last: Option<Fence>,
    pub(crate) boot: u64,
    body_sum: u64,
}

impl Header {
    /// The header for a body that will stand at `body_at`.
    pub(crate) fn of(body: &[u8], body_at: u64, sequence: u64, last: Option<Fence>, boot: u64) -> Self {
        Self { body_len: body.len(), body_at, sequence, last, boot, body_sum: sum(body) }
    }

    /// Whether the body stands in the first page.
    pub(crate) fn is_inline(&self) -> bool {
        self.body_at == HEADER as u64
    }

    /// The bytes.
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&u32::try_from(self.body_len).unwrap_or(u32::MAX).to_le_bytes());
        let words = [self.body_at, self.sequence, self.last.map_or(0, Fence::get), self.boot, self.body_sum];
        for (word, at) in words.iter().zip((16..).step_by(8)) {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let check = sum(&out[..56]);
        out[56..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Flaw> {
        let mut input = Input(bytes);
        if input.take(8).ok_or(Flaw::Foreign)? != MAGIC {
            return Err(Flaw::Foreign);
        }
        // Before the sum: a later version may have another header.
        match input.u32() {
            Some(VERSION) => {}
            Some(found) if found > VERSION => return Err(Flaw::Newer(found)),
            _ => return Err(Flaw::Damaged("its version is not readable")),
        }
        let mut read = || {
            let body_len = usize::try_from(input.u32()?).ok()?;
            let (body_at, sequence, last, boot) = (input.u64()?, input.u64()?, input.u64()?, input.u64()?);
            let last = (last != 0).then_some(Fence::new(last));
            let header = Self { body_len, body_at, sequence, last, boot, body_sum: input.u64()? };
            Some((header, input.u64()?))
        };
        let (header, check) = read().ok_or(Flaw::Damaged("its header is cut short"))?;
        if bytes.get(..56).map(sum) != Some(check) {
            return Err(Flaw::Damaged("its header does not match its checksum"));
        }
        let placed =
            if header.is_inline() { header.body_len <= PAGE - HEADER } else { header.body_at >= PAGE as u64 };
        if !placed || header.body_len > MAX_BODY {
            return Err(Flaw::Damaged("its header points to no possible place"));
        }
        Ok(header)
    }
}

/// The body of a ledger.
pub(crate) fn encode_body(state: &State) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + 96 * state.line.len());
    put_text(&mut out, state.name.as_str());
    out.extend(state.line.capacity().to_le_bytes());
    for count in [state.line.held(), state.line.len()] {
        out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }
    for entry in state.line.iter() {
        put_id(&mut out, entry.id);
        out.extend(entry.incarnation.to_le_bytes());
        out.extend(entry.weight.to_le_bytes());
        out.extend(entry.entered_ns.to_le_bytes());
        out.extend(entry.granted_ns.to_le_bytes());
        put_option(&mut out, entry.fence.map(Fence::get));
        put_option(&mut out, entry.lease.map(nanos));
        out.extend(nanos(entry.ttl).to_le_bytes());
        put_text(&mut out, &entry.note);
    }
    out.push(u8::from(state.scar.is_some()));
    if let Some(scar) = &state.scar {
        put_id(&mut out, scar.id);
        out.extend(scar.at_ns.to_le_bytes());
        out.extend(scar.boot.to_le_bytes());
        put_text(&mut out, &scar.by);
        put_text(&mut out, &scar.reason);
    }
    out
}

/// Reads what [`encode_body`] wrote, checked against its header.
pub(crate) fn decode_body(header: &Header, bytes: &[u8]) -> Result<State, Flaw> {
    if bytes.len() != header.body_len {
        return Err(Flaw::Damaged("it is cut short"));
    }
    if sum(bytes) != header.body_sum {
        return Err(Flaw::Damaged("its line does not match its checksum"));
    }
    let mut input = Input(bytes);
    let state = read_state(&mut input, header.last).ok_or(Flaw::Damaged("its line is not readable"))?;
    if input.0.is_empty() { Ok(state) } else { Err(Flaw::Damaged("its line has something behind it")) }
}

fn read_state(input: &mut Input<'_>, last: Option<Fence>) -> Option<State> {
    let name = Name::new(input.text()?).ok()?;
    let (capacity, held, count) = (input.u32()?, input.u32()?, input.u32()?);
    // No reserve by a count that the bytes do not bear out.
    let mut entries = Vec::new();
    for _ in 0..count {
        let entry = read_entry(input)?;
        entries.push((entry.weight, entry));
    }
    let line = Line::restore(capacity, usize::try_from(held).ok()?, entries)?;
    let scar = match input.u8()? {
        0 => None,
        1 => Some(read_scar(input)?),
        _ => return None,
    };
    Some(State { name, line, last, scar })
}

fn read_entry(input: &mut Input<'_>) -> Option<Entry> {
    Some(Entry {
        id: input.id()?,
        incarnation: input.u64()?,
        weight: input.u32()?,
        entered_ns: input.u64()?,
        granted_ns: input.u64()?,
        fence: input.option()?.map(Fence::new),
        lease: input.option()?.map(duration),
        ttl: duration(input.u64()?),
        note: input.text()?,
    })
}

fn read_scar(input: &mut Input<'_>) -> Option<Scar> {
    let (id, at_ns, boot) = (input.id()?, input.u64()?, input.u64()?);
    Some(Scar { id, at_ns, boot, by: input.text()?, reason: input.text()? })
}

/// A word-wise relative of FNV-1a. Each step is a bijection of the sum for a given word and of the word for a given
/// sum, so a change within one word is always seen.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64;
    let mut step = |word: u64| {
        sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^= sum >> 32;
    };
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        step(word.try_into().map_or(0, u64::from_le_bytes));
    }
    words.remainder().iter().for_each(|byte| step(u64::from(*byte)));
    sum
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    // Notes and names are far shorter; a text that is not is cut where a character ends.
    let cut = text.floor_char_boundary(usize::from(u16::MAX).min(text.len()));
    out.extend(u16::try_from(cut).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..cut]);
}

fn put_id(out: &mut Vec<u8>, id: ClaimId) {
    out.extend(id.session.bits().to_le_bytes());
    out.extend(id.seq.to_le_bytes());
}

fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    out.extend(value.unwrap_or(0).to_le_bytes());
}

/// Saturates: for ever is written as the largest number, and read back as for ever.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn duration(nanos: u64) -> Duration {
    if nanos == u64::MAX { Duration::MAX } else { Duration::from_nanos(nanos) }
}

/// Bytes still to be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).and_then(|bytes| bytes.first().copied())
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn id(&mut self) -> Option<ClaimId> {
        let bits = u128::from_le_bytes(self.take(16)?.try_into().ok()?);
        Some(ClaimId { session: SessionId::from_bits(bits), seq: self.u64()? })
    }

    fn option(&mut self) -> Option<Option<u64>> {
        match (self.u8()?, self.u64()?) {
            (0, 0) => Some(None),
            (1, value) => Some(Some(value)),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<Arc<str>> {
        let len = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
        Some(std::str::from_utf8(self.take(usize::from(len))?).ok()?.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{samples::claim, state::Stamp};

    fn entries() -> impl Strategy<Value = State> {
        let entry = (any::<u128>(), any::<[u64; 5]>(), any::<Option<u64>>(), ".{0,20}");
        let scar = prop::option::of((any::<u128>(), any::<[u64; 3]>(), ".{0,20}", ".{0,20}"));
        (1u32..9, prop::collection::vec((entry, 1u32..9), 0..40), any::<u64>(), scar, "[a-z/]{1,9}")
            .prop_filter_map("valid names", |(capacity, entries, last, scar, name)| {
                let mut state = State::new(Name::new(name).ok()?, capacity);
                state.last = (last > 0).then_some(Fence::new(last));
                for ((bits, [seq, incarnation, entered_ns, granted_ns, ttl], option, note), weight) in entries
                {
                    let weight = weight.min(capacity);
                    let entry = Entry {
                        id: ClaimId { session: SessionId::from_bits(bits), seq },
                        incarnation,
                        weight,
                        entered_ns,
                        granted_ns,
                        fence: option.map(Fence::new),
                        ttl: duration(ttl),
                        lease: option.map(duration),
                        note: note.into(),
                    };
                    state.line.enter(weight, entry);
                }
                state.scar = scar.map(|(bits, [seq, at_ns, boot], by, reason)| Scar {
                    id: ClaimId { session: SessionId::from_bits(bits), seq },
                    by: by.into(),
                    reason: reason.into(),
                    at_ns,
                    boot,
                });
                Some(state)
            })
    }

    fn bytes_of(state: &State) -> Vec<u8> {
        let body = encode_body(state);
        let mut bytes = Header::of(&body, HEADER as u64, 7, state.last, 9).encode().to_vec();
        bytes.extend(body);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<State, Flaw> {
        let header = Header::decode(bytes)?;
        decode_body(&header, &bytes[HEADER..])
    }

    fn same(a: &State, b: &State) -> bool {
        a.line.iter().eq(b.line.iter())
            && (a.line.held(), a.line.capacity(), a.last, &a.scar, &a.name)
                == (b.line.held(), b.line.capacity(), b.last, &b.scar, &b.name)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(state in entries()) {
            let body = encode_body(&state);
            let header = Header::of(&body, PAGE as u64, 3, state.last, 4);
            prop_assert_eq!(Header::decode(&header.encode()).unwrap(), header);
            prop_assert!(same(&decode_body(&header, &body).unwrap(), &state));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Header::decode(&bytes).is_err());
            // Past the sums as well, so that the reader itself meets nonsense.
            let header = Header::of(&bytes, PAGE as u64, 0, None, 0);
            let _ = decode_body(&header, &bytes);
        }

        #[test]
        fn nonsense_within_a_line_never_panics_nor_breaks_the_rule(
            state in entries(), at in any::<prop::sample::Index>(), byte: u8
        ) {
            let mut body = encode_body(&state);
            let at = at.index(body.len());
            body[at] = byte;
            let header = Header::of(&body, PAGE as u64, 0, None, 0);
            if let Ok(read) = decode_body(&header, &body) {
                let held: u64 = read.line.iter().take(read.line.held()).map(|entry| u64::from(entry.weight)).sum();
                prop_assert!(held <= u64::from(read.line.capacity()));
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let mut state = State::new(Name::new("orders/42").unwrap(), 1);
        for seq in 0..3 {
            state.enter(&claim("orders/42", seq, 1, 1), 8, Stamp { now_ns: 1, wall_us: 2 });
        }
        let bytes = bytes_of(&state);
        assert!(same(&read(&bytes).unwrap(), &state));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn foreign_and_newer_ledgers_are_told_apart() {
        let mut bytes = bytes_of(&State::new(Name::new("a").unwrap(), 1));
        assert_eq!(Header::decode(b"#!/bin/sh\nexit 1\n"), Err(Flaw::Foreign));
        bytes[8] = 2;
        assert_eq!(Header::decode(&bytes), Err(Flaw::Newer(2)));
    }

    #[test]
    fn for_ever_is_read_back_as_for_ever() {
        assert_eq!(duration(nanos(Duration::MAX)), Duration::MAX);
        assert_eq!(duration(nanos(Duration::from_millis(5))), Duration::from_millis(5));
    }
}
