//! The command on Redis: real servers, real processes.

mod foreign;
mod redlock;
mod told;
mod verbs;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
    time::{Duration, Instant},
};

use bramah_lab::{Redis, servers::Flavor};
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::Value;

use crate::support::{Lab, Running, bramah, text, timeless, until};

/// A server of its own.
struct Shop {
    lab: Lab,
    redis: Redis,
    url: String,
}

impl Shop {
    fn new() -> Self {
        Self::with(&[], "")
    }

    fn with(options: &[(&str, &str)], query: &str) -> Self {
        let redis = Redis::with(Flavor::Redis7, options).unwrap();
        let url = format!("{}{query}", redis.url());
        Self { lab: Lab::new(), redis, url }
    }

    fn bramah(&self, args: &[&str]) -> Command {
        let mut command = self.lab.bramah(args);
        command.env("BRAMAH_ENGINE", &self.url);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.bramah(args).output().unwrap()
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::of(self.bramah(args))
    }

    fn hold(&self, name: &str, flags: &[&str]) -> Running {
        let mut holder = self.start(&[&["run", name], flags, &["--", "sh", "-c", "echo in; cat"]].concat());
        assert_eq!(holder.line(), "in");
        holder
    }

    fn lock(&self, name: &str) -> Value {
        serde_json::from_slice(&self.output(&["show", name, "--json"]).stdout).unwrap()
    }

    fn holder_id(&self, name: &str) -> String {
        self.lock(name)["holders"][0]["id"].as_str().unwrap().to_owned()
    }

    fn waits(&self, name: &str, waiter: &Running) {
        until("the waiter to wait", || (self.lock(name)["waiters"][0]["pid"] == waiter.pid()).then_some(()));
    }
}

/// What it said; the code has to be this.
#[track_caller]
fn ends(out: &Output, code: i32) -> String {
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{said}{}", text(&out.stdout));
    said
}

fn is_alive(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

#[test]
fn a_lock_is_handed_from_one_process_to_the_next_with_a_larger_fence() {
    let shop = Shop::new();
    let mut holder = shop.hold("deploy/prod", &["--owner", "bob", "--reason", "hotfix"]);
    let before = shop.lock("deploy/prod")["fence"].as_u64().unwrap();
    let mut next = shop.start(&["run", "deploy/prod", "--", "sh", "-c", "echo $BRAMAH_FENCE"]);
    let said = timeless(&next.talk(), "held ");
    assert_eq!(said, "bramah: waiting for deploy/prod: held … by bob (\"hotfix\"), you are 1st in line");
    shop.waits("deploy/prod", &next);
    let released = Instant::now();
    holder.let_go();
    let fence: u64 = next.line().parse().unwrap();
    let took = released.elapsed();
    assert!(fence > before, "{fence} {before}");
    assert!(took < Duration::from_secs(2), "it was pushed, not found by a timer: {took:?}");
    assert_eq!((holder.code(), next.code()), (0, 0));
    assert_eq!(shop.redis.cli(&["KEYS", "*"]).unwrap(), "bramah:mark", "nothing else is left");
}

#[test]
fn a_killed_bramah_takes_its_command_along_before_the_next_one_has_the_lock() {
    let shop = Shop::new();
    let script = "echo $$; exec sleep 1000";
    let mut holder = shop.start(&["run", "a", "--ttl", "4500ms", "--", "sh", "-c", script]);
    let command: i32 = holder.line().parse().unwrap();
    let mut next = shop.start(&["run", "a", "--", "sh", "-c", &format!("kill -0 {command} || echo alone")]);
    shop.waits("a", &next);
    let killed = Instant::now();
    holder.signal(Signal::KILL);
    assert_eq!(next.line(), "alone");
    let took = killed.elapsed();
    assert!(took < Duration::from_millis(4500 + 3000), "free soon after its ttl: {took:?}");
    assert!(!is_alive(command));
    assert_eq!(next.code(), 0);
}

#[test]
fn a_signal_ends_a_waiting_run_which_takes_its_place_out_of_the_line() {
    let shop = Shop::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut holder = shop.hold("a", &[]);
        let mut told = shop.start(&["run", "a", "--", "true"]);
        shop.waits("a", &told);
        let mut next = shop.start(&["run", "a", "--", "echo", "next"]);
        until("a line of two", || (shop.lock("a")["waiters"].as_array()?.len() == 2).then_some(()));
        told.signal(signal);
        assert_eq!(told.code(), 128 + signal.as_raw());
        let waiters = shop.lock("a")["waiters"].clone();
        assert_eq!(waiters.as_array().unwrap().len(), 1, "{waiters}");
        assert_eq!(waiters[0]["pid"], next.pid());
        let sessions = shop.redis.cli(&["KEYS", "bramah:session:*"]).unwrap();
        assert_eq!(sessions.lines().count(), 2, "the session is closed: {sessions}");
        let released = Instant::now();
        holder.let_go();
        assert_eq!(next.line(), "next");
        // A place that is left behind keeps a lock for five seconds.
        assert!(released.elapsed() < Duration::from_secs(4), "{:?}", released.elapsed());
        assert_eq!((holder.code(), next.code()), (0, 0));
    }
}

#[test]
fn a_run_whose_store_is_down_ends_within_about_a_second_of_its_command() {
    for frozen in [true, false] {
        let shop = Shop::new();
        let mut holder = shop.hold("a", &["--ttl", "1m"]);
        if frozen {
            shop.redis.signal(Signal::STOP).unwrap();
        } else {
            shop.redis.kill();
        }
        let ended = Instant::now();
        holder.let_go();
        let (code, _, said) = holder.end();
        let took = ended.elapsed();
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("a: the store did not confirm the release"), "{said}");
        assert!(took < Duration::from_millis(2500), "{took:?}");
    }
}

#[test]
fn a_run_frozen_past_its_ttl_ends_with_79_while_the_next_one_holds() {
    let shop = Shop::new();
    let holder = shop.hold("a", &["--ttl", "1s"]);
    holder.signal(Signal::STOP);
    let mut next = shop.hold("a", &[]);
    holder.signal(Signal::CONT);
    let (code, _, said) = holder.end();
    assert_eq!(code, 79, "{said}");
    assert!(said.starts_with("bramah: a was lost after ") && said.contains("SIGTERM"), "{said}");
    next.let_go();
    assert_eq!(next.code(), 0);
}

#[test]
fn a_server_that_dies_under_a_run_costs_it_the_lock_in_time() {
    let shop = Shop::new();
    let script = "echo $$; exec sleep 1000";
    let mut holder = shop.start(&["run", "a", "--ttl", "4500ms", "--", "sh", "-c", script]);
    let command: i32 = holder.line().parse().unwrap();
    let waiter = shop.start(&["run", "a", "-w", "8s", "--", "true"]);
    shop.waits("a", &waiter);
    let died = Instant::now();
    shop.redis.kill();
    until("the end of the command", || (!is_alive(command)).then_some(()));
    assert!(died.elapsed() < Duration::from_millis(4500), "{:?}", died.elapsed());
    let (code, _, said) = holder.end();
    assert_eq!(code, 79, "{said}");
    assert!(said.lines().next().unwrap().starts_with("bramah: a was lost after "), "{said}");
    let (code, _, said) = waiter.end();
    assert_eq!(code, 69, "{said}");
    assert!(said.lines().last().unwrap().contains(&shop.redis.address()), "{said}");
}

#[test]
fn a_server_that_is_back_within_the_ttl_with_its_data_costs_nothing() {
    let shop = Shop::with(&[("appendonly", "yes"), ("appendfsync", "always")], "");
    let mut holder = shop.hold("a", &["--ttl", "6s"]);
    let fence = shop.lock("a")["fence"].clone();
    shop.redis.restart().unwrap();
    // Two renewals later.
    std::thread::sleep(Duration::from_millis(4500));
    assert_eq!(shop.lock("a")["fence"], fence);
    holder.let_go();
    let (code, _, said) = holder.end();
    assert_eq!((code, said), (0, String::new()));
}

#[test]
fn a_server_that_is_not_there_is_one_line_and_no_hang() {
    let shop = Shop::with(&[], "?timeout=500ms&connect_timeout=500ms");
    let handle = format!("{:032x}:1", 7);
    let verbs: [&[&str]; 8] = [
        &["run", "a", "-n", "--", "true"],
        &["run", "a", "-w", "1s", "-q", "--", "true"],
        &["ls"],
        &["show", "a"],
        &["wait", "a", "-n"],
        &["lock", "a", "-n"],
        &["unlock", "a", "--handle", &handle],
        &["doctor"],
    ];
    shop.redis.kill();
    let try_all = |why: &str| {
        for verb in verbs {
            let start = Instant::now();
            let out = shop.output(verb);
            let mut said = ends(&out, 69);
            if verb == ["doctor"] {
                let page = text(&out.stdout);
                said = page.lines().last().unwrap_or_default().to_owned();
                assert!(said.contains("problem") && said.ends_with("[store.unreachable]"), "{page}");
            }
            assert!(said.lines().count() == 1 && said.contains(&shop.redis.address()), "{verb:?}: {said}");
            assert!(said.contains(why), "{verb:?}: {said}");
            assert!(start.elapsed() < Duration::from_secs(10), "{verb:?}: {:?}", start.elapsed());
        }
    };
    try_all("cannot be reached");
    shop.redis.restart().unwrap();
    shop.redis.signal(Signal::STOP).unwrap();
    try_all("is it up");
    shop.redis.signal(Signal::CONT).unwrap();
}

#[test]
fn a_password_is_never_an_argument_and_always_welcome_in_a_file() {
    let shop = Shop::with(&[("requirepass", "hush@hush")], "");
    let address = shop.redis.address();
    let url = format!("redis://:hush%40hush@{address}");
    let said = ends(&bramah(&["ls", "--engine", &url]).output().unwrap(), 64);
    assert!(said.contains("password_file") && !said.contains("hush"), "{said}");
    // In the environment nobody else can read it.
    let out =
        bramah(&["run", "a", "--", "sh", "-c", "echo $BRAMAH_STORE"]).env("BRAMAH_ENGINE", &url).output();
    assert_eq!(text(&out.unwrap().stdout), format!("redis://{address}\n"));

    let secret = shop.lab.dir.join("secret");
    let write = |password: &str| {
        fs::write(&secret, password).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let config = shop.lab.dir.join("bramah.toml");
    let profile = format!("[profile.prod]\nengine = 'redis://{address}'\npassword_file = 'secret'\n");
    fs::write(&config, profile).unwrap();
    let config = config.to_str().unwrap();
    let run = ["--config", config, "--profile", "prod", "run", "a", "--", "echo", "held"];
    write("hush@hush\n");
    let out = bramah(&run).output().unwrap();
    assert_eq!((ends(&out, 0), text(&out.stdout)), (String::new(), "held\n".into()));
    write("whisper\n");
    let said = ends(&bramah(&run).output().unwrap(), 77);
    assert!(said.contains("does not accept the user or password") && !said.contains("whisper"), "{said}");
    let said = ends(&bramah(&["ls", "--engine", &format!("redis://{address}")]).output().unwrap(), 77);
    assert_eq!(
        said,
        format!("bramah: redis at {address} wants a password; give one in the url or as password_file\n")
    );
    // The engine reads such a file itself, and a path is no secret.
    write("hush@hush\n");
    let url = format!("redis://{address}?password_file={}", secret.display());
    let out = bramah(&["run", "a", "--engine", &url, "--", "echo", "held"]).output().unwrap();
    assert_eq!((ends(&out, 0), text(&out.stdout)), (String::new(), "held\n".into()));
}

#[test]
fn a_url_that_is_wrong_is_told_what_is_allowed() {
    let shop = Shop::new();
    let address = shop.redis.address();
    for (url, words) in [
        (format!("redis://{address}?layuot=plain"), "there is no option layuot; there are layout,"),
        (format!("redis://{address}?layout=plane"), "allowed is native, plain or redisson"),
        (format!("redis://{address}?timeout=5"), "a time like 500ms"),
        (format!("redis://{address}/99"), "the database of the url"),
        (format!("redis+cluster://{address}"), "use redis://"),
        (format!("redis+sentinel://{address}/x"), "use redis://"),
        ("redis://a,b".to_owned(), "redis+sentinel://"),
    ] {
        let said = ends(&bramah(&["ls", "--engine", &url]).output().unwrap(), 64);
        assert!(said.contains(words) && said.lines().count() == 1, "{url}: {said}");
    }
}
