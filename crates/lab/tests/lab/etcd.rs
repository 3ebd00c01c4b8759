//! Clusters of etcd.

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use bramah_lab::{Etcd, Members, servers::Flavor, until};

use crate::{has, others, runs};

/// A cluster of each flavor that this machine has.
fn each(members: usize) -> impl Iterator<Item = Etcd> {
    Flavor::ETCD.into_iter().filter(|flavor| has(*flavor)).map(move |flavor| {
        let began = Instant::now();
        let etcd = Etcd::start(flavor, members).unwrap();
        assert_eq!(etcd.flavor(), flavor);
        eprintln!("etcd {} of {members} started in {:?}", etcd.version(), began.elapsed());
        etcd
    })
}

#[test]
fn one_alone_keeps_what_it_is_told_and_grants_leases_of_a_second() {
    for etcd in each(1) {
        assert_eq!(etcd.leader(), Ok(0));
        assert_eq!(etcd.ctl(&["put", "key", "value"]).unwrap(), "OK");
        assert_eq!(etcd.ctl(&["get", "key", "--print-value-only"]).unwrap(), "value");
        let lease = etcd.ctl(&["lease", "grant", "1"]).unwrap();
        assert!(lease.contains("TTL(1s)"), "{lease}");
        for end in [Members::stop, Members::kill] {
            end(&etcd, 0).unwrap();
            assert_eq!(etcd.pid(0), None);
            etcd.start_again(0).unwrap();
            etcd.await_leader(&[0]).unwrap();
            assert_eq!(etcd.ctl(&["get", "key", "--print-value-only"]).unwrap(), "value");
        }
    }
}

#[test]
fn a_killed_leader_is_replaced_and_comes_back_with_its_data() {
    for etcd in each(3) {
        etcd.ctl(&["put", "before", "1"]).unwrap();
        let leader = etcd.leader().unwrap();
        etcd.kill(leader).unwrap();
        let rest = others(3, leader);
        let began = Instant::now();
        let second = etcd.await_leader(&rest).unwrap();
        eprintln!("another leader after {:?}", began.elapsed());
        assert_eq!(etcd.leader(), Ok(second));
        etcd.ctl_at(second, &["put", "between", "2"]).unwrap();
        etcd.start_again(leader).unwrap();
        etcd.await_leader(&[0, 1, 2]).unwrap();
        for key in ["before", "between"] {
            assert!(!etcd.ctl_at(leader, &["get", key]).unwrap().is_empty(), "{key}");
        }
    }
}

#[test]
fn a_frozen_leader_is_replaced_and_follows_when_it_is_thawed() {
    for etcd in each(3) {
        let leader = etcd.leader().unwrap();
        etcd.freeze(leader).unwrap();
        etcd.await_leader(&others(3, leader)).unwrap();
        etcd.thaw(leader).unwrap();
        etcd.await_leader(&[0, 1, 2]).unwrap();
    }
}

#[test]
fn a_leader_that_is_cut_off_from_the_others_is_replaced_until_that_is_healed() {
    for etcd in each(3) {
        let leader = etcd.leader().unwrap();
        let rest = others(3, leader);
        assert!(rest.iter().all(|other| etcd.carried(leader, *other) > 0), "they speak past the network");
        let lease = etcd.ctl_at(leader, &["lease", "grant", "300"]).unwrap();
        let lease = lease.split_whitespace().nth(1).unwrap();
        etcd.isolate(leader);
        let began = Instant::now();
        let second = etcd.await_leader(&rest).unwrap();
        eprintln!("another leader after {:?}", began.elapsed());
        etcd.ctl_at(second, &["put", "without", "1"]).unwrap();
        // Clients reach it, and it can do nothing for them. A lease would be renewed past the others' streams.
        let short = ["--command-timeout=1s", "put", "alone", "1"];
        assert!(etcd.ctl_at(leader, &short).unwrap_err().contains("deadline exceeded"));
        let renewed = etcd.ctl_at(leader, &["--command-timeout=1s", "lease", "keep-alive", lease, "--once"]);
        assert!(!renewed.as_ref().is_ok_and(|said| said.contains("keepalived")), "{renewed:?}");
        etcd.heal();
        etcd.await_leader(&[0, 1, 2]).unwrap();
        until("what was done without it", Duration::from_secs(30), || {
            match etcd.ctl_at(leader, &["get", "without", "--print-value-only"])?.as_str() {
                "1" => Ok(()),
                other => Err(format!("it has {other:?}")),
            }
        })
        .unwrap();
        assert!(
            etcd.ctl_at(leader, &["lease", "keep-alive", lease, "--once"]).unwrap().contains("keepalived")
        );
    }
}

#[test]
fn with_users_nobody_comes_in_without_a_password() {
    for etcd in each(1) {
        let password = etcd.enable_auth().unwrap();
        etcd.ctl(&["put", "key", "value"]).unwrap();
        let mut stranger = etcd.etcdctl(&etcd.endpoints()[0]).unwrap();
        let said = stranger.env_remove("ETCDCTL_USER").args(["get", "key"]).output().unwrap();
        assert!(!said.status.success());
        assert!(String::from_utf8_lossy(&said.stderr).contains("user name is empty"), "{said:?}");
        let mut guest = etcd.etcdctl(&etcd.endpoints()[0]).unwrap();
        let said = guest.env("ETCDCTL_USER", "root:wrong").args(["get", "key"]).output().unwrap();
        assert!(!said.status.success(), "{said:?}");
        assert!(!etcd.log(0).contains(&password));
    }
}

#[test]
fn dropped_members_are_gone_also_when_they_are_frozen() {
    for etcd in each(3) {
        let pids = [0, 1, 2].map(|member| etcd.pid(member).unwrap());
        let addresses = etcd.addresses();
        etcd.freeze(1).unwrap();
        drop(etcd);
        assert!(!pids.into_iter().any(runs));
        assert!(addresses.iter().all(|address| TcpStream::connect(address).is_err()));
    }
}

#[test]
fn flags_are_set_and_a_wrong_one_is_told() {
    for flavor in Flavor::ETCD.into_iter().filter(|flavor| has(*flavor)) {
        let etcd = Etcd::with(flavor, 1, &[("election-timeout", "2000")]).unwrap();
        // Half as much again, and rounded up.
        assert!(etcd.ctl(&["lease", "grant", "1"]).unwrap().contains("TTL(3s)"));
        let why = Etcd::with(flavor, 1, &[("no-such-flag", "1")]).unwrap_err();
        assert!(why.contains("did not start"), "{why}");
    }
    assert!(Etcd::start(Flavor::Redis7, 1).unwrap_err().contains("not etcd"));
}
