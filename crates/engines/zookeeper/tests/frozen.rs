//! Real processes that stand still for longer than their sessions last, on an ensemble of three.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod rig;
#[path = "faults/stage.rs"]
mod stage;

use std::{process::ExitCode, time::Duration};

use bramah_conformance::{CHILD, Puppet};
use stage::*;
use tokio::runtime::Runtime;

/// Of those that do not stand still.
const LONG: Duration = ms(30_000);

/// How long is looked for a place in line before something else is.
const LOOK: Duration = ms(200);

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        // Who is to be stopped.
        println!("{}", std::process::id());
        return rig::run("a process", 3, 1);
    }
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let stage = stage().await;
        a_holder_that_was_stopped_says_first_of_all_that_it_lost_the_lock(&stage).await;
        a_waiter_that_was_stopped_is_passed_over_and_is_not_granted_when_it_goes_on(&stage).await;
    });
    println!("ok");
    ExitCode::SUCCESS
}

/// A process with a session of two seconds, which are three in ZooKeeper.
struct Process {
    puppet: Puppet,
    pid: u32,
}

impl Process {
    fn start(stage: &Stage) -> Self {
        let puppet = Puppet::start(&stage.url(), |_| ()).unwrap();
        let pid = puppet.heard(SOON).unwrap().parse().unwrap();
        let mut process = Self { puppet, pid };
        assert_eq!(process.puppet.ask("open 2000").unwrap(), "open");
        process
    }

    /// Its fence, once it has the lock that it was told to take. Where ZooKeeper did not answer it is told again.
    fn got(&mut self, lock: &str) -> u64 {
        loop {
            let answer = self.puppet.heard(SOON).expect("no answer");
            match answer.strip_prefix("held ") {
                Some(fence) => return fence.parse().unwrap(),
                None => assert!(answer.starts_with("error "), "{answer}"),
            }
            self.puppet.tell(lock).unwrap();
        }
    }
}

/// B40: a holder that stands still past its session has lost its node, and its client has not heard of it.
async fn a_holder_that_was_stopped_says_first_of_all_that_it_lost_the_lock(stage: &Stage) {
    let mut holder = Process::start(stage);
    let near = stage.session(LONG).await;
    for _ in 0..2 {
        holder.puppet.tell("lock x").unwrap();
        let first = holder.got("lock x");
        let next = waiter(&near, "x");
        waiting(&near, "x", 1).await;
        bramah_lab::freeze(holder.pid).unwrap();
        // What it does as soon as it goes on.
        ["state", "release", "lock x"].iter().for_each(|line| holder.puppet.tell(line).unwrap());
        let (_, next) = soon("the next grant", next).await.unwrap();
        assert!(next.fence().unwrap().get() > first);
        assert_eq!(holder.puppet.heard(Duration::ZERO), None, "it was not stopped");
        bramah_lab::thaw(holder.pid).unwrap();
        assert_eq!(holder.puppet.heard(SOON).as_deref(), Some("lost"));
        assert_eq!(holder.puppet.heard(SOON).as_deref(), Some("AlreadyLost"));
        // It stands in line again, behind.
        waiting(&near, "x", 1).await;
        assert!(next.is_held(), "who was stopped took it back");
        assert_eq!(holder.puppet.heard(Duration::ZERO), None, "two hold it");
        let second = next.fence().unwrap().get();
        next.release().await;
        assert!(holder.got("lock x") > second);
        assert_eq!(holder.puppet.ask("release").unwrap(), "released");
    }
    drop(holder);
    stage.settled([near]).await;
}

/// A queue of three, of which the one in the middle is stopped.
async fn a_waiter_that_was_stopped_is_passed_over_and_is_not_granted_when_it_goes_on(stage: &Stage) {
    let mut stopped = Process::start(stage);
    let (a, b, c) = (stage.session(LONG).await, stage.session(LONG).await, stage.session(LONG).await);
    let holder = lock(&a, "y").await;
    let first = waiter(&b, "y");
    waiting(&a, "y", 1).await;
    stopped.puppet.tell("lock y").unwrap();
    waiting(&a, "y", 2).await;
    let last = waiter(&c, "y");
    waiting(&a, "y", 3).await;
    bramah_lab::freeze(stopped.pid).unwrap();
    // Its place goes with its session, and nobody is served because of that.
    waiting(&a, "y", 2).await;
    assert!(holder.is_held() && !first.is_finished() && !last.is_finished());
    let mut fences = vec![holder.fence().unwrap().get()];
    holder.release().await;
    let (_, first) = soon("the first", first).await.unwrap();
    fences.push(first.fence().unwrap().get());
    assert!(!last.is_finished(), "two hold it");
    first.release().await;
    let (_, last) = soon("the last", last).await.unwrap();
    fences.push(last.fence().unwrap().get());
    bramah_lab::thaw(stopped.pid).unwrap();
    // Both that were ahead of it have gone, and still it is not its turn: it stands in line again, or says why not.
    let said = loop {
        let is_in_line = tokio::time::timeout(LOOK, waiting(&a, "y", 1)).await.is_ok();
        let said = stopped.puppet.heard(Duration::ZERO);
        if is_in_line || said.is_some() {
            break said;
        }
    };
    assert!(said.as_ref().is_none_or(|said| said.starts_with("error ")), "{said:?} while another holds it");
    assert!(last.is_held());
    if said.is_some() {
        stopped.puppet.tell("lock y").unwrap();
    }
    last.release().await;
    fences.push(stopped.got("lock y"));
    assert!(fences.is_sorted(), "{fences:?}");
    assert_eq!(stopped.puppet.ask("release").unwrap(), "released");
    drop(stopped);
    stage.settled([a, b, c]).await;
}
