//! What is found out about a cluster.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::time::Duration;

use bramah_core::ErrorKind;
use bramah_etcd::checkup::{Facts, Rights, Role, Status, examine};
use bramah_lab::{Etcd as Server, servers::Flavor};
use lab::{SOON, flavors, url};

const ALL: Rights = Rights { lock: true, records: true, list: true };

fn roles(facts: &Facts) -> Vec<Option<Role>> {
    facts.members.iter().map(|member| member.word.as_ref().ok().map(|status| status.role)).collect()
}

fn status(facts: &Facts) -> &Status {
    facts.members.iter().find_map(|member| member.word.as_ref().ok()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_says_what_it_is_and_nothing_is_left_in_it() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let revision = || server.ctl(&["get", "x", "-w", "fields"]).unwrap();
        let revision = || revision().lines().find(|line| line.contains("Revision")).unwrap().to_owned();
        let before = revision();
        let facts = examine(&format!("{}/locks?margin=3s", url(&server, &[0]))).await.unwrap();
        assert_eq!(
            (status(&facts).version.as_str(), roles(&facts)),
            (server.version(), vec![Some(Role::Leader)])
        );
        assert_eq!(
            (facts.voters, facts.prefix.as_str(), facts.margin),
            (Some(1), "locks/", Duration::from_secs(3))
        );
        assert_eq!((facts.user.as_deref(), facts.is_private, &status(&facts).alarms), (None, false, &vec![]));
        assert!(status(&facts).round_trip > Duration::ZERO);
        let service = facts.service.unwrap();
        // One and a half election timeouts of half a second.
        assert_eq!((service.least_lease, service.rights), (Duration::from_secs(1), ALL));
        assert_eq!(revision(), before, "nothing was written");
        assert_eq!(server.ctl(&["lease", "list"]).unwrap().trim(), "found 0 leases");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_lease_is_asked_for() {
    let server = Server::with(Flavor::Etcd35, 1, &[("election-timeout", "3000")]).unwrap();
    let facts = examine(&url(&server, &[0])).await.unwrap();
    assert_eq!(facts.service.unwrap().least_lease, Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_are_gone_are_told_apart_and_without_a_majority_nothing_is_granted() {
    let server = Server::start(Flavor::Etcd35, 3).unwrap();
    let all = url(&server, &[0, 1, 2]);
    let facts = examine(&all).await.unwrap();
    let leaders = roles(&facts).iter().filter(|role| **role == Some(Role::Leader)).count();
    assert_eq!((leaders, facts.voters), (1, Some(3)), "{facts:?}");
    // Those of the cluster, whoever is named.
    assert_eq!(examine(&url(&server, &[1])).await.unwrap().voters, Some(3));
    server.kill(0).unwrap();
    server.await_leader(&[1, 2]).unwrap();
    let facts = examine(&all).await.unwrap();
    let why = facts.members[0].word.as_ref().unwrap_err();
    assert!(why.contains(&server.addresses()[0]) && !why.contains('\n'), "{why}");
    assert!(facts.service.is_ok() && roles(&facts)[1..].iter().all(Option::is_some), "{facts:?}");
    server.kill(1).unwrap();
    // It gives up its leader an election timeout later.
    let facts = tokio::time::timeout(SOON, async {
        loop {
            let facts = examine(&all).await.unwrap();
            if roles(&facts) == [None, None, Some(Role::Leaderless)] {
                return facts;
            }
        }
    });
    let facts = facts.await.unwrap();
    assert!(facts.service.is_err(), "{facts:?}");
    server.kill(2).unwrap();
    assert_eq!(examine(&all).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_asked_for_and_not_tried() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        server.enable_auth().unwrap();
        server.ctl(&["role", "add", "locks"]).unwrap();
        server.ctl(&["role", "grant-permission", "locks", "readwrite", "locks/", "--prefix=true"]).unwrap();
        server.ctl(&["role", "add", "reader"]).unwrap();
        server.ctl(&["role", "grant-permission", "reader", "read", "locks/", "--prefix=true"]).unwrap();
        for (user, role) in [("ana", "locks"), ("bob", "reader")] {
            server.ctl(&["user", "add", &format!("{user}:secret")]).unwrap();
            server.ctl(&["user", "grant-role", user, role]).unwrap();
        }
        let address = server.addresses().remove(0);
        let none = Rights { lock: false, records: false, list: false };
        for (user, prefix, rights) in
            [("ana", "/locks", ALL), ("ana", "", none), ("bob", "/locks", Rights { list: true, ..none })]
        {
            let facts = examine(&format!("etcd://{user}:secret@{address}{prefix}")).await.unwrap();
            assert_eq!(facts.user.as_deref(), Some(user));
            assert_eq!(facts.service.as_ref().unwrap().rights, rights, "{user} {prefix}");
            assert!(!format!("{facts:?}").contains("secret"), "{facts:?}");
        }
        assert_eq!(server.ctl(&["get", "", "--prefix=true", "--keys-only"]).unwrap().trim(), "");
        for url in [format!("etcd://ana:hush@{address}"), format!("etcd://{address}")] {
            let error = examine(&url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_is_told() {
    let server = Server::with(Flavor::Etcd35, 1, &[("quota-backend-bytes", "65536")]).unwrap();
    let fill = "x".repeat(8192);
    let full = || match server.ctl(&["put", "/fill", &fill]) {
        Ok(_) => Err("there is room".to_owned()),
        Err(why) => Ok(why),
    };
    bramah_lab::until("a full store", SOON, full).unwrap();
    let facts = examine(&url(&server, &[0])).await.unwrap();
    assert_eq!(status(&facts).alarms, ["NOSPACE"]);
    assert!(facts.service.unwrap_err().contains("NOSPACE"));
}
