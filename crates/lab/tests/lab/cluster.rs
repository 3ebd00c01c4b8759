//! Clusters, and slots that move.

use std::time::Instant;

use bramah_lab::{Cluster, Reply, Wire, servers::Flavor};

use crate::flavors;

const KEY: &str = "{tag}key";

fn text(text: &str) -> Result<Reply, String> {
    Ok(Reply::Text(text.into()))
}

#[test]
fn a_slot_moves_with_its_key_and_asks_in_between() {
    let began = Instant::now();
    let cluster = Cluster::start(Flavor::Redis7).unwrap();
    eprintln!("cluster of 3 started in {:?}", began.elapsed());
    let slot = Cluster::slot_of(KEY);
    let nodes = cluster.nodes();
    assert_eq!(nodes[0].call(&["CLUSTER", "KEYSLOT", KEY]), Ok(Reply::Int(slot.into())));
    let from = cluster.node_of(slot).unwrap();
    let to = (from + 1) % nodes.len();
    nodes[from].call(&["SET", KEY, "value"]).unwrap();
    assert!(nodes[to].call(&["GET", KEY]).unwrap_err().contains("MOVED"));

    cluster.begin_move(slot, from, to).unwrap();
    assert_eq!(nodes[from].call(&["GET", KEY]), text("value"));
    assert!(nodes[from].call(&["GET", "{tag}other"]).unwrap_err().contains("ASK"));
    assert_eq!(cluster.move_keys(slot, from, to), Ok(1));
    assert!(nodes[from].call(&["GET", KEY]).unwrap_err().contains("ASK"));
    let mut wire = Wire::connect(&nodes[to].address(), std::time::Duration::from_secs(5)).unwrap();
    assert_eq!(wire.call(&["ASKING"]), text("OK"));
    assert_eq!(wire.call(&["GET", KEY]), text("value"));
    cluster.end_move(slot, from, to).unwrap();

    assert_eq!(cluster.node_of(slot), Ok(to));
    assert_eq!(nodes[to].call(&["GET", KEY]), text("value"));
    assert!(nodes[from].call(&["GET", KEY]).unwrap_err().contains("MOVED"));
    cluster.move_slot(slot, to, from).unwrap();
    assert_eq!(nodes[from].call(&["GET", KEY]), text("value"));
}

#[test]
fn a_replica_takes_the_place_of_a_killed_master() {
    let began = Instant::now();
    let cluster = Cluster::with(Flavor::Redis7, 3, 1).unwrap();
    eprintln!("cluster of 3 with replicas started in {:?}", began.elapsed());
    assert_eq!(cluster.addresses().len(), 6);
    let slot = Cluster::slot_of(KEY);
    let master = cluster.node_of(slot).unwrap();
    cluster.nodes()[master].kill();
    bramah_lab::until("a new master", std::time::Duration::from_secs(60), || {
        let now = cluster.node_of(slot)?;
        if now == master { Err(format!("node {now} still has it")) } else { Ok(()) }
    })
    .unwrap();
    assert_eq!(cluster.node_of(slot), Ok(master + 3));
    eprintln!("and failed over {:?} after that began", began.elapsed());
}

#[test]
fn every_flavor_forms_a_cluster() {
    for flavor in flavors() {
        let cluster = Cluster::with(flavor, 2, 0).unwrap();
        assert_eq!(cluster.node_of(0), Ok(0));
        assert_eq!(cluster.node_of(8_192), Ok(1));
        cluster.move_slot(8_192, 1, 0).unwrap();
        assert_eq!(cluster.node_of(8_192), Ok(0));
    }
}
