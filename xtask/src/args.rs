//! What was typed, and what it means.

use crate::{
    bench::{self, Bench},
    soak::{self, Soak},
    test::Extent,
};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Task {
    Help(&'static str),
    Test(Extent),
    Servers,
    Proto,
    Bench(&'static Bench),
    Soak { soak: &'static Soak, times: u32 },
    Tidy,
}

const HELP: &str = "\
The repository's own tasks.

usage: cargo xtask TASK

  test [--quick|--affected]
                          everything that must pass before a change is merged
  servers                 get the servers that tests run, and tell where they are
  proto                   generate the code that speaks etcd's protocol
  bench NAME              run a benchmark: core, cli, redis, redisson, redlock, sql, crowd,
                          etcd, zookeeper
  soak NAME [--times N]   run something for long: worlds, quorum, counting, redlock, topologies,
                          conformance, suite, load
  tidy                    check what the style guide can check by machine

cargo xtask TASK --help tells more. Exit codes: 0 passed, 1 failed, 64 wrong usage.
";

const TEST_HELP: &str = "\
Runs every check in order, each with its duration. A failing step does not stop the later ones.

usage: cargo xtask test [--quick | --affected]

  servers       as `cargo xtask servers`
  formatting    cargo fmt
  lints         cargo clippy, warnings are errors
  documents     cargo doc, warnings are errors
  building tests
  tests         unit, conformance and end-to-end tests, and tidy: as many binaries at a time as there are
                cores, the longest first. What they print is in target/tests, and shown of those that fail.
                At the end the slowest are told, and how many tests there were
  tests in documents
  packages      cargo package: every crate can be packed for publishing
  dependencies  cargo deny: licences, bans, sources
  advisories    cargo deny: known vulnerabilities

  --quick       only servers, formatting, lints and tests
  --affected    only the tests of those packages that the change since the last commit can reach

What could not be run is told in a `not run:` line with the reason. The line before the last counts the
clients of other people that tests were run with: `interop: N run, N not run (why)`. The last line counts
the steps: `N passed, N failed`. With CI=true a server or a client that was not run is a failure, and
there are no colours. Nothing ever asks a question.
";

const SERVERS_HELP: &str = "\
Gets the servers that tests run: Redis 7 and 8, Valkey 8, PostgreSQL, PgBouncer, MariaDB, MySQL, etcd 3.4 and
3.5, and ZooKeeper. One that is on PATH in the right version is taken from there. The others are taken from
Debian's packages into the target directory, by the machine's own apt, without root and without installing
anything. ZooKeeper runs on the machine's own Java.

usage: cargo xtask servers

Every server is a line: `NAME VERSION: path`, or `NAME: not to be had: why`, which is a failure. On a machine
whose apt is not Debian's, BRAMAH_DEBIAN_MIRROR names a mirror.
";

const PROTO_HELP: &str = "\
Generates Rust from crates/engines/etcd/proto and writes it to crates/engines/etcd/src/proto, where it is checked
in, so that whoever builds the crate needs no protoc. It takes rustfmt. `cargo test --all-features` tells when it
has to be run again.

usage: cargo xtask proto

Every file that was written is a line.
";

const BENCH_HELP: &str = "\
Builds a benchmark with optimizations and runs it.

usage: cargo xtask bench NAME

  core    the cost of core alone, on the memory engine, and of the file engine
  cli     the cold start of the command against flock, and 200 processes that wait in one line
  redis   the Redis engine against the bare client, rslock and Redisson's way of waiting, on a server of its own;
          exits with 1 only for wrong results, not for a missed goal. BRAMAH_BENCH_ROUNDS=N sets the rounds (5),
          BRAMAH_BENCH_ONLY=G5 runs one goal: G1 (with G2 and G3), G4, G5, G6, G8 (with growth)
  redlock  locks on 3 and 5 masters against rslock on the same ones
  sql     locks in databases against two bare transactions over the same connections
  crowd   up to 5,000 waiters of four processes for one lock in each database
  etcd, zookeeper
          locks there against the bare calls and the bare recipe, alone, contended, and with 10 to 2,000 in one line,
          on one member and on three. BRAMAH_BENCH_ONLY=pairs,handoff,crowd names the parts. Exits and rounds as redis
  redisson
          Redisson itself, in Java, and ours on one server, by turns. It needs java and mvn. Exits and rounds as redis
";

const SOAK_HELP: &str = "\
Runs something for long and stops at the first failure.

usage: cargo xtask soak NAME [--times N]

  worlds       N seeded worlds (20000), a failing seed prints its replay
  quorum       N seeded worlds of a quorum over nodes that crash, forget and drift (5000)
  counting     eight processes that count in one file under a lock, N times each (200)
  redlock      eight processes that count while masters are killed, for N seconds (120)
  topologies   processes that count through the command while servers fail over, die, freeze and reshard, for
               N seconds (300) on each: Redis Sentinel and Cluster, etcd, ZooKeeper, PostgreSQL with a standby.
               Tells the double holds where replication is asynchronous, and the longest gap without a grant
  conformance  the conformance suite on every engine, N times (10)
  suite        the whole test suite N times (5)
  load         the same while every CPU is kept busy
";

const TIDY_HELP: &str = "\
Checks the repository's files: left-overs, long files, names, machine paths, registry hosts, unsafe code,
manifests, decisions, required files, links and white space. `cargo test` runs it as well.

usage: cargo xtask tidy

Every finding is a line `path:line: what`.
";

pub(crate) fn parse(typed: &[String]) -> Result<Task, String> {
    let mut words = typed.iter().map(String::as_str);
    let Some(task) = words.next() else {
        return Err(format!("no task given\n\n{HELP}"));
    };
    let rest: Vec<&str> = words.collect();
    let help = match task {
        "-h" | "--help" | "help" => return Ok(Task::Help(HELP)),
        "test" => TEST_HELP,
        "servers" => SERVERS_HELP,
        "proto" => PROTO_HELP,
        "bench" => BENCH_HELP,
        "soak" => SOAK_HELP,
        "tidy" => TIDY_HELP,
        other => {
            return Err(format!("unknown task {other:?}: known are test, servers, proto, bench, soak, tidy"));
        }
    };
    if rest.iter().any(|word| matches!(*word, "-h" | "--help")) {
        return Ok(Task::Help(help));
    }
    match (task, rest.as_slice()) {
        ("test", []) => Ok(Task::Test(Extent::Full)),
        ("test", ["--quick"]) => Ok(Task::Test(Extent::Quick)),
        ("test", ["--affected"]) => Ok(Task::Test(Extent::Affected)),
        ("servers", []) => Ok(Task::Servers),
        ("proto", []) => Ok(Task::Proto),
        ("bench", [name]) => bench::find(name).map(Task::Bench),
        ("soak", [name]) => soak::find(name).map(|soak| Task::Soak { soak, times: soak.times }),
        ("soak", [name, "--times", n]) => Ok(Task::Soak { soak: soak::find(name)?, times: times(n)? }),
        ("tidy", []) => Ok(Task::Tidy),
        _ => Err(format!("cannot read \"{}\"\n\n{help}", typed.join(" "))),
    }
}

fn times(word: &str) -> Result<u32, String> {
    match word.parse() {
        Ok(0) | Err(_) => Err(format!("--times {word}: must be a whole number from 1 to {}", u32::MAX)),
        Ok(n) => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Result<Task, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn every_task_is_understood() {
        assert_eq!(typed("test"), Ok(Task::Test(Extent::Full)));
        assert_eq!(typed("test --quick"), Ok(Task::Test(Extent::Quick)));
        assert_eq!(typed("test --affected"), Ok(Task::Test(Extent::Affected)));
        assert_eq!(typed("servers"), Ok(Task::Servers));
        assert_eq!(typed("proto"), Ok(Task::Proto));
        assert_eq!(typed("tidy"), Ok(Task::Tidy));
        assert!(matches!(typed("bench core"), Ok(Task::Bench(bench)) if bench.name == "core"));
        assert!(
            matches!(typed("soak worlds"), Ok(Task::Soak { soak, times: 20_000 }) if soak.name == "worlds")
        );
        assert!(
            matches!(typed("soak quorum"), Ok(Task::Soak { soak, times: 5_000 }) if soak.name == "quorum")
        );
        assert!(matches!(typed("soak load --times 2"), Ok(Task::Soak { times: 2, .. })));
    }

    #[test]
    fn every_task_has_its_own_help() {
        for task in ["test", "servers", "proto", "bench", "soak", "tidy"] {
            let Ok(Task::Help(text)) = typed(&format!("{task} --help")) else { panic!("{task} has no help") };
            assert!(text.contains(&format!("usage: cargo xtask {task}")), "{text}");
            assert!(HELP.contains(&format!("\n  {task} ")), "{task} is missing from the overview");
        }
    }

    #[test]
    fn the_help_names_every_bench_and_soak() {
        for bench in bench::BENCHES {
            assert!(HELP.contains(bench.name) && BENCH_HELP.contains(bench.name), "{}", bench.name);
        }
        for soak in soak::SOAKS {
            assert!(HELP.contains(soak.name) && SOAK_HELP.contains(soak.name), "{}", soak.name);
        }
    }

    #[test]
    fn what_is_unknown_is_named_with_what_is_known() {
        assert!(typed("").is_err_and(|what| what.contains("no task")));
        assert!(
            typed("tset")
                .is_err_and(|what| what.contains("tset") && what.contains("test, servers, proto, bench"))
        );
        assert!(typed("bench x").is_err_and(|what| what.contains("known are core")));
        assert!(typed("soak x").is_err_and(|what| {
            what.contains("known are worlds, quorum, counting, redlock, topologies, conformance, suite, load")
        }));
        assert!(typed("soak suite --times 0").is_err_and(|what| what.contains("whole number")));
        assert!(typed("test --fast").is_err_and(|what| what.contains("--fast")));
    }
}
