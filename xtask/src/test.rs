//! Everything that must pass before a change is merged.

use crate::{
    Verdict, affected,
    cargo::{cargo, root, run as run_command, shown},
    deny, interop,
    manifest::published,
    report::Report,
    runner, servers,
};

/// How much of it to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Full,
    Quick,
    /// Only the tests that the change since the last commit can reach.
    Affected,
}

/// A step that is one call of cargo.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    extent: Extent,
}

const STEPS: &[Step] = &[
    Step { name: "formatting", args: &["fmt", "--all", "--check"], env: &[], extent: Extent::Quick },
    Step {
        name: "lints",
        args: &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
        env: &[],
        extent: Extent::Quick,
    },
    Step {
        name: "documents",
        args: &["doc", "--workspace", "--no-deps", "--all-features"],
        env: &[("RUSTDOCFLAGS", "-Dwarnings")],
        extent: Extent::Full,
    },
];

const LEFT_OUT: &str = "left out by --quick";

pub(crate) fn run(extent: Extent) -> Verdict {
    let mut report = Report::default();
    if extent == Extent::Affected {
        return run_affected(report);
    }
    report.step("servers", "cargo xtask servers", servers::step);
    interop::begin();
    for step in STEPS {
        if extent == Extent::Quick && step.extent == Extent::Full {
            report.skip(step.name, LEFT_OUT);
            continue;
        }
        let mut command = cargo(step.args);
        command.envs(step.env.iter().copied());
        let what = shown(&command);
        report.step(step.name, &what, || run_command(&mut command).into());
    }
    runner::run(&mut report, None);
    check_packages(&mut report, extent);
    check_dependencies(&mut report, extent);
    interop::tell(&mut report);
    // The count is the last line, for people and for machines.
    print!("\n{report}");
    if report.failed() == 0 { Verdict::Passed } else { Verdict::Failed }
}

/// The inner loop: no servers are looked for, and nothing else is checked.
fn run_affected(mut report: Report) -> Verdict {
    let packages = match affected::packages() {
        Ok(packages) => packages,
        Err(why) => {
            report.fail("tests", &why);
            print!("\n{report}");
            return Verdict::Failed;
        }
    };
    match packages.as_deref() {
        Some([]) => println!("nothing has changed since the last commit"),
        Some(names) => println!("the change can reach {}", names.join(", ")),
        None => println!("the change can reach everything"),
    }
    interop::begin();
    if packages.as_ref().is_none_or(|names| !names.is_empty()) {
        runner::run(&mut report, packages.as_deref());
    }
    interop::tell(&mut report);
    print!("\n{report}");
    if report.failed() == 0 { Verdict::Passed } else { Verdict::Failed }
}

/// Packs for real, against each other and offline: a dependency without a version, a missing readme or a cycle of
/// crates fails here and not on the day of the release. What is inside has been compiled by then.
fn check_packages(report: &mut Report, extent: Extent) {
    let name = "packages";
    if extent == Extent::Quick {
        return report.skip(name, LEFT_OUT);
    }
    report.step(name, "cargo package --no-verify, for every published crate", || {
        let pack = published(&root()).and_then(|crates| {
            let mut command = cargo(["package", "--no-verify", "--allow-dirty", "--offline"]);
            command.args(crates.iter().flat_map(|name| ["--package", name]));
            run_command(&mut command)
        });
        pack.into()
    });
}

fn check_dependencies(report: &mut Report, extent: Extent) {
    let why = match extent {
        Extent::Quick | Extent::Affected => Some(LEFT_OUT),
        Extent::Full if !deny::installed() => Some(deny::MISSING),
        Extent::Full => None,
    };
    if let Some(why) = why {
        report.skip("dependencies", why);
        report.skip("advisories", why);
    } else {
        report.step("dependencies", "cargo deny check licenses bans sources", deny::policy);
        report.step("advisories", "cargo deny check advisories", deny::advisories);
    }
}
