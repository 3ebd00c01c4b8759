//! What is in the keys, as core shows it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use bramah_core::{
    Broken, Claim, Health, LineView, Look, Name, PlaceState, PlaceView, Result, Scope, Survey, Wait, Wake,
};
use tokio::task::JoinSet;

use crate::{
    engine::Inner,
    error::Trouble,
    layout::Span,
    proto::mvccpb::KeyValue,
    queue::{Place, Queue},
    value::Record,
    watches::Wanted,
};

/// The longest time that who watches trusts to be told.
const TRUST: Duration = Duration::from_secs(5);

/// How many leases are asked how long they live; of the others that is not shown.
const LEASES: usize = 64;

impl Inner {
    pub(crate) async fn survey(self: &Arc<Self>, scope: &Scope, look: Look) -> Result<Survey> {
        let explain = |trouble: Trouble| self.net.explain(&trouble);
        let patience = self.net.config().timeout;
        let span = match scope {
            Scope::Exact(name) | Scope::Under(name) => self.layout.line(name),
            Scope::All => self.layout.all(),
        };
        let (kvs, revision) = self.net.pages(&span, patience).await.map_err(explain)?;
        let records = self.records(scope, patience).await.map_err(explain)?;
        let lines = self.lines(scope, kvs, revision);
        let left = match look {
            Look::Glance => HashMap::new(),
            Look::Once | Look::Watching => self.left(&lines, patience).await,
        };
        let mut survey =
            Survey { lines: Vec::new(), unreadable: Vec::new(), wake: Wake::never(), sleep: TRUST };
        for (name, queue) in lines {
            let broken = records.get(&name).map(|record| self.broken(record));
            if queue.places.is_empty() && broken.is_none() {
                continue;
            }
            survey.lines.push(self.view(&name, &queue, broken, &left));
        }
        if look == Look::Watching {
            let children = matches!(scope, Scope::Exact(_));
            survey.wake = self.watches.wake(Wanted { span, from: revision + 1, puts: true, children });
        }
        Ok(survey)
    }

    /// Those who stand in line, by name. A name that was asked for is looked at also when nobody is there: it may have been broken.
    fn lines(&self, scope: &Scope, kvs: Vec<KeyValue>, revision: i64) -> BTreeMap<Name, Queue> {
        let mut by_name: BTreeMap<Name, Vec<KeyValue>> = BTreeMap::new();
        for kv in kvs {
            let Some((name, leaf)) = self.layout.name_of(&kv.key) else { continue };
            if !scope.covers(&name) {
                continue;
            }
            // A store has other keys, too. One that is a lock of another program has the name of its lease.
            let is_lock = matches!(scope, Scope::Exact(_))
                || kv.lease != 0 && (leaf == format!("{:x}", kv.lease) || kv.value.starts_with(b"bramah1 "));
            if is_lock {
                by_name.entry(name).or_default().push(kv);
            }
        }
        if let Scope::Exact(name) = scope {
            by_name.entry(name.clone()).or_default();
        }
        let queue = |(name, kvs): (Name, Vec<KeyValue>)| {
            let start = self.layout.line(&name).from;
            (name, Queue::of(&start, kvs, revision))
        };
        by_name.into_iter().map(queue).collect()
    }

    /// What was broken last, by name.
    async fn records(&self, scope: &Scope, patience: Duration) -> Result<HashMap<Name, Record>, Trouble> {
        let kvs = match scope {
            Scope::All => self.net.pages(&self.layout.breaks(None), patience).await?.0,
            Scope::Exact(name) => {
                self.net.reads(&[Span::one(&self.layout.broken(name))], patience).await?.take(0)
            }
            Scope::Under(name) => {
                let spans = [Span::one(&self.layout.broken(name)), self.layout.breaks(Some(name))];
                self.net.reads(&spans, patience).await?.reads.into_iter().flatten().collect()
            }
        };
        let record = |kv: KeyValue| Some((self.layout.name_of_break(&kv.key)?, Record::decode(&kv.value)?));
        Ok(kvs.into_iter().filter_map(record).collect())
    }

    fn ago(&self, then_us: u64) -> Duration {
        Duration::from_micros(self.clock.wall_us().saturating_sub(then_us))
    }

    fn broken(&self, record: &Record) -> Broken {
        Broken { id: record.id, cause: record.cause.clone(), ago: self.ago(record.at_us) }
    }

    /// How long leases live, as far as that can be said.
    async fn left(self: &Arc<Self>, lines: &BTreeMap<Name, Queue>, patience: Duration) -> HashMap<i64, Life> {
        let places = lines.values().flat_map(|queue| &queue.places);
        let leases: HashSet<i64> = places.map(|place| place.kv.lease).filter(|lease| *lease != 0).collect();
        let mut asked = JoinSet::new();
        for lease in leases.into_iter().take(LEASES) {
            let inner = self.clone();
            asked.spawn(async move { (lease, inner.net.lease(lease, false, patience).await) });
        }
        let mut left = HashMap::new();
        while let Some(told) = asked.join_next().await {
            if let Ok((lease, Ok(Some(told)))) = told {
                left.insert(lease, Life::of(told.ttl, told.granted_ttl));
            }
        }
        left
    }

    fn view(
        &self,
        name: &Name,
        queue: &Queue,
        broken: Option<Broken>,
        lives: &HashMap<i64, Life>,
    ) -> LineView {
        let capacity = queue.capacity();
        let holders = queue.holders(capacity);
        let place = |(at, place): (usize, &Place)| {
            let life = lives.get(&place.kv.lease).copied();
            self.place(name, capacity, place, at < holders, life)
        };
        let places = queue.places.iter().enumerate().map(place).collect();
        LineView { name: name.clone(), capacity, places, broken }
    }

    fn place(
        &self,
        name: &Name,
        capacity: u32,
        place: &Place,
        is_held: bool,
        life: Option<Life>,
    ) -> PlaceView {
        let health = Health::Unknown;
        let (left, renewed) = (life.map(|life| life.left), life.map(|life| life.renewed));
        let Some(value) = &place.value else {
            let claim = Arc::new(foreign(name, capacity, place, life));
            // etcd keeps no times.
            let state = match is_held {
                true => PlaceState::Held { fence: None, since: None },
                false => PlaceState::Waiting,
            };
            return PlaceView { claim, about: None, state, age: None, left, renewed, health };
        };
        let age = self.ago(value.entered_us);
        // Readers that have waited do not write down when that was over.
        let since = value.granted_us.map(|granted| self.ago(granted).min(age));
        let state = match is_held {
            true => PlaceState::Held { fence: place.fence(), since },
            false => PlaceState::Waiting,
        };
        // The lease lasts longer than the claim may be counted on.
        let left = left.map(|left| left.min(value.ttl));
        PlaceView {
            claim: Arc::new(value.claim(name)),
            about: value.about(),
            state,
            age: Some(age),
            left,
            renewed,
            health,
        }
    }
}

/// What is known of a lease.
#[derive(Clone, Copy)]
struct Life {
    ttl: Duration,
    left: Duration,
    /// How long ago it was last kept alive.
    renewed: Duration,
}

impl Life {
    /// etcd counts in whole seconds and rounds down what is left: it was kept alive up to a second later than the difference
    /// says. Nobody is to be taken for late who is not.
    fn of(left: i64, granted: i64) -> Self {
        let [ttl, left] = [granted, left].map(|seconds| Duration::from_secs(seconds.unsigned_abs()));
        let renewed = ttl.saturating_sub(left).saturating_sub(Duration::from_secs(1));
        Self { ttl, left, renewed }
    }
}

/// A key of another program, as a claim.
fn foreign(name: &Name, capacity: u32, place: &Place, life: Option<Life>) -> Claim {
    let said = String::from_utf8_lossy(&place.kv.value);
    let said: String = said.chars().take(200).flat_map(char::escape_debug).collect();
    let what = format!("not bramah: lease {:x}", place.kv.lease);
    let note = if said.is_empty() { what } else { format!("{what}, {said}") };
    Claim {
        id: place.id(),
        name: name.clone(),
        capacity,
        weight: capacity,
        wait: Wait::Line,
        again: true,
        floor: None,
        // As etcdctl has it unless it is told otherwise.
        ttl: life.map_or(Duration::from_secs(60), |life| life.ttl),
        lease: None,
        note: note.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_not_taken_for_older_than_it_is() {
        let renewed = |left, granted| Life::of(left, granted).renewed.as_secs();
        // etcd says 12 from the first moment on.
        assert_eq!((renewed(13, 13), renewed(12, 13), renewed(4, 13), renewed(20, 13)), (0, 0, 8, 0));
    }
}
