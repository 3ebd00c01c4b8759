//! Three members of etcd, and of ZooKeeper.

use std::{ops::Deref, thread, time::Duration};

use bramah_lab::{Etcd, Members, ZooKeeper, servers::Flavor};

use crate::counting::{Fault, Promise, count};

/// Longer than the others need to elect another leader.
const AWAY: Duration = Duration::from_secs(3);

/// What is done to the leader. `leader` waits until one leads and all members serve.
fn faults<'a>(
    members: &'a Members,
    leader: impl Fn() -> Result<usize, String> + Copy + 'a,
    start: impl Fn(usize) -> Result<(), String> + 'a,
) -> Vec<Fault<'a>> {
    let kill = move || {
        let old = leader()?;
        members.kill(old)?;
        thread::sleep(AWAY / 2);
        start(old)?;
        leader().map(drop)
    };
    let freeze = move || {
        let old = leader()?;
        members.freeze(old)?;
        thread::sleep(AWAY);
        members.thaw(old)?;
        leader().map(drop)
    };
    let isolate = move || {
        members.isolate(leader()?);
        thread::sleep(AWAY);
        members.heal();
        leader().map(drop)
    };
    vec![("kill", Box::new(kill)), ("freeze", Box::new(freeze)), ("isolate", Box::new(isolate))]
}

#[test]
fn three_members_of_etcd_keep_the_count() {
    let etcd = Etcd::start(Flavor::Etcd35, 3).unwrap();
    let url = format!("etcd://{}/locks", etcd.addresses().join(","));
    let leader = || etcd.await_leader(&[0, 1, 2]);
    let mut all = faults(etcd.deref(), leader, |member| etcd.start_again(member));
    let failover = || {
        let old = leader()?;
        let next = member_id(&etcd, (old + 1) % 3)?;
        etcd.ctl_at(old, &["move-leader", &next]).map(drop)
    };
    all.push(("failover", Box::new(failover)));
    count("etcd, three members", &url, Promise::Kept, all);
}

fn member_id(etcd: &Etcd, member: usize) -> Result<String, String> {
    let name = format!(", m{member}, ");
    let list = etcd.ctl(&["member", "list"])?;
    let line = list.lines().find(|line| line.contains(&name)).ok_or("no such member")?;
    Ok(line.split(',').next().unwrap_or_default().to_owned())
}

#[test]
fn three_members_of_zookeeper_keep_the_count() {
    let zookeeper = ZooKeeper::start(3).unwrap();
    let url = format!("zookeeper://{}/locks", zookeeper.connect_string());
    let leader = || zookeeper.await_leader(&[0, 1, 2]);
    let all = faults(zookeeper.deref(), leader, |member| zookeeper.start_again(member));
    count("ZooKeeper, three members", &url, Promise::Kept, all);
}
