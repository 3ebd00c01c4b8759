//! What is in the store: every lock, its holders, and those who wait.

mod redisson;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bramah_core::{
    About, Broken, Claim, ClaimId, Error, ErrorKind, Fence, Health, LineView, Look, Name, PlaceState,
    PlaceView, Result, Scope, SessionId, Survey, Wait, Wake,
};
use redis::Value;

use crate::{
    config::Layout,
    driver::{Driver, Node, Request, Slot},
    layout::Place,
    protocol::Protocol,
    text,
};

/// How many keys one call shows.
const CALL: usize = 50;
/// How many keys a step of a scan looks at.
const STEP: usize = 1000;
/// How long a survey trusts its wake: the time of a holder in a line runs out without a sound.
const SLEEP: Duration = Duration::from_secs(1);
/// How far a fence is ahead of the time at the most that is still taken for the time of its grant, ms.
const AHEAD_MS: u64 = 1000;
/// How much shorter a claim may be held by its fence than it is: fences run ahead of the time by as much.
const SLACK: Duration = Duration::from_millis(50);
/// Where the scores of those who wait begin, in microseconds.
const WAITING: u64 = 4_000_000_000_000_000;

pub(crate) async fn survey<D: Driver>(protocol: &Protocol<D>, scope: &Scope, look: Look) -> Result<Survey> {
    let patience = protocol.terms.timeout;
    let scheme = &protocol.scheme;
    let wake = match look {
        Look::Once | Look::Glance => Wake::never(),
        Look::Watching => {
            let prefix = match scope {
                Scope::Exact(name) => scheme.place(name).key,
                Scope::Under(name) => scheme.keys_under(Some(name)),
                Scope::All => scheme.keys_under(None),
            };
            protocol.driver.watch(prefix.into_bytes(), patience).await?
        }
    };
    let named = match scope {
        Scope::Exact(name) => vec![(name.clone(), scheme.place(name))],
        Scope::Under(_) | Scope::All => scan(protocol, scope).await?,
    };
    let mut survey = Survey { lines: Vec::new(), unreadable: Vec::new(), wake, sleep: SLEEP };
    let mut by_slot: HashMap<Slot, Vec<(Name, Place)>> = HashMap::new();
    for (name, place) in named {
        by_slot.entry(scheme.together(&place)).or_default().push((name, place));
    }
    for group in by_slot.into_values() {
        for group in group.chunks(CALL) {
            let places: Vec<Place> = group.iter().map(|(_, place)| place.clone()).collect();
            let shown = protocol.driver.send(scheme.look(&places, patience)).await?;
            let is_named = matches!(scope, Scope::Exact(_));
            let beside = Beside { is_named, has_prefix: scheme.has_prefix() };
            let layout = protocol.terms.layout;
            let names = group.iter().map(|(name, _)| name);
            let views: Vec<Result<Option<LineView>>> = if layout == Layout::Redisson {
                let seen = redisson::read(&shown)?;
                names.zip(seen).map(|(name, seen)| seen.view(name, is_named)).collect()
            } else {
                names.zip(read(&shown)?).map(|(name, seen)| seen.view(name, layout, beside)).collect()
            };
            for view in views {
                match view {
                    Ok(view) => survey.lines.extend(view),
                    Err(error) if is_named => return Err(error),
                    Err(error) => survey.unreadable.push(error),
                }
            }
        }
    }
    survey.lines.sort_by(|a, b| a.name.cmp(&b.name));
    introduce(protocol, &mut survey.lines).await?;
    Ok(survey)
}

/// The names in scope that there are keys for.
async fn scan<D: Driver>(protocol: &Protocol<D>, scope: &Scope) -> Result<Vec<(Name, Place)>> {
    let (scheme, patience) = (&protocol.scheme, protocol.terms.timeout);
    let under = match scope {
        Scope::Under(name) | Scope::Exact(name) => Some(name),
        Scope::All => None,
    };
    let pattern = format!("{}*", glob(&scheme.keys_under(under)));
    let mut found: HashMap<Name, Place> = HashMap::new();
    for node in protocol.driver.nodes(patience).await? {
        let mut cursor = "0".to_owned();
        loop {
            let mut cmd = redis::cmd("SCAN");
            cmd.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
            let (next, keys) = step(&protocol.driver.ask(&node, cmd, patience).await?, &node)?;
            for key in keys {
                let bare = if protocol.terms.layout == Layout::Native {
                    key.strip_suffix(":b").unwrap_or(&key)
                } else {
                    &key
                };
                for name in scheme.names_at(bare).into_iter().filter(|name| scope.covers(name)) {
                    let place = scheme.place(&name);
                    found.entry(name).or_insert(place);
                }
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
    }
    Ok(found.into_iter().collect())
}

/// One answer of SCAN.
fn step(answer: &Value, node: &Node) -> Result<(String, Vec<String>)> {
    if let Value::Array(parts) = answer
        && let [cursor, Value::Array(keys)] = parts.as_slice()
        && let Some(cursor) = string(cursor)
    {
        return Ok((cursor, keys.iter().filter_map(string).collect()));
    }
    Err(Error::new(ErrorKind::Corrupt, format!("{}: an answer to SCAN is not understood", node.0)))
}

/// A text as a pattern that matches itself only.
fn glob(text: &str) -> String {
    text.chars()
        .flat_map(
            |c| if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^' | '-') { vec!['\\', c] } else { vec![c] },
        )
        .collect()
}

fn string(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

/// One key as it is stored.
struct Seen<'a> {
    now_ms: u64,
    kind: String,
    content: &'a Value,
    left_ms: Option<u64>,
    record: Option<String>,
}

fn read(shown: &Value) -> Result<Vec<Seen<'_>>> {
    let wrong = || Error::new(ErrorKind::Corrupt, "the server's answer to a look is not understood");
    let Value::Array(parts) = shown else { return Err(wrong()) };
    let [Value::Int(now), keys @ ..] = parts.as_slice() else { return Err(wrong()) };
    let now_ms = u64::try_from(*now).map_err(|_| wrong())?;
    keys.iter()
        .map(|key| match key {
            Value::Array(fields) => match fields.as_slice() {
                [kind, content, Value::Int(left), record] => Ok(Seen {
                    now_ms,
                    kind: string(kind).ok_or_else(wrong)?,
                    content,
                    left_ms: u64::try_from(*left).ok(),
                    record: string(record),
                }),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        })
        .collect()
}

/// What may lie under a key that is looked at.
#[derive(Clone, Copy)]
struct Beside {
    /// The lock was asked for by its name.
    is_named: bool,
    /// Keys of locks have a prefix, so they are not mixed with other data.
    has_prefix: bool,
}

impl Seen<'_> {
    /// The line that is stored there; `None` where there is none.
    fn view(&self, name: &Name, layout: Layout, beside: Beside) -> Result<Option<LineView>> {
        let places = match (self.kind.as_str(), layout) {
            ("none", _) => Vec::new(),
            ("string", Layout::Native) => vec![self.lean(name)?],
            ("string", Layout::Plain) => self.plain(name, beside).into_iter().collect(),
            ("zset", Layout::Native) => self.line(name)?,
            // Any data may lie beside plain locks.
            (_, Layout::Plain | Layout::Redisson) if !beside.is_named => Vec::new(),
            (kind, _) => return Err(foreign(name, &format!("it is a {kind}"))),
        };
        let broken = self.record.as_deref().and_then(text::decode_break).map(|(id, at_ms, cause)| Broken {
            id,
            cause,
            ago: Duration::from_millis(self.now_ms.saturating_sub(at_ms)),
        });
        if places.is_empty() && broken.is_none() {
            return Ok(None);
        }
        let capacity = places.first().map_or(1, |place| place.claim.capacity);
        Ok(Some(LineView { name: name.clone(), capacity, places, broken }))
    }

    fn lean(&self, name: &Name) -> Result<PlaceView> {
        let text = string(self.content).ok_or_else(|| foreign(name, "its value is not text"))?;
        let found = text::decode(name, &text).ok_or_else(|| foreign(name, "its value is not a claim"))?;
        let left = self.left_ms.map(Duration::from_millis);
        Ok(self.held(found.claim, found.fence, left, Grant::AtEntry))
    }

    /// A plain lock of ours, or of anyone's. A value of another client looks like any data: unless it was asked for by name, it is
    /// taken for a lock only below a prefix for locks, and only if it expires.
    fn plain(&self, name: &Name, beside: Beside) -> Option<PlaceView> {
        let left = self.left_ms.map(Duration::from_millis);
        let Value::BulkString(bytes) = self.content else { return None };
        if let Some(found) = std::str::from_utf8(bytes).ok().and_then(|text| text::decode(name, text)) {
            return Some(self.held(found.claim, found.fence, left, Grant::AtEntry));
        }
        (beside.is_named || (beside.has_prefix && left.is_some())).then(|| {
            let claim = strange(name, bytes, left.unwrap_or_default());
            let state = PlaceState::Held { fence: None, since: None };
            place(claim, state, None, left, None)
        })
    }

    /// A claim that is held. When it entered is forgotten with its grant.
    fn held(&self, claim: Claim, fence: Option<Fence>, left: Option<Duration>, grant: Grant) -> PlaceView {
        // A fence is the time of its grant, unless it was raised above the clock.
        let granted_ms = fence.map(|fence| fence.get() / 1000);
        let granted_ms = granted_ms.filter(|granted| *granted <= self.now_ms.saturating_add(AHEAD_MS));
        let since = granted_ms.map(|granted| Duration::from_millis(self.now_ms.saturating_sub(granted)));
        let renewed = left.and_then(|left| renewed(&claim, left, since, grant));
        // It is held at least since its last renewal.
        let since = since.map(|since| since.max(renewed.unwrap_or_default()));
        let state = PlaceState::Held { fence: fence.filter(|_| claim.is_exclusive()), since };
        place(claim, state, None, left, renewed)
    }

    fn line(&self, name: &Name) -> Result<Vec<PlaceView>> {
        let wrong = || foreign(name, "it is a sorted set, and no line");
        let Value::Array(members) = self.content else { return Err(wrong()) };
        let (mut claims, mut known) = (Vec::new(), HashMap::new());
        for (member, score) in pairs(members).ok_or_else(wrong)? {
            if member.starts_with(|c: char| c.is_ascii_uppercase()) {
                known.insert(member, score);
            } else {
                let found = text::decode(name, &member).ok_or_else(wrong)?;
                claims.push((found.claim, member, score));
            }
        }
        let about = |letter: char, member: &str| known.get(&format!("{letter}{member}")).copied();
        // Times and fences fit the 53 bits that a score has.
        #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
        let whole = |number: f64| number.max(0.0) as u64;
        let millis = |at: f64| Duration::from_millis(whole(at));
        let now = self.now_ms as f64;
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for (claim, member, score) in claims {
            if score < 0.0 {
                let fence = about('F', &member).map(|fence| Fence::new(whole(fence)));
                let left = millis(-score - now);
                if !left.is_zero() {
                    held.push(self.held(claim, fence, Some(left), Grant::MayBePushed));
                }
            } else {
                let entered = (score - WAITING as f64) / 1000.0;
                let until = about('X', &member).unwrap_or(entered + text::millis(claim.kept()) as f64);
                let left = millis(until - now);
                if !left.is_zero() {
                    let renewed = claim.kept().saturating_sub(left);
                    let age = Some(millis(now - entered));
                    waiting.push(place(claim, PlaceState::Waiting, age, Some(left), Some(renewed)));
                }
            }
        }
        // By expiry in the store; by grant for people.
        held.sort_by_key(|place| std::cmp::Reverse(place.held_for()));
        held.extend(waiting);
        Ok(held)
    }
}

/// How a claim came to be held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grant {
    /// When it entered: it is held for its ttl.
    AtEntry,
    /// Perhaps while it waited: until its process confirms that, it is kept as briefly as a waiter.
    MayBePushed,
}

/// How long ago a claim was renewed that is held for `left` more, and since `since`. A fixed lease is not renewed.
fn renewed(claim: &Claim, left: Duration, since: Option<Duration>, grant: Grant) -> Option<Duration> {
    if claim.lease.is_some() {
        return None;
    }
    let (by_ttl, kept) = (claim.ttl.saturating_sub(left), claim.kept());
    if grant == Grant::AtEntry || left > kept || kept == claim.ttl {
        return Some(by_ttl);
    }
    // No renewal was before the grant.
    since.map(|since| if by_ttl <= since + SLACK { by_ttl } else { kept.saturating_sub(left) })
}

fn place(
    claim: Claim,
    state: PlaceState,
    age: Option<Duration>,
    left: Option<Duration>,
    renewed: Option<Duration>,
) -> PlaceView {
    PlaceView { claim: Arc::new(claim), about: None, state, age, left, renewed, health: Health::Unknown }
}

/// Members and scores: pairs in RESP3, one after the other in RESP2 and from scripts.
fn pairs(members: &[Value]) -> Option<Vec<(String, f64)>> {
    let number = |value: &Value| match value {
        Value::Double(score) => Some(*score),
        Value::Int(score) => Some(*score as f64),
        value => string(value)?.parse().ok(),
    };
    members
        .chunks(2)
        .map(|pair| match pair {
            [member, score] => Some((string(member)?, number(score)?)),
            _ => None,
        })
        .collect()
}

/// The lock of a client that is not ours, named by the hash of its value.
fn strange(name: &Name, value: &[u8], ttl: Duration) -> Claim {
    Claim {
        id: ClaimId { session: strange_session(value), seq: 0 },
        name: name.clone(),
        capacity: 1,
        weight: 1,
        wait: Wait::No,
        again: true,
        floor: None,
        ttl,
        lease: None,
        // Not its value: whoever knows that can set the lock free.
        note: "another client's".into(),
    }
}

/// The first half and more of the value's SHA-1, as the script that sets it free computes it.
fn strange_session(value: &[u8]) -> SessionId {
    let hash = crate::script::sha1_hex(value);
    hash.get(..32).and_then(|half| half.parse().ok()).unwrap_or(SessionId::from_bits(0))
}

fn foreign(name: &Name, why: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "{name}: what is stored under its key is not a lock of this layout: {why}; remove it or use another prefix"
        ),
    )
}

/// Says who is behind each claim, as far as sessions have said it.
async fn introduce<D: Driver>(protocol: &Protocol<D>, lines: &mut [LineView]) -> Result<()> {
    let mut known: HashMap<SessionId, Option<Arc<About>>> = HashMap::new();
    for place in lines.iter().flat_map(|line| &line.places) {
        known.entry(place.claim.id.session).or_default();
    }
    let mut by_slot: HashMap<Slot, Vec<SessionId>> = HashMap::new();
    for &session in known.keys() {
        let place = protocol.scheme.session(session);
        by_slot.entry(protocol.scheme.together(&place)).or_default().push(session);
    }
    for (slot, sessions) in by_slot {
        for sessions in sessions.chunks(STEP) {
            let requests: Vec<Request> = sessions
                .iter()
                .map(|&session| {
                    let place = protocol.scheme.session(session);
                    let mut cmd = redis::cmd("GET");
                    cmd.arg(&place.key);
                    protocol.scheme.plainly(&Place { slot, ..place }, cmd, protocol.terms.timeout)
                })
                .collect();
            for (session, answer) in sessions.iter().zip(protocol.driver.send_all(requests).await) {
                let about = answer.ok().as_ref().and_then(string).and_then(|text| About::decode(&text).ok());
                known.insert(*session, about.map(Arc::new));
            }
        }
    }
    for place in lines.iter_mut().flat_map(|line| &mut line.places) {
        place.about = known.get(&place.claim.id.session).cloned().flatten();
        if redisson::is_guess(&place.claim.note) {
            if place.about.is_some() {
                // Not one of Redisson's after all.
                Arc::make_mut(&mut place.claim).note = "".into();
            } else if let PlaceState::Held { fence, .. } = &mut place.state {
                // Its lock need not be one that takes a token.
                *fence = None;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Duration = Duration::from_secs(5);

    fn seen() -> Seen<'static> {
        Seen {
            now_ms: 1_800_000_000_000,
            kind: "zset".into(),
            content: &Value::Nil,
            left_ms: None,
            record: None,
        }
    }

    /// A claim with a ttl of 30 s that was granted so long ago, and has so much left; the fence may be told to be ahead.
    fn held(granted_ago_ms: i64, left_ms: u64, grant: Grant) -> PlaceView {
        let name = Name::new("a").unwrap();
        let claim = strange(&name, b"x", Duration::from_secs(30));
        let at_ms = u64::try_from(1_800_000_000_000 - granted_ago_ms).unwrap();
        seen().held(claim, Some(Fence::new(at_ms * 1000)), Some(Duration::from_millis(left_ms)), grant)
    }

    fn times(place: &PlaceView) -> (Option<u128>, Option<u128>) {
        (place.held_for().map(|time| time.as_millis()), place.renewed.map(|time| time.as_millis()))
    }

    #[test]
    fn a_hold_is_as_old_as_its_fence_and_renewed_when_its_expiry_was_set() {
        assert_eq!(times(&held(60_000, 21_000, Grant::MayBePushed)), (Some(60_000), Some(9_000)));
        assert_eq!(times(&held(60_000, 1_000, Grant::MayBePushed)), (Some(60_000), Some(29_000)));
        // One that was never renewed; fences run ahead of the time a little.
        assert_eq!(times(&held(28_980, 1_000, Grant::MayBePushed)), (Some(29_000), Some(29_000)));
        assert_eq!(held(60_000, 21_000, Grant::AtEntry).age, None, "when it entered is forgotten");
    }

    #[test]
    fn a_pushed_grant_that_is_not_confirmed_is_no_old_renewal() {
        assert_eq!(times(&held(1_000, 4_000, Grant::MayBePushed)), (Some(1_000), Some(1_000)));
        assert_eq!(times(&held(28_000, 2_000, Grant::AtEntry)), (Some(28_000), Some(28_000)));
        // A fence that was raised above the clock tells nothing.
        assert_eq!(times(&held(-9_000, 4_000, Grant::MayBePushed)), (None, None));
        assert_eq!(times(&held(-9_000, 21_000, Grant::MayBePushed)), (None, Some(9_000)));
    }

    #[test]
    fn a_fixed_lease_and_a_key_without_an_expiry_are_not_renewed() {
        let name = Name::new("a").unwrap();
        let claim = strange(&name, b"x", KEPT);
        let fixed = Claim { lease: Some(KEPT), ..claim.clone() };
        assert_eq!(seen().held(fixed, None, Some(KEPT), Grant::AtEntry).renewed, None);
        assert_eq!(times(&seen().held(claim, None, None, Grant::AtEntry)), (None, None));
    }
}
