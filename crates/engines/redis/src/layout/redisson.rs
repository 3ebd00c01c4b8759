//! Redisson's locks: the names of their keys, their scripts and requests. Pure.

mod names;

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, Error, ErrorKind, Name, Result, Wait};
use redis::Cmd;

pub(crate) use self::names::{locks_at, owner, read_owner};
use self::names::{permits_of, raw, tagged, with_prefix};
use super::{Entry, Place, RECORD, Scheme, Way};
use crate::{
    driver::{Lane, Request},
    net::slot,
    script::Script,
    text,
};

/// What a claim is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// A key of a layout of ours.
    Ours,
    /// RLock, with RFencedLock's token.
    Mutex,
    /// The fair lock, with the same.
    Fair,
    /// A reader of an RReadWriteLock.
    Read,
    /// The writer of one.
    Write,
    /// Permits of an RPermitExpirableSemaphore.
    Pool,
}

/// How many permits a claim takes at the most: each is an entry of its own.
const MOST_PERMITS: u32 = 10_000;

/// A claim, where it is and what it is called there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) place: &'a Place,
    pub(crate) claim: &'a Claim,
    pub(crate) text: &'a str,
    /// Whether more of it must be found again than Redisson's own keys have room for.
    pub(crate) carded: bool,
}

/// The scripts of Redisson's locks.
#[derive(Debug)]
pub(super) struct Fleet {
    fair: bool,
    /// In small letters, as rights are called.
    tells: &'static [&'static str],
    mutex: Trio,
    fair_lock: Trio,
    read: Trio,
    write: Trio,
    pool: Trio,
    look: Arc<Script>,
}

/// The scripts of one form.
#[derive(Debug)]
struct Trio {
    claim: Arc<Script>,
    leave: Arc<Script>,
    renew: Arc<Script>,
}

macro_rules! trio {
    ($build:expr, $claim:literal, $leave:literal, $renew:literal) => {
        Trio {
            claim: $build($claim, include_str!(concat!("../../scripts/redisson/", $claim, ".lua"))),
            leave: $build($leave, include_str!(concat!("../../scripts/redisson/", $leave, ".lua"))),
            renew: $build($renew, include_str!(concat!("../../scripts/redisson/", $renew, ".lua"))),
        }
    };
}

impl Fleet {
    /// `build` makes a script of a name and a text.
    pub(super) fn new(
        fair: bool,
        tells: &'static [&'static str],
        build: impl Fn(&'static str, &str) -> Arc<Script>,
    ) -> Self {
        Self {
            fair,
            tells,
            mutex: trio!(build, "mutex_claim", "mutex_leave", "mutex_renew"),
            fair_lock: trio!(build, "fair_claim", "fair_leave", "fair_renew"),
            read: trio!(build, "read_claim", "rw_leave", "rw_renew"),
            write: trio!(build, "write_claim", "rw_leave", "rw_renew"),
            pool: trio!(build, "pool_claim", "pool_leave", "pool_renew"),
            look: build("look", include_str!("../../scripts/redisson/look.lua")),
        }
    }

    pub(super) fn is_fair(&self) -> bool {
        self.fair
    }

    pub(super) fn form(&self, claim: &Claim) -> Form {
        match (claim.capacity, claim.weight) {
            (1, _) if self.fair => Form::Fair,
            (1, _) => Form::Mutex,
            (u32::MAX, u32::MAX) => Form::Write,
            (u32::MAX, _) => Form::Read,
            _ => Form::Pool,
        }
    }

    fn scripts(&self, form: Form) -> &Trio {
        match form {
            Form::Ours | Form::Mutex => &self.mutex,
            Form::Fair => &self.fair_lock,
            Form::Read => &self.read,
            Form::Write => &self.write,
            Form::Pool => &self.pool,
        }
    }
}

/// The parts that a script names.
pub(super) fn includes(text: &str) -> String {
    let parts = [
        ("break", include_str!("../../scripts/redisson/break.lua")),
        ("card", include_str!("../../scripts/redisson/card.lua")),
        ("fair_queue", include_str!("../../scripts/redisson/fair_queue.lua")),
        ("hold", include_str!("../../scripts/redisson/hold.lua")),
        ("owner", include_str!("../../scripts/redisson/owner.lua")),
        ("pool_ids", include_str!("../../scripts/redisson/pool_ids.lua")),
        ("rw_kinds", include_str!("../../scripts/redisson/rw_kinds.lua")),
    ];
    parts.into_iter().fold(text.to_owned(), |text, (name, part)| {
        text.replace(&format!("--@include redisson/{name}.lua"), part)
    })
}

/// Every message once for each of the commands that tell it. Each is a line of its own.
pub(crate) fn tells(text: &str, commands: &[&str]) -> String {
    let mut told = String::with_capacity(text.len());
    for line in text.lines() {
        if line.contains("@tell@") {
            for command in commands {
                told.push_str(&line.replace("@tell@", command));
                told.push('\n');
            }
        } else {
            told.push_str(line);
            told.push('\n');
        }
    }
    told
}

impl Scheme {
    /// What a claim is called in the store.
    ///
    /// # Errors
    /// `Invalid` for what cannot be stored there.
    pub(crate) fn text(&self, claim: &Claim, place: &Place) -> Result<String> {
        let Some(fleet) = &self.fleet else { return text::encode(claim) };
        let invalid = |why: String| Err(Error::new(ErrorKind::Invalid, format!("{}: {why}", claim.name)));
        if self.cluster && slot::slot_of(self.token(place).as_bytes()) != place.slot {
            return invalid(
                "Redisson's keys for a name with this brace are in different slots of a cluster; use a whole {tag} in \
                 it, or no brace"
                    .to_owned(),
            );
        }
        match fleet.form(claim) {
            Form::Pool if claim.weight > MOST_PERMITS => invalid(format!(
                "Redisson's permits are taken one by one; ask for {MOST_PERMITS} at the most"
            )),
            Form::Pool => Ok(permits_of(claim.id)),
            Form::Write => Ok(format!("{}:write", owner(claim.id))),
            Form::Ours | Form::Mutex | Form::Fair | Form::Read => Ok(owner(claim.id)),
        }
    }

    /// What kind of object a claim is about.
    pub(crate) fn form(&self, claim: &Claim) -> Form {
        self.fleet.as_ref().map_or(Form::Ours, |fleet| fleet.form(claim))
    }

    /// Whether a claim has what Redisson's own keys have no room for.
    fn is_carded(&self, item: Item<'_>) -> bool {
        item.carded || !item.claim.note.is_empty() || self.form(item.claim) == Form::Pool
    }

    /// The key of that.
    fn card(&self, item: Item<'_>) -> String {
        self.beside_in(item.place.slot, &format!("card:{}", item.text))
    }

    fn token(&self, place: &Place) -> String {
        with_prefix("redisson_lock_token", &place.key)
    }

    /// Of the names that a lock leads to one of each kind: a key with a prefix, a key with an ending, and a channel.
    pub(crate) fn beside_redisson(&self, lock: &Place) -> [Place; 3] {
        [self.token(lock), self.permits(lock), self.told_at(lock, Form::Mutex)]
            .map(|key| Place { key, slot: lock.slot })
    }

    /// The commands that Redisson's waiters are told with.
    pub(crate) fn tells(&self) -> &'static [&'static str] {
        match &self.fleet {
            Some(fleet) => fleet.tells,
            None if self.cluster => &["spublish"],
            None => &["publish"],
        }
    }

    /// The key of one of Redisson's other objects.
    pub(crate) fn object_key(&self, name: String) -> String {
        if self.fleet.is_some() { format!("{}{name}", self.prefix) } else { name }
    }

    /// The end of a name's token, where there is one.
    pub(crate) fn token_of(&self, name: &Name, patience: Duration) -> Option<Request> {
        self.fleet.as_ref()?;
        let place = self.place(name);
        let mut cmd = redis::cmd("DEL");
        cmd.arg(self.token(&place));
        Some(self.plainly(&place, cmd, patience))
    }

    fn permits(&self, place: &Place) -> String {
        format!("{}:timeout", tagged(&place.key))
    }

    fn read_hold(&self, item: Item<'_>) -> String {
        format!("{}:{}:rwlock_timeout:1", tagged(&item.place.key), item.text)
    }

    fn fair_keys(&self, place: &Place) -> [String; 4] {
        [
            place.key.clone(),
            with_prefix("redisson_lock_queue", &place.key),
            with_prefix("redisson_lock_timeout", &place.key),
            self.beside_in(place.slot, &format!("queue:{}", place.key)),
        ]
    }

    /// Where Redisson's waiters listen.
    fn told_at(&self, place: &Place, form: Form) -> String {
        let prefix = match form {
            Form::Ours | Form::Mutex | Form::Fair => "redisson_lock__channel",
            Form::Read | Form::Write => "redisson_rwlock",
            Form::Pool => "redisson_sc",
        };
        with_prefix(prefix, &place.key)
    }

    /// A claim that enters as `how` says, or asks if that is nothing.
    pub(super) fn claim_of_fleet(
        &self,
        fleet: &Fleet,
        item: Item<'_>,
        how: Option<Entry>,
        patience: Duration,
    ) -> Request {
        let Item { place, claim, text, .. } = item;
        let form = fleet.form(claim);
        let keys: Vec<String> = match form {
            Form::Ours | Form::Mutex | Form::Write => vec![place.key.clone(), self.token(place)],
            Form::Fair => self.fair_keys(place).into_iter().chain([self.token(place)]).collect(),
            Form::Read => vec![place.key.clone(), self.read_hold(item)],
            Form::Pool => vec![place.key.clone(), self.permits(place), self.token(place)],
        };
        let flags = format!(
            "{}{}{}",
            match how.map(|how| how.wait) {
                None => '?',
                Some(Wait::No) => 'n',
                Some(Wait::Watch) => 'w',
                Some(Wait::Line) => 'l',
            },
            if how.is_some_and(|how| how.others) { "o" } else { "" },
            if claim.lease.is_some() { "f" } else { "" }
        );
        let script = &fleet.scripts(form).claim;
        let mut cmd = call(script, &keys);
        if form == Form::Pool {
            cmd.arg(raw(text))
        } else {
            cmd.arg(text)
        };
        cmd.arg(text::millis(claim.lease.unwrap_or(claim.ttl))).arg(flags);
        cmd.arg(claim.floor.map_or(String::new(), |floor| floor.to_string()));
        if self.is_carded(item) {
            cmd.arg(self.card(item)).arg(text::encode(claim).unwrap_or_default());
        } else {
            cmd.arg("").arg("");
        }
        cmd.arg(self.permits(place));
        match form {
            Form::Ours | Form::Mutex | Form::Read => &mut cmd,
            Form::Fair => {
                cmd.arg(text::millis(claim.kept())).arg(self.told_at(place, form)).arg(self.mark(place.slot))
            }
            Form::Write => cmd.arg(tagged(&place.key)),
            Form::Pool => cmd.arg(claim.weight).arg(claim.capacity).arg(self.told_at(place, form)),
        };
        let track = match how {
            Some(how) => how.wait == Wait::Watch || (form == Form::Fair && how.wait == Wait::Line),
            None => form == Form::Fair,
        };
        self.request(place, cmd, script, patience, track)
    }

    pub(super) fn leave_of_fleet(
        &self,
        fleet: &Fleet,
        item: Item<'_>,
        way: Way<'_>,
        patience: Duration,
    ) -> Request {
        let Item { place, claim, text, .. } = item;
        let form = fleet.form(claim);
        let keys: Vec<String> = match form {
            Form::Fair => self.fair_keys(place).into(),
            Form::Pool => vec![place.key.clone(), self.permits(place)],
            Form::Ours | Form::Mutex | Form::Read | Form::Write => vec![place.key.clone()],
        };
        // No key is set there, so it is none to name: one that is missing would stop everything while a slot moves.
        let mark = self.mark(place.slot);
        let script = &fleet.scripts(form).leave;
        let mut cmd = call(script, &keys);
        if form == Form::Pool {
            cmd.arg(raw(text))
        } else {
            cmd.arg(text)
        };
        let card = if self.is_carded(item) { self.card(item) } else { String::new() };
        cmd.arg(card).arg(self.told_at(place, form));
        if let Way::Broken(record) = way {
            cmd.arg(text::identity(claim.id)).arg(record).arg(text::millis(RECORD)).arg(self.record(place));
            cmd.arg(&mark);
        }
        match form {
            Form::Ours | Form::Mutex => &mut cmd,
            Form::Fair => cmd.arg(mark).arg(text::millis(claim.kept())),
            Form::Read | Form::Write => cmd.arg(tagged(&place.key)),
            Form::Pool => cmd.arg(claim.weight),
        };
        self.request(place, cmd, script, patience, false)
    }

    /// All of one slot and of one form, with a card or without; a fair lock alone.
    pub(super) fn renew_of_fleet(
        &self,
        fleet: &Fleet,
        form: Form,
        items: &[Item<'_>],
        ttl: Option<Duration>,
        patience: Duration,
    ) -> Request {
        let slot = items.first().map_or(0, |item| item.place.slot);
        let mut keys: Vec<String> = match (form, items.first()) {
            (Form::Pool, _) => items.iter().map(|item| self.permits(item.place)).collect(),
            (Form::Fair, Some(item)) => self.fair_keys(item.place).into(),
            _ => items.iter().map(|item| item.place.key.clone()).collect(),
        };
        match form {
            Form::Read => keys.extend(items.iter().map(|item| self.read_hold(*item))),
            Form::Write => keys.extend(items.iter().map(|item| item.place.key.clone())),
            Form::Ours | Form::Mutex | Form::Fair | Form::Pool => {}
        }
        let script = &fleet.scripts(form).renew;
        let mut cmd = call(script, &keys);
        match ttl {
            Some(ttl) => cmd.arg(text::millis(ttl)),
            None => cmd.arg(""),
        };
        for item in items {
            if form == Form::Pool {
                cmd.arg(raw(item.text))
            } else {
                cmd.arg(item.text)
            };
        }
        for item in items.iter().filter(|item| form == Form::Fair || self.is_carded(**item)) {
            cmd.arg(if self.is_carded(*item) { self.card(*item) } else { String::new() });
        }
        for item in items.iter().filter(|item| form == Form::Fair || self.is_carded(**item)) {
            cmd.arg(text::encode(item.claim).unwrap_or_default());
        }
        match form {
            Form::Pool => {
                for item in items {
                    cmd.arg(item.claim.weight);
                }
            }
            Form::Fair => {
                cmd.arg(items.first().map_or(1, |item| text::millis(item.claim.kept())));
            }
            Form::Ours | Form::Mutex | Form::Read | Form::Write => {}
        }
        Request {
            slot,
            lane: Lane::Keep,
            patience,
            cmd,
            script: Some(script.clone()),
            track: false,
            age: None,
        }
    }

    /// What one renewal can be about together: claims of one form, with a card or without.
    pub(crate) fn class(&self, item: Item<'_>) -> (Form, bool) {
        (self.form(item.claim), self.fleet.is_some() && self.is_carded(item))
    }

    pub(super) fn look_of_fleet(&self, fleet: &Fleet, places: &[Place], patience: Duration) -> Request {
        let slot = places.first().map_or(0, |place| place.slot);
        let keys: Vec<String> = places
            .iter()
            .flat_map(|place| {
                let queue = with_prefix("redisson_lock_queue", &place.key);
                [place.key.clone(), queue, self.permits(place), self.record(place), self.token(place)]
            })
            .collect();
        let mut cmd = call(&fleet.look, &keys);
        cmd.arg(self.beside_in(slot, "card:"));
        for place in places {
            cmd.arg(tagged(&place.key));
        }
        Request {
            slot,
            lane: Lane::Calls,
            patience,
            cmd,
            script: Some(fleet.look.clone()),
            track: false,
            age: None,
        }
    }
}

fn call(script: &Script, keys: &[String]) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(script.hash()).arg(keys.len());
    for key in keys {
        cmd.arg(key);
    }
    cmd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_judge_by_holds_they_do_not_name_are_known() {
        let build = |name: &'static str, text: &str| Arc::new(Script::new(name, includes(text)));
        let fleet = Fleet::new(false, &["publish"], build);
        for form in [Form::Mutex, Form::Fair, Form::Read, Form::Write, Form::Pool] {
            let Trio { claim, leave, renew } = fleet.scripts(form);
            for script in [claim, leave, renew] {
                let judges = script.code().contains("drop_dead_readers(");
                assert_eq!(script.looks_beside(), judges, "{script:?}");
            }
        }
    }
}
