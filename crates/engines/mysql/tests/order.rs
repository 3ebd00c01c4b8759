//! Rows are locked in one order, so that no two calls wait for each other; and a sweep gets on.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::{fmt::Write, sync::Arc, time::Duration};

use bramah_core::{About, Claim, ClaimId, Engine, Keep, Name, Opening, SessionId, Standing, Wait};
use bramah_lab::MariaDb as Server;
use bramah_mysql::MySql;

use crate::stage::{SOON, flavors, ready, session};

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
        let engine: Arc<dyn Engine> = MySql::from_url(&url).unwrap().into();
        let session = SessionId::random().unwrap();
        let opening = Opening::new(session, TTL, Keep::Nobody, About::this_process());
        engine.open(Arc::new(opening)).await.unwrap();
        Self { engine, session }
    }

    /// One of two permits.
    fn claim(&self, name: &str, seq: u64) -> Claim {
        Claim {
            id: ClaimId { session: self.session, seq },
            name: Name::new(name).unwrap(),
            capacity: 2,
            weight: 1,
            wait: Wait::Line,
            again: false,
            floor: None,
            ttl: TTL,
            lease: None,
            note: "".into(),
        }
    }

    async fn enter(&self, name: &str, seq: u64) -> Standing {
        self.engine.claim(Arc::new(self.claim(name, seq))).await.unwrap()
    }
}

/// Stops whoever comes to the line `between` until two are stopped, here or elsewhere; not for long, for calls do not wait for long.
const GATE: &str = "DELIMITER //
CREATE PROCEDURE gate()
BEGIN
  DECLARE v_looks, v_stopped INT DEFAULT 0;
  DECLARE v_name VARBINARY(200);
  START TRANSACTION;
  SELECT name INTO v_name FROM bramah_claims WHERE name = 'between' FOR UPDATE;
  REPEAT
    DO SLEEP(0.05);
    SET v_looks = v_looks + 1;
    SELECT COUNT(*) INTO v_stopped FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT';
  UNTIL v_stopped >= 2 OR v_looks > 160 END REPEAT;
  COMMIT;
END //
DELIMITER ;";

/// Waits until there are so many transactions in a state.
fn until_transactions(server: &Server, state: &str, count: usize) {
    let text = format!("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = '{state}'");
    let there = || {
        let there = server.sql(&text)?;
        if there == count.to_string() { Ok(()) } else { Err(format!("there are {there}")) }
    };
    bramah_lab::until(&format!("{count} in {state}"), SOON, there).unwrap();
}

/// One who holds asks about it, finds that the other holder has died, and has a second claim of its own granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_asks_does_not_deadlock_with_its_own_renewal() {
    for flavor in flavors() {
        let server = Arc::new(ready(flavor, &[]).await);
        let (dead, raw) = (Raw::open(&server).await, Raw::open(&server).await);
        assert!(matches!(raw.enter("line", 1).await, Standing::Held { .. }));
        assert!(matches!(dead.enter("line", 1).await, Standing::Held { .. }));
        assert!(matches!(raw.enter("between", 2).await, Standing::Held { .. }));
        assert!(matches!(raw.enter("line", 3).await, Standing::Queued { .. }));
        let died = format!("UPDATE bramah_claims SET expires = 1 WHERE session = UNHEX('{}')", dead.session);
        server.sql(&died).unwrap();
        server.sql(GATE).unwrap();
        let keeper = server.clone();
        let gate = std::thread::spawn(move || keeper.sql("CALL gate()"));
        until_transactions(&server, "RUNNING", 1);
        let renewer = raw.clone();
        let renewal = tokio::spawn(async move {
            let claims = [("line", 1), ("between", 2), ("line", 3)];
            let claims = claims.map(|(name, seq)| Arc::new(renewer.claim(name, seq).asking()));
            renewer.engine.renew(renewer.session, Arc::new(claims)).await.unwrap()
        });
        until_transactions(&server, "LOCK WAIT", 1);
        let (engine, claim) = (raw.engine.clone(), Arc::new(raw.claim("line", 1).asking()));
        let asked = tokio::spawn(async move { engine.claim(claim).await.unwrap() });
        gate.join().unwrap().unwrap();
        let renewal = renewal.await.unwrap();
        assert!(renewal.unknown.is_empty() && renewal.gone.is_empty(), "{renewal:?}");
        assert!(matches!(asked.await.unwrap(), Standing::Held { .. }));
        let state = server.sql("SHOW ENGINE INNODB STATUS").unwrap();
        assert!(!state.contains("LATEST DETECTED DEADLOCK"), "{flavor:?} had to end a deadlock");
    }
}

/// In more lines than one sweep takes somebody died behind one who lives and waits.
#[tokio::test(flavor = "multi_thread")]
async fn the_dead_behind_living_waiters_do_not_starve_the_sweep() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let mut text = String::new();
        for n in 1..=60 {
            for who in 1..=3 {
                write!(
                    text,
                    "CALL bramah_enter('early/{n}', UNHEX('{who:032x}'), {n}, 1, 1, 600000, 600000, NULL, '', 'l');"
                )
                .unwrap();
            }
        }
        text +=
            "CALL bramah_enter('late', UNHEX(LPAD('3', 32, '0')), 100, 1, 1, 600000, 600000, NULL, '', 'l');";
        text += "UPDATE bramah_claims SET expires = 1 WHERE session = UNHEX(LPAD('3', 32, '0'));";
        server.sql(&text).unwrap();
        let dead = || server.sql("SELECT COUNT(*) FROM bramah_claims WHERE expires = 1").unwrap();
        assert_eq!(dead(), "61");
        let opened = [session(&server.url(), SOON).await, session(&server.url(), SOON).await];
        assert_eq!(dead(), "0", "two sessions that opened have not cleared away 61 lines");
        assert_eq!(server.sql("SELECT COUNT(*) FROM bramah_claims").unwrap(), "120", "those who live");
        drop(opened);
    }
}
