//! Rows are locked in one order, so that no two calls wait for each other; and a sweep gets on.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::{sync::Arc, time::Duration};

use bramah_core::{
    About, Claim, ClaimId, Engine, Exit, Keep, Name, Opening, Renewal, SessionId, Standing, Wait,
};
use bramah_lab::{Console, Postgres as Server};
use bramah_postgres::Postgres;

use crate::stage::{SOON, ready};

const TTL: Duration = Duration::from_secs(60);

/// A session below the faces, whose calls are not hurried.
#[derive(Clone)]
struct Raw {
    engine: Arc<dyn Engine>,
    session: SessionId,
}

impl Raw {
    async fn open(server: &Server) -> Self {
        let url = format!("{}?timeout=30s", server.url());
        let engine: Arc<dyn Engine> = Postgres::from_url(&url).unwrap().into();
        let session = SessionId::random().unwrap();
        let opening = Opening::new(session, TTL, Keep::Nobody, About::this_process());
        engine.open(Arc::new(opening)).await.unwrap();
        Self { engine, session }
    }

    fn claim(&self, name: &str, seq: u64) -> Claim {
        Claim {
            id: ClaimId { session: self.session, seq },
            name: Name::new(name).unwrap(),
            capacity: 1,
            weight: 1,
            wait: Wait::Line,
            again: false,
            floor: None,
            ttl: TTL,
            lease: None,
            note: "".into(),
        }
    }

    async fn hold(&self, name: &str, seq: u64) {
        let standing = self.engine.claim(Arc::new(self.claim(name, seq))).await.unwrap();
        assert!(matches!(standing, Standing::Held { .. }), "{name}: {standing:?}");
    }

    async fn wait(&self, name: &str, seq: u64) {
        let standing = self.engine.claim(Arc::new(self.claim(name, seq))).await.unwrap();
        assert!(matches!(standing, Standing::Queued { .. }), "{name}: {standing:?}");
    }

    async fn renew(&self, claims: &[(&str, u64)]) -> Renewal {
        let claims: Vec<_> =
            claims.iter().map(|(name, seq)| Arc::new(self.claim(name, *seq).asking())).collect();
        self.engine.renew(self.session, claims.into()).await.unwrap()
    }
}

/// Waits until so many calls of ours wait for a lock of any kind.
fn until_blocked(server: &Server, count: usize) {
    let blocked = || {
        let text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bramah' AND wait_event_type = 'Lock'";
        let blocked = server.sql(text)?;
        if blocked == count.to_string() { Ok(()) } else { Err(format!("{blocked} are blocked")) }
    };
    bramah_lab::until(&format!("{count} calls to be blocked"), SOON, blocked).unwrap();
}

/// Stops whoever comes to the claim of a session in one line.
fn stop_at(server: &Server, raw: &Raw, name: &str) -> Console {
    let mut console = server.console().unwrap();
    let text = format!(
        "BEGIN; SELECT name FROM bramah_claims WHERE session = '{}' AND name = '{name}' FOR UPDATE;",
        raw.session
    );
    assert_eq!(console.ask(&text).unwrap(), name);
    console
}

/// A renewal of `claims` is stopped half-way, at the claim in the line `between`; then `call` runs into it, and both go on.
async fn meet<T: Send + 'static>(
    server: &Server,
    raw: &Raw,
    claims: &'static [(&'static str, u64)],
    call: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut gate = stop_at(server, raw, "between");
    let renewer = raw.clone();
    let renewal = tokio::spawn(async move { renewer.renew(claims).await });
    until_blocked(server, 1);
    let call = tokio::spawn(call);
    until_blocked(server, 2);
    gate.say("COMMIT;").unwrap();
    let renewal = renewal.await.unwrap();
    assert!(renewal.unknown.is_empty(), "{renewal:?}");
    let answer = call.await.unwrap();
    assert!(!server.log().contains("deadlock detected"), "the server had to end a deadlock");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_leaves_does_not_deadlock_with_its_own_renewal() {
    let server = ready(&[]).await;
    let (other, raw) = (Raw::open(&server).await, Raw::open(&server).await);
    other.hold("line", 1).await;
    raw.wait("line", 1).await;
    raw.hold("between", 2).await;
    raw.wait("line", 3).await;
    let (engine, claim) = (raw.engine.clone(), Arc::new(raw.claim("line", 3)));
    let left = async move { engine.withdraw(claim, Exit::Own).await };
    meet(&server, &raw, &[("line", 1), ("between", 2), ("line", 3)], left).await.unwrap();
    assert_eq!(server.sql("SELECT count(*) FROM bramah_claims WHERE name = 'line'").unwrap(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_asks_does_not_deadlock_with_its_own_renewal() {
    let server = ready(&[]).await;
    let raw = Raw::open(&server).await;
    raw.hold("line", 1).await;
    raw.hold("between", 2).await;
    raw.wait("line", 3).await;
    let (engine, claim) = (raw.engine.clone(), Arc::new(raw.claim("line", 1).asking()));
    let asked = async move { engine.claim(claim).await };
    let standing = meet(&server, &raw, &[("line", 1), ("between", 2), ("line", 3)], asked).await.unwrap();
    assert!(matches!(standing, Standing::Held { .. }), "{standing:?}");
}

/// Somebody died behind those who wait in three lines, and a new session sweeps while the waiters are renewed.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_does_not_deadlock_with_a_renewal() {
    let server = ready(&[]).await;
    let (other, raw, dead) = (Raw::open(&server).await, Raw::open(&server).await, Raw::open(&server).await);
    // In another order than that of their names.
    for (seq, name) in (1..).zip(["z", "between", "a"]) {
        other.hold(name, seq).await;
        raw.wait(name, seq).await;
        dead.wait(name, seq).await;
    }
    let died = format!(
        "UPDATE bramah_claims SET until = until - interval '10 minutes' WHERE session = '{}'",
        dead.session
    );
    server.sql(&died).unwrap();
    let address = Arc::new(server);
    let late = address.clone();
    let opened = async move { Raw::open(&late).await };
    meet(&address, &raw, &[("z", 1), ("between", 2), ("a", 3)], opened).await;
    let left = "SELECT count(*) FROM bramah_claims WHERE until < clock_timestamp()";
    assert_eq!(address.sql(left).unwrap(), "0", "somebody dead is still in line");
}

/// In more lines than one sweep takes somebody died behind one who lives and waits.
#[tokio::test(flavor = "multi_thread")]
async fn the_dead_behind_living_waiters_do_not_starve_the_sweep() {
    let server = ready(&[]).await;
    server
        .sql(
            "SELECT bramah_enter(n, lpad(to_hex(s), 32, '0')::uuid, hashtext(n)::bigint + 4294967296, 1, 1, 600000, 600000, NULL, '', 'l') \
               FROM (SELECT 'early/' || lpad(n::text, 3, '0') AS n FROM generate_series(1, 60) n) names, generate_series(1, 3) s; \
             SELECT bramah_enter('late', lpad(to_hex(3), 32, '0')::uuid, 1, 1, 1, 600000, 600000, NULL, '', 'l'); \
             UPDATE bramah_claims SET until = clock_timestamp() - interval '1 minute' WHERE session = lpad(to_hex(3), 32, '0')::uuid",
        )
        .unwrap();
    let dead = || server.sql("SELECT count(*) FROM bramah_claims WHERE until < clock_timestamp()").unwrap();
    assert_eq!(dead(), "61");
    for _ in 0..2 {
        Raw::open(&server).await;
    }
    assert_eq!(dead(), "0", "two sessions that opened have not cleared away 61 lines");
    assert_eq!(server.sql("SELECT count(*) FROM bramah_claims").unwrap(), "120", "those who live");
}
