//! A store that is down is waited for as long as the lock is, on every engine.

use std::time::{Duration, Instant};

use bramah_lab::{Etcd, How, MariaDb, Postgres, Redis, ZooKeeper, servers::Flavor};
use rustix::process::Signal;

use crate::support::{Lab, Running, bramah, text};

const SECOND: Duration = Duration::from_secs(1);

/// A server that can be stopped and started again.
struct Store<'a> {
    url: String,
    stop: Box<dyn Fn() + 'a>,
    start: Box<dyn Fn() + 'a>,
}

impl Store<'_> {
    fn start_bramah(&self, args: &[&str]) -> Running {
        let mut command = bramah(args);
        command.env("BRAMAH_ENGINE", &self.url);
        Running::of(command)
    }

    /// The code, stdout, stderr, and how long it took.
    fn done(&self, args: &[&str]) -> (i32, String, String, Duration) {
        let began = Instant::now();
        let out = bramah(args).env("BRAMAH_ENGINE", &self.url).output().unwrap();
        (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr), began.elapsed())
    }

    fn is_waited_for(&self) {
        let (code, _, err, _) = self.done(&["run", "a", "--", "true"]);
        assert_eq!(code, 0, "{err}");
        self.while_a_session_is_opened();
        self.while_in_line();
        (self.stop)();
        self.run_ends_in_time(&[], 69);
        let (code, _, err, _) = self.done(&["run", "a", "-n", "--", "true"]);
        assert_eq!(code, 69, "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }

    fn run_ends_in_time(&self, flags: &[&str], code: i32) {
        let args = [&["run", "a", "-w", "2s"], flags, &["--", "echo", "ran"]].concat();
        let (ended, out, err, took) = self.done(&args);
        assert_eq!((ended, out.as_str()), (code, if code == 0 { "ran\n" } else { "" }), "{flags:?} {err}");
        assert!((2 * SECOND..4 * SECOND).contains(&took), "{flags:?} took {took:?}: {err}");
        assert_eq!(err.contains("WITHOUT the lock a"), code == 0, "{err}");
    }

    fn while_a_session_is_opened(&self) {
        (self.stop)();
        let mut waiter = self.start_bramah(&["run", "a", "-w", "25s", "--ttl", "6s", "--", "echo", "had"]);
        let mut lock = self.start_bramah(&["wait", "a", "-w", "25s"]);
        for one in [&mut waiter, &mut lock] {
            let said = one.talk();
            assert!(said.starts_with("bramah: waiting for the store: "), "{said}");
        }
        (self.start)();
        let (code, out, err) = waiter.end();
        assert_eq!((code, out.as_str()), (0, "had\n"), "{err}");
        let (code, _, err) = lock.end();
        assert_eq!(code, 0, "{err}");
    }

    fn while_in_line(&self) {
        let mut holder = self.start_bramah(&["run", "b", "--ttl", "3s", "--", "sh", "-c", "echo in; cat"]);
        assert_eq!(holder.line(), "in");
        let mut waiter = self.start_bramah(&["run", "b", "-w", "28s", "--ttl", "3s", "--", "echo", "mine"]);
        let said = waiter.talk();
        assert!(said.contains("waiting for b: held "), "{said}");
        (self.stop)();
        let said = waiter.talk();
        assert!(said.starts_with("bramah: waiting for the store: "), "{said}");
        holder.signal(Signal::KILL);
        (self.start)();
        let (code, out, err) = waiter.end();
        assert_eq!((code, out.as_str()), (0, "mine\n"), "{err}");
    }

    /// On a server that has been stopped.
    fn no_longer_than_told(&self) {
        for (what, code) in [("fail", 69), ("wait", 69), ("run", 0)] {
            self.run_ends_in_time(&["--if-down", what], code);
        }
        for verb in ["lock", "wait"] {
            let (code, _, err, took) = self.done(&[verb, "a", "-w", "2s"]);
            assert_eq!(code, 69, "{verb}: {err}");
            assert!((2 * SECOND..4 * SECOND).contains(&took), "{verb} took {took:?}: {err}");
        }
        let (code, out, err, _) = self.done(&["run", "a", "-n", "--if-down", "run", "--", "echo", "ran"]);
        assert_eq!((code, out.as_str()), (0, "ran\n"), "{err}");
    }

    fn init(self) -> Self {
        let (code, _, err, _) = self.done(&["init"]);
        assert_eq!(code, 0, "{err}");
        self
    }
}

#[test]
fn a_redis_that_is_down_is_waited_for() {
    let server = Redis::start(Flavor::Redis7).unwrap();
    let store = Store {
        url: server.url(),
        stop: Box::new(|| server.kill()),
        start: Box::new(|| server.restart().unwrap()),
    };
    store.is_waited_for();
    store.no_longer_than_told();
}

#[test]
fn a_postgres_that_is_down_is_waited_for() {
    let server = Postgres::start().unwrap();
    let store = Store {
        url: server.url(),
        stop: Box::new(|| server.stop(How::Immediate).unwrap()),
        start: Box::new(|| server.start_again().unwrap()),
    };
    store.init().is_waited_for();
}

#[test]
fn a_postgres_in_session_mode_that_is_down_is_waited_for() {
    let server = Postgres::start().unwrap();
    let store = Store {
        url: format!("{}?mode=session", server.url()),
        stop: Box::new(|| server.stop(How::Fast).unwrap()),
        start: Box::new(|| server.start_again().unwrap()),
    };
    store.init().is_waited_for();
}

#[test]
fn a_mariadb_that_is_down_is_waited_for() {
    let server = MariaDb::start().unwrap();
    let store = Store {
        url: server.url(),
        stop: Box::new(|| server.kill()),
        start: Box::new(|| server.start_again().unwrap()),
    };
    store.init().is_waited_for();
}

#[test]
fn an_etcd_that_is_down_is_waited_for() {
    let server = Etcd::start(Flavor::Etcd35, 1).unwrap();
    let store = Store {
        url: format!("etcd://{}/locks", server.addresses().remove(0)),
        stop: Box::new(|| server.kill(0).unwrap()),
        start: Box::new(|| server.start_again(0).unwrap()),
    };
    store.is_waited_for();
}

#[test]
fn a_zookeeper_that_is_down_is_waited_for() {
    let server = ZooKeeper::start(1).unwrap();
    let store = Store {
        url: format!("zookeeper://{}/locks", server.connect_string()),
        stop: Box::new(|| server.kill(0).unwrap()),
        start: Box::new(|| server.start_again(0).unwrap()),
    };
    store.is_waited_for();
}

/// It takes connections, and answers nothing.
#[test]
fn a_frozen_store_is_waited_for_no_longer_than_told() {
    let server = Redis::start(Flavor::Redis7).unwrap();
    let store = Store { url: server.url(), stop: Box::new(|| ()), start: Box::new(|| ()) };
    server.signal(Signal::STOP).unwrap();
    store.no_longer_than_told();
    server.signal(Signal::CONT).unwrap();
}

#[test]
fn what_waiting_does_not_mend_ends_at_once() {
    let server = Redis::with(Flavor::Redis7, &[("requirepass", "secret")]).unwrap();
    let url = format!("redis://:wrong@{}", server.address());
    let store = Store { url, stop: Box::new(|| ()), start: Box::new(|| ()) };
    let (code, _, err, took) = store.done(&["run", "a", "--", "true"]);
    assert_eq!(code, 77, "{err}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let lab = Lab::new();
    let server = Postgres::start().unwrap();
    let out = lab.bramah(&["run", "a", "--", "true"]).env("BRAMAH_ENGINE", server.url()).output().unwrap();
    assert_eq!(out.status.code(), Some(64), "{}", text(&out.stderr));
}

/// Without -w the wait has no end, so --if-down has one of its own.
#[test]
fn an_endless_wait_is_given_up_only_if_that_was_asked_for() {
    let server = Redis::start(Flavor::Redis7).unwrap();
    let store = Store {
        url: server.url(),
        stop: Box::new(|| server.kill()),
        start: Box::new(|| server.restart().unwrap()),
    };
    (store.stop)();
    let began = Instant::now();
    let mut waits = store.start_bramah(&["run", "a", "--", "echo", "had"]);
    let mut elected = store.start_bramah(&["elect", "b", "--", "echo", "elected"]);
    let mut runs = store.start_bramah(&["run", "a", "--if-down", "run", "--", "echo", "ran"]);
    let fails = store.start_bramah(&["elect", "a", "--if-down", "fail", "--", "echo", "never"]);
    assert_eq!(runs.line(), "ran");
    let (code, out, err) = fails.end();
    assert_eq!((code, out.as_str()), (69, ""), "{err}");
    let took = began.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(13)).contains(&took), "{took:?}");
    assert_eq!(runs.code(), 0);
    assert!(!waits.has_ended() && !elected.has_ended());
    (store.start)();
    assert_eq!((waits.line().as_str(), elected.line().as_str()), ("had", "elected"));
    assert_eq!((waits.code(), elected.code()), (0, 0));
}
