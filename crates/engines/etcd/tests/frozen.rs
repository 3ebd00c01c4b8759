//! Real processes that stand still for longer than their leases last, on three members.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;
mod rig;

use std::{process::ExitCode, time::Duration};

use bramah_conformance::{CHILD, Puppet};
use bramah_lab::{Etcd as Server, servers::Flavor};
use lab::{SOON, got, session_at, settled, waiter};
use tokio::runtime::Runtime;

/// Of those that do not stand still.
const LONG: Duration = Duration::from_secs(60);

/// How long is looked for a place in line before something else is.
const LOOK: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        // Who is to be stopped.
        println!("{}", std::process::id());
        let (name, flavor) = ("a process", Flavor::Etcd35);
        return rig::run(&rig::Plan { name, flavor, members: 3, abreast: 1, flags: &[], options: "" });
    }
    let (server, runtime) = (Server::start(Flavor::Etcd35, 3).unwrap(), Runtime::new().unwrap());
    a_holder_that_was_stopped_says_first_of_all_that_it_lost_the_lock(&server, &runtime);
    a_waiter_that_was_stopped_is_passed_over_and_is_not_granted_when_it_goes_on(&server, &runtime);
    println!("ok");
    ExitCode::SUCCESS
}

/// A process with a session of two seconds, which are five in etcd.
struct Process {
    puppet: Puppet,
    pid: u32,
}

impl Process {
    fn start(server: &Server) -> Self {
        let puppet = Puppet::start(&lab::url(server, &[0, 1, 2]), |_| ()).unwrap();
        let pid = puppet.heard(SOON).unwrap().parse().unwrap();
        let mut process = Self { puppet, pid };
        assert_eq!(process.puppet.ask("open 2000").unwrap(), "open");
        process
    }

    /// Its fence, once it has the lock that it was told to take. Where etcd did not answer it is told again.
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

fn a_holder_that_was_stopped_says_first_of_all_that_it_lost_the_lock(server: &Server, runtime: &Runtime) {
    let mut holder = Process::start(server);
    let near = runtime.block_on(session_at(server, &[0, 1, 2], LONG));
    for _ in 0..2 {
        holder.puppet.tell("lock x").unwrap();
        let first = holder.got("lock x");
        let entered = runtime.enter();
        let next = waiter(&near, "x");
        drop(entered);
        runtime.block_on(lab::waiting(&near, "x", 1));
        bramah_lab::freeze(holder.pid).unwrap();
        // What it does as soon as it goes on.
        ["state", "release", "lock x"].iter().for_each(|line| holder.puppet.tell(line).unwrap());
        let next = runtime.block_on(got(next));
        assert!(next.fence().unwrap().get() > first);
        assert_eq!(holder.puppet.heard(Duration::ZERO), None, "it was not stopped");
        bramah_lab::thaw(holder.pid).unwrap();
        assert_eq!(holder.puppet.heard(SOON).as_deref(), Some("lost"));
        assert_eq!(holder.puppet.heard(SOON).as_deref(), Some("AlreadyLost"));
        // It stands in line again, behind.
        runtime.block_on(lab::waiting(&near, "x", 1));
        assert!(next.is_held(), "who was stopped took it back");
        assert_eq!(holder.puppet.heard(Duration::ZERO), None, "two hold it");
        let second = next.fence().unwrap().get();
        runtime.block_on(next.release());
        assert!(holder.got("lock x") > second);
        assert_eq!(holder.puppet.ask("release").unwrap(), "released");
    }
    drop(holder);
    runtime.block_on(settled(server, [near]));
}

/// B44: whoever waited with a lease that had ended was granted the lock. A queue of three, of which the one in the middle is
/// stopped. What a client does that only looks at the one ahead is in `traps.rs`.
fn a_waiter_that_was_stopped_is_passed_over_and_is_not_granted_when_it_goes_on(
    server: &Server,
    runtime: &Runtime,
) {
    let mut stopped = Process::start(server);
    let (a, b, c) = runtime.block_on(async {
        let all = [0, 1, 2];
        (
            session_at(server, &all, LONG).await,
            session_at(server, &all, LONG).await,
            session_at(server, &all, LONG).await,
        )
    });
    runtime.block_on(async {
        let holder = got(waiter(&a, "y")).await;
        let first = waiter(&b, "y");
        lab::waiting(&a, "y", 1).await;
        stopped.puppet.tell("lock y").unwrap();
        lab::waiting(&a, "y", 2).await;
        let last = waiter(&c, "y");
        lab::waiting(&a, "y", 3).await;
        bramah_lab::freeze(stopped.pid).unwrap();
        // Its place goes with its lease, and nobody is served because of that.
        lab::waiting(&a, "y", 2).await;
        assert!(holder.is_held() && !first.is_finished() && !last.is_finished());
        let mut fences = vec![holder.fence().unwrap().get()];
        holder.release().await;
        let first = got(first).await;
        fences.push(first.fence().unwrap().get());
        assert!(!last.is_finished(), "two hold it");
        first.release().await;
        let last = got(last).await;
        fences.push(last.fence().unwrap().get());
        bramah_lab::thaw(stopped.pid).unwrap();
        // Both that were ahead of it have gone, and still it is not its turn: it stands in line again, or says why not.
        let said = loop {
            let is_in_line = tokio::time::timeout(LOOK, lab::waiting(&a, "y", 1)).await.is_ok();
            let said = stopped.puppet.heard(Duration::ZERO);
            if is_in_line || said.is_some() {
                break said;
            }
        };
        assert!(
            said.as_ref().is_none_or(|said| said.starts_with("error ")),
            "{said:?} while another holds it"
        );
        assert!(last.is_held());
        if said.is_some() {
            stopped.puppet.tell("lock y").unwrap();
        }
        last.release().await;
        fences.push(stopped.got("lock y"));
        assert!(fences.is_sorted(), "{fences:?}");
        assert_eq!(stopped.puppet.ask("release").unwrap(), "released");
    });
    drop(stopped);
    runtime.block_on(settled(server, [a, b, c]));
}
