//! `file:///dir`

use std::path::{Path, PathBuf};

use bramah_core::{Reply, Result};
use bramah_file::checkup::{self, Facts, Flock, Inotify, Medium, Room};

use super::{Finding, Kind, Promise, Severity, Span, wall_clock, wall_now};
use crate::url;

pub(super) const KIND: Kind = Kind {
    schemes: &["file"],
    excludes: Promise::new("excludes", "host", "all processes of this machine that use this directory"),
    span: Span::Own,
    look: |url| {
        let facts = directory(url).and_then(checkup::examine);
        Reply::now(facts.map(|facts| judge(&facts, wall_now()).into()))
    },
    code: |_| None,
    forget: |url, name| Reply::now(directory(url).and_then(|dir| checkup::forget(dir, name))),
};

fn directory(url: &str) -> Result<PathBuf> {
    url::scheme(url).and_then(|(_, rest)| url::directory(rest))
}

fn judge(facts: &Facts, wall_us: u64) -> Vec<Finding> {
    let mut findings = vec![file_system(facts), flock(facts.flock)];
    findings.extend(pipes(facts));
    findings.extend(inotify(facts));
    findings.extend([access(facts), room(facts.room)]);
    findings.extend(cleaner(&facts.dir));
    let format = format!("the directory has format {}, which this version reads", facts.format);
    findings.extend([Finding::new(Severity::Ok, "file.format", format), wall_clock(wall_us)]);
    findings
}

fn file_system(facts: &Facts) -> Finding {
    let name = &facts.file_system.name;
    let (severity, code, text) = match facts.file_system.medium {
        Medium::Disk => (Severity::Ok, "file.file_system", format!("the directory is on {name}")),
        Medium::Memory => (
            Severity::Note,
            "file.gone_at_reboot",
            format!(
                "the directory is on {name} and gone at the next boot: fences then rise by the wall clock alone; \
                 keep that right, or use a disk"
            ),
        ),
        Medium::Layers => (
            Severity::Note,
            "file.layers",
            format!(
                "the directory is on {name}: other containers see another one at this path; for locks between \
                 containers mount a directory of the host"
            ),
        ),
        Medium::Network => (
            Severity::Warning,
            "file.network_filesystem",
            format!(
                "the directory is on {name}: other machines are not excluded for certain, and their releases wake \
                 nobody here; use a disk of this machine, or a server for locks between machines"
            ),
        ),
        Medium::Process => (
            Severity::Warning,
            "file.fuse",
            format!(
                "the directory is on {name}: whether a lock excludes and wakes is up to the process behind it; \
                 use a disk of this machine"
            ),
        ),
        Medium::Unknown => (
            Severity::Note,
            "file.file_system",
            format!("the directory is on a file system that is not known here ({name})"),
        ),
    };
    Finding::new(severity, code, text)
}

fn flock(flock: Flock) -> Finding {
    const CODE: &str = "file.flock";
    match flock {
        Flock::Excludes => Finding::new(Severity::Ok, CODE, "file locks exclude each other"),
        Flock::Ignored => Finding::new(
            Severity::Problem,
            CODE,
            "file locks do not exclude each other there: two processes can hold one lock; use another file system",
        ),
        Flock::Refused => Finding::new(
            Severity::Problem,
            CODE,
            "file locks are not to be had there: nothing can be locked; use another file system",
        ),
    }
}

/// On a network they reach this machine's processes only, and that was said.
fn pipes(facts: &Facts) -> Option<Finding> {
    const CODE: &str = "file.pipes";
    match facts.pipes {
        true if facts.file_system.medium == Medium::Network => None,
        true => Some(Finding::new(Severity::Ok, CODE, "those who wait are woken through named pipes")),
        false => Some(Finding::new(
            Severity::Warning,
            CODE,
            "named pipes cannot be made there: those who wait ask by themselves, the next one every 25ms; use another \
             file system",
        )),
    }
}

/// On a network it tells of this machine's changes only, and that was said.
fn inotify(facts: &Facts) -> Option<Finding> {
    const CODE: &str = "file.inotify";
    let told = |limit: Option<u64>| limit.map_or_else(String::new, |limit| format!(" ({limit} a user)"));
    match facts.inotify {
        Inotify::Ready(_) if facts.file_system.medium == Medium::Network => None,
        Inotify::Ready(limit) => {
            let text = format!("those who watch are told of changes: inotify is to be had{}", told(limit));
            Some(Finding::new(Severity::Ok, CODE, text))
        }
        Inotify::UsedUp(limit) => {
            let text = format!(
                "no inotify instance is left{}: those who watch look ten times a second; raise \
                 fs.inotify.max_user_instances",
                told(limit)
            );
            Some(Finding::new(Severity::Note, CODE, text))
        }
        Inotify::Absent => {
            let text = "this system has no inotify: those who watch look ten times a second";
            Some(Finding::new(Severity::Note, CODE, text))
        }
    }
}

fn access(facts: &Facts) -> Finding {
    const CODE: &str = "file.access";
    let Facts { mode, owner, user, .. } = facts;
    let dir = facts.dir.display();
    if owner != user {
        let text = format!(
            "the directory belongs to user {owner}, and what we make there to user {user}, which its owner may not \
             be able to open; run as its owner"
        );
        return Finding::new(Severity::Warning, CODE, text);
    }
    match mode & 0o077 {
        0 => Finding::new(
            Severity::Ok,
            CODE,
            format!("the directory is for its owner alone (mode {mode:04o})"),
        ),
        _ => {
            let text = format!(
                "others may look into the directory (mode {mode:04o}); chmod 700 {dir} if not wanted"
            );
            Finding::new(Severity::Note, CODE, text)
        }
    }
}

fn room(room: Room) -> Finding {
    const CODE: &str = "file.room";
    const MIB: u64 = 1 << 20;
    // A lock takes a file of four kilobytes, a session two files.
    let scarce = |bytes, files| room.bytes < bytes || room.files.is_some_and(|left| left < files);
    let left = match room.files {
        Some(files) => format!("{} MiB and {files} files are free", room.bytes / MIB),
        None => format!("{} MiB are free", room.bytes / MIB),
    };
    if scarce(MIB, 64) {
        let text = format!("{left}: new locks may fail; free some space");
        return Finding::new(Severity::Problem, CODE, text);
    }
    if scarce(64 * MIB, 1024) {
        return Finding::new(
            Severity::Warning,
            CODE,
            format!("{left}: new locks may fail soon; free some space"),
        );
    }
    Finding::new(Severity::Ok, CODE, left)
}

fn cleaner(dir: &Path) -> Option<Finding> {
    let cleaned = ["/tmp", "/var/tmp"].into_iter().find(|cleaned| dir.starts_with(cleaned))?;
    let text = format!(
        "the directory is below {cleaned}, where cleaners remove old files and locks end with them; use another one, \
         such as /var/lib/bramah"
    );
    Some(Finding::new(Severity::Warning, "file.cleaned_directory", text))
}

#[cfg(test)]
mod tests {
    use bramah_file::checkup::FileSystem;

    use super::*;

    const NOW_US: u64 = 1_800_000_000_000_000;

    fn healthy() -> Facts {
        Facts {
            dir: "/var/lib/bramah".into(),
            file_system: FileSystem { name: "ext4".into(), medium: Medium::Disk },
            mode: 0o700,
            owner: 7,
            user: 7,
            room: Room { bytes: 1 << 40, files: Some(1 << 20) },
            flock: Flock::Excludes,
            pipes: true,
            inotify: Inotify::Ready(Some(128)),
            format: 1,
        }
    }

    /// What is not as it should be.
    fn told(facts: &Facts) -> Vec<(Severity, &'static str)> {
        let findings = judge(facts, NOW_US);
        let bad = findings.iter().filter(|finding| finding.severity > Severity::Ok);
        bad.map(|finding| (finding.severity, finding.code)).collect()
    }

    fn on(medium: Medium) -> Facts {
        Facts { file_system: FileSystem { name: "x".into(), medium }, ..healthy() }
    }

    #[test]
    fn a_directory_as_it_should_be_has_nothing_to_tell() {
        assert_eq!(told(&healthy()), []);
    }

    #[test]
    fn each_thing_that_is_not_as_it_should_be_is_told_by_its_code() {
        use Severity::{Note, Problem, Warning};
        let room = |bytes, files| Facts { room: Room { bytes, files }, ..healthy() };
        for (facts, severity, code) in [
            (on(Medium::Memory), Note, "file.gone_at_reboot"),
            (on(Medium::Layers), Note, "file.layers"),
            (on(Medium::Network), Warning, "file.network_filesystem"),
            (on(Medium::Process), Warning, "file.fuse"),
            (on(Medium::Unknown), Note, "file.file_system"),
            (Facts { flock: Flock::Ignored, ..healthy() }, Problem, "file.flock"),
            (Facts { flock: Flock::Refused, ..healthy() }, Problem, "file.flock"),
            (Facts { pipes: false, ..healthy() }, Warning, "file.pipes"),
            (Facts { inotify: Inotify::UsedUp(Some(128)), ..healthy() }, Note, "file.inotify"),
            (Facts { inotify: Inotify::Absent, ..healthy() }, Note, "file.inotify"),
            (Facts { owner: 0, ..healthy() }, Warning, "file.access"),
            (Facts { mode: 0o755, ..healthy() }, Note, "file.access"),
            (room(0, None), Problem, "file.room"),
            (room(1 << 40, Some(0)), Problem, "file.room"),
            (room(1 << 25, None), Warning, "file.room"),
            (room(1 << 40, Some(1000)), Warning, "file.room"),
            (Facts { dir: "/tmp/locks".into(), ..healthy() }, Warning, "file.cleaned_directory"),
            (Facts { dir: "/var/tmp/locks".into(), ..healthy() }, Warning, "file.cleaned_directory"),
        ] {
            assert_eq!(told(&facts), [(severity, code)], "{facts:?}");
        }
        assert_eq!(told(&Facts { dir: "/tmpfoo".into(), ..healthy() }), []);
        assert_eq!(judge(&healthy(), 0).last().map(|finding| finding.severity), Some(Warning));
    }

    #[test]
    fn a_network_file_system_is_not_said_to_wake_everybody() {
        let findings = judge(&on(Medium::Network), NOW_US);
        assert!(findings.iter().all(|finding| !matches!(finding.code, "file.inotify" | "file.pipes")));
    }
}
