//! The command on etcd: a real server, real processes.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
    time::{Duration, Instant},
};

use bramah_lab::{Etcd, Redis, servers::Flavor};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lab, Running, bramah, text, until};

/// A server of its own.
struct Shop {
    lab: Lab,
    server: Etcd,
}

impl Shop {
    fn new() -> Self {
        Self { lab: Lab::new(), server: Etcd::start(Flavor::Etcd35, 1).unwrap() }
    }

    fn address(&self) -> String {
        self.server.addresses().remove(0)
    }

    fn bramah(&self, args: &[&str]) -> Command {
        let mut command = self.lab.bramah(args);
        command.env("BRAMAH_ENGINE", format!("etcd://{}/locks", self.address()));
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

    fn keys(&self) -> String {
        self.server.ctl(&["get", "", "--prefix=true", "--keys-only"]).unwrap()
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
fn etcdctl_and_the_command_stand_in_one_line() {
    let shop = Shop::new();
    let holder = shop.hold("a", &[]);
    let mut theirs = shop.server.etcdctl(&shop.server.endpoints().join(",")).unwrap();
    theirs.args(["lock", "locks/a", "echo", "theirs"]);
    let theirs = Running::of(theirs);
    until("etcdctl to wait", || (shop.lock("a")["waiters"].as_array().unwrap().len() == 1).then_some(()));
    let mut holder = holder;
    holder.let_go();
    assert_eq!(holder.code(), 0);
    let (code, out, err) = theirs.end();
    assert!(code == 0 && out.contains("theirs"), "{out}{err}");
}

#[test]
fn a_lock_is_left_held_and_released_by_its_handle() {
    let shop = Shop::new();
    let (code, handle, err) = shop.done(&["lock", "a", "--ttl", "1m"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(shop.done(&["run", "-n", "a", "--", "true"]).0, 75);
    assert_eq!(shop.done(&["renew", "a", "--handle", handle.trim()]).0, 0);
    assert_eq!(shop.done(&["unlock", "a", "--handle", handle.trim()]).0, 0);
    assert_eq!(shop.keys().trim(), "");
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
    assert!(report["times"]["hand_over_us"].as_u64().unwrap() > 0);
    let (code, page, _) = shop.done(&["doctor"]);
    assert!(code == 0 && page.contains("[etcd.member]") && page.contains("lock and release"), "{page}");
    assert_eq!(shop.keys().trim(), "");
    shop.server.kill(0).unwrap();
    let (code, out, err) = shop.done(&["doctor"]);
    assert_eq!((code, err.as_str()), (69, ""), "{out}");
    let found = out.lines().find(|line| line.contains("[store.unreachable]")).unwrap();
    assert!(found.contains("problem") && found.contains(&shop.address()), "{out}");
}

#[test]
fn a_password_is_never_shown_and_welcome_in_a_file() {
    let shop = Shop::new();
    let password = shop.server.enable_auth().unwrap();
    let address = shop.address();
    let url = format!("etcd://root:{password}@{address},{address}");
    let (code, _, said) = ended(&bramah(&["ls", "--engine", &url]).output().unwrap());
    assert!(code == 64 && said.contains("password_file") && !said.contains(&password), "{said}");
    let mut shown = bramah(&["run", "a", "--", "sh", "-c", "echo $BRAMAH_STORE"]);
    let (code, out, err) = ended(&shown.env("BRAMAH_ENGINE", &url).output().unwrap());
    assert_eq!((code, out), (0, format!("etcd://{address},{address}\n")), "{err}");
    for verb in ["doctor", "ls"] {
        let (code, out, err) = ended(&bramah(&[verb]).env("BRAMAH_ENGINE", &url).output().unwrap());
        assert!(code == 0 && !out.contains(&password) && !err.contains(&password), "{out}{err}");
    }
    let secret = shop.lab.dir.join("secret");
    let write = |password: &str| {
        fs::write(&secret, password).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let config = shop.lab.dir.join("bramah.toml");
    let profile =
        format!("[profile.prod]\nengine = 'etcd://root@{address},{address}/x'\npassword_file = 'secret'\n");
    fs::write(&config, profile).unwrap();
    let run = ["--config", config.to_str().unwrap(), "--profile", "prod", "run", "a", "--", "echo", "held"];
    write(&password);
    let (code, out, err) = ended(&bramah(&run).output().unwrap());
    assert_eq!((code, out.as_str(), err.as_str()), (0, "held\n", ""));
    write("whisper\n");
    let (code, _, said) = ended(&bramah(&run).output().unwrap());
    assert!(
        code == 77 && said.contains("check the user and the password") && !said.contains("whisper"),
        "{said}"
    );
    write(&password);
    let url = format!("etcd://root@{address}?password_file={}", secret.display());
    let (code, out, err) =
        ended(&bramah(&["run", "a", "--engine", &url, "--", "echo", "held"]).output().unwrap());
    assert_eq!((code, out.as_str(), err.as_str()), (0, "held\n", ""));
}

#[test]
fn a_redis_at_the_address_is_said_not_to_be_etcd() {
    for options in [&[][..], &[("requirepass", "hush")]] {
        let redis = Redis::with(Flavor::Redis7, options).unwrap();
        let url = format!("etcd://{}", redis.address());
        for verb in [&["ls"][..], &["run", "a", "-n", "--", "true"], &["doctor"]] {
            let (code, out, err) = ended(&bramah(verb).env("BRAMAH_ENGINE", &url).output().unwrap());
            // The doctor reports it, the others fail with a line.
            let (said, nothing) = if verb == ["doctor"] { (out, err) } else { (err, out) };
            assert_eq!((code, nothing.as_str()), (69, ""), "{verb:?}: {said}");
            let lines: Vec<_> =
                said.lines().filter(|line| line.contains("does not look like etcd")).collect();
            assert!(matches!(lines[..], [line] if line.contains(&redis.address())), "{verb:?}: {said}");
            assert!(!said.contains("transport error"), "{said}");
        }
    }
}
