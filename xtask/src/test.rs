//! Everything that must pass before a change is merged.

use crate::{
    Verdict,
    cargo::{cargo, root, run as run_command, shown},
    deny, interop,
    manifest::published,
    report::Report,
    servers,
};

/// How much of it to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Full,
    Quick,
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
    Step {
        name: "tests",
        args: &["test", "--workspace", "--all-features", "--no-fail-fast"],
        env: &[],
        extent: Extent::Quick,
    },
];

const LEFT_OUT: &str = "left out by --quick";

pub(crate) fn run(extent: Extent) -> Verdict {
    let mut report = Report::default();
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
        command.env(interop::FILE, interop::path());
        report.step(step.name, &what, || run_command(&mut command).into());
    }
    check_packages(&mut report, extent);
    check_dependencies(&mut report, extent);
    interop::tell(&mut report);
    // The count is the last line, for people and for machines.
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
        Extent::Quick => Some(LEFT_OUT),
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
