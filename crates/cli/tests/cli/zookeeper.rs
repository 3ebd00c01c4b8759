//! The command on ZooKeeper: a real server, real processes.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
    time::{Duration, Instant},
};

use bramah_lab::ZooKeeper;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lab, Running, bramah, text, until};

/// A server of its own.
struct Shop {
    lab: Lab,
    server: ZooKeeper,
}

impl Shop {
    fn new() -> Self {
        Self { lab: Lab::new(), server: ZooKeeper::start(1).unwrap() }
    }

    fn bramah(&self, args: &[&str]) -> Command {
        let mut command = self.lab.bramah(args);
        command.env("BRAMAH_ENGINE", format!("zookeeper://{}/locks", self.server.connect_string()));
        command
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::of(self.bramah(args))
    }

    fn hold(&self, name: &str, flags: &[&str]) -> Running {
        let mut holder = self.start(&[&["run", name], flags, &["--", "sh", "-c", "echo in; cat"]].concat());
        assert_eq!(holder.line(), "in");
        holder
    }

    /// The code, and what was said.
    fn done(&self, args: &[&str]) -> (i32, String, String) {
        ended(&self.bramah(args).output().unwrap())
    }

    fn lock(&self, name: &str) -> Value {
        serde_json::from_str(&self.done(&["show", name, "--json"]).1).unwrap()
    }

    fn waits(&self, name: &str, waiter: &Running) {
        until("the waiter to wait", || (self.lock(name)["waiters"][0]["pid"] == waiter.pid()).then_some(()));
    }
}

fn ended(out: &Output) -> (i32, String, String) {
    (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn a_lock_is_seen_waited_for_and_broken() {
    let shop = Shop::new();
    let mut holder = shop.hold("deploy/prod", &["--reason", "hotfix", "--ttl", "40s"]);
    let (code, out, err) = shop.done(&["ls"]);
    assert!(code == 0 && out.contains("deploy/prod") && out.contains("hotfix"), "{out}{err}");
    let fence = shop.lock("deploy/prod")["fence"].as_u64().unwrap();
    assert_eq!(shop.done(&["run", "-n", "deploy/prod", "--", "true"]).0, 75);
    let mut next = shop.start(&["run", "deploy/prod", "--", "sh", "-c", "echo $BRAMAH_FENCE"]);
    shop.waits("deploy/prod", &next);
    let waiter = shop.start(&["wait", "deploy/prod"]);
    let id = shop.lock("deploy/prod")["holders"][0]["id"].as_str().unwrap().to_owned();
    let broken = Instant::now();
    let (code, _, err) = shop.done(&["break", "deploy/prod", "--id", &id, "--reason", "it hangs"]);
    assert_eq!(code, 0, "{err}");
    let said = holder.talk();
    let took = broken.elapsed();
    assert!(took < Duration::from_secs(6), "it was told, not found out by a renewal: {took:?}");
    assert_eq!(holder.code(), 79, "{said}");
    assert!(said.contains("it hangs"), "{said}");
    assert!(next.line().parse::<u64>().unwrap() > fence);
    assert_eq!(next.code(), 0);
    let (code, _, err) = waiter.end();
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_holder_that_is_killed_is_followed_by_who_waits() {
    let shop = Shop::new();
    let holder = shop.hold("a", &["--ttl", "2s"]);
    let waiter = shop.start(&["run", "a", "--", "echo", "mine"]);
    shop.waits("a", &waiter);
    holder.signal(Signal::KILL);
    let (code, out, err) = waiter.end();
    assert_eq!((code, out.as_str()), (0, "mine\n"), "{err}");
}

#[test]
fn a_lock_that_is_to_outlive_its_process_is_refused_in_one_line() {
    let shop = Shop::new();
    let (code, out, err) = shop.done(&["lock", "a", "--ttl", "1m"]);
    assert_eq!((code, out.as_str(), err.lines().count()), (64, "", 1), "{err}");
    assert!(err.contains("a lock on ZooKeeper ends with its process, and cannot be left"), "{err}");
    assert_eq!(shop.done(&["run", "-n", "a", "--", "true"]).0, 0);
}

#[test]
fn the_doctor_says_what_it_found() {
    let shop = Shop::new();
    let (code, out, err) = shop.done(&["doctor", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&report["healthy"], &report["promises"]["excludes"]["is"]),
        (&true.into(), &"majority".into())
    );
    assert_eq!(report["promises"]["detached"]["is"], "no");
    assert!(report["times"]["hand_over_us"].as_u64().unwrap() > 0);
    let (code, page, _) = shop.done(&["doctor"]);
    assert!(code == 0 && page.contains("[zookeeper.member]") && page.contains("lock and release"), "{page}");
    shop.server.kill(0).unwrap();
    let (code, out, err) = shop.done(&["doctor"]);
    assert_eq!((code, err.as_str()), (69, ""), "{out}");
    let found = out.lines().find(|line| line.contains("[store.unreachable]")).unwrap();
    assert!(found.contains("problem") && found.contains(&shop.server.connect_string()), "{out}");
}

#[test]
fn a_password_is_never_shown_and_welcome_in_a_file() {
    let shop = Shop::new();
    let address = shop.server.connect_string();
    let url = format!("zookeeper://ana:hush@{address},{address}/x");
    let (code, _, said) = ended(&bramah(&["ls", "--engine", &url]).output().unwrap());
    assert!(code == 64 && said.contains("password_file") && !said.contains("hush"), "{said}");
    let mut shown = bramah(&["run", "a", "--", "sh", "-c", "echo $BRAMAH_STORE"]);
    let (code, out, err) = ended(&shown.env("BRAMAH_ENGINE", &url).output().unwrap());
    assert_eq!((code, out), (0, format!("zookeeper://{address},{address}/x\n")), "{err}");
    for verb in ["doctor", "ls"] {
        let (code, out, err) = ended(&bramah(&[verb]).env("BRAMAH_ENGINE", &url).output().unwrap());
        assert!(code == 0 && !out.contains("hush") && !err.contains("hush"), "{out}{err}");
    }
    let secret = shop.lab.dir.join("secret");
    let write = |password: &str| {
        fs::write(&secret, password).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let config = shop.lab.dir.join("bramah.toml");
    let profile = format!(
        "[profile.prod]\nengine = 'zookeeper://ana@{address},{address}/x'\npassword_file = 'secret'\n"
    );
    fs::write(&config, profile).unwrap();
    let run = ["--config", config.to_str().unwrap(), "--profile", "prod", "run", "a", "--", "echo", "held"];
    write("hush\n");
    let (code, out, err) = ended(&bramah(&run).output().unwrap());
    assert_eq!((code, out.as_str(), err.as_str()), (0, "held\n", ""));
    // Another password is another user, to whom the folder is closed.
    write("whisper\n");
    let (code, _, said) = ended(&bramah(&run).output().unwrap());
    assert!(code == 77 && said.contains("see the ACL of the folder") && !said.contains("whisper"), "{said}");
}
