//! The command on PostgreSQL: a real server, real processes.

use std::process::Command;

use bramah_lab::Postgres;
use rustix::process::Signal;

use crate::support::{Lab, Running, text, until};

/// A server of its own.
struct Shop {
    lab: Lab,
    server: Postgres,
    options: &'static str,
}

impl Shop {
    fn new() -> Self {
        Self { lab: Lab::new(), server: Postgres::start().unwrap(), options: "" }
    }

    fn bramah(&self, args: &[&str]) -> Command {
        let mut command = self.lab.bramah(args);
        command.env("BRAMAH_ENGINE", format!("{}{}", self.server.url(), self.options));
        command
    }

    /// The code, and what was said.
    fn done(&self, args: &[&str]) -> (i32, String, String) {
        let out = self.bramah(args).output().unwrap();
        (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
    }
}

#[test]
fn a_newcomer_is_led_to_init_and_then_locks() {
    let shop = Shop::new();
    let (code, out, err) = shop.done(&["run", "a", "--", "echo", "held"]);
    assert_eq!((code, out), (64, String::new()), "{err}");
    assert!(err.trim_end().ends_with("run bramah init") && err.lines().count() == 1, "{err}");
    let (code, out, err) = shop.done(&["init"]);
    assert_eq!((code, err), (0, String::new()));
    assert!(out.ends_with(" is ready\n") && !out.contains("bramah:"), "{out}");
    assert_eq!(shop.done(&["init"]).0, 0);
    let (code, out, err) = shop.done(&["run", "a", "--", "echo", "held"]);
    assert_eq!((code, out.as_str()), (0, "held\n"), "{err}");
}

/// An administrator makes the tables, and the user needs the rights that the docs list.
#[test]
fn what_init_would_run_runs_in_psql() {
    let shop = Shop::new();
    let (code, schema, _) = shop.done(&["init", "--dry-run"]);
    assert_eq!(code, 0);
    assert!(shop.server.sql("SELECT to_regclass('bramah_claims')").unwrap().is_empty(), "dry means dry");
    shop.server.sql(&schema).unwrap();
    let (code, _, err) = shop.done(&["run", "a", "--", "true"]);
    assert_eq!(code, 77, "{err}");
    assert!(err.contains("does not allow it: permission denied for table bramah_schema"), "{err}");
    let tables =
        "bramah_claims, bramah_sessions, bramah_floors, bramah_watchers, bramah_breaks, bramah_wishes";
    let rights = format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO bramah; GRANT SELECT ON bramah_schema TO bramah"
    );
    shop.server.sql(&rights).unwrap();
    let (code, _, err) = shop.done(&["run", "a", "--", "true"]);
    assert_eq!((code, err), (0, String::new()));
    let shop = Shop { options: "?mode=session", ..shop };
    let (code, _, err) = shop.done(&["run", "a", "--", "true"]);
    assert_eq!(code, 77, "{err}");
    let rights = "GRANT SELECT, INSERT, UPDATE, DELETE ON bramah_keys, bramah_places TO bramah; \
                  GRANT SELECT ON bramah_advisory TO bramah";
    shop.server.sql(rights).unwrap();
    let (code, _, err) = shop.done(&["run", "a", "--", "true"]);
    assert_eq!((code, err), (0, String::new()));
}

#[test]
fn a_holder_that_is_killed_is_followed_by_who_waits() {
    let shop = Shop::new();
    assert_eq!(shop.done(&["init"]).0, 0);
    let mut holder = Running::of(shop.bramah(&["run", "a", "--ttl", "2s", "--", "sh", "-c", "echo in; cat"]));
    assert_eq!(holder.line(), "in");
    let (code, _, err) = shop.done(&["run", "-n", "a", "--", "true"]);
    assert_eq!(code, 75, "{err}");
    let waiter = Running::of(shop.bramah(&["run", "a", "--", "echo", "mine"]));
    until("the waiter to wait", || {
        (shop.server.sql("SELECT count(*) FROM bramah_claims WHERE NOT held").unwrap() == "1").then_some(())
    });
    holder.signal(Signal::KILL);
    let (code, out, err) = waiter.end();
    assert_eq!((code, out.as_str()), (0, "mine\n"), "{err}");
}

/// In session mode the server sees the end of a process.
#[test]
fn in_session_mode_a_killed_holder_is_followed_at_once_and_a_lock_cannot_be_left() {
    let shop = Shop { options: "?mode=session", ..Shop::new() };
    assert_eq!(shop.done(&["init"]).0, 0);
    let mut holder = Running::of(shop.bramah(&["run", "a", "--ttl", "1h", "--", "sh", "-c", "echo in; cat"]));
    assert_eq!(holder.line(), "in");
    let waiter = Running::of(shop.bramah(&["run", "a", "--", "echo", "mine"]));
    until("the waiter to wait", || {
        (shop.server.sql("SELECT count(*) FROM bramah_advisory WHERE NOT granted").unwrap() == "1")
            .then_some(())
    });
    let (code, out, err) = shop.done(&["ls"]);
    assert!(code == 0 && out.contains("a     held"), "{out}{err}");
    holder.signal(Signal::KILL);
    let (code, out, err) = waiter.end();
    assert_eq!((code, out.as_str()), (0, "mine\n"), "{err}");
    let (code, _, err) = shop.done(&["lock", "a", "--ttl", "1m"]);
    assert_eq!(code, 64, "{err}");
    assert!(err.contains("a lock ends with its process"), "{err}");
}
