//! Streams that go away.

use std::{fs::File, io::pipe, process::Stdio};

use crate::support::{Lab, text};

#[test]
fn a_reader_that_has_seen_enough_is_no_panic() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    for args in [&["ls"][..], &["ls", "--json"], &["show", "a"], &["--help"]] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let out = lab.bramah(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(141), String::new()), "{args:?}");
    }
    let full = File::options().write(true).open("/dev/full").unwrap();
    let out = lab.bramah(&["ls"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(out.status.code(), Some(74));
    assert!(text(&out.stderr).contains("cannot write"));
}

#[test]
fn talk_that_nobody_hears_is_no_panic() {
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let out = lab.bramah(&["run", "a", "-n", "--json", "--", "true"]).stderr(writer).output().unwrap();
    assert_eq!(out.status.code(), Some(75));
}
