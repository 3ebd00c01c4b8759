//! One of three masters stands still.

use bramah_core::Release;
use bramah_lab::Signal;

use crate::{rig::*, stage::*};

const ROUNDS: u32 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_master_that_stands_still_holds_nobody_up_and_keeps_no_ghost() {
    let masters = Masters::start(3);
    let (ttl, node_timeout) = (ms(20_000), ms(2000));
    let session = join(&masters.url("restart=trust&node_timeout=2s"), ttl).await;
    let ledger = Ledger::strict();
    let lock = mutex(&session, "frozen");
    ledger.lock(&lock).await.release().await;
    masters[0].signal(Signal::STOP).unwrap();
    let began = now();
    for _ in 0..ROUNDS {
        assert_eq!(ledger.lock(&lock).await.release().await, Release::Released);
    }
    let took = now().since(began);
    masters[0].signal(Signal::CONT).unwrap();
    assert!(took < node_timeout * ROUNDS / 2, "{ROUNDS} rounds took {took:?}");
    // What it was asked meanwhile it does now, and what was taken back there goes long before the ttl.
    eventually("a master without a ghost", ttl, || match masters.voters("frozen").as_slice() {
        [] => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await;
    assert_eq!(ledger.lock(&lock).await.release().await, Release::Released);
    close([session]).await;
    masters.await_nothing_left().await;
}
