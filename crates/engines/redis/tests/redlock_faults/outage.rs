//! Masters that are down: one, while many want the lock (B35), and more than may be.

use bramah_core::{ErrorKind, Release};

use crate::{rig::*, stage::*};

const CLIENTS: usize = 6;
const TURNS: usize = 5;

async fn all_get_their_turn(number: usize) {
    let masters = Masters::start(number);
    masters[0].kill();
    let url = masters.url("restart=trust&node_timeout=1s");
    let ledger = Ledger::strict();
    let mut sessions = Vec::new();
    for _ in 0..CLIENTS {
        sessions.push(join(&url, LONG).await);
    }
    let clients: Vec<_> = sessions
        .iter()
        .map(|session| {
            let (ledger, lock) = (ledger.clone(), mutex(session, "split"));
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    ledger.lock(&lock).await.release().await;
                }
            })
        })
        .collect();
    for client in clients {
        tokio::time::timeout(PATIENCE * 2, client).await.expect("everybody has had its turns").unwrap();
    }
    assert_eq!(ledger.grants(), CLIENTS * TURNS);
    eventually("masters without a vote", PATIENCE, || match masters.voters("split").as_slice() {
        [] => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn votes_that_are_split_among_three_of_four_keep_nobody_from_its_turn() {
    all_get_their_turn(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn votes_that_are_split_among_four_of_five_keep_nobody_from_its_turn() {
    all_get_their_turn(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn too_few_masters_are_an_error_that_names_those_that_are_down_until_they_are_back() {
    let masters = Masters::start(5);
    let session = join(&masters.url("restart=trust&node_timeout=500ms"), ms(6000)).await;
    let ledger = Ledger::strict();
    let lock = mutex(&session, "outage");
    ledger.persist(&lock).await.release().await;
    let (down, up) = masters.split_at(3);
    down.iter().for_each(|server| server.kill());
    for wait in [None, Some(ms(1500))] {
        let tried = match wait {
            None => lock.try_lock().await.map(drop),
            Some(wait) => lock.lock_within(wait).await.map(drop),
        };
        let text = tried.as_ref().unwrap_err().to_string();
        assert_eq!(tried.unwrap_err().kind(), ErrorKind::Unavailable, "{text}");
        assert!(down.iter().all(|server| text.contains(&server.address())), "{text}");
        assert!(!up.iter().any(|server| text.contains(&server.address())), "{text}");
    }
    down.iter().for_each(|server| server.restart().unwrap());
    assert_eq!(ledger.persist(&lock).await.release().await, Release::Released);
    close([session]).await;
    masters.await_nothing_left().await;
}
