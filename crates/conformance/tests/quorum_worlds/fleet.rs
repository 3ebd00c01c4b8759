//! A fleet of nodes, several clients with a quorum of their own over it, and what happens to them.

use std::{
    cell::Cell,
    panic,
    sync::{Arc, Mutex, Once, PoisonError},
    time::Duration,
};

use bramah_conformance::{
    faulty::{Faulty, Weather},
    world::{Frozen, Ice, Tale, Town, work},
};
use bramah_core::{
    Clock, Engine, Keep, Keeper, Result, Session, SessionId,
    quorum::{Member, Quorum, Share},
};

use crate::node::{Floors, Nature, Node, Restart, Sessions, claims_at};

/// What can be expected of the nodes.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// How much a node's clock may run too fast or too slow.
    pub(crate) drift: f64,
    /// How far wall clocks may be apart, in ttls.
    pub(crate) skew: f64,
    pub(crate) restart: Restart,
    pub(crate) floors: Floors,
    /// Whether nodes forget.
    pub(crate) amnesia: bool,
    /// Whether their clocks jump ahead.
    pub(crate) jumps: bool,
}

impl Rules {
    /// What the quorum asks for. Core allows for clocks that differ by one per cent and two milliseconds.
    pub(crate) const KEPT: Self = Self {
        drift: 0.009,
        skew: 0.8,
        restart: Restart::Waits,
        floors: Floors::Kept,
        amnesia: true,
        jumps: false,
    };
}

/// What was done to a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blows {
    pub(crate) amnesias: usize,
    pub(crate) outages: usize,
    pub(crate) partitions: usize,
    pub(crate) freezes: usize,
    pub(crate) jumps: usize,
}

/// A world's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) tale: Tale,
    pub(crate) blows: Blows,
}

/// Runs the world of `seed`.
pub(crate) fn run(seed: u64, rules: &Rules) -> Result<Outcome, std::io::Error> {
    count_panics();
    let before = PANICS.get();
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let mut outcome = runtime.block_on(live(seed, rules));
    drop(runtime);
    if PANICS.get() > before {
        outcome.tale.violation.get_or_insert("something panicked".into());
    }
    Ok(outcome)
}

thread_local! {
    /// A world runs on one thread, and a task that panics ends in silence.
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            usual(info);
        }));
    });
}

/// One process: its session, what the network to each node is like, and whether it runs.
#[derive(Clone)]
struct Client {
    session: Session,
    weathers: Vec<Arc<Weather>>,
    ice: Arc<Ice>,
}

/// Everything that can be harmed.
struct Fleet {
    town: Arc<Town>,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    ttl: Duration,
    /// For how long a node that has forgotten does not vote.
    longest: Duration,
    rules: Rules,
    blows: Mutex<Blows>,
}

async fn live(seed: u64, rules: &Rules) -> Outcome {
    let mut rng = fastrand::Rng::with_seed(seed);
    let clock = Clock::runtime();
    let town = Town::new(clock.clone());
    let ttl = Duration::from_millis(rng.u64(400..3_000));
    let (share, count) = match rng.u32(0..10) {
        0 => (Share::All, 2),
        1 => (Share::Majority, 4),
        2..=6 => (Share::Majority, 3),
        _ => (Share::Majority, 5),
    };
    // In some worlds somebody leaves locks behind, for longer than the others' ttl. A lease may be a little longer than that.
    let leaves = rng.u32(0..3) == 0;
    let longest = ttl.mul_f64(if leaves { 4.0 } else { 1.2 });
    let sessions = if rng.u32(0..3) == 0 { Sessions::Known } else { Sessions::Ignored };
    // Clocks that are wrong in the same way are the worst.
    let slowest = if rng.bool() { 0.8 } else { -1.0 };
    let nodes: Vec<Node> = (0..count)
        .map(|_| {
            let nature = Nature {
                rate: 1.0 + rules.drift * (slowest + rng.f64() * (1.0 - slowest)),
                longest,
                sessions,
                restart: rules.restart,
                floors: rules.floors,
            };
            Node::new(clock.clone(), nature, ttl.mul_f64(rules.skew * rng.f64()))
        })
        .collect();
    let mut fleet = Fleet {
        town: town.clone(),
        nodes,
        clients: Vec::new(),
        ttl,
        longest,
        rules: rules.clone(),
        blows: Mutex::default(),
    };
    let per_mille = *rng.choice(&[0, 20, 100, 250]).unwrap_or(&0);
    let node_timeout = Duration::from_millis(*rng.choice(&[15, 50, 200]).unwrap_or(&50));
    for number in 0..rng.usize(2..5) {
        let builder = |members: Vec<Member>| Quorum::builder(members).share(share).node_timeout(node_timeout);
        let id = SessionId::from_bits(u128::from(seed) << 64 | number as u128);
        match fleet.join(&clock, (id, ttl, Keep::Process), per_mille, &mut rng, builder).await {
            Ok(client) => fleet.clients.push(client),
            Err(error) => town.accuse(format!("a session did not open: {error}")),
        }
    }
    let mut leaver = None;
    if leaves {
        let builder = |members: Vec<Member>| Quorum::builder(members).share(share).node_timeout(node_timeout);
        let id = SessionId::from_bits(u128::from(seed) << 64 | 1_000);
        match fleet.join(&clock, (id, longest, Keep::Nobody), per_mille, &mut rng, builder).await {
            Ok(client) => leaver = Some(client),
            Err(error) => town.accuse(format!("a session did not open: {error}")),
        }
    }
    let fleet = Arc::new(fleet);
    let mut tasks = Vec::new();
    for (number, client) in fleet.clients.iter().enumerate() {
        for task in 0..rng.usize(1..3) {
            let work =
                work(town.clone(), client.session.clone(), format!("{number}.{task}"), rng.fork(), ttl);
            tasks.push(tokio::spawn(Frozen::new(client.ice.clone(), work)));
        }
    }
    if let Some(client) = &leaver {
        let work = leave_behind(town.clone(), client.session.clone(), clock.clone(), rng.fork(), longest);
        tasks.push(tokio::spawn(Frozen::new(client.ice.clone(), work)));
    }
    let nemesis = tokio::spawn(nemesis(fleet.clone(), rng.fork()));
    for task in tasks {
        // Generous: every wait in a world is bounded by a few ttls.
        if tokio::time::timeout(ttl * 400, task).await.is_err() {
            town.accuse("somebody waits for ever".into());
        }
    }
    nemesis.abort();
    if let Some(client) = &leaver {
        client.weathers.iter().for_each(|weather| weather.clear_up());
    }
    fleet.heal().await;
    let blows = lock(&fleet.blows).clone();
    aftermath(fleet).await;
    Outcome { tale: town.tale(), blows }
}

impl Fleet {
    async fn join(
        &self,
        clock: &Clock,
        (id, ttl, keep): (SessionId, Duration, Keep),
        per_mille: u32,
        rng: &mut fastrand::Rng,
        builder: impl FnOnce(Vec<Member>) -> bramah_core::quorum::Builder,
    ) -> Result<Client> {
        let weathers: Vec<_> = self
            .nodes
            .iter()
            .map(|_| Weather::new(rng.u64(..), clock.clone(), self.ttl, per_mille))
            .collect();
        let members = self.nodes.iter().zip(&weathers).enumerate().map(|(at, (node, weather))| {
            let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(node.clone()), weather.clone()));
            Member::new(format!("node {at}"), engine)
        });
        let quorum = builder(members.collect()).clock(clock.clone()).build()?;
        let (keeper, driver) = Keeper::driven(clock.clone());
        let ice = Arc::new(Ice::default());
        tokio::spawn(Frozen::new(ice.clone(), driver));
        let owner = format!("client {}", self.clients.len());
        let builder = Session::builder(quorum).ttl(ttl).keep(keep);
        let session = builder.id(id).keeper(keeper).owner(owner).open().await?;
        Ok(Client { session, weathers, ice })
    }

    /// Everything works from here on, and everybody gets what they want in a while: claims that are on their way may come
    /// a ttl later and stand for one, and so long a node may not vote.
    async fn heal(&self) {
        self.town.say("all is well".into());
        for client in &self.clients {
            client.weathers.iter().for_each(|weather| weather.clear_up());
            client.ice.thaw();
        }
        self.nodes.iter().for_each(Node::come_back);
        let patience = self.ttl * 4
            + self.longest * 2
            + Duration::from_secs(2) * u32::try_from(self.clients.len()).unwrap_or(1);
        let mut wants = Vec::new();
        for (number, client) in self.clients.iter().enumerate() {
            let (session, town) = (client.session.clone(), self.town.clone());
            wants.push(tokio::spawn(async move {
                loop {
                    let Ok(mutex) = session.mutex("mutex") else { return };
                    // A store that does not take part yet is an error after a while.
                    if let Ok(guard) = mutex.lock_within(patience).await {
                        let guard = Arc::new(guard);
                        town.granted(&format!("{number} at last"), "mutex", 1, 1, &guard);
                        return;
                    }
                }
            }));
        }
        let all = async {
            for want in wants {
                let _ = want.await;
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            self.town.accuse(format!("all is well, and somebody waits for longer than {patience:?}"));
        }
    }

    fn count(&self, blow: impl FnOnce(&mut Blows)) {
        blow(&mut lock(&self.blows));
    }
}

/// When everybody is gone, nothing is left: ghosts end with their ttl at the latest.
async fn aftermath(fleet: Arc<Fleet>) {
    let (town, nodes, span) = (fleet.town.clone(), fleet.nodes.clone(), fleet.ttl * 4 + fleet.longest * 2);
    drop(fleet);
    tokio::time::sleep(span).await;
    for (at, node) in nodes.iter().enumerate() {
        match claims_at(node).await {
            Ok(0) => {}
            Ok(left) => town.accuse(format!("{left} claims were left behind at node {at}")),
            Err(error) => town.accuse(format!("node {at} did not answer: {error}")),
        }
    }
}

/// One client whose locks outlive it: it takes the mutex and leaves it, and comes back for some of them.
async fn leave_behind(
    town: Arc<Town>,
    session: Session,
    clock: Clock,
    mut rng: fastrand::Rng,
    longest: Duration,
) {
    for number in 0..rng.usize(1..4) {
        let Ok(mutex) = session.mutex("mutex") else { return town.accuse("a face was refused".into()) };
        let who = format!("leaver {number}");
        if let Ok(guard) = mutex.lock_within(longest * 2).await {
            let guard = Arc::new(guard);
            town.granted(&who, "mutex", 1, 1, &guard);
            let Some(guard) = Arc::into_inner(guard) else {
                return town.accuse("a guard has two users".into());
            };
            let sent = clock.now();
            if let Ok(left) = guard.leave().await {
                // As core counts a hold: from before it was sent, less the drift.
                town.left(&who, "mutex", sent + longest.mul_f64(0.99) - Duration::from_millis(2));
                tokio::time::sleep(longest.mul_f64(rng.f64() * 1.2)).await;
                if rng.bool() {
                    town.let_go(&who, "mutex");
                    let _ = left.release().await;
                }
            }
        }
        tokio::time::sleep(longest.mul_f64(rng.f64() / 2.0)).await;
    }
}

/// Harms the fleet in one way after another.
async fn nemesis(fleet: Arc<Fleet>, mut rng: fastrand::Rng) {
    if rng.u32(0..8) == 0 {
        return;
    }
    let ttl = fleet.ttl;
    loop {
        tokio::time::sleep(ttl.mul_f64(0.1 + rng.f64() * 1.2)).await;
        let (at, who) = (rng.usize(0..fleet.nodes.len()), rng.usize(0..fleet.clients.len()));
        let (Some(node), Some(client)) = (fleet.nodes.get(at), fleet.clients.get(who)) else { return };
        let span = ttl.mul_f64(rng.f64() * 1.6);
        match rng.u32(0..8) {
            0 => {
                fleet.town.say(format!("client {who} is cut off for {span:?}"));
                fleet.count(|blows| blows.partitions += 1);
                client.weathers.iter().for_each(|weather| weather.cut(span));
            }
            1 | 2 => {
                fleet.town.say(format!("client {who} is cut off from node {at} for {span:?}"));
                fleet.count(|blows| blows.partitions += 1);
                client.weathers.iter().skip(at).take(1).for_each(|weather| weather.cut(span));
            }
            3 => {
                fleet.town.say(format!("client {who} is frozen for {span:?}"));
                fleet.count(|blows| blows.freezes += 1);
                client.ice.freeze();
                tokio::time::sleep(span).await;
                client.ice.thaw();
            }
            4 => {
                fleet.town.say(format!("node {at} is down for {span:?}"));
                fleet.count(|blows| blows.outages += 1);
                node.go_down(span);
            }
            5.. if fleet.rules.jumps => {
                fleet.town.say(format!("the clock of node {at} jumps by {span:?}"));
                fleet.count(|blows| blows.jumps += 1);
                node.jump(span);
            }
            _ if fleet.rules.amnesia => {
                let down = if rng.bool() { Duration::ZERO } else { span / 8 };
                fleet.town.say(format!("node {at} forgets everything, and is down for {down:?}"));
                fleet.count(|blows| blows.amnesias += 1);
                node.forget(down, ttl.mul_f64(fleet.rules.skew * rng.f64()));
            }
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
