//! Benchmarks.

use crate::cargo::{cargo, run as run_command, shown};

/// A benchmark: a package with a binary, and what to pass to it.
#[derive(Debug, PartialEq)]
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    package: &'static str,
    /// What it runs besides itself.
    beside: Option<&'static str>,
    args: &'static [&'static str],
}

pub(crate) const BENCHES: &[Bench] = &[
    Bench { name: "core", package: "bramah-bench", beside: None, args: &["core"] },
    Bench { name: "cli", package: "bramah-bench", beside: Some("bramah-cli"), args: &["cli"] },
    Bench { name: "redis", package: "bramah-bench", beside: None, args: &["redis"] },
    Bench { name: "redisson", package: "bramah-bench", beside: None, args: &["redisson"] },
    Bench { name: "redlock", package: "bramah-bench", beside: None, args: &["redlock"] },
    Bench { name: "sql", package: "bramah-bench", beside: None, args: &["sql"] },
    Bench { name: "crowd", package: "bramah-bench", beside: None, args: &["crowd"] },
    Bench { name: "etcd", package: "bramah-bench", beside: None, args: &["etcd"] },
    Bench { name: "zookeeper", package: "bramah-bench", beside: None, args: &["zookeeper"] },
];

pub(crate) fn find(name: &str) -> Result<&'static Bench, String> {
    BENCHES.iter().find(|bench| bench.name == name).ok_or_else(|| {
        let known: Vec<_> = BENCHES.iter().map(|bench| bench.name).collect();
        format!("unknown bench {name:?}: known are {}", known.join(", "))
    })
}

pub(crate) fn run(bench: &Bench) -> Result<(), String> {
    if let Some(package) = bench.beside {
        run_command(&mut cargo(["build", "--release", "--package", package]))
            .map_err(|why| format!("{package} could not be built: {why}"))?;
    }
    let mut command = cargo(["run", "--release", "--package", bench.package, "--"]);
    command.args(bench.args);
    println!("== {}", shown(&command));
    run_command(&mut command).map_err(|why| format!("bench {} failed: {why}", bench.name))
}
