//! The clock of one master jumps (B10).

use bramah_lab::{ShiftedClock, interop};

use crate::{rig::*, stage::*};

/// There is no guard against it but the fence.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_master_whose_clock_jumps_votes_twice_and_the_fence_saves_the_resource() {
    let clock = match ShiftedClock::new() {
        Ok(clock) => clock,
        Err(why) => return interop::missing("a C compiler, for clocks that jump", &why),
    };
    let ttl = ms(20_000);
    let masters = Masters::five_around(&clock);
    let (first, last) = (Ways::without(&masters, &[3, 4]), Ways::without(&masters, &[0, 1]));
    let options = "restart=trust&node_timeout=1s";
    let (a, b) = (join(&first.url(options), ttl).await, join(&last.url(options), ttl).await);
    let ledger = Ledger::forgiving();
    let held = ledger.lock(&mutex(&a, "jumped")).await;
    assert_eq!(masters.voters("jumped"), [0, 1, 2]);
    let tried = mutex(&b, "jumped").try_lock().await;
    assert!(!matches!(tried, Ok(Some(_))), "before the jump nobody else is granted it");

    clock.forward(ttl + ms(1000)).unwrap();
    let next = ledger.persist(&mutex(&b, "jumped")).await;
    the_fence_saves_the_resource(&held, &next);
    next.release().await;
    held.release().await;
    close([a, b]).await;
}
