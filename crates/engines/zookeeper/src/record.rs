//! What is written into a claim's node, for people and for surveys: one line of words.

use std::{sync::Arc, time::Duration};

use bramah_core::{About, Break, Claim, ClaimId, Fence, Name, Wait};

/// What every line of ours starts with.
const HEAD: &str = "bramah 1";

/// What Curator writes into the node of a holder that is asked to let go.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// A claim as its node tells it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) claim: Claim,
    /// The fence, where it is not the number of the node's creation.
    pub(crate) fence: Option<Fence>,
    pub(crate) about: Option<About>,
}

/// The line for a claim.
pub(crate) fn encode(claim: &Claim, fence: Option<Fence>, about: Option<&About>) -> Vec<u8> {
    let millis = |span: Duration| span.as_millis().to_string();
    let mut line = format!(
        "{HEAD} id={} capacity={} weight={} ttl={} lease={} fence={}",
        claim.id,
        claim.capacity,
        claim.weight,
        millis(claim.ttl),
        claim.lease.map_or_else(|| "-".to_owned(), millis),
        fence.map_or_else(|| "-".to_owned(), |fence| fence.get().to_string()),
    );
    line.push_str(&format!(" note={}", escape(&claim.note)));
    if let Some(about) = about {
        line.push_str(&format!(" about={}", escape(&about.encode())));
    }
    line.into_bytes()
}

/// Reads what [`encode`] wrote. Anything else is not ours.
pub(crate) fn decode(name: &Name, data: &[u8]) -> Option<Told> {
    let words = words(data)?;
    let word = |key: &str| words.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    let number =
        |key: &str| word(key).and_then(|value| value.parse::<u32>().ok()).filter(|number| *number > 0);
    let (capacity, weight) = (number("capacity")?, number("weight")?);
    let millis = |key: &str| word(key).and_then(|value| value.parse().ok()).map(Duration::from_millis);
    let claim = Claim {
        id: word("id")?.parse().ok()?,
        name: name.clone(),
        capacity,
        weight: Some(weight).filter(|weight| *weight <= capacity)?,
        wait: Wait::Line,
        again: true,
        floor: None,
        ttl: millis("ttl")?,
        lease: millis("lease"),
        note: unescape(word("note")?)?.into(),
    };
    let fence = word("fence").and_then(|value| value.parse().ok()).map(Fence::new);
    let about = word("about").and_then(unescape).and_then(|text| About::decode(&text).ok());
    Some(Told { claim, fence, about })
}

/// The record of a hold that was ended by force.
pub(crate) fn encode_break(id: ClaimId, cause: &Break) -> Vec<u8> {
    format!("{HEAD} id={id} by={} reason={}", escape(&cause.by), escape(&cause.reason)).into_bytes()
}

/// Reads what [`encode_break`] wrote.
pub(crate) fn decode_break(data: &[u8]) -> Option<(ClaimId, Arc<Break>)> {
    let words = words(data)?;
    let word = |key: &str| words.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    let cause = Break { by: unescape(word("by")?)?.into(), reason: unescape(word("reason")?)?.into() };
    Some((word("id")?.parse().ok()?, Arc::new(cause)))
}

fn words(data: &[u8]) -> Option<Vec<(&str, &str)>> {
    let rest = std::str::from_utf8(data).ok()?.strip_prefix(HEAD)?.strip_prefix(' ')?;
    rest.split(' ').map(|word| word.split_once('=')).collect()
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '%' || c.is_whitespace() || c.is_control() {
            let mut buffer = [0; 4];
            c.encode_utf8(&mut buffer).bytes().for_each(|byte| out.push_str(&format!("%{byte:02x}")));
        } else {
            out.push(c);
        }
    }
    out
}

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use bramah_core::SessionId;

    use super::*;

    #[test]
    fn a_claim_is_read_back_from_one_line() {
        let claim = Claim {
            id: ClaimId { session: SessionId::from_bits(7), seq: 3 },
            name: Name::new("orders/42").unwrap(),
            capacity: 5,
            weight: 2,
            wait: Wait::Line,
            again: true,
            floor: None,
            ttl: Duration::from_millis(600),
            lease: Some(Duration::from_secs(9)),
            note: "100% = 'x'\nsecond 🔒".into(),
        };
        let about = About {
            owner: "a b".into(),
            host: "h".into(),
            pid: 1,
            labels: vec![("k=".into(), "v %".into())],
        };
        let line = encode(&claim, Some(Fence::new(12)), Some(&about));
        assert!(!line.contains(&b'\n'));
        let told = decode(&claim.name, &line).unwrap();
        assert_eq!((told.claim, told.fence, told.about), (claim.clone(), Some(Fence::new(12)), Some(about)));
        let plain = Claim { lease: None, note: "".into(), ..claim };
        let told = decode(&plain.name, &encode(&plain, None, None)).unwrap();
        assert_eq!((told.claim, told.fence, told.about), (plain, None, None));
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let name = Name::new("a").unwrap();
        let whole =
            b"bramah 1 id=00000000000000000000000000000007:3 capacity=1 weight=1 ttl=1 lease=- fence=- note=";
        assert!(decode(&name, whole).is_some());
        for data in [
            &b""[..],
            b"10.0.0.7",
            REVOKE,
            b"bramah 1",
            b"bramah 2 id=1",
            b"bramah 1 id",
            b"\xff\xfe",
            &whole[..60],
            b"bramah 1 id=00000000000000000000000000000007:3 capacity=1 weight=2 ttl=1 note=",
            b"bramah 1 id=00000000000000000000000000000007:3 capacity=1 weight=1 ttl=1 note=%f",
        ] {
            assert!(decode(&name, data).is_none(), "{:?}", String::from_utf8_lossy(data));
        }
    }

    #[test]
    fn a_break_is_read_back() {
        let id = ClaimId { session: SessionId::from_bits(1), seq: 2 };
        let cause = Break { by: "ana = b".into(), reason: "stuck since\nnoon".into() };
        assert_eq!(decode_break(&encode_break(id, &cause)), Some((id, Arc::new(cause))));
    }
}
