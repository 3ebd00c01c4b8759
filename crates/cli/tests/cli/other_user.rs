//! Commands that the user who runs bramah may not signal, and users who are not to be believed.
//!
//! Tests that need a second user can only be run by root. Elsewhere they say what was not run.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use bramah_lab::{Scratch, interop};
use rustix::process::{Signal, geteuid};
use serde_json::Value;

use crate::support::{Running, bramah, text, until};

/// `nobody`, wherever there is one.
const NOBODY: u32 = 65_534;

/// A directory of `nobody`, with a store in it, the command, and a program that turns its user into root.
struct Nobody {
    home: Scratch,
    bramah: PathBuf,
    become_root: PathBuf,
}

impl Nobody {
    /// `None`, and a note of what was not run, on a machine that has no setuid programs or where we are not root.
    fn new() -> Option<Self> {
        Self::make()
            .map_err(|why| interop::missing("a user of its own (setuid, setpriv)", &why))
            .ok()
            .filter(Self::is_usable)
    }

    fn make() -> Result<Self, String> {
        if !geteuid().is_root() {
            return Err("only root can run something as another user".into());
        }
        let home = Scratch::new()?;
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (bramah, become_root) = (home.path().join("bramah"), home.path().join("become-root"));
        let original = Path::new(env!("CARGO_BIN_EXE_bramah"));
        if fs::hard_link(original, &bramah).is_err() {
            fs::copy(original, &bramah).unwrap();
        }
        let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
        fs::copy(setpriv.ok_or("no setpriv")?, &become_root).unwrap();
        fs::set_permissions(&become_root, fs::Permissions::from_mode(0o4755)).unwrap();
        let store = home.path().join("store");
        fs::create_dir(&store).unwrap();
        chown(&store, Some(NOBODY), Some(NOBODY)).unwrap();
        Ok(Self { home, bramah, become_root })
    }

    fn is_usable(&self) -> bool {
        let mut id = Command::new(&self.become_root);
        id.args(["--reuid=0", "id", "-ru"]).uid(NOBODY).gid(NOBODY);
        let usable = id.output().is_ok_and(|out| out.stdout == b"0\n");
        if !usable {
            interop::missing(
                "a user of its own (setuid, setpriv)",
                "setuid programs do not change the user here",
            );
        }
        usable
    }

    /// `bramah` as `nobody`.
    fn bramah(&self, args: &[&str]) -> Command {
        let plain = bramah(args);
        let mut command = Command::new(&self.bramah);
        command.args(args).stdin(Stdio::null()).current_dir(self.home.path());
        for (key, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        command.env("BRAMAH_ENGINE", format!("file://{}/store", self.home.path().display()));
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.bramah(args).output().unwrap()
    }

    /// A run of a command that becomes root, says its pid, and ends when its stdin does.
    fn hold_as_root(&self, flags: &[&str]) -> (Running, u32) {
        let helper = self.become_root.to_str().unwrap();
        let command = ["--", helper, "--reuid=0", "sh", "-c", "echo $$; cat"];
        let mut holder = Running::of(self.bramah(&[&["run", "a"], flags, &command].concat()));
        let pid = holder.line().parse().unwrap();
        (holder, pid)
    }

    fn is_busy(&self) -> bool {
        match self.output(&["run", "a", "-n", "-q", "--", "true"]).status.code() {
            Some(0) => false,
            Some(75) => true,
            code => panic!("{code:?}"),
        }
    }
}

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_command_over_time_that_may_not_be_signalled_keeps_its_lock_and_that_is_said_at_once() {
    let Some(nobody) = Nobody::new() else { return };
    let (mut holder, pid) = nobody.hold_as_root(&["--max-run", "3s", "--json"]);
    let said = holder.talk();
    assert!(said.starts_with(&format!("bramah: cannot end process {pid} (sh, uid 0)")), "{said}");
    assert!(said.ends_with(": this user may not signal it"), "{said}");
    let said = holder.talk();
    assert!(said.contains("which is the most: the command cannot be ended"), "{said}");
    assert!(said.ends_with("and a is held until it ends"), "{said}");
    assert!(alive(pid) && nobody.is_busy());
    holder.let_go();
    let (code, _, talk) = holder.end();
    assert_eq!(code, 80, "{talk}");
    assert!(!talk.contains("SIGKILL"), "{talk}");
    let report: Value = serde_json::from_str(talk.lines().last().unwrap()).unwrap();
    assert_eq!((&report["outcome"], &report["exit"]), (&"outlived".into(), &80.into()), "{talk}");
    assert!(!nobody.is_busy());
}

#[test]
fn a_command_that_outlives_its_lost_lock_has_an_exit_code_of_its_own_at_once() {
    let Some(nobody) = Nobody::new() else { return };
    let (mut holder, pid) = nobody.hold_as_root(&["--ttl", "600ms", "--json"]);
    let lock = text(&nobody.output(&["show", "a", "--json"]).stdout);
    let lock: Value = serde_json::from_str(&lock).unwrap();
    let id = lock["holders"][0]["id"].as_str().unwrap();
    let out = nobody.output(&["break", "a", "--id", id, "--reason", "a test"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert_eq!(holder.code(), 80);
    assert!(alive(pid), "it has ended, so it was not what this test is about");
    let said = [holder.talk(), holder.talk(), holder.talk()];
    assert!(said[0].starts_with(&format!("bramah: cannot end process {pid} (sh, uid 0)")), "{said:?}");
    assert!(said[1].contains("a was broken by"), "{said:?}");
    assert!(said[1].contains("the command cannot be ended and runs on"), "{said:?}");
    let report: Value = serde_json::from_str(&said[2]).unwrap();
    assert_eq!((&report["outcome"], &report["child_code"]), (&"outlived".into(), &Value::Null));
    holder.let_go();
    until("the end of the command", || (!alive(pid)).then_some(()));
}

#[test]
fn after_kill_9_the_lock_stays_with_a_command_that_cannot_be_ended() {
    let Some(nobody) = Nobody::new() else { return };
    let (mut holder, pid) = nobody.hold_as_root(&["--grace", "100ms"]);
    holder.signal(Signal::KILL);
    assert_eq!(holder.code(), -9);
    let said = holder.talk();
    assert!(said.starts_with(&format!("bramah: cannot end process {pid} (sh, uid 0)")), "{said}");
    assert!(alive(pid) && nobody.is_busy());
    holder.let_go();
    until("the lock to be free", || (!nobody.is_busy()).then_some(()));
    assert!(!alive(pid));
}

#[test]
fn a_signal_that_cannot_be_passed_on_is_told() {
    let Some(nobody) = Nobody::new() else { return };
    let (mut holder, pid) = nobody.hold_as_root(&[]);
    holder.signal(Signal::TERM);
    let said = holder.talk();
    assert_eq!(said, "bramah: cannot pass SIGTERM on to the command: this user may not signal it");
    assert!(alive(pid));
    holder.let_go();
    assert_eq!(holder.end().0, 0);
}

/// A process of this user that has taken the name of a socket, and gives whoever asks this answer; an empty one never.
fn impostor(nobody: &Nobody, uid: u32, name: &str, answer: &str) -> Running {
    let script = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(chr(0) + sys.argv[1])
s.listen(8)
print('bound', flush=True)
while True:
    c = s.accept()[0]
    try:
        c.sendall(sys.argv[2].encode())
        c.close() if sys.argv[2] != '' else kept.append(c)
    except OSError:
        pass
";
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", &format!("kept = []\n{script}"), name, answer]).current_dir(nobody.home.path());
    python.env_clear().uid(uid).gid(uid);
    let mut impostor = Running::of(python);
    assert_eq!(impostor.line(), "bound");
    impostor
}

#[test]
fn whoever_takes_the_name_of_the_guardians_socket_is_not_believed() {
    let Some(nobody) = Nobody::new() else { return };
    if !Path::new("/usr/bin/python3").exists() {
        return interop::missing("a process that takes the name of a socket", "no python3");
    }
    let check = |name: &str| {
        let mut check = nobody.bramah(&["check"]);
        check.env("BRAMAH_SOCKET", name).env("BRAMAH_LOCK", "a");
        Running::of(check).end()
    };
    let name = format!("bramah-impostor-{}", std::process::id());
    let held = "{\"held\":true,\"left_ms\":null}";
    let long = format!("{held}{}", " ".repeat(100_000));
    for (at, answer) in [held, &long, ""].into_iter().enumerate() {
        let name = format!("{name}-{at}");
        let uid = NOBODY - 1;
        let _impostor = impostor(&nobody, uid, &name, answer);
        let (code, out, said) = check(&name);
        assert_eq!((code, &*out), (1, ""), "{said}");
        let line = format!(
            "bramah: a process of user {uid} answers in place of the guardian, and is not believed\n"
        );
        assert_eq!(said, format!("{line}bramah: a is not held any more\n"));
    }
    // One of our own that does not answer is waited for for a moment.
    let name = format!("{name}-ours");
    let _silent = impostor(&nobody, NOBODY, &name, "");
    assert_eq!(check(&name), (1, String::new(), "bramah: a is not held any more\n".into()));
}

#[test]
fn the_guardian_is_believed_by_its_user_and_by_a_command_that_became_root() {
    let Some(nobody) = Nobody::new() else { return };
    let (bramah, root) = (nobody.bramah.display(), nobody.become_root.display());
    let script = format!("{bramah} check && {root} --reuid=0 {bramah} check");
    let out = nobody.output(&["run", "a", "--", "sh", "-c", &script]);
    assert_eq!((out.status.code(), &*text(&out.stdout)), (Some(0), "held\nheld\n"), "{}", text(&out.stderr));
}
