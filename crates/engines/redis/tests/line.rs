//! The scripts against the reference: random histories on Redis and in memory, and the same answers step by step; and what
//! a break is to who holds.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{sync::Arc, time::Duration};

use bramah_core::{
    About, Claim, ClaimId, Engine, Exit, Keep, Look, Memory, Name, Opening, Scope, Session, SessionId,
    Standing, Wait, line::WHOLE,
};
use bramah_lab::servers::Flavor;
use bramah_redis::Redis;

/// So long that nothing expires on the way.
const TTL: Duration = Duration::from_secs(600);

#[derive(Debug, PartialEq)]
enum Seen {
    Held { has_fence: bool, lease: bool },
    Queued(Option<u32>),
    Refused,
    Gone,
    Error(String),
}

fn seen(answer: bramah_core::Result<Standing>) -> Seen {
    match answer {
        Ok(Standing::Held { fence, left }) => {
            Seen::Held { has_fence: fence.is_some(), lease: left.is_some() }
        }
        Ok(Standing::Queued { ahead, .. }) => Seen::Queued(ahead),
        Ok(Standing::Refused) => Seen::Refused,
        Ok(Standing::Gone) => Seen::Gone,
        Err(error) => Seen::Error(error.to_string()),
    }
}

/// The line as it stands: who, how heavy, and whether it is held.
async fn shown(engine: &dyn Engine, name: &Name) -> Vec<(ClaimId, u32, bool)> {
    let survey = engine.survey(&Scope::Exact(name.clone()), Look::Once).await.unwrap();
    let places = survey.lines.iter().flat_map(|line| &line.places);
    let mut all: Vec<_> = places.map(|place| (place.claim.id, place.claim.weight, place.is_held())).collect();
    // Holders beside each other have no order among them.
    let held = all.iter().filter(|(_, _, held)| *held).count();
    all[..held].sort();
    all
}

struct History {
    random: fastrand::Rng,
    name: Name,
    sessions: Vec<SessionId>,
    capacity: u32,
    claims: Vec<Claim>,
    seq: u64,
}

impl History {
    fn draft(&mut self) -> Claim {
        self.seq += 1;
        let weight = match self.capacity {
            WHOLE if self.random.bool() => WHOLE,
            WHOLE => 1,
            capacity => self.random.u32(1..=capacity),
        };
        // Now and then somebody gets the capacity wrong.
        let odd = self.random.u8(..) < 8;
        let capacity = if odd { self.capacity.saturating_sub(1).max(1) } else { self.capacity };
        Claim {
            id: ClaimId { session: self.sessions[self.random.usize(..self.sessions.len())], seq: self.seq },
            name: self.name.clone(),
            capacity,
            weight: weight.min(capacity),
            wait: [Wait::No, Wait::Line, Wait::Line][self.random.usize(..3)],
            again: false,
            floor: None,
            ttl: TTL,
            lease: (self.random.u8(..) < 24).then_some(TTL),
            note: if self.random.u8(..) < 24 { "a | note%".into() } else { "".into() },
        }
    }

    async fn step(&mut self, redis: &dyn Engine, memory: &dyn Engine) -> (String, String) {
        let known = !self.claims.is_empty();
        let pick =
            |random: &mut fastrand::Rng, claims: &[Claim]| claims[random.usize(..claims.len())].clone();
        match self.random.u8(..100) {
            0..45 => {
                let claim = Arc::new(self.draft());
                self.claims.push((*claim).clone());
                let (a, b) = (redis.claim(claim.clone()).await, memory.claim(claim).await);
                (format!("{:?}", seen(a)), format!("{:?}", seen(b)))
            }
            45..55 if known => {
                let again = Arc::new(pick(&mut self.random, &self.claims));
                // Repeated as it was: entering is idempotent, unless it has left meanwhile, which core never does.
                let there = shown(memory, &self.name).await.iter().any(|(id, ..)| *id == again.id);
                if !there {
                    return Default::default();
                }
                let (a, b) = (redis.claim(again.clone()).await, memory.claim(again).await);
                (format!("{:?}", seen(a)), format!("{:?}", seen(b)))
            }
            55..65 if known => {
                let asked = Arc::new(pick(&mut self.random, &self.claims).asking());
                let (a, b) = (redis.claim(asked.clone()).await, memory.claim(asked).await);
                (format!("{:?}", seen(a)), format!("{:?}", seen(b)))
            }
            65..72 if known => {
                let claim = Arc::new(pick(&mut self.random, &self.claims).asking());
                let session = claim.id.session;
                let claims: Arc<[Arc<Claim>]> = [claim].into();
                let a = redis.renew(session, claims.clone()).await.unwrap();
                let b = memory.renew(session, claims).await.unwrap();
                (format!("{:?}", a.gone), format!("{:?}", b.gone))
            }
            _ if known => {
                let claim = Arc::new(pick(&mut self.random, &self.claims));
                let (a, b) =
                    (redis.withdraw(claim.clone(), Exit::Own).await, memory.withdraw(claim, Exit::Own).await);
                (format!("{:?}", a.is_ok()), format!("{:?}", b.is_ok()))
            }
            _ => Default::default(),
        }
    }
}

#[tokio::test]
async fn a_line_on_redis_is_the_line_of_the_model() {
    let seeds = std::env::var("BRAMAH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60);
    let server = bramah_lab::Redis::start(Flavor::Redis7).unwrap();
    let redis: Arc<dyn Engine> = Arc::new(Redis::from_url(&server.url()).unwrap());
    for seed in 0..seeds {
        let memory: Arc<dyn Engine> = Arc::new(Memory::new());
        let mut random = fastrand::Rng::with_seed(seed);
        let mut sessions = Vec::new();
        for _ in 0..3 {
            let session = SessionId::random().unwrap();
            let opening = Arc::new(Opening::new(session, TTL, Keep::Nobody, About::this_process()));
            redis.open(opening.clone()).await.unwrap();
            memory.open(opening).await.unwrap();
            sessions.push(session);
        }
        let capacity = [1, 1, 2, 4, WHOLE][random.usize(..5)];
        let name = Name::new(format!("model/{seed}")).unwrap();
        let mut history =
            History { random, name: name.clone(), sessions, capacity, claims: Vec::new(), seq: 0 };
        for step in 0..60 {
            let (a, b) = history.step(&*redis, &*memory).await;
            assert_eq!(a, b, "the answer at step {step} of seed {seed} (capacity {capacity})");
            let (a, b) = (shown(&*redis, &name).await, shown(&*memory, &name).await);
            assert_eq!(a, b, "the line after step {step} of seed {seed} (capacity {capacity})");
        }
        for claim in &history.claims {
            redis.withdraw(Arc::new(claim.clone()), Exit::Own).await.unwrap();
        }
        for session in history.sessions {
            redis.close(session).await.unwrap();
        }
        assert_eq!(server.cli(&["KEYS", "*"]).unwrap().trim(), "bramah:mark", "left over after seed {seed}");
    }
}

#[tokio::test]
async fn a_broken_hold_is_known_to_be_lost_at_once() {
    let server = bramah_lab::Redis::start(Flavor::Redis7).unwrap();
    for layout in ["native", "plain"] {
        let url = format!("{}?layout={layout}", server.url());
        let open = || async { Session::builder(Redis::from_url(&url).unwrap()).open().await.unwrap() };
        let (a, b) = (open().await, open().await);
        let name = Name::new(format!("broken/{layout}")).unwrap();
        let guard = a.mutex(&name).unwrap().lock().await.unwrap();
        assert!(b.break_hold(&name, guard.tag(), "a test").await.unwrap());
        // The next renewal is ten seconds away.
        tokio::time::timeout(Duration::from_secs(4), guard.lost()).await.expect("it does not know");
        assert!(!guard.is_held());
    }
}

#[tokio::test]
async fn several_connections_share_the_work_and_hear_every_message_once() {
    let server = bramah_lab::Redis::start(Flavor::Redis7).unwrap();
    let url = format!("{}?connections=3&client_name=several", server.url());
    let session = Session::builder(Redis::from_url(&url).unwrap()).open().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..48 {
        let mutex = session.mutex(format!("shared/{}", task % 12)).unwrap();
        tasks.spawn(async move {
            for _ in 0..10 {
                mutex.lock().await.unwrap().release().await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let clients = server.cli(&["CLIENT", "LIST"]).unwrap();
    let ours: Vec<&str> = clients.lines().filter(|line| line.contains("name=several")).collect();
    assert!(ours.len() >= 3, "{clients}");
    assert_eq!(ours.iter().filter(|line| line.contains(" sub=1")).count(), 1, "{clients}");
}
