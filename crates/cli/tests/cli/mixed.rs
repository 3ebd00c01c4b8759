//! `run` and `run -s` of one name at once, on stores where a line can become another kind at any moment.

use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use bramah_lab::{Etcd, ZooKeeper, servers::Flavor};

use crate::support::{Lab, text};

/// How many runs there are, and how many at once.
const RUNS: usize = 120;
const AT_ONCE: usize = 8;

/// Nobody else may be at work.
const ALONE: &str = "mkdir alone || exit 9; for one in shared.*; do [ -e $one ] && exit 9; done; rmdir alone";
/// Others that share may be.
const SHARED: &str = "touch shared.$$; [ -e alone ] && exit 9; rm shared.$$";

/// What is run, and whether it may find the lock busy.
const KINDS: [(&[&str], &str, bool); 5] = [
    (&[], ALONE, false),
    (&["-s"], SHARED, false),
    (&["-s", "-w", "1m"], SHARED, false),
    (&["-x"], ALONE, false),
    (&["-n"], ALONE, true),
];

/// Runs of every kind at once: all have the lock in their turn, nobody beside somebody who wants to be alone.
fn mix(engine: &str) {
    let lab = Lab::new();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= RUNS {
                        return;
                    }
                    let (flags, script, may_be_busy) = KINDS[number % KINDS.len()];
                    let args = [&["run", "a"], flags, &["--", "sh", "-c", script]].concat();
                    let mut run: Command = lab.bramah(&args);
                    let out = run.env("BRAMAH_ENGINE", engine).output().unwrap();
                    let code = out.status.code().unwrap();
                    let fine = code == 0 || (may_be_busy && code == 75);
                    assert!(fine, "run {flags:?}: {code}: {}", text(&out.stderr));
                }
            });
        }
    });
    assert!(!Path::new(&lab.dir.join("alone")).exists());
}

#[test]
fn on_etcd_runs_that_share_and_runs_that_do_not_never_refuse_each_other() {
    let server = Etcd::start(Flavor::Etcd35, 1).unwrap();
    mix(&format!("etcd://{}/locks", server.addresses().remove(0)));
}

#[test]
fn on_zookeeper_runs_that_share_and_runs_that_do_not_never_refuse_each_other() {
    let server = ZooKeeper::start(1).unwrap();
    mix(&format!("zookeeper://{}/locks", server.connect_string()));
}
