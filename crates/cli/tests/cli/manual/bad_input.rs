//! What is said to a system that is not as it should be, word by word.

use std::process::{Command, Stdio};

use super::snapshot::Kept;
use crate::support::{Lab, bramah, path, text};

/// Lines of shell, each in a directory of its own.
const LINES: &[&str] = &[
    "mkfifo bramah.toml; bramah ls",
    "mkfifo c.toml; bramah ls --config c.toml",
    "ulimit -n 7; bramah run a -- echo never",
    "ulimit -n 20; bramah run a -- echo never",
    "ulimit -n 7; bramah check",
    "bramah run a --engine memory: -- echo held",
    "bramah run a --engine memory: -q -- echo held",
    "bramah elect a --engine memory: -- echo held",
    "bramah run a --ttl -5 -- echo never",
    "bramah run a -w -5s -- echo never",
    "bramah run a --grace -1 -- echo never",
    "bramah run a --max-run -1 -- echo never",
    "bramah run a --min-hold -1 -- echo never",
    "bramah lock a --ttl -5",
    "bramah run a --slots -3 -- echo never",
    "bramah run a -E -1 -- echo never",
    "bramah ls --engine file:stroe; echo $?; ls",
    "bramah watch --engine file:stroe",
    "bramah run a --engine file:/// -- echo never",
    "bramah ls --engine file:///a%00b",
    "bramah ls --engine etcd://127.0.0.1:1",
    "bramah lock a >&-; echo $?; bramah run a -n -- echo free",
    "bramah lock a >/dev/full; echo $?; bramah run a -n -- echo free",
];

#[test]
fn a_system_that_is_not_as_it_should_be_is_told_in_one_line() {
    let mut all = String::new();
    for line in LINES {
        let lab = Lab::new();
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).stdin(Stdio::null()).current_dir(&lab.dir);
        for (key, value) in bramah(&[]).get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        let out = shell.env("PATH", path()).env("BRAMAH_ENGINE", lab.url()).output().unwrap();
        let code = out.status.code().unwrap();
        let said = (text(&out.stdout) + &text(&out.stderr)).replace(lab.dir.to_str().unwrap(), "DIR");
        all.push_str(&format!("$ {line}\n{code} {}\n", without_count(&said)));
    }
    Kept::all([("bad-input.txt".to_owned(), all)]).or_fail();
}

/// How many descriptors are free depends on what the test itself was started with.
fn without_count(said: &str) -> String {
    match said.split_once(" file descriptors are free") {
        Some((before, after)) => {
            let before = before.trim_end_matches(|c: char| c.is_ascii_digit());
            format!("{before}N file descriptors are free{after}")
        }
        None => said.to_owned(),
    }
}
