//! A cluster.

use bramah_core::ErrorKind;
use bramah_lab::Cluster;

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);

fn url(lab: &Cluster) -> String {
    format!("redis+cluster://{}", lab.addresses().join(","))
}

fn append(key: &str) -> Request {
    request(&["APPEND", key, "x"])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_slot_is_found_through_any_node_and_every_master_is_asked() {
    let lab = Cluster::start(Flavor::Redis7).unwrap();
    let (network, _) = connect(&format!("redis+cluster://127.0.0.1:1,{}", lab.addresses()[2]));
    for i in 0..100 {
        assert_eq!(get(&network, &["SET", &format!("k{i}"), "1"]).await, "OK");
    }
    let nodes = network.nodes(PATIENCE).await.unwrap();
    assert_eq!(nodes.len(), 3);
    let mut keys = 0;
    for node in &nodes {
        let size = text(&network.ask(node, cmd(&["DBSIZE"]), PATIENCE).await.unwrap());
        keys += size.parse::<u32>().unwrap();
    }
    assert_eq!(keys, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_followed_to_its_new_node_and_nothing_is_done_twice() {
    let lab = Cluster::start(Flavor::Redis7).unwrap();
    let (network, _) = connect(&url(&lab));
    let slot = slot("key");
    let from = lab.node_of(slot).unwrap();
    let to = (from + 1) % 3;
    network.send(append("key")).await.unwrap();
    lab.begin_move(slot, from, to).unwrap();
    // Still there; another key of the slot is to be asked for at the new node.
    network.send(append("key")).await.unwrap();
    network.send(append("{key}new")).await.unwrap();
    let answers = network.send_all(vec![append("key"), append("{key}new"), append("{key}newer")]).await;
    let lengths: Vec<_> = answers.into_iter().map(|a| text(&a.unwrap())).collect();
    assert_eq!(lengths, ["3", "2", "1"]);
    lab.move_keys(slot, from, to).unwrap();
    network.send(append("key")).await.unwrap();
    lab.end_move(slot, from, to).unwrap();
    network.send(append("key")).await.unwrap();
    network.send(append("{key}new")).await.unwrap();
    assert_eq!(get(&network, &["GET", "key"]).await, "xxxxx");
    assert_eq!(get(&network, &["GET", "{key}new"]).await, "xxx");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_on_both_sides_of_a_move_are_waited_for() {
    let lab = Cluster::start(Flavor::Redis7).unwrap();
    let (network, _) = connect(&url(&lab));
    let slot = slot("key");
    let from = lab.node_of(slot).unwrap();
    let to = (from + 1) % 3;
    network.send(append("key")).await.unwrap();
    lab.begin_move(slot, from, to).unwrap();
    let two = Arc::new(Script::new(
        "two",
        "return redis.call('APPEND', KEYS[1], 'x') + redis.call('APPEND', KEYS[2], 'x')".to_owned(),
    ));
    let both = Request {
        slot,
        script: Some(Arc::clone(&two)),
        patience: Duration::from_secs(10),
        ..request(&["EVALSHA", two.hash(), "2", "key", "{key}new"])
    };
    let waiting = tokio::spawn(network.send(both));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    lab.move_keys(slot, from, to).unwrap();
    lab.end_move(slot, from, to).unwrap();
    assert_eq!(text(&waiting.await.unwrap().unwrap()), "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_hears_when_the_slot_has_moved_and_listens_again_at_its_new_node() {
    let lab = Cluster::start(Flavor::Redis7).unwrap();
    let (network, notes) = connect(&url(&lab));
    let slot = slot("key");
    let from = lab.node_of(slot).unwrap();
    let to = (from + 1) % 3;
    network.listen(slot, "{key}:channel".into(), PATIENCE).await.unwrap();
    lab.nodes()[from].cli(&["SPUBLISH", "{key}:channel", "one"]).unwrap();
    assert_eq!(notes.at_least(1).await, ["{key}:channel: one"]);
    // Requests under way do not get each other's answers.
    let busy: Vec<_> = (0..4)
        .map(|n| {
            let network = Arc::clone(&network);
            tokio::spawn(async move {
                let mut wrong = 0;
                for i in 0..2000 {
                    let word = format!("{n}-{i}");
                    let echo = Request { slot, ..request(&["ECHO", &word]) };
                    if let Ok(answer) = network.send(echo).await {
                        wrong += usize::from(text(&answer) != word);
                    }
                }
                wrong
            })
        })
        .collect();
    lab.move_slot(slot, from, to).unwrap();
    assert_eq!(notes.at_least(1).await, ["broken"]);
    for task in busy {
        assert_eq!(task.await.unwrap(), 0);
    }
    assert!(!network.is_listening(slot, "{key}:channel"));
    network.listen(slot, "{key}:channel".into(), PATIENCE).await.unwrap();
    assert!(network.is_listening(slot, "{key}:channel"));
    lab.nodes()[to].cli(&["SPUBLISH", "{key}:channel", "two"]).unwrap();
    assert_eq!(notes.at_least(1).await, ["{key}:channel: two"]);
    network.forget("channel").await;
    assert!(!network.is_listening(slot, "{key}:channel"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_dies_is_found_again_as_its_replica() {
    let lab = Cluster::with(Flavor::Redis7, 3, 1).unwrap();
    let (network, _) = connect(&url(&lab));
    let owner = lab.node_of(slot("key")).unwrap();
    network.send(append("key")).await.unwrap();
    lab.nodes()[owner].kill();
    let patient = Request { patience: Duration::from_secs(20), ..append("key") };
    network.send(patient).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_of_a_cluster_as_a_single_one_and_the_reverse_are_told_apart() {
    let lab = Cluster::start(Flavor::Redis7).unwrap();
    let owner = lab.node_of(slot("key")).unwrap();
    let (network, _) = connect(&lab.nodes()[(owner + 1) % 3].url());
    let error = network.send(append("key")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
    let single = server();
    let (network, _) = connect(&format!("redis+cluster://{}", single.address()));
    let error = network.send(append("key")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

fn slot(key: &str) -> u16 {
    super::super::slot::slot_of(key.as_bytes())
}
