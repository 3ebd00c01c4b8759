//! Standing in line.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Lab, timeless, until};

#[test]
fn a_signal_ends_the_wait_and_gives_the_place_up() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let mut waiter = lab.start(&["run", "a", "--", "true"]);
        until("the waiter to wait", || (lab.waiters("a") == [waiter.pid()]).then_some(()));
        waiter.signal(signal);
        assert_eq!(waiter.code(), code);
        assert!(lab.waiters("a").is_empty());
    }
}

#[test]
fn a_waiter_is_told_for_whom_it_waits_and_its_place() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &["--reason", "tidy\u{1b}[2Jup"]);
    let owner = lab.lock("a")["holders"][0]["owner"].as_str().unwrap().to_owned();
    let mut first = lab.start(&["run", "a", "--", "true"]);
    until("the first", || (lab.waiters("a") == [first.pid()]).then_some(()));
    let start = Instant::now();
    let mut second = lab.start(&["run", "a", "--", "true"]);
    let said = timeless(&second.talk(), "held ");
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    let whom = format!("bramah: waiting for a: held … by {owner} (\"tidy\\u{{1b}}[2Jup\")");
    assert_eq!(said, format!("{whom}, you are 2nd in line"));
    assert_eq!(timeless(&first.talk(), "held "), format!("{whom}, you are 1st in line"));
    holder.let_go();
    assert_eq!((holder.code(), first.code(), second.code()), (0, 0, 0));
}

#[test]
fn a_frozen_holder_keeps_a_file_lock_and_the_waiter_is_told_why() {
    let lab = Lab::new();
    // Far shorter than it is frozen for: a file lock does not go by time.
    let mut holder = lab.hold("a", &["--ttl", "100ms"]);
    holder.signal(Signal::STOP);
    let mut waiter = lab.start(&["run", "a", "--", "echo", "mine"]);
    let said = timeless(&waiter.talk(), "held ");
    let words =
        "who is stopped (SIGSTOP): the lock stays with it until it continues or ends; you are 1st in line";
    assert!(said.contains(words), "{said}");
    assert!(!waiter.has_ended());
    assert_eq!(lab.waiters("a"), [waiter.pid()]);
    let lock = lab.lock("a");
    assert_eq!(
        (&lock["holders"][0]["health"], &lock["holders"][0]["pid"]),
        (&"stopped".into(), &holder.pid().into())
    );
    holder.signal(Signal::CONT);
    holder.let_go();
    assert_eq!(holder.end(), (0, String::new(), String::new()));
    assert_eq!(waiter.line(), "mine");
    assert_eq!(waiter.code(), 0);
}

#[test]
fn a_holder_that_freezes_later_is_noticed_without_waiting_for_the_next_line() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &[]);
    let mut waiter = lab.start(&["run", "a", "--", "true"]);
    assert!(waiter.talk().ends_with("you are 1st in line"));
    let start = Instant::now();
    holder.signal(Signal::STOP);
    assert!(waiter.talk().contains("who is stopped"));
    // The next line would have come ten seconds after the first.
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    holder.signal(Signal::CONT);
    holder.let_go();
    assert_eq!((holder.code(), waiter.code()), (0, 0));
}

#[test]
fn those_who_wait_are_served_in_the_order_of_the_line() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &[]);
    let mut waiters: Vec<_> =
        (0..12).map(|_| lab.start(&["run", "a", "--", "sh", "-c", "echo $BRAMAH_ID >> order"])).collect();
    until("everybody to wait", || (lab.waiters("a").len() == 12).then_some(()));
    let lock = lab.lock("a");
    let line: Vec<&str> =
        lock["waiters"].as_array().unwrap().iter().map(|waiter| waiter["id"].as_str().unwrap()).collect();
    holder.let_go();
    assert!(waiters.iter_mut().all(|waiter| waiter.code() == 0));
    let order = std::fs::read_to_string(lab.dir.join("order")).unwrap();
    let served: Vec<&str> = order.lines().collect();
    assert_eq!(served, line);
}
