//! How locks look in the store: the names of keys, the scripts, and the words of requests. Pure.

pub(crate) mod redisson;
mod wishes;
mod words;

use std::{sync::Arc, time::Duration};

use bramah_core::{Asking, Capacities, Fencing, Leasing, Liveness, Modes, Order, Seats, Strays, Waking};
use bramah_core::{Name, Profile, SessionId, Wait};
use redis::Cmd;

use crate::{
    config::{Layout, PubSub},
    driver::{Lane, Request, Slot},
    net::slot,
    script::Script,
    text,
};

/// How long the record of a break is kept.
const RECORD: Duration = Duration::from_secs(24 * 3600);

pub(crate) use redisson::Item;
use redisson::{Fleet, Form};
pub(crate) use words::{Entry, Mark, Place, Setting, Way};

/// The names and scripts of one layout on one kind of deployment.
#[derive(Debug)]
pub(crate) struct Scheme {
    layout: Layout,
    /// What keys of locks begin with.
    prefix: String,
    /// What the keys beside them begin with.
    beside: String,
    cluster: bool,
    /// Whether slots tell connections to one node apart.
    spread: bool,
    enter: Arc<Script>,
    ask: Arc<Script>,
    leave: Arc<Script>,
    renew: Arc<Script>,
    look: Arc<Script>,
    wish: Arc<Script>,
    /// Redisson's, if it is that layout.
    fleet: Option<Fleet>,
}

impl Scheme {
    pub(crate) fn new(setting: Setting<'_>) -> Self {
        let Setting { layout, prefix, cluster, connections, fair, pubsub } = setting;
        let own = "bramah:";
        let prefix = prefix.unwrap_or(match layout {
            Layout::Native => own,
            Layout::Plain | Layout::Redisson => "",
        });
        let beside = match layout {
            Layout::Native => prefix,
            Layout::Plain | Layout::Redisson => own,
        };
        let tells: &'static [&'static str] = match pubsub {
            _ if !cluster => &["publish"],
            PubSub::Auto | PubSub::Sharded => &["spublish"],
            PubSub::Plain => &["publish"],
            PubSub::Both => &["publish", "spublish"],
        };
        // In a cluster it is named with the keys of a call, or not at all.
        let mark =
            if cluster { "nil".to_owned() } else { format!("'{}'", lua_text(&format!("{beside}mark"))) };
        let build = |name: &'static str, text: &str| {
            // The mark last: a prefix may have anything in it.
            let code = redisson::tells(&includes(&redisson::includes(text)), tells)
                .replace("@publish@", if cluster { "SPUBLISH" } else { "PUBLISH" })
                .replace("@layout@", if layout == Layout::Native { "native" } else { "plain" })
                .replace("'@mark@'", &mark);
            Arc::new(Script::new(name, code))
        };
        let pick = |native: &'static str, plain: &'static str| match layout {
            Layout::Native => native,
            Layout::Plain | Layout::Redisson => plain,
        };
        let fleet = (layout == Layout::Redisson).then(|| Fleet::new(fair, tells, build));
        Self {
            fleet,
            layout,
            prefix: prefix.to_owned(),
            beside: beside.to_owned(),
            cluster,
            spread: connections > 1,
            enter: build(
                "enter",
                pick(include_str!("../scripts/enter.lua"), include_str!("../scripts/plain_enter.lua")),
            ),
            ask: build(
                "ask",
                pick(include_str!("../scripts/ask.lua"), include_str!("../scripts/plain_ask.lua")),
            ),
            leave: build(
                "leave",
                pick(include_str!("../scripts/leave.lua"), include_str!("../scripts/plain_leave.lua")),
            ),
            renew: build(
                "renew",
                pick(include_str!("../scripts/renew.lua"), include_str!("../scripts/plain_renew.lua")),
            ),
            look: build("look", include_str!("../scripts/look.lua")),
            wish: wishes::script(),
        }
    }

    pub(crate) fn profile(&self) -> Profile {
        let (modes, order) = match self.layout {
            Layout::Native => (Modes::Permits, Order::Fifo),
            Layout::Plain => (Modes::Exclusive, Order::Unordered),
            Layout::Redisson if self.is_fair() => (Modes::Exclusive, Order::Fifo),
            Layout::Redisson => (Modes::Permits, Order::Unordered),
        };
        let (fence, capacity) = match self.layout {
            Layout::Native | Layout::Plain => (Fencing::Clocked, Capacities::Claimed),
            Layout::Redisson => (Fencing::Volatile, Capacities::Stored),
        };
        Profile {
            modes,
            order,
            fence,
            capacity,
            liveness: Liveness::Lease,
            wake: Waking::Pushed,
            seats: Seats::Many,
            lease: Leasing::Stored,
            strays: Strays::Unlisted,
            asking: match self.layout {
                Layout::Native | Layout::Plain => Asking::Kept,
                Layout::Redisson => Asking::Never,
            },
        }
    }

    /// Whether claims stand in the queue of Redisson's fair lock.
    pub(crate) fn is_fair(&self) -> bool {
        self.fleet.as_ref().is_some_and(Fleet::is_fair)
    }

    /// Where the lock of this name is.
    pub(crate) fn place(&self, name: &Name) -> Place {
        let key = match self.layout {
            Layout::Native => native_key(&self.prefix, name.as_str()),
            Layout::Plain | Layout::Redisson => format!("{}{name}", self.prefix),
        };
        let slot = self.slot_of(&key);
        Place { key, slot }
    }

    /// The slot of a key; outside of a cluster they are all alike, unless there are several connections to choose from.
    fn slot_of(&self, key: &str) -> Slot {
        if self.cluster || self.spread { slot::slot_of(key.as_bytes()) } else { 0 }
    }

    /// What one call can be about together: keys of one slot, outside of a cluster any.
    pub(crate) fn together(&self, place: &Place) -> Slot {
        if self.cluster { place.slot } else { 0 }
    }

    /// The names of the locks that a key may belong to.
    pub(crate) fn names_at(&self, key: &str) -> Vec<Name> {
        if self.layout == Layout::Redisson {
            let locks = redisson::locks_at(key).into_iter().filter(|lock| !self.is_beside(lock));
            return locks.filter_map(|lock| Name::new(lock.strip_prefix(&self.prefix)?).ok()).collect();
        }
        self.name_at(key).into_iter().collect()
    }

    /// The name of the lock at a key, if one can be there.
    fn name_at(&self, key: &str) -> Option<Name> {
        let rest = key.strip_prefix(&self.prefix)?;
        match self.layout {
            Layout::Native => Name::new(decode_name(rest.strip_prefix('{')?.strip_suffix('}')?)?).ok(),
            Layout::Plain | Layout::Redisson if self.is_beside(key) => None,
            Layout::Plain | Layout::Redisson => Name::new(rest).ok(),
        }
    }

    /// Whether everything below the keys of locks may be taken for one: somebody has said where they are.
    pub(crate) fn has_prefix(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Whether a key is one of those beside the locks of the plain and Redisson's layouts, or of the native layout, which may be in
    /// use on the same server.
    fn is_beside(&self, key: &str) -> bool {
        key.strip_prefix(&self.beside).is_some_and(|rest| {
            rest == "mark"
                || ["{", "session:", "broken:", "card:", "queue:"].iter().any(|word| rest.starts_with(word))
        })
    }

    /// The beginning of the keys of all locks whose names begin so.
    pub(crate) fn keys_under(&self, name: Option<&Name>) -> String {
        match (self.layout, name) {
            (Layout::Native, None) => format!("{}{{", self.prefix),
            (Layout::Native, Some(name)) => {
                let mut key = native_key(&self.prefix, name.as_str());
                key.pop();
                key
            }
            (Layout::Plain, name) => format!("{}{}", self.prefix, name.map_or("", Name::as_str)),
            // What leads to a lock may begin with anything.
            (Layout::Redisson, _) => String::new(),
        }
    }

    /// The key of the last fence: one, or in a cluster one for each slot.
    pub(crate) fn mark(&self, slot: Slot) -> String {
        self.beside_in(slot, "mark")
    }

    /// The channel that grants to a session are pushed to.
    pub(crate) fn channel(&self, slot: Slot, session: SessionId) -> String {
        format!("{}:{session}", self.mark(slot))
    }

    /// The key of who is behind a session.
    pub(crate) fn session(&self, session: SessionId) -> Place {
        let key = format!("{}session:{session}", self.beside);
        let slot = self.slot_of(&key);
        Place { key, slot }
    }

    /// The key of the record of a lock's last break.
    pub(crate) fn record(&self, place: &Place) -> String {
        match self.layout {
            Layout::Native => format!("{}:b", place.key),
            Layout::Plain | Layout::Redisson => self.beside_in(place.slot, &format!("broken:{}", place.key)),
        }
    }

    fn beside_in(&self, slot: Slot, what: &str) -> String {
        if self.cluster {
            format!("{}{{{}}}:{what}", self.beside, slot::tag_of(slot))
        } else {
            format!("{}{what}", self.beside)
        }
    }

    pub(crate) fn enter(&self, item: Item<'_>, entry: Entry, patience: Duration) -> Request {
        if let Some(fleet) = &self.fleet {
            return self.claim_of_fleet(fleet, item, Some(entry), patience);
        }
        let Item { place, claim, text, .. } = item;
        let Entry { wait, stamp, others } = entry;
        let flags = match (wait, stamp || others) {
            (Wait::No, false) => "n",
            (Wait::No, true) => "ns",
            (Wait::Watch, false) => "w",
            (Wait::Watch, true) if others => "wo",
            (Wait::Watch, true) => "ws",
            (Wait::Line, false) => "l",
            (Wait::Line, true) => "ls",
        };
        let mut cmd = self.call(&self.enter, place, Mark::Named);
        cmd.arg(text).arg(text::millis(claim.lease.unwrap_or(claim.ttl))).arg(flags);
        if let (Layout::Plain, Some(hint)) = (self.layout, claim.floor) {
            cmd.arg(hint.get());
        }
        self.request(place, cmd, &self.enter, patience, wait == Wait::Watch)
    }

    pub(crate) fn ask(&self, item: Item<'_>, mark: Mark, patience: Duration) -> Request {
        if let Some(fleet) = &self.fleet {
            return self.claim_of_fleet(fleet, item, None, patience);
        }
        let Item { place, claim, text, .. } = item;
        let mut cmd = self.call(&self.ask, place, mark);
        cmd.arg(text).arg(claim.floor.map_or(String::new(), |floor| floor.to_string()));
        self.request(place, cmd, &self.ask, patience, false)
    }

    pub(crate) fn leave(&self, item: Item<'_>, way: Way<'_>, patience: Duration) -> Request {
        if let Some(fleet) = &self.fleet {
            return self.leave_of_fleet(fleet, item, way, patience);
        }
        let Item { place, text, .. } = item;
        let hands_over = self.layout == Layout::Native && matches!(way, Way::Line);
        let mark = if hands_over { Mark::Named } else { Mark::Unnamed };
        let mut cmd = self.call(&self.leave, place, mark);
        cmd.arg(text);
        match way {
            Way::Alone => {}
            Way::Line => {
                cmd.arg("l");
            }
            Way::Broken(record) => {
                cmd.arg(record).arg(text::millis(RECORD)).arg(self.mark(place.slot));
                if self.layout == Layout::Plain {
                    cmd.arg(self.record(place));
                }
            }
        }
        self.request(place, cmd, &self.leave, patience, false)
    }

    /// All of one slot and one form, and with one ttl: `None` if they have leases of their own.
    pub(crate) fn renew(
        &self,
        form: Form,
        claims: &[Item<'_>],
        ttl: Option<Duration>,
        mark: Mark,
        patience: Duration,
    ) -> Request {
        if let Some(fleet) = &self.fleet {
            return self.renew_of_fleet(fleet, form, claims, ttl, patience);
        }
        let slot = claims.first().map_or(0, |item| item.place.slot);
        let mut cmd = redis::cmd("EVALSHA");
        let named = self.layout == Layout::Native && (mark == Mark::Named || !self.cluster);
        cmd.arg(self.renew.hash()).arg(claims.len() + usize::from(named));
        for item in claims {
            cmd.arg(&item.place.key);
        }
        if named {
            cmd.arg(self.mark(slot));
        }
        match ttl {
            Some(ttl) => cmd.arg(text::millis(ttl)),
            None => cmd.arg(""),
        };
        for item in claims {
            cmd.arg(item.text);
        }
        Request {
            slot,
            lane: Lane::Keep,
            patience,
            cmd,
            script: Some(self.renew.clone()),
            track: false,
            age: None,
        }
    }

    /// All of one slot.
    pub(crate) fn look(&self, places: &[Place], patience: Duration) -> Request {
        if let Some(fleet) = &self.fleet {
            return self.look_of_fleet(fleet, places, patience);
        }
        let slot = places.first().map_or(0, |place| place.slot);
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(self.look.hash()).arg(places.len() * 2);
        for place in places {
            cmd.arg(&place.key);
        }
        for place in places {
            cmd.arg(self.record(place));
        }
        Request {
            slot,
            lane: Lane::Calls,
            patience,
            cmd,
            script: Some(self.look.clone()),
            track: false,
            age: None,
        }
    }

    /// The plain layout at its plainest, where nobody wants a fence. Nothing if it is taken.
    pub(crate) fn set(&self, item: Item<'_>, patience: Duration) -> Request {
        let Item { place, claim, text, .. } = item;
        let mut cmd = redis::cmd("SET");
        cmd.arg(&place.key).arg(text).arg("NX").arg("PX");
        cmd.arg(text::millis(claim.lease.unwrap_or(claim.ttl)));
        self.plainly(place, cmd, patience)
    }

    /// A write beside the lock that leaves nothing behind.
    pub(crate) fn touch(&self, place: &Place, patience: Duration) -> Request {
        let mut cmd = redis::cmd("SET");
        cmd.arg(self.beside_in(place.slot, "session:touch")).arg("").arg("PX").arg(1);
        self.plainly(place, cmd, patience)
    }

    /// A command for one key beside the locks.
    pub(crate) fn plainly(&self, place: &Place, cmd: Cmd, patience: Duration) -> Request {
        Request { slot: place.slot, lane: Lane::Calls, patience, cmd, script: None, track: false, age: None }
    }

    fn call(&self, script: &Script, place: &Place, mark: Mark) -> Cmd {
        // Eight words, the longest the claim and the hash: nothing grows on the way.
        let mut cmd = Cmd::with_capacity(8, 256 + 2 * place.key.len());
        cmd.arg("EVALSHA");
        cmd.arg(script.hash());
        // Outside of a cluster the script knows the mark: a key less to read.
        if self.cluster && mark == Mark::Named {
            cmd.arg(2).arg(&place.key).arg(self.mark(place.slot));
        } else {
            cmd.arg(1).arg(&place.key);
        }
        cmd
    }

    fn request(
        &self,
        place: &Place,
        cmd: Cmd,
        script: &Arc<Script>,
        patience: Duration,
        track: bool,
    ) -> Request {
        let (slot, script) = (place.slot, Some(script.clone()));
        Request { slot, lane: Lane::Calls, patience, cmd, script, track, age: None }
    }
}

/// The scripts of the native layout on one node, as they are sent: what the benchmark calls without the rest of us.
pub fn enter_and_leave() -> [String; 2] {
    let scheme = Scheme::new(Setting {
        layout: Layout::Native,
        prefix: None,
        cluster: false,
        connections: 1,
        fair: false,
        pubsub: PubSub::Auto,
    });
    [&scheme.enter, &scheme.leave].map(|script| script.code().to_owned())
}

/// The name is the hash tag, so that whatever else a name may come to have lands in the same slot.
fn native_key(prefix: &str, name: &str) -> String {
    let mut key = String::with_capacity(prefix.len() + name.len() + 2);
    key.push_str(prefix);
    key.push('{');
    for c in name.chars() {
        match c {
            '}' => key.push_str("%7d"),
            '%' => key.push_str("%25"),
            c => key.push(c),
        }
    }
    key.push('}');
    key
}

fn decode_name(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut parts = text.split('%');
    name.push_str(parts.next()?);
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        name.push(match code {
            "7d" => '}',
            "25" => '%',
            _ => return None,
        });
        name.push_str(rest);
    }
    Some(name).filter(|_| !text.contains('}'))
}

/// A text as it may stand between quotes in Lua.
fn lua_text(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c {
            '\\' | '\'' | '"' => vec!['\\', c],
            '\n' => vec!['\\', 'n'],
            '\r' => vec!['\\', 'r'],
            '\0' => vec!['\\', '0'],
            c => vec![c],
        })
        .collect()
}

/// The script with the parts that it names.
fn includes(text: &str) -> String {
    text.replace("--@include clock.lua", include_str!("../scripts/clock.lua"))
        .replace("--@include lean.lua", include_str!("../scripts/lean.lua"))
        .replace("--@include line.lua", include_str!("../scripts/line.lua"))
        .replace("--@include rights.lua", include_str!("../scripts/rights.lua"))
        .replace("--@include prolong.lua", include_str!("../scripts/prolong.lua"))
        .replace("--@include undo.lua", include_str!("../scripts/undo.lua"))
}

#[cfg(test)]
mod tests;
