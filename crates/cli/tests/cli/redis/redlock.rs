//! Locks on several masters that outlive their process, and masters that were restarted.

use std::{
    process::{Command, Output},
    time::{Duration, Instant},
};

use bramah_lab::{Redis, servers::Flavor};

use super::ends;
use crate::support::{Lab, Running, text, until};

/// Three masters that know nothing of each other and keep nothing on disk.
struct Masters {
    lab: Lab,
    redis: Vec<Redis>,
}

impl Masters {
    fn start() -> Self {
        Self { lab: Lab::new(), redis: (0..3).map(|_| Redis::start(Flavor::Redis7).unwrap()).collect() }
    }

    fn bramah(&self, options: &str, args: &[&str]) -> Command {
        let hosts: Vec<String> = self.redis.iter().map(Redis::address).collect();
        let mut command = self.lab.bramah(args);
        command.env("BRAMAH_ENGINE", format!("redlock://{}?node_timeout=1s&{options}", hosts.join(",")));
        command
    }

    fn output(&self, options: &str, args: &[&str]) -> Output {
        self.bramah(options, args).output().unwrap()
    }

    /// How many of them have a key of this name.
    fn votes(&self, name: &str) -> usize {
        let running = self.redis.iter().filter(|server| server.pid().is_some());
        running.filter(|server| server.cli(&["EXISTS", name]).unwrap() == "1").count()
    }

    /// Waits until all of them have run for longer than this.
    fn await_age(&self, seconds: u64) {
        for server in &self.redis {
            until("a master that votes", || {
                let info = server.cli(&["INFO", "server"]).ok()?;
                let age = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"))?;
                (age.trim().parse::<u64>().ok()? > seconds).then_some(())
            });
        }
    }
}

#[test]
fn a_lock_that_would_outlive_the_quarantine_of_a_master_is_refused_before_it_is_waited_for() {
    let masters = Masters::start();
    for (options, ttl) in [("", "10m"), ("max_ttl=5s", "6s")] {
        let out = masters.output(options, &["lock", "freeze", "--ttl", ttl, "-w", "1h"]);
        let said = ends(&out, 64);
        assert!(said.contains("max_ttl"), "{said}");
        assert_eq!((text(&out.stdout).as_str(), masters.votes("freeze")), ("", 0));
    }
}

#[test]
fn a_restarted_master_does_not_vote_for_as_long_as_a_default_lock_may_last_whatever_the_ttl_of_a_run() {
    let masters = Masters::start();
    // The masters are new, which the first one knows.
    masters.redis[2].stop().unwrap();
    ends(&masters.output("restart=trust", &["lock", "freeze", "--ttl", "25s"]), 0);
    masters.redis[1].restart().unwrap();
    masters.redis[2].restart().unwrap();
    assert_eq!(masters.votes("freeze"), 1, "the second master has forgotten it");
    // It has run for longer than the ttl of the run, and for less than what it may have forgotten.
    masters.await_age(2);
    for flags in [&["--ttl", "1s"][..], &[]] {
        let said =
            ends(&masters.output("", &[&["run", "freeze", "-n"], flags, &["--", "true"]].concat()), 69);
        assert!(said.contains("less than 30s ago"), "{said}");
    }
    assert_eq!(masters.votes("freeze"), 1);
}

#[test]
fn with_max_ttl_a_run_has_a_lock_that_a_master_forgot_when_it_has_run_out() {
    let masters = Masters::start();
    masters.redis[2].stop().unwrap();
    let began = Instant::now();
    ends(&masters.output("restart=trust", &["lock", "freeze", "--ttl", "5s"]), 0);
    masters.redis[1].restart().unwrap();
    masters.redis[2].restart().unwrap();
    let run = &["run", "freeze", "--ttl", "1s", "-w", "1m", "--", "true"];
    let (code, _, said) = Running::of(masters.bramah("max_ttl=5s", run)).end();
    assert_eq!(code, 0, "{said}");
    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
}
