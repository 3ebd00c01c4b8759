//! Calling cargo.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    // Asked at run time first: a build directory may outlive the checkout it was made from.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Whether this runs for a change that waits to be merged, where nothing may be left out.
pub(crate) fn ci() -> bool {
    env::var_os("CI").is_some_and(|ci| ci == "true")
}

/// No colours for cargo, for what follows the convention, and for rustfmt, which only asks the terminal.
const COLOURLESS: [(&str, &str); 3] = [("CARGO_TERM_COLOR", "never"), ("NO_COLOR", "1"), ("TERM", "dumb")];

/// Cargo at the root, with nothing to read from, and without colours in CI.
pub(crate) fn cargo<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root()).stdin(Stdio::null());
    if ci() {
        command.envs(COLOURLESS);
    }
    command
}

/// Runs it with its output on ours.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) => judge(status),
        Err(why) => Err(format!("{} could not be started: {why}", command.get_program().display())),
    }
}

fn judge(status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let set = command
        .get_envs()
        .filter(|(key, _)| COLOURLESS.iter().all(|(colour, _)| key != colour))
        .filter_map(|(key, value)| Some(format!("{}={}", key.display(), value?.display())));
    let args = command.get_args().map(|arg| arg.display().to_string());
    set.chain(["cargo".to_owned()]).chain(args).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = cargo(["doc", "--no-deps"]);
        command.envs(COLOURLESS).env("RUSTDOCFLAGS", "-Dwarnings");
        assert_eq!(shown(&command), "RUSTDOCFLAGS=-Dwarnings cargo doc --no-deps");
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        let silent = |args: &[&str]| run(cargo(args).stdout(Stdio::null()).stderr(Stdio::null()));
        assert_eq!(silent(&["--version"]), Ok(()));
        assert!(silent(&["no-such-command"]).is_err_and(|what| what.contains("exit status")));
    }
}
