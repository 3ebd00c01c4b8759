//! Ensembles of ZooKeeper.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use bramah_lab::{ZooKeeper, servers::Flavor, until};

use crate::{has, others, runs};

fn start(members: usize) -> Option<ZooKeeper> {
    let began = Instant::now();
    let zookeeper = has(Flavor::ZooKeeper).then(|| ZooKeeper::start(members).unwrap())?;
    eprintln!("zookeeper {} of {members} started in {:?}", zookeeper.version(), began.elapsed());
    Some(zookeeper)
}

/// A session at one member, in the words of the protocol, without a client's library.
struct Session {
    stream: TcpStream,
    timeout: i32,
    xid: i32,
}

impl Session {
    fn open(address: &str, timeout: i32) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut session = Self { stream, timeout, xid: 0 };
        let password = [0; 16];
        session.send(&[
            &0_i32.to_be_bytes(),
            &0_i64.to_be_bytes(),
            &timeout.to_be_bytes(),
            &0_i64.to_be_bytes(),
            &16_i32.to_be_bytes(),
            &password,
        ])?;
        let answer = session.receive()?;
        session.timeout = i32::from_be_bytes(answer[4..8].try_into().unwrap());
        Ok(session)
    }

    /// Makes a node that stays, or that goes with the session, and returns the error's number.
    fn create(&mut self, path: &str, ephemeral: bool) -> std::io::Result<i32> {
        let (xid, length) = (self.next(), i32::try_from(path.len()).unwrap());
        self.send(&[
            &xid,
            &1_i32.to_be_bytes(),
            &length.to_be_bytes(),
            path.as_bytes(),
            &0_i32.to_be_bytes(),
            // Everybody may do everything.
            &1_i32.to_be_bytes(),
            &31_i32.to_be_bytes(),
            &5_i32.to_be_bytes(),
            b"world",
            &6_i32.to_be_bytes(),
            b"anyone",
            &i32::from(ephemeral).to_be_bytes(),
        ])?;
        self.error()
    }

    fn exists(&mut self, path: &str) -> std::io::Result<bool> {
        let (xid, length) = (self.next(), i32::try_from(path.len()).unwrap());
        // What was done before is seen, whoever did it.
        self.send(&[&xid, &9_i32.to_be_bytes(), &length.to_be_bytes(), path.as_bytes()])?;
        self.error()?;
        let xid = self.next();
        self.send(&[&xid, &3_i32.to_be_bytes(), &length.to_be_bytes(), path.as_bytes(), &[0]])?;
        Ok(self.error()? == 0)
    }

    fn next(&mut self) -> [u8; 4] {
        self.xid += 1;
        self.xid.to_be_bytes()
    }

    fn send(&mut self, parts: &[&[u8]]) -> std::io::Result<()> {
        let body = parts.concat();
        let length = i32::try_from(body.len()).unwrap().to_be_bytes();
        self.stream.write_all(&[&length[..], &body].concat())
    }

    fn error(&mut self) -> std::io::Result<i32> {
        let answer = self.receive()?;
        assert_eq!(answer[..4], self.xid.to_be_bytes());
        Ok(i32::from_be_bytes(answer[12..16].try_into().unwrap()))
    }

    fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut body = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }
}

/// Makes a node through one member; tried again while the ensemble is not in order.
fn create(zookeeper: &ZooKeeper, member: usize, path: &str) {
    let address = &zookeeper.addresses()[member];
    until(path, Duration::from_secs(30), || {
        match Session::open(address, 10_000).and_then(|mut session| session.create(path, false)) {
            // It is there, perhaps from the last try.
            Ok(0 | -110) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .unwrap();
}

fn exists(zookeeper: &ZooKeeper, member: usize, path: &str) -> bool {
    let address = &zookeeper.addresses()[member];
    until(path, Duration::from_secs(30), || {
        Session::open(address, 10_000)
            .and_then(|mut session| session.exists(path))
            .map_err(|why| why.to_string())
    })
    .unwrap()
}

#[test]
fn one_stands_alone_and_gives_short_sessions() {
    let Some(zookeeper) = start(1) else { return };
    assert_eq!(zookeeper.leader(), Ok(0));
    let address = &zookeeper.addresses()[0];
    assert_eq!(zookeeper.connect_string(), *address);
    let proxy = zookeeper.proxies().unwrap().remove(0);
    let mut holder = Session::open(&proxy.address(), 600).unwrap();
    assert_eq!(holder.timeout, 600);
    assert_eq!(holder.create("/held", true).unwrap(), 0);
    assert!(exists(&zookeeper, 0, "/held"));
    // It says nothing any more, and is forgotten, though it is connected.
    assert_eq!(proxy.counts().live, 1);
    until("the end of a session", Duration::from_secs(30), || {
        if exists(&zookeeper, 0, "/held") { Err("the node is there".into()) } else { Ok(()) }
    })
    .unwrap();
}

#[test]
fn a_killed_leader_is_replaced_and_comes_back_with_its_data() {
    let Some(zookeeper) = start(3) else { return };
    create(&zookeeper, 0, "/before");
    let leader = zookeeper.leader().unwrap();
    zookeeper.kill(leader).unwrap();
    assert_eq!(zookeeper.pid(leader), None);
    let rest = others(3, leader);
    let began = Instant::now();
    let second = zookeeper.await_leader(&rest).unwrap();
    eprintln!("another leader after {:?}", began.elapsed());
    assert_eq!(zookeeper.leader(), Ok(second));
    create(&zookeeper, rest[0], "/between");
    zookeeper.start_again(leader).unwrap();
    zookeeper.await_leader(&[0, 1, 2]).unwrap();
    for member in 0..3 {
        assert!(exists(&zookeeper, member, "/before") && exists(&zookeeper, member, "/between"));
    }
}

#[test]
fn all_stopped_and_started_again_have_their_data() {
    let Some(zookeeper) = start(3) else { return };
    create(&zookeeper, 1, "/kept");
    let addresses = zookeeper.addresses();
    for member in 0..3 {
        zookeeper.stop(member).unwrap();
        assert!(zookeeper.stop(member).unwrap_err().contains("does not run"));
    }
    assert!(zookeeper.leader().unwrap_err().contains("no member leads"));
    for member in 0..3 {
        zookeeper.start_again(member).unwrap();
    }
    zookeeper.await_leader(&[0, 1, 2]).unwrap();
    assert_eq!(zookeeper.addresses(), addresses);
    assert!(exists(&zookeeper, 2, "/kept"));
}

#[test]
fn a_frozen_leader_is_replaced_and_follows_when_it_is_thawed() {
    let Some(zookeeper) = start(3) else { return };
    let leader = zookeeper.leader().unwrap();
    zookeeper.freeze(leader).unwrap();
    assert!(zookeeper.ask(leader, "ruok").is_err());
    zookeeper.await_leader(&others(3, leader)).unwrap();
    zookeeper.thaw(leader).unwrap();
    assert_ne!(zookeeper.await_leader(&[0, 1, 2]), Ok(leader));
}

#[test]
fn a_leader_that_is_cut_off_from_the_others_is_replaced_until_that_is_healed() {
    let Some(zookeeper) = start(3) else { return };
    create(&zookeeper, 0, "/before");
    let leader = zookeeper.leader().unwrap();
    let rest = others(3, leader);
    let heard = || rest.iter().map(|other| zookeeper.carried(leader, *other)).sum::<u64>();
    assert!(heard() > 0, "they speak past the network");
    zookeeper.isolate(leader);
    let began = Instant::now();
    let second = zookeeper.await_leader(&rest).unwrap();
    eprintln!("another leader after {:?}", began.elapsed());
    create(&zookeeper, second, "/without");
    // It knows that it is alone, and serves nobody.
    until("a leader that steps down", Duration::from_secs(30), || {
        let said = zookeeper.ask(leader, "srvr")?;
        if said.contains("not currently serving") { Ok(()) } else { Err(said) }
    })
    .unwrap();
    assert!(Session::open(&zookeeper.addresses()[leader], 10_000).is_err());
    zookeeper.heal();
    zookeeper.await_leader(&[0, 1, 2]).unwrap();
    assert!(exists(&zookeeper, leader, "/before") && exists(&zookeeper, leader, "/without"));
}

#[test]
fn dropped_members_are_gone_also_when_they_are_frozen() {
    let Some(zookeeper) = start(3) else { return };
    let pids = [0, 1, 2].map(|member| zookeeper.pid(member).unwrap());
    let addresses = zookeeper.addresses();
    zookeeper.freeze(1).unwrap();
    drop(zookeeper);
    assert!(!pids.into_iter().any(runs));
    assert!(addresses.iter().all(|address| TcpStream::connect(address).is_err()));
}

#[test]
fn settings_are_set_and_a_wrong_one_is_told() {
    if !has(Flavor::ZooKeeper) {
        return;
    }
    let zookeeper = ZooKeeper::with(1, &[("tickTime", "1000")]).unwrap();
    assert!(zookeeper.ask(0, "conf").unwrap().contains("tickTime=1000"));
    assert_eq!(Session::open(&zookeeper.addresses()[0], 600).unwrap().timeout, 2_000);
    let why = ZooKeeper::with(1, &[("tickTime", "often")]).unwrap_err();
    assert!(ZooKeeper::start(0).unwrap_err().contains("no members"));
    assert!(why.contains("did not start") && why.contains("Invalid config"), "{why}");
}
