//! Where a lock is, and which children of a folder stand in its line.
//!
//! A lock is the folder of its name below the chroot: `orders/42` is `/orders/42`, as a Java program would write it. ZooKeeper's
//! paths cannot hold everything that a name can, and some nodes mean something. What is not carried as it is, is written as `%` and
//! two hex digits for each byte:
//! - `%` itself, characters beyond U+FFFF and those that ZooKeeper refuses;
//! - the first character of a segment that is `.` or `..`, and of a first segment `zookeeper`;
//! - the last digit of a segment that ends like a claim's node (`lock-0000000007`);
//! - the first character of a *last* segment `locks` or `leases` below another: those are the two folders of a semaphore.

use std::cmp::Ordering;

use bramah_core::{ClaimId, Name};
use sha2::{Digest, Sha256};

/// The folder of what is ours and in no line: no name is written like this.
pub(crate) const OWN: &str = "%bramah";

/// The two folders of a semaphore.
pub(crate) const LOCKS: &str = "locks";
pub(crate) const LEASES: &str = "leases";

/// What a claim's node says of it, before its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A mutex, or the line before a semaphore.
    Lock,
    Read,
    Write,
    /// A permit.
    Lease,
    /// A `LeaderLatch`.
    Latch,
}

impl Mark {
    const ALL: [Self; 5] = [Self::Lock, Self::Read, Self::Write, Self::Lease, Self::Latch];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock-",
            Self::Read => "__READ__",
            Self::Write => "__WRIT__",
            Self::Lease => "lease-",
            Self::Latch => "latch-",
        }
    }
}

/// One claim's node in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kid<'n> {
    pub(crate) node: &'n str,
    pub(crate) mark: Mark,
    /// Where in `node` its number starts.
    number: usize,
}

impl<'n> Kid<'n> {
    /// Reads the name of a node: it ends in a mark and at least ten digits.
    pub(crate) fn parse(node: &'n str) -> Option<Self> {
        let head = node.trim_end_matches(|c: char| c.is_ascii_digit());
        if node.len() - head.len() < 10 {
            return None;
        }
        // A folder that had more than 2³¹ children numbers them from below.
        let positive = Mark::ALL.into_iter().find(|mark| head.ends_with(mark.word()));
        let mark = positive.map(|mark| (mark, head.len())).or_else(|| {
            let head = head.strip_suffix('-')?;
            let mark = Mark::ALL.into_iter().find(|mark| head.ends_with(mark.word()))?;
            Some((mark, head.len()))
        });
        mark.map(|(mark, number)| Self { node, mark, number })
    }

    /// The number that ZooKeeper gave it, as it is written.
    pub(crate) fn number(&self) -> &'n str {
        self.node.get(self.number..).unwrap_or_default()
    }

    /// Whether it is the node of this protection id.
    pub(crate) fn is_of(&self, uuid: &str) -> bool {
        let rest = self.node.strip_prefix("_c_").and_then(|rest| rest.strip_prefix(uuid));
        rest.is_some_and(|rest| rest.starts_with('-'))
    }

    /// The protection id, if it has one.
    pub(crate) fn uuid(&self) -> Option<u128> {
        let text = self.node.strip_prefix("_c_")?.get(..36)?;
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)
    }

    /// The order in line is Curator's: the numbers as text.
    fn cmp(&self, other: &Self) -> Ordering {
        self.number().cmp(other.number()).then_with(|| self.node.cmp(other.node))
    }
}

/// The claims among the children of a folder, in order. Everything else is left out: folders of longer names, and foreign nodes.
///
/// Curator leaves nothing out, and a foreign node that sorts before its claims holds it up. That it does not hold us up gives nobody
/// a lock too much: whoever is first among all is also first among the claims (decision 0016).
pub(crate) fn kids(children: &[String], is_in: impl Fn(Mark) -> bool) -> Vec<Kid<'_>> {
    let mut kids: Vec<Kid> =
        children.iter().filter_map(|node| Kid::parse(node)).filter(|kid| is_in(kid.mark)).collect();
    kids.sort_unstable_by(Kid::cmp);
    kids
}

/// The claims up to the one with this node, in order; those behind it are not even sorted. None if it is not among them.
pub(crate) fn kids_until<'c>(
    children: &'c [String],
    node: &str,
    is_in: impl Fn(Mark) -> bool,
) -> Option<Vec<Kid<'c>>> {
    let claims = || children.iter().filter_map(|child| Kid::parse(child)).filter(|kid| is_in(kid.mark));
    let own = claims().find(|kid| kid.node == node)?;
    let mut kids: Vec<Kid> = claims().filter(|kid| kid.cmp(&own).is_le()).collect();
    kids.sort_unstable_by(Kid::cmp);
    Some(kids)
}

/// The protection id in the node of a claim: it names the claim, and does not tell the session's secret.
pub(crate) fn uuid(id: ClaimId) -> String {
    let mut hash = Sha256::new();
    hash.update(id.session.bits().to_be_bytes());
    hash.update(id.seq.to_be_bytes());
    let hash = hash.finalize();
    let bits = hash.iter().take(16).fold(0u128, |bits, byte| (bits << 8) | u128::from(*byte));
    hyphened(bits)
}

/// A protection id as it is written.
pub(crate) fn hyphened(bits: u128) -> String {
    let digits = format!("{bits:032x}");
    let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default().to_owned();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}

/// The path of a name, without the chroot: `/orders/42`.
pub(crate) fn path(name: &Name) -> String {
    written(name, true)
}

/// The path of a name as that of longer ones begins: `/app/locks`, where the name itself is `/app/%6cocks`.
pub(crate) fn path_above(name: &Name) -> String {
    written(name, false)
}

fn written(name: &Name, is_whole: bool) -> String {
    let mut path = String::new();
    let segments: Vec<&str> = name.as_str().split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        let is_last = is_whole && index + 1 == segments.len();
        let means_something = matches!(*segment, "." | "..")
            || (index == 0 && *segment == "zookeeper")
            || (index > 0 && is_last && matches!(*segment, LOCKS | LEASES));
        path.push('/');
        path.push_str(&escaped(segment, means_something));
        if Kid::parse(segment).is_some()
            && let Some(digit) = path.pop()
        {
            path.push_str(&format!("%{:02x}", u32::from(digit)));
        }
    }
    path
}

/// The whole name as one segment, for nodes about a name.
pub(crate) fn flat(name: &Name) -> String {
    let escaped = escaped(name.as_str(), matches!(name.as_str(), "." | ".."));
    escaped.replace('/', "%2f")
}

fn escaped(segment: &str, first: bool) -> String {
    let mut out = String::with_capacity(segment.len());
    for (index, c) in segment.chars().enumerate() {
        let refused = matches!(u32::from(c), 0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..);
        if c == '%' || refused || (first && index == 0) {
            let mut buffer = [0; 4];
            c.encode_utf8(&mut buffer).bytes().for_each(|byte| out.push_str(&format!("%{byte:02x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// The name of a path without the chroot, if it is one that [`path`] writes.
pub(crate) fn name(at: &str) -> Option<Name> {
    let bytes = at.strip_prefix('/')?.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        if *byte == b'%' {
            let hex = std::str::from_utf8(bytes.get(index + 1..index + 3)?).ok()?;
            out.push(u8::from_str_radix(hex, 16).ok()?);
            index += 3;
        } else {
            out.push(*byte);
            index += 1;
        }
    }
    let name = Name::new(String::from_utf8(out).ok()?).ok()?;
    (path(&name) == at).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use bramah_core::SessionId;

    use super::*;

    #[test]
    fn names_as_java_writes_them_are_unchanged_and_all_are_read_back() {
        let plain =
            ["orders/42", "a", "a b", "shard/0", "app/locks/orders", "locks", "lock-7", "my-lock", "ключ"];
        for text in plain {
            assert_eq!(path(&Name::new(text).unwrap()), format!("/{text}"));
        }
        let awkward = [
            ".",
            "..",
            "a/..",
            "../x",
            "%",
            "%2F",
            "%2f",
            "🔒",
            "\u{f8ff}",
            "\u{fff0}",
            "zookeeper",
            "zookeeper/a",
            "a/zookeeper",
            "a/locks",
            "a/leases",
            "a/locks/b",
            "a/lock-0000000001",
            "x__READ__0000000001",
            "_c_a-lease-0123456789",
            "a%6cocks",
        ];
        let mut paths = HashSet::new();
        for text in plain.iter().chain(&awkward) {
            let lock = Name::new(text).unwrap();
            let at = path(&lock);
            assert_eq!(name(&at), Some(lock), "{at}");
            assert!(at.split('/').skip(1).all(|part| Kid::parse(part).is_none() && part != OWN), "{at}");
            assert!(paths.insert(at), "two names are one");
        }
        let below = Name::new("a/locks/b").unwrap();
        assert!(path(&below).starts_with(&path_above(&Name::new("a/locks").unwrap())));
        for foreign in ["/%bramah", "/%zz", "/a/locks", "/%61", "/a//b", "/zookeeper"] {
            assert_eq!(name(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_order_is_curators_and_foreign_children_are_no_claims() {
        let children = [
            "_c_00000000-0000-0000-0000-000000000001-lock-0000000010",
            "_c_ffffffff-0000-0000-0000-000000000001-lock-0000000009",
            "42",
            "lock-7",
            "locks",
            "_c_00000000-0000-0000-0000-000000000003-__READ__0000000001",
            "plain-lock-0000000002",
        ];
        let children: Vec<String> = children.iter().map(|node| (*node).to_owned()).collect();
        let kids = kids(&children, |mark| mark == Mark::Lock);
        let numbers: Vec<&str> = kids.iter().map(Kid::number).collect();
        assert_eq!(numbers, ["0000000002", "0000000009", "0000000010"]);
        assert_eq!(kids[2].uuid(), Some(1));
        assert!(kids[2].is_of(&hyphened(1)) && !kids[1].is_of(&hyphened(1)));
        for (index, kid) in kids.iter().enumerate() {
            let until = kids_until(&children, kid.node, |mark| mark == Mark::Lock).unwrap();
            assert_eq!(until, kids[..=index]);
        }
        assert_eq!(kids_until(&children, "42", |_| true), None);
    }

    #[test]
    fn a_claims_node_does_not_tell_its_session() {
        let session = SessionId::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let ids: HashSet<String> = (0..1000).map(|seq| uuid(ClaimId { session, seq })).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 36 && !id.contains("01234567")));
    }
}
