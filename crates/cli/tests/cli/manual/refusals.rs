//! What is said to requests that make no sense, word by word.

use super::snapshot::Kept;
use crate::support::{bramah, text};

/// Variables first, as in a shell.
const REFUSED: &[&[&str]] = &[
    &[],
    &["rum", "a"],
    &["redis://ana:hush@h"],
    &["run"],
    &["run", "", "--", "b"],
    &["run", "a", "--engine", "memory:"],
    &["run", "a", "--engine", "memory:", "--"],
    &["run", "a", "--frob", "--", "b"],
    &["run", "a", "-c", "b", "--", "c"],
    &["run", "a", "-w", "soon", "--", "b"],
    &["run", "a", "-w", "", "--", "b"],
    &["run", "a", "-w", "5x", "--", "b"],
    &["run", "a", "-w=-5", "--", "b"],
    &["run", "a", "--max-run", "0", "--", "b"],
    &["run", "-l", "a,b", "-l", "c", "--engine", "memory:", "--", "d"],
    &["lock", "a", "--engine", "memory:", "-E", "0"],
    &["run", "a", "-w", "99999999999999999999d", "--", "b"],
    &["run", "a", "-n", "-w", "3", "--", "b"],
    &["run", "a", "-s", "-x", "--", "b"],
    &["run", "a", "-e", "-s", "--", "b"],
    &["run", "-F", "a", "--", "b"],
    &["run", "--no-fork", "a", "--", "b"],
    &["run", "-u", "a", "--", "b"],
    &["run", "--unlock", "a", "--", "b"],
    &["run", "--fcntl", "a", "--", "b"],
    &["lock", "-u", "a"],
    &["run", "a", "-s", "--slots", "2", "--", "b"],
    &["run", "a", "-x", "--slots", "2", "--", "b"],
    &["run", "a", "--slots", "0", "--", "b"],
    &["run", "a", "--slots", "1000001", "--", "b"],
    &["run", "a", "-E", "256", "--", "b"],
    &["run", "a", "--on-lost", "shrug", "--", "b"],
    &["run", "a", "--on-lost", "signal:NOPE", "--", "b"],
    &["run", "a", "--label", "x", "--", "b"],
    &["run", "a", "--label", "=x", "--", "b"],
    &["run", "a", "--if-down", "shrug", "--", "b"],
    &["run", "a", "--status-fd", "0", "--", "b"],
    &["run", "a", "-q", "-v", "--", "b"],
    &["run", "a", "--engine", "memory:", "--profile", "x", "--", "b"],
    &["run", "a", "--engine", "redis://ana:hush@h", "--", "b"],
    &["run", "a", "--engine", "redis://h?password=hush", "--", "b"],
    &["run", "a", "--", "b"],
    &["run", "a", "--engine", "memory:", "--ttl", "1ms", "--", "b"],
    &["run", "a", "--engine", "memory:", "--ttl", "31d", "--", "b"],
    &["run", "a", "--engine", "memory:", "--ttl", "10s", "--grace", "5s", "--", "b"],
    &["run", "a//b", "--engine", "memory:", "--", "b"],
    &["run", "a\nb", "--engine", "memory:", "--", "b"],
    &["run", "a", "--engine", "memory:", "--namespace", "x//y", "--", "b"],
    &["run", "-l", "a", "b", "c"],
    &["run", "b", "-l", "a", "--", "c"],
    &["run", "-l", "a", "b", "--", "c"],
    &["run", "-l", "a", "--engine", "memory:"],
    &["run", "-l", "a", "-l", "b", "-l", "a", "--engine", "memory:", "--", "c"],
    &["BRAMAH_TTL=soon", "run", "a", "--", "b"],
    &["BRAMAH_WAIT=soon", "run", "a", "--", "b"],
    &["BRAMAH_TTL=1ms", "BRAMAH_ENGINE=memory:", "run", "a", "--", "b"],
    &["BRAMAH_LOG=loud", "BRAMAH_ENGINE=memory:", "ls"],
    &["elect"],
    &["elect", "a", "--engine", "memory:"],
    &["elect", "a", "-n", "--", "b"],
    &["elect", "a", "--engine", "memory:", "--ttl", "10s", "--grace", "5s", "--", "b"],
    &["lock"],
    &["lock", "a", "--engine", "memory:", "--ttl", "31d"],
    &["renew", "a", "--engine", "memory:"],
    &["unlock", "a", "--engine", "memory:"],
    &["unlock", "a", "--engine", "memory:", "--handle", "hush"],
    &["BRAMAH_HANDLE=hush", "renew", "a", "--engine", "memory:"],
    &["ls", "a", "b"],
    &["ls", "--engine", "nonsense"],
    &["ls", "--engine", "gopher://x"],
    &["ls", "--engine", "file://host/dir"],
    &["BRAMAH_ENGINE=gopher://ana:hush@h", "ls"],
    &["BRAMAH_ENGINE=redlock://ana:hush@h,i,h", "ls"],
    &["BRAMAH_ENGINE=redlock://ana:hush@h?replicas=any", "ls"],
    &["BRAMAH_ENGINE=postgres://ana:hush@h?color=red", "ls"],
    &["BRAMAH_ENGINE=postgres://ana:hush@h?mode=sessions", "ls"],
    &["BRAMAH_ENGINE=postgres://ana:hush@h?mode=session&keys=md5", "ls"],
    &["BRAMAH_ENGINE=mysql://ana:hush@h/d?mode=session&keys=md5", "ls"],
    &["BRAMAH_ENGINE=mysql://ana:hush@h/d?color=red", "ls"],
    &["run", "a", "--engine", "etcd://ana:hush@h,i,j", "--", "b"],
    &["run", "a", "--engine", "zookeeper://ana:hush@h,i,j/x", "--", "b"],
    &["BRAMAH_ENGINE=etcd://ana:hush@h,i?color=red", "ls"],
    &["BRAMAH_ENGINE=etcd://ana:hu/sh@h,i", "ls"],
    &["BRAMAH_ENGINE=etcd://ana:hush@h,,i", "ls"],
    &["BRAMAH_ENGINE=etcd://ana@h", "ls"],
    &["BRAMAH_ENGINE=etcd://h?cacert=/x", "ls"],
    &["BRAMAH_ENGINE=etdc://ana:hush@h", "ls"],
    &["BRAMAH_ENGINE=zookeeper://ana:hush@h,i/x?color=red", "ls"],
    &["BRAMAH_ENGINE=zookeeper://ana:hush@h:0", "ls"],
    &["BRAMAH_ENGINE=zookeeper://ana:hush@h//x", "ls"],
    &["BRAMAH_ENGINE=zookeeper://ana@h", "ls"],
    &["BRAMAH_ENGINE=zookeeper://h?acl=creator", "ls"],
    &["BRAMAH_ENGINE=zookeepers://ana:hush@h", "ls"],
    &["BRAMAH_ENGINE=memory:", "init"],
    &["BRAMAH_ENGINE=etcd://ana:hush@h", "init"],
    &["BRAMAH_ENGINE=gopher://h", "init", "--dry-run"],
    &["BRAMAH_ENGINE=redis://ana:hush@h?layout=plane", "ls"],
    &["BRAMAH_ENGINE=redis://ana:hush@h?lay=plain", "ls"],
    &["BRAMAH_ENGINE=redis://ana:hush@h,i", "ls"],
    &["BRAMAH_ENGINE=redis://ana:hu/sh@h", "ls"],
    &["BRAMAH_ENGINE=redis+sentinel://ana:hush@h", "ls"],
    &["BRAMAH_ENGINE=redis+cluster://ana:hush@h/1", "ls"],
    &["BRAMAH_ENGINE=redis://h?ca=/x", "ls"],
    &["show", "a", "--engine", "file:///dir?x=y"],
    &["break", "a", "--id", "h3f09a4c2b1d7"],
    &["break", "a", "--reason", "because"],
    &["break", "a", "--engine", "memory:", "--id", "nonsense", "--reason", "because"],
    &["check", "--json", "-q"],
    &["completions"],
    &["completions", "tcsh"],
];

#[test]
fn refusals_are_one_line_that_says_what_to_do() {
    let mut all = String::new();
    for words in REFUSED {
        let (env, args): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.starts_with("BRAMAH_"));
        let args: Vec<&str> = args.into_iter().copied().collect();
        let mut command = bramah(&args);
        command.envs(env.iter().filter_map(|word| word.split_once('=')));
        let out = command.output().unwrap();
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(64), String::new()), "{words:?}: {said}");
        assert!(said.lines().count() == 1 && said.ends_with('\n'), "{words:?}: {said}");
        assert!(!said.contains("hush"), "{words:?}: {said}");
        all.push_str(&format!("$ {}\n64 {said}\n", typed(&env, &args)));
    }
    Kept::all([("refusals.txt".to_owned(), all)]).or_fail();
}

/// Its text is that of the library, behind a look at the store.
#[test]
fn a_break_without_a_reason_is_refused() {
    for reason in ["", " "] {
        let args = ["break", "a", "--engine", "memory:", "--id", "h3f09a4c2b1d7", "--reason", reason];
        let out = bramah(&args).output().unwrap();
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(64), "{said}");
        assert!(said.lines().count() == 1 && said.contains("reason"), "{said}");
    }
}

fn typed(env: &[&&str], args: &[&str]) -> String {
    let plain = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
    let word = |word: &str| if plain(word) { word.to_owned() } else { format!("{word:?}") };
    let env = env.iter().map(|pair| word(pair));
    let all: Vec<_> = env.chain(["bramah".to_owned()]).chain(args.iter().map(|arg| word(arg))).collect();
    all.join(" ")
}
