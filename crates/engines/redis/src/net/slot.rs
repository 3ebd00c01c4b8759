//! The 16384 parts of a cluster's key space.

use std::sync::{Arc, OnceLock};

use crate::driver::Slot;

/// How many there are.
pub(crate) const SLOTS: u16 = 16384;

/// The slot of a key: of what stands between its first `{` and the next `}`, if that is something, else of all of it.
pub(crate) fn slot_of(key: &[u8]) -> Slot {
    let hashed = match key.iter().position(|&b| b == b'{') {
        Some(open) => match key[open + 1..].iter().position(|&b| b == b'}') {
            Some(length) if length > 0 => &key[open + 1..open + 1 + length],
            _ => key,
        },
        None => key,
    };
    crc16(hashed) % SLOTS
}

/// A short text that hashes into the slot.
pub(crate) fn tag_of(slot: Slot) -> Arc<str> {
    static TAGS: OnceLock<Vec<Arc<str>>> = OnceLock::new();
    Arc::clone(&TAGS.get_or_init(tags)[usize::from(slot % SLOTS)])
}

fn tags() -> Vec<Arc<str>> {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut tags: Vec<Option<Arc<str>>> = vec![None; usize::from(SLOTS)];
    let mut missing = tags.len();
    let mut number = 0usize;
    while missing > 0 {
        let mut text = String::new();
        let mut rest = number;
        loop {
            text.push(char::from(DIGITS[rest % 36]));
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        let tag = &mut tags[usize::from(crc16(text.as_bytes()) % SLOTS)];
        if tag.is_none() {
            *tag = Some(text.into());
            missing -= 1;
        }
        number += 1;
    }
    tags.into_iter().flatten().collect()
}

/// CRC-16/XMODEM, as the cluster specification has it.
fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = table();
    bytes.iter().fold(0, |crc, &b| (crc << 8) ^ TABLE[usize::from((crc >> 8) ^ u16::from(b))])
}

const fn table() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut i = 0u16;
    while i < 256 {
        let mut crc = i << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[i as usize] = crc;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_as_the_specification_says() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"{"), crc16(b"{") % SLOTS);
    }

    #[test]
    fn every_slot_has_a_tag_that_hashes_into_it() {
        for slot in 0..SLOTS {
            let tag = tag_of(slot);
            assert_eq!(slot_of(tag.as_bytes()), slot);
            assert_eq!(slot_of(format!("bramah{{{tag}}}x").as_bytes()), slot);
            assert!(tag.len() <= 4, "{tag}");
        }
    }
}
