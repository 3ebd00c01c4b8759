//! What one session has: a session with ZooKeeper of its own, and the nodes that hang from it.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{Claim, ClaimId, Moment, Opening, Renewal, Result, SessionId};
use tokio::time::timeout;
use zookeeper_client::{Client, Error as Said, StateWatcher};

use crate::{
    base::Base,
    entry::{Entry, Node, Seat},
    error,
    fence::Known,
    names::{self, Kid},
    record,
    solitude::Solitude,
};

/// How often it is looked whether a session was heard of.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) struct Room {
    pub(crate) base: Arc<Base>,
    pub(crate) opening: Arc<Opening>,
    pub(crate) ttl: Duration,
    /// The session's number in ZooKeeper: the owner of its nodes.
    pub(crate) owner: i64,
    client: Mutex<Option<Client>>,
    entries: Mutex<HashMap<u64, Arc<Entry>>>,
    /// The largest fence that was asked for.
    pub(crate) floor: Known,
    /// Which lines need no look.
    pub(crate) solitude: Solitude,
    /// When the session was last heard of.
    heard: Mutex<Moment>,
    /// When the last write was sent that was answered.
    proved: Mutex<Moment>,
    over: AtomicBool,
    /// Whether anything was asked of it since it was opened.
    pub(crate) used: AtomicBool,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("session", &self.opening.session).finish_non_exhaustive()
    }
}

impl Room {
    /// Opens a session with ZooKeeper. It is asked to last half as long again as our ttl: followers tell the leader with delay whom
    /// they heard, and the deadline that core keeps has to pass before (decision 0013).
    pub(crate) async fn open(base: Arc<Base>, opening: Arc<Opening>) -> Result<Arc<Self>> {
        let millis = u64::try_from(opening.ttl.as_millis()).unwrap_or(u64::MAX);
        let asked = Duration::from_millis(millis.saturating_mul(3).div_ceil(2));
        let heard = base.clock.now();
        let client = base.dial(asked).await?;
        let ttl = (client.session_timeout() * 2 / 3).max(Duration::from_millis(1));
        // What was asked for is what is kept, unless ZooKeeper keeps sessions for longer or for less.
        let ttl = if client.session_timeout() == asked { opening.ttl } else { ttl };
        Ok(Arc::new(Self {
            base,
            opening,
            ttl,
            owner: client.session_id().0,
            client: Mutex::new(Some(client)),
            entries: Mutex::default(),
            floor: Known::default(),
            solitude: Solitude::default(),
            heard: Mutex::new(heard),
            proved: Mutex::new(heard),
            over: AtomicBool::new(false),
            used: AtomicBool::new(false),
        }))
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, HashMap<u64, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session with ZooKeeper.
    pub(crate) fn client(&self) -> Result<Client> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        client.filter(|_| !self.is_over()).ok_or_else(|| error::ended(&self.base.server))
    }

    pub(crate) fn states(&self) -> Option<StateWatcher> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Client::state_watcher)
    }

    /// Whether it has ended: it was closed, was not heard of for its ttl, or ZooKeeper has dropped it.
    pub(crate) fn is_over(&self) -> bool {
        let is_dropped = || {
            let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
            client.as_ref().is_none_or(|client| client.state().is_terminated())
        };
        self.over.load(Ordering::Acquire) || self.silence() > self.ttl || is_dropped()
    }

    /// The session is heard of.
    pub(crate) fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = self.base.clock.now();
    }

    fn silence(&self) -> Duration {
        self.base.clock.now().since(*self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A write that was sent at `sent` was answered.
    pub(crate) fn prove(&self, sent: Moment) {
        let mut proved = self.proved.lock().unwrap_or_else(PoisonError::into_inner);
        *proved = (*proved).max(sent);
    }

    fn unproved_for(&self) -> Duration {
        self.base.clock.now().since(*self.proved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Holds with a fixed lease, once the session was not proved for a ttl. Core keeps the deadline of every other hold; it takes a
    /// lease for as good as the session, and ZooKeeper may drop that from now on.
    fn unproved(&self) -> Vec<Arc<Entry>> {
        if self.unproved_for() <= self.ttl {
            return Vec::new();
        }
        let is_leased =
            |entry: &&Arc<Entry>| entry.claim().lease.is_some() && matches!(entry.seat(), Seat::Held { .. });
        self.entries().values().filter(is_leased).cloned().collect()
    }

    /// How long the answer to a call is waited for.
    pub(crate) fn patience(&self) -> Duration {
        self.base.config.timeout.min(self.ttl / 3).max(Duration::from_millis(10))
    }

    /// What is known of a claim that core asks for.
    pub(crate) fn known(&self, id: ClaimId) -> Option<Arc<Entry>> {
        let entry = self.entries().get(&id.seq).cloned();
        entry.inspect(|entry| entry.hear(self.base.clock.now()))
    }

    /// The claim's entry, a new one if it has none.
    pub(crate) fn admit(&self, claim: &Arc<Claim>) -> Arc<Entry> {
        let new = || Arc::new(Entry::new(claim.clone(), self.base.clock.now()));
        self.entries().entry(claim.id.seq).or_insert_with(new).clone()
    }

    /// Claims that core has not asked for in a ttl. It has given them up, and only the session keeps them. One with a fixed lease
    /// is not asked for before that has ended.
    fn abandoned(&self) -> Vec<Arc<Claim>> {
        let now = self.base.clock.now();
        let is_abandoned = |entry: &&Arc<Entry>| {
            let lease = entry.claim().lease.unwrap_or_default();
            entry.is_void() || now.since(entry.heard()) > self.ttl.saturating_add(lease)
        };
        self.entries().values().filter(is_abandoned).map(|entry| entry.claim()).collect()
    }

    pub(crate) fn forget(&self, entry: &Entry) {
        entry.sit(Seat::Gone);
        self.entries().remove(&entry.claim().id.seq);
    }

    /// Proves that the session lives, and compares what it has with what we believe.
    pub(crate) async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Renewal> {
        let client = self.client()?;
        let sent = self.base.clock.now();
        let (proof, listed) = (self.base.prove(&client), client.list_ephemerals(self.base.root()));
        let explain = |said: Said| self.base.explain("a renewal", &said);
        proof.await.map_err(explain)?;
        self.prove(sent);
        let listed: HashSet<String> = listed.await.map_err(explain)?.into_iter().collect();
        let mut renewal = Renewal::default();
        let mut ours: HashSet<String> = HashSet::new();
        for claim in claims {
            let Some(entry) = self.known(claim.id) else {
                renewal.gone.push(claim.id);
                continue;
            };
            if entry.is_void() {
                renewal.gone.push(claim.id);
                continue;
            }
            ours.insert(entry.uuid.clone());
            let is_there = |node: &Node| listed.contains(&node.path);
            match entry.seat() {
                Seat::Held { nodes, .. } if nodes.iter().all(is_there) => {}
                Seat::Waiting(node) if is_there(&node) => renewal.waiting.push(claim.id),
                // It may have come since the list was made.
                Seat::New | Seat::Doubt => renewal.unknown.push(claim.id),
                // Its seat may have changed since: a waiter that was granted permits has other nodes.
                _ if self.has_any(&listed, &entry.uuid) => renewal.unknown.push(claim.id),
                _ => {
                    self.forget(&entry);
                    renewal.gone.push(claim.id);
                }
            }
        }
        renewal.stray = self.strays(&client, &listed, &ours).await;
        Ok(renewal)
    }

    fn has_any(&self, listed: &HashSet<String>, uuid: &str) -> bool {
        listed.iter().filter_map(|path| kid(path)).any(|kid| kid.is_of(uuid))
    }

    /// What the session has and was not asked about.
    async fn strays(
        &self,
        client: &Client,
        listed: &HashSet<String>,
        ours: &HashSet<String>,
    ) -> Vec<Arc<Claim>> {
        let entries: HashMap<String, Arc<Entry>> =
            self.entries().values().map(|entry| (entry.uuid.clone(), entry.clone())).collect();
        let mut seen: HashSet<ClaimId> = HashSet::new();
        let mut strays = Vec::new();
        for path in listed {
            let Some(uuid) = kid(path).and_then(|kid| kid.uuid()).map(names::hyphened) else { continue };
            if ours.contains(&uuid) {
                continue;
            }
            let claim = match entries.get(&uuid) {
                Some(entry) => Some(entry.claim().asking()),
                None => self.told(client, path).await,
            };
            strays.extend(claim.filter(|claim| seen.insert(claim.id)).map(Arc::new));
        }
        strays
    }

    /// What a node that we do not know of says of itself.
    async fn told(&self, client: &Client, path: &str) -> Option<Claim> {
        let below = path.strip_prefix(self.base.config.chroot.as_str())?;
        let (folder, _) = below.rsplit_once('/')?;
        let (data, _) = client.get_data(path).await.ok()?;
        let own = |name| record::decode(&name, &data).map(|told| told.claim);
        let inner = || folder.strip_suffix("/locks").or_else(|| folder.strip_suffix("/leases"));
        names::name(folder).or_else(|| names::name(inner()?)).and_then(own)
    }

    /// Ends the session here and at ZooKeeper, which removes its nodes at once if it can be reached.
    pub(crate) async fn close(&self) {
        self.over.store(true, Ordering::Release);
        let states = self.states();
        drop(self.client.lock().unwrap_or_else(PoisonError::into_inner).take());
        let entries: Vec<_> = self.entries().drain().map(|(_, entry)| entry).collect();
        entries.iter().for_each(|entry| entry.sit(Seat::Gone));
        if let Some(mut states) = states {
            let ended = async { while !states.changed().await.is_terminated() {} };
            let _ = timeout(self.patience(), ended).await;
        }
    }
}

/// The claim's node at a path.
fn kid(path: &str) -> Option<Kid<'_>> {
    Kid::parse(path.rsplit_once('/')?.1)
}

/// Ends a session that was not heard of for its ttl, and tells at once when ZooKeeper has dropped one.
pub(crate) async fn attend(room: Weak<Room>, mut states: StateWatcher, end: impl Fn(SessionId)) {
    loop {
        let Some(room) = room.upgrade().filter(|room| !room.over.load(Ordering::Acquire)) else { return };
        if room.is_over() {
            let claims: Vec<ClaimId> = room.entries().values().map(|entry| entry.claim().id).collect();
            end(room.opening.session);
            room.close().await;
            claims.into_iter().for_each(|id| room.opening.alarm.ring(id));
            return;
        }
        for entry in room.unproved() {
            if entry.annul() {
                room.opening.alarm.ring(entry.claim().id);
            }
        }
        room.solitude.tidy(room.base.clock.now());
        for claim in room.abandoned() {
            let (office, room) = (room.base.office.clone(), room.clone());
            // If it fails, it is tried again.
            office.spawn(async move { drop(room.leave(&claim).await) });
        }
        let left =
            room.ttl.saturating_sub(room.silence().max(room.unproved_for())) + Duration::from_millis(1);
        drop(room);
        let _ = timeout(left.min(LOOK), states.changed()).await;
    }
}
