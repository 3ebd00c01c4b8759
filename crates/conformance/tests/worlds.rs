//! Seeded worlds on the memory engine. `BRAMAH_SEEDS=20000` runs more of them, `BRAMAH_SEED=7` one.

use std::sync::Arc;

use bramah_conformance::world;

fn number(key: &str) -> Option<u64> {
    std::env::var(key).ok()?.parse().ok()
}

#[test]
fn no_seed_breaks_a_promise() {
    let (first, count) = match number("BRAMAH_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("BRAMAH_SEEDS").unwrap_or(300)),
    };
    let (mut holds, mut losses) = (0, 0);
    for seed in first..first + count {
        let tale = world::run(seed, |store| store);
        holds += tale.holds;
        losses += tale.losses;
        if let Some(violation) = tale.violation {
            panic!(
                "{}\nseed {seed}: {violation}\nreplay: BRAMAH_SEED={seed} cargo test -p bramah-conformance --test worlds no_seed",
                tale.events.join("\n")
            );
        }
    }
    println!("{count} worlds: {holds} holds, {losses} of them lost, no promise broken");
    assert!(count < 100 || (holds > 1_000 && losses > 10), "the worlds are too quiet to show anything");
}

#[test]
fn a_seed_replays() {
    for seed in 0..20 {
        assert_eq!(world::run(seed, |store| store), world::run(seed, |store| store), "seed {seed}");
    }
}

/// Stores that break a promise, and whether the worlds notice.
mod controls {
    use super::*;
    use bramah_core::{
        Claim, Engine, Exit, Fence, Look, Opening, Profile, Renewal, Reply, Scope, SessionId, Standing,
        Survey,
    };
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Sin {
        GrantsTwiceTheTtl,
        MintsBackwards,
        RenewsNothing,
        GrantsEveryone,
        KeepsWithdrawn,
    }

    #[derive(Debug)]
    struct Sinner {
        inner: Arc<dyn Engine>,
        sin: Sin,
        fence: AtomicU64,
    }

    impl Engine for Sinner {
        fn profile(&self) -> Profile {
            self.inner.profile()
        }
        fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
            match self.sin {
                Sin::GrantsTwiceTheTtl => Reply::now(Ok(opening.ttl * 2)),
                _ => self.inner.open(opening),
            }
        }
        fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
            match self.sin {
                Sin::GrantsEveryone => return Reply::now(Ok(Standing::Held { fence: None, left: None })),
                Sin::GrantsTwiceTheTtl => {
                    return self.inner.claim(Arc::new(Claim { ttl: claim.ttl / 2, ..(*claim).clone() }));
                }
                _ => {}
            }
            match (self.sin, self.inner.claim(claim).into_now()) {
                (Sin::MintsBackwards, Ok(Ok(Standing::Held { fence: Some(_), left }))) => {
                    let fence = Fence::new(self.fence.fetch_sub(1, Ordering::Relaxed));
                    Reply::now(Ok(Standing::Held { fence: Some(fence), left }))
                }
                (_, Ok(answer)) => Reply::now(answer),
                (_, Err(reply)) => reply,
            }
        }
        fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
            match self.sin {
                Sin::RenewsNothing => Reply::now(Ok(Renewal::default())),
                _ => self.inner.renew(session, claims),
            }
        }
        fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
            match self.sin {
                Sin::KeepsWithdrawn => {
                    let forever = Claim { ttl: Duration::from_secs(3600), again: true, ..(*claim).clone() };
                    drop(self.inner.claim(Arc::new(forever)));
                    Reply::now(Ok(()))
                }
                _ => self.inner.withdraw(claim, exit),
            }
        }
        fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
            self.inner.ask(claim)
        }
        fn close(&self, session: SessionId) -> Reply<()> {
            self.inner.close(session)
        }
        fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
            self.inner.survey(scope, look)
        }
        fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
            self.inner.lifelines(session)
        }
    }

    fn is_caught(sin: Sin, word: &str) {
        let caught = (0..200).find_map(|seed| {
            let wrap = |inner| -> Arc<dyn Engine> {
                Arc::new(Sinner { inner, sin, fence: AtomicU64::new(1 << 40) })
            };
            world::run(seed, wrap).violation
        });
        let violation = caught.unwrap_or_else(|| panic!("{sin:?} went unnoticed in 200 worlds"));
        assert!(violation.contains(word), "{sin:?} was noticed for another reason: {violation}");
    }

    #[test]
    fn a_store_that_forgets_earlier_than_it_said_is_caught() {
        is_caught(Sin::GrantsTwiceTheTtl, "at once");
    }

    #[test]
    fn a_store_that_mints_backwards_is_caught() {
        is_caught(Sin::MintsBackwards, "fence");
    }

    #[test]
    fn a_store_that_only_says_that_it_renews_is_caught() {
        is_caught(Sin::RenewsNothing, "at once");
    }

    #[test]
    fn a_store_that_grants_everyone_is_caught() {
        is_caught(Sin::GrantsEveryone, "at once");
    }

    #[test]
    fn a_store_that_keeps_what_was_withdrawn_is_caught() {
        is_caught(Sin::KeepsWithdrawn, "");
    }
}
