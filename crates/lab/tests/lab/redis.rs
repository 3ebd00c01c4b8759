//! One server.

use std::{
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use bramah_lab::{Redis, Reply, Signal, Wire, servers::Flavor, until};

use crate::{flavors, runs};

#[test]
fn every_flavor_starts_and_answers_through_its_own_client() {
    for flavor in flavors() {
        let began = Instant::now();
        let redis = Redis::start(flavor).unwrap();
        eprintln!("{flavor} {} started in {:?}", redis.version(), began.elapsed());
        assert_eq!(redis.cli(&["SET", "a key", "a value"]).unwrap(), "OK");
        assert_eq!(redis.cli(&["GET", "a key"]).unwrap(), "a value");
        assert_eq!(redis.call(&["DBSIZE"]), Ok(Reply::Int(1)));
        assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
        assert!(redis.log().contains("Ready to accept connections"));
        assert!(redis.cli(&["NO-SUCH-COMMAND"]).unwrap_err().contains("unknown command"));
    }
}

#[test]
fn a_dropped_server_is_gone() {
    let redis = Redis::start(Flavor::Redis7).unwrap();
    let (address, pid) = (redis.address(), redis.pid().unwrap());
    assert!(TcpStream::connect(&address).is_ok());
    drop(redis);
    assert!(TcpStream::connect(&address).is_err());
    assert!(!runs(pid));
}

#[test]
fn what_a_restart_keeps_is_decided_by_persistence() {
    let forgetful = Redis::start(Flavor::Redis7).unwrap();
    let lasting = Redis::with(Flavor::Redis7, &[("appendonly", "yes"), ("appendfsync", "always")]).unwrap();
    for redis in [&forgetful, &lasting] {
        redis.call(&["SET", "key", "value"]).unwrap();
        let (port, pid) = (redis.port(), redis.pid());
        redis.kill();
        assert_eq!(redis.pid(), None);
        assert!(redis.signal(Signal::CONT).unwrap_err().contains("does not run"));
        redis.restart().unwrap();
        assert_eq!(redis.port(), port);
        assert_ne!(redis.pid(), pid);
    }
    assert_eq!(forgetful.call(&["GET", "key"]), Ok(Reply::Nil));
    assert_eq!(lasting.call(&["GET", "key"]), Ok(Reply::Text("value".into())));
    lasting.stop().unwrap();
    lasting.wipe().unwrap();
    lasting.restart().unwrap();
    assert_eq!(lasting.call(&["GET", "key"]), Ok(Reply::Nil));
}

#[test]
fn a_server_that_is_asked_to_stop_saves() {
    let redis = Redis::with(Flavor::Redis7, &[("save", "3600 1")]).unwrap();
    redis.call(&["SET", "key", "value"]).unwrap();
    redis.signal(Signal::STOP).unwrap();
    redis.stop().unwrap();
    redis.restart().unwrap();
    assert_eq!(redis.call(&["GET", "key"]), Ok(Reply::Text("value".into())));
}

#[test]
fn a_stopped_server_is_silent_until_it_continues() {
    let redis = Redis::start(Flavor::Redis7).unwrap();
    redis.signal(Signal::STOP).unwrap();
    // The kernel accepts the connection for it.
    let mut wire = Wire::connect(&redis.address(), Duration::from_millis(100)).unwrap();
    assert!(wire.call(&["PING"]).is_err());
    redis.signal(Signal::CONT).unwrap();
    assert_eq!(redis.call(&["PING"]), Ok(Reply::Text("PONG".into())));
}

#[test]
fn a_server_with_a_password_lets_the_lab_in_and_nobody_else() {
    let redis = Redis::with(Flavor::Redis7, &[("requirepass", "open-sesame")]).unwrap();
    assert_eq!(redis.cli(&["PING"]).unwrap(), "PONG");
    let mut wire = Wire::connect(&redis.address(), Duration::from_secs(5)).unwrap();
    assert!(wire.call(&["PING"]).unwrap_err().contains("NOAUTH"));
}

#[test]
fn a_wrong_setting_is_told_by_the_servers_own_words() {
    let why = Redis::with(Flavor::Redis7, &[("maxmemory-policy", "sometimes")]).unwrap_err();
    assert!(why.contains("did not start") && why.contains("argument(s) must be one of"), "{why}");
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let redis = thread::spawn(|| Redis::start(Flavor::Redis7).unwrap()).join().unwrap();
    assert_eq!(redis.call(&["PING"]), Ok(Reply::Text("PONG".into())));
}

#[test]
fn a_crash_is_noticed() {
    let redis = Redis::start(Flavor::Redis7).unwrap();
    redis.call(&["DEBUG", "SEGFAULT"]).unwrap_err();
    until("the crash", Duration::from_secs(30), || {
        redis.pid().map_or(Ok(()), |pid| Err(format!("{pid} runs")))
    })
    .unwrap();
    redis.restart().unwrap();
    assert!(redis.log().contains("crashed by signal"));
}
