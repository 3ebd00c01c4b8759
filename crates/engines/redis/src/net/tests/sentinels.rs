//! A master that sentinels know.

use bramah_core::ErrorKind;
use bramah_lab::{Sentinels, Signal};

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);

fn url(lab: &Sentinels) -> String {
    format!("redis+sentinel://{}/{}", lab.url_list().join(","), lab.service())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_goes_on_writing_to_a_master_that_was_replaced() {
    let lab = Sentinels::start(Flavor::Redis7, 1).unwrap();
    let (network, notes) = connect(&url(&lab));
    assert_eq!(get(&network, &["SET", "a", "1"]).await, "OK");
    network.listen(0, "channel".into(), PATIENCE).await.unwrap();
    let old = lab.master().unwrap().port();
    lab.failover().unwrap();
    assert_eq!(notes.at_least(1).await, ["broken"]);
    assert_eq!(get(&network, &["SET", "a", "2"]).await, "OK");
    let new = lab.master().unwrap();
    assert_ne!(new.port(), old);
    assert_eq!(new.cli(&["GET", "a"]).unwrap(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_master_ends_the_connection_while_the_old_one_still_takes_writes() {
    let lab = Sentinels::start(Flavor::Redis7, 1).unwrap();
    let (network, notes) = connect(&url(&lab));
    network.listen(0, "channel".into(), PATIENCE).await.unwrap();
    let first = &lab.sentinels()[0];
    bramah_lab::until("a failover", PATIENCE, || first.call(&["SENTINEL", "FAILOVER", lab.service()]))
        .unwrap();
    let old = lab.servers().next().unwrap();
    assert_eq!(notes.at_least(1).await, ["broken"]);
    // Not because the old one knew: sentinels turn it into a replica seconds later.
    let role = old.cli(&["ROLE"]).unwrap();
    println!("when we heard, the old master called itself {}", role.lines().next().unwrap_or_default());
    get(&network, &["SET", "a", "2"]).await;
    let new = lab.await_other_master(old).unwrap();
    assert_eq!(new.cli(&["GET", "a"]).unwrap(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_dies_is_replaced_within_patience() {
    let lab = Sentinels::start(Flavor::Redis7, 1).unwrap();
    let (network, _) = connect(&url(&lab));
    assert_eq!(get(&network, &["SET", "a", "1"]).await, "OK");
    lab.servers().next().unwrap().kill();
    // A request that leaves before we see the end would be in doubt.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let patient = Request { patience: Duration::from_secs(20), ..request(&["SET", "a", "2"]) };
    network.send(patient).await.unwrap();
    assert_eq!(lab.servers().nth(1).unwrap().cli(&["GET", "a"]).unwrap(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_and_frozen_sentinels_are_passed_over() {
    let lab = Sentinels::start(Flavor::Redis7, 1).unwrap();
    lab.sentinels()[0].kill();
    lab.sentinels()[1].signal(Signal::STOP).unwrap();
    let (network, _) = connect(&url(&lab));
    let hasty = Request { patience: Duration::from_millis(1500), ..request(&["PING"]) };
    network.send(hasty).await.unwrap();
    lab.sentinels()[1].signal(Signal::CONT).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_service_and_a_server_that_is_no_sentinel_are_named() {
    let lab = Sentinels::start(Flavor::Redis7, 1).unwrap();
    let (network, _) = connect(&format!("redis+sentinel://{}/wrong", lab.url_list().join(",")));
    let error = network.send(request(&["PING"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("wrong"), "{error}");
    let (network, _) = connect(&format!("redis+sentinel://{}/x", lab.master().unwrap().address()));
    let error = network.send(request(&["PING"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
