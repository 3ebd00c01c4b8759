//! Redis under sentinels, and as a cluster.

use std::{thread, time::Duration};

use bramah_lab::{Cluster, Redis, Sentinels, Signal, servers::Flavor, until};

use crate::counting::{Fault, Promise, count};

/// Longer than the servers need to call one of theirs down and to put another in its place.
const FROZEN: Duration = Duration::from_secs(4);
const SOON: Duration = Duration::from_secs(30);

fn sentinel(topology: &str, options: &str, promise: Promise) {
    let servers = Sentinels::start(Flavor::Redis7, 2).unwrap();
    let url = format!("redis+sentinel://{}/{}{options}", servers.url_list().join(","), servers.service());
    let failover = || servers.failover();
    let kill = || {
        let old = servers.master()?;
        old.kill();
        servers.await_other_master(old)?;
        old.restart()?;
        in_order(&servers)
    };
    let freeze = || {
        let old = servers.master()?;
        old.signal(Signal::STOP)?;
        servers.await_other_master(old)?;
        old.signal(Signal::CONT)?;
        in_order(&servers)
    };
    let faults: Vec<Fault<'_>> =
        vec![("kill", Box::new(kill)), ("failover", Box::new(failover)), ("freeze", Box::new(freeze))];
    count(topology, &url, promise, faults);
}

/// Waits until the others follow the master again: the next fault is to find what a majority has.
fn in_order(servers: &Sentinels) -> Result<(), String> {
    until("two replicas that follow", SOON, || {
        let info = servers.master()?.call(&["INFO", "replication"])?.text();
        let online = info.lines().filter(|line| line.contains("state=online")).count();
        if online == 2 { Ok(()) } else { Err(info.lines().collect::<Vec<_>>().join(" ")) }
    })
}

#[test]
fn sentinels_with_a_majority_of_replicas_keep_the_count() {
    sentinel("Redis Sentinel, replicas=majority", "?replicas=majority", Promise::Kept);
}

#[test]
fn sentinels_without_it_keep_a_register_that_checks_fences() {
    sentinel("Redis Sentinel", "", Promise::Fenced);
}

fn cluster(topology: &str, options: &str, promise: Promise) {
    let servers = Cluster::with(Flavor::Redis7, 3, 2).unwrap();
    let url = format!("redis+cluster://{}{options}", servers.addresses().join(","));
    let slot = Cluster::slot_of("bramah:{count/er}");
    let master = || servers.node_of(slot).map(|index| (index, &servers.nodes()[index]));
    let failover = || {
        let (_, old) = master()?;
        replica_of(&servers, old)?.call(&["CLUSTER", "FAILOVER"])?;
        await_other(&servers, slot, old)?;
        settle(&servers)
    };
    let kill = || {
        let (_, old) = master()?;
        old.kill();
        await_other(&servers, slot, old)?;
        old.restart()?;
        settle(&servers)
    };
    let freeze = || {
        let (_, old) = master()?;
        old.signal(Signal::STOP)?;
        thread::sleep(FROZEN);
        old.signal(Signal::CONT)?;
        settle(&servers)
    };
    let reshard = || {
        let (from, _) = master()?;
        let others = [0, 6000, 12_000].map(|slot| servers.node_of(slot));
        let to = others.into_iter().flatten().find(|index| *index != from).ok_or("no other master")?;
        servers.move_slot(slot, from, to)?;
        settle(&servers)
    };
    let faults: Vec<Fault<'_>> = vec![
        ("kill", Box::new(kill)),
        ("reshard", Box::new(reshard)),
        ("failover", Box::new(failover)),
        ("freeze", Box::new(freeze)),
    ];
    count(topology, &url, promise, faults);
}

fn replica_of<'a>(servers: &'a Cluster, master: &Redis) -> Result<&'a Redis, String> {
    let follows = |node: &&Redis| {
        let info = node.call(&["INFO", "replication"]).map(|info| info.text()).unwrap_or_default();
        info.contains("role:slave") && info.contains(&format!("master_port:{}", master.port()))
    };
    servers.nodes().iter().find(follows).ok_or_else(|| "it has no replica".to_owned())
}

fn await_other(servers: &Cluster, slot: u16, old: &Redis) -> Result<(), String> {
    until("another master of the slot", SOON, || {
        // Not in the eyes of the old one.
        let asked = servers.nodes().iter().filter(|node| node.port() != old.port());
        let told = asked.filter_map(|node| owner(node, slot)).collect::<Vec<_>>();
        let changed = !told.is_empty() && told.iter().all(|port| *port != old.port());
        if changed { Ok(()) } else { Err(format!("it is on {told:?}")) }
    })
}

/// The port of the slot's master, as this node has it.
fn owner(node: &Redis, slot: u16) -> Option<u16> {
    let ranges = node.call(&["CLUSTER", "SLOTS"]).ok()?.many();
    ranges.into_iter().find_map(|range| {
        let range = range.many();
        let bound = |at: usize| range.get(at).and_then(|bound| bound.text().parse::<u16>().ok());
        let is_here = (bound(0)?..=bound(1)?).contains(&slot);
        is_here.then(|| range.get(2)?.clone().many().get(1)?.text().parse().ok()).flatten()
    })
}

/// Waits until the cluster is whole, and each of its masters has replicas that follow: some move to where one is missing.
fn settle(servers: &Cluster) -> Result<(), String> {
    servers.await_whole()
}

#[test]
fn a_cluster_with_a_majority_of_replicas_keeps_the_count() {
    cluster("Redis Cluster, replicas=majority", "?replicas=majority", Promise::Kept);
}

#[test]
fn a_cluster_without_it_keeps_a_register_that_checks_fences() {
    cluster("Redis Cluster", "", Promise::Fenced);
}
