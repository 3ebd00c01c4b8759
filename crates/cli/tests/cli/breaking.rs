//! Ending what somebody else holds.

use serde_json::Value;

use crate::support::{Lab, text, timeless, until};

fn word(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn holder_id(lab: &Lab, name: &str) -> String {
    word(&lab.lock(name)["holders"][0]["id"])
}

#[test]
fn a_broken_hold_goes_to_the_next_with_a_larger_fence() {
    let lab = Lab::new();
    // A short ttl: the holder learns with its next renewal.
    let mut holder = lab.hold("a", &["--owner", "bob\u{1b}", "--ttl", "600ms"]);
    let mut next = lab.start(&["run", "a", "--owner", "eve", "--", "sh", "-c", "echo in; cat"]);
    until("the next to wait", || (lab.waiters("a") == [next.pid()]).then_some(()));
    let (id, fence) = (holder_id(&lab, "a"), lab.lock("a")["fence"].as_u64().unwrap());
    let out = lab.output(&["break", "a", "--id", &id, "--reason", "bob\u{1b} is ill", "--owner", "ops"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), String::new()));
    let said = timeless(&text(&out.stderr), "after ");
    assert_eq!(
        said,
        format!(
            "bramah: a: the hold of bob\\u{{1b}} ({id}) is broken after … eve has it now, and the fence has risen; who \
             held it learns at once, or with its next renewal\n"
        )
    );
    assert_eq!(next.line(), "in");
    let lock = lab.lock("a");
    assert_eq!(lock["holders"][0]["pid"], next.pid());
    assert!(lock["fence"].as_u64().unwrap() > fence);
    let broken = &lock["broken"];
    assert_eq!(
        (word(&broken["id"]), word(&broken["by"]), word(&broken["reason"])),
        (id, "ops".into(), "bob\u{1b} is ill".into())
    );
    assert!(!text(&lab.output(&["show", "a"]).stdout).contains('\u{1b}'));
    assert_eq!(holder.code(), 79);
    next.let_go();
    assert_eq!(next.code(), 0);
    until("all sessions to be closed", || (lab.sessions() == 0).then_some(()));
}

#[test]
fn a_waiter_that_is_put_out_stands_at_the_end() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &[]);
    let mut first = lab.start(&["run", "a", "--owner", "bob", "--", "true"]);
    until("the first", || (lab.waiters("a") == [first.pid()]).then_some(()));
    let mut second = lab.start(&["run", "a", "--", "true"]);
    until("the second", || (lab.waiters("a") == [first.pid(), second.pid()]).then_some(()));
    let id = word(&lab.lock("a")["waiters"][0]["id"]);
    let out = lab.output(&["break", "a", "--id", &id, "--reason", "later"]);
    assert_eq!(out.status.code(), Some(0));
    let said = timeless(&text(&out.stderr), "waited for ");
    assert!(said.starts_with(&format!("bramah: a: bob ({id}) is put out of the line, ")), "{said}");
    assert_eq!(said.lines().count(), 1);
    until("the first to be last", || (lab.waiters("a") == [second.pid(), first.pid()]).then_some(()));
    assert_eq!(lab.lock("a")["holders"][0]["pid"], holder.pid());
    holder.let_go();
    assert_eq!((holder.code(), first.code(), second.code()), (0, 0, 0));
}

#[test]
fn what_is_not_there_cannot_be_broken() {
    let lab = Lab::new();
    let args = ["break", "a", "--id", "h0123456789ab", "--reason", "x"];
    let out = lab.output(&args);
    let none = "bramah: a has no hold or place in line with the id h0123456789ab; ";
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(1), format!("{none}nobody holds it\n")));
    let mut holder = lab.hold("a", &["--owner", "bob"]);
    let out = lab.output(&args);
    let said = timeless(&text(&out.stderr), "held ");
    assert_eq!(
        (out.status.code(), said),
        (Some(1), format!("{none}it is held … by bob; see bramah show a\n"))
    );
    let out = lab.output(&[&args[..], &["--json"]].concat());
    let told: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(1), String::new()));
    assert_eq!((&told["broken"], &told["was"]), (&false.into(), &Value::Null));
    // An id of another lock is none of this one.
    let out = lab.output(&["break", "b", "--id", &holder_id(&lab, "a"), "--reason", "x"]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(lab.sessions(), 1, "the holder's");
    holder.let_go();
    assert_eq!(holder.code(), 0);
}

#[test]
fn a_break_without_a_reason_or_an_id_is_refused() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    let id = holder_id(&lab, "a");
    for (args, part) in [
        (&["break", "a", "--id", &id][..], "--reason"),
        (&["break", "a", "--reason", "x"], "--id"),
        (&["break", "a", "--id", &id, "--reason", ""], "reason"),
        (&["break", "a", "--id", &id, "--reason", " \n"], "reason"),
        (&["break", "a", "--id", "bob", "--reason", "x"], "12 hex digits"),
    ] {
        let out = lab.output(args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(64), "{said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
    }
    assert_eq!(holder_id(&lab, "a"), id);
    assert_eq!(lab.sessions(), 1, "the holder's");
}

#[test]
fn a_detached_lock_can_be_broken_and_its_handle_has_no_power_then() {
    let lab = Lab::new();
    let handle = text(&lab.output(&["lock", "a", "--ttl", "1h", "--owner", "bob"]).stdout);
    let id = holder_id(&lab, "a");
    let out = lab.output(&["break", "a", "--id", &id, "--reason", "over", "--owner", "ops", "--json"]);
    let told: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    assert_eq!(
        (&told["v"], &told["name"], &told["id"], &told["broken"]),
        (&2.into(), &"a".into(), &id.as_str().into(), &true.into())
    );
    assert_eq!((&told["was"]["owner"], &told["store"]), (&"bob".into(), &lab.url().into()));
    assert!(told["was"]["held_ms"].is_u64() && told["holders"].as_array().unwrap().is_empty());
    assert_eq!(lab.output(&["renew", "a", "--handle", handle.trim_end()]).status.code(), Some(79));
    assert_eq!(lab.output(&["unlock", "a", "--handle", handle.trim_end()]).status.code(), Some(1));
    let lock = lab.lock("a");
    assert!(lock["holders"].as_array().unwrap().is_empty());
    assert_eq!(lock["broken"]["reason"], "over");
}

#[test]
fn one_of_several_is_broken_and_the_others_stay() {
    let lab = Lab::new();
    let _one = lab.hold("a", &["--slots", "2", "--owner", "bob"]);
    let two = lab.hold("a", &["--slots", "2"]);
    let out = lab.output(&["break", "a", "--id", &holder_id(&lab, "a"), "--reason", "x"]);
    let said = text(&out.stderr);
    assert!(said.contains("the hold of bob") && said.contains("others still hold it"), "{said}");
    assert_eq!(lab.lock("a")["holders"][0]["pid"], two.pid());
}

#[test]
fn a_holder_is_asked_and_holds_on() {
    let lab = Lab::new();
    let out = lab.output(&["revoke", "a"]);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(1), "bramah: a is held by nobody\n".to_owned()));
    let holder = lab.hold("a", &[]);
    let out = lab.output(&["revoke", "a", "--id", "h000000000000"]);
    assert_eq!(out.status.code(), Some(1));
    let out = lab.output(&["revoke", "a"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains("is asked to let go") && said.lines().count() == 1, "{said}");
    assert_eq!(lab.lock("a")["holders"][0]["pid"], holder.pid());
}
