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

#[test]
fn a_reader_that_does_not_read_our_talk_does_not_make_us_deaf() {
    use std::io::Write;
    let lab = Lab::new();
    let _holder = lab.hold("a", &[]);
    let (_reader, mut writer) = pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let mut command = lab.bramah(&["run", "a", "-v", "--", "true"]);
    let mut waiter = command.stderr(writer).spawn().unwrap();
    crate::support::until("the waiter", || (lab.waiters("a") == [waiter.id()]).then_some(()));
    // Its first line is due after two seconds, and cannot be written.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let pid = rustix::process::Pid::from_child(&waiter);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = crate::support::until("its end", || waiter.try_wait().unwrap());
    assert_eq!(status.code(), Some(143));
}
