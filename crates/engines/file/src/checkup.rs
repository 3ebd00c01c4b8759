//! What there is to know of a directory before one trusts locks to it: plain facts, for a doctor to judge.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use bramah_core::{Name, Result, SessionId};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{error::io_error, layout::Layout, mail::Mailbox};

/// A directory of locks as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The directory, absolute.
    pub dir: PathBuf,
    /// What it lies on.
    pub file_system: FileSystem,
    /// Its permission bits.
    pub mode: u32,
    /// Whose it is.
    pub owner: u32,
    /// Whose files are that we make in it.
    pub user: u32,
    /// How much fits in it.
    pub room: Room,
    /// Whether file locks work there.
    pub flock: Flock,
    /// Whether named pipes can be made there, through which waiters are woken.
    pub pipes: bool,
    /// Whether the kernel can tell those who watch of changes.
    pub inotify: Inotify,
    /// The version of its layout.
    pub format: u32,
}

/// A file system by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Such as `ext4`; the number that the kernel gave where it has no name here.
    pub name: String,
    /// What kind it is.
    pub medium: Medium,
}

/// What a file system keeps files on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A disk of this machine.
    Disk,
    /// Memory: gone at the next boot.
    Memory,
    /// Layers over another one, mostly those of a container.
    Layers,
    /// Another machine.
    Network,
    /// A process (FUSE).
    Process,
    /// Not known here.
    Unknown,
}

/// Free space for this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// In bytes.
    pub bytes: u64,
    /// In files; `None` where that has no limit of its own.
    pub files: Option<u64>,
}

/// What file locks do between two open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flock {
    /// One excludes the other.
    Excludes,
    /// Both are granted.
    Ignored,
    /// None is granted.
    Refused,
}

/// Whether the kernel can tell of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inotify {
    /// It can, for so many processes of one user, if that is known.
    Ready(Option<u64>),
    /// This user has all instances that there are, so many if that is known.
    UsedUp(Option<u64>),
    /// Not on this system.
    Absent,
}

/// Looks at a directory of locks. A file is made there and removed again.
///
/// # Errors
/// As [`File::open`](crate::File::open).
pub fn examine(dir: impl AsRef<Path>) -> Result<Facts> {
    let dir = dir.as_ref();
    Layout::open(dir, true)?;
    let failed = |error| io_error("look at", dir, error);
    let root = fs::canonicalize(dir).map_err(failed)?;
    let meta = fs::metadata(&root).map_err(failed)?;
    let (user, flock) = probe(&root)?;
    Ok(Facts {
        file_system: file_system(&root).map_err(|errno| failed(errno.into()))?,
        mode: meta.mode() & 0o7777,
        owner: meta.uid(),
        user,
        room: room(&root).map_err(|errno| failed(errno.into()))?,
        flock,
        pipes: pipes(&root)?,
        inotify: inotify(),
        format: format(&root),
        dir: root,
    })
}

/// Removes the ledger of a name that was made up for a trial: random, and out of use. Never that of a lock that
/// somebody may use: a ledger that is gone has forgotten its fence.
///
/// # Errors
/// As [`File::open`](crate::File::open), and when it cannot be removed.
pub fn forget(dir: impl AsRef<Path>, name: &Name) -> Result<()> {
    let ledger = Layout::open(dir.as_ref(), true)?.ledger(name);
    match fs::remove_file(&ledger) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error("remove", &ledger, error)),
        _ => Ok(()),
    }
}

/// Whose a new file is, and whether it can be locked.
fn probe(root: &Path) -> Result<(u32, Flock)> {
    let path = root.join(format!(".probe-{}", SessionId::random()?));
    let failed = |error| io_error("make", &path, error);
    let first = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    let found = first.metadata().and_then(|meta| Ok((meta.uid(), try_flock(&first, &File::open(&path)?))));
    // Before its answer is looked at, so that nothing is left in any case.
    fs::remove_file(&path).map_err(|error| io_error("remove", &path, error))?;
    found.map_err(failed)
}

/// Whether a mailbox can be made.
fn pipes(root: &Path) -> Result<bool> {
    let path = root.join(format!(".probe-{}", SessionId::random()?));
    let made = Mailbox::open(&path).is_some();
    let _ = fs::remove_file(&path);
    Ok(made)
}

fn try_flock(first: &File, second: &File) -> Flock {
    if flock(first, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Flock::Refused;
    }
    let excluded = flock(second, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK);
    if excluded { Flock::Excludes } else { Flock::Ignored }
}

fn room(root: &Path) -> rustix::io::Result<Room> {
    let stat = rustix::fs::statvfs(root)?;
    Ok(Room {
        bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        // Those that make inodes as they need them say that they have none.
        files: (stat.f_files > 0).then_some(stat.f_favail),
    })
}

/// It was checked when the directory was opened.
fn format(root: &Path) -> u32 {
    let text = fs::read_to_string(root.join("format")).unwrap_or_default();
    text.split_whitespace().next_back().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(target_os = "linux")]
fn inotify() -> Inotify {
    use rustix::fs::inotify::{CreateFlags, init};
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok());
    match init(CreateFlags::CLOEXEC) {
        Ok(_) => Inotify::Ready(limit),
        Err(Errno::NOSYS) => Inotify::Absent,
        Err(_) => Inotify::UsedUp(limit),
    }
}

#[cfg(not(target_os = "linux"))]
fn inotify() -> Inotify {
    Inotify::Absent
}

#[cfg(target_os = "linux")]
fn file_system(root: &Path) -> rustix::io::Result<FileSystem> {
    // The number has 32 bits, in a field that is signed and wider on most machines.
    let magic = i128::from(rustix::fs::statfs(root)?.f_type) & 0xffff_ffff;
    Ok(named(u32::try_from(magic).unwrap_or(0)))
}

#[cfg(not(target_os = "linux"))]
fn file_system(_: &Path) -> rustix::io::Result<FileSystem> {
    Ok(FileSystem { name: "unknown".into(), medium: Medium::Unknown })
}

/// The file system with this magic number, from `linux/magic.h` and the sources of those that are not in it.
fn named(magic: u32) -> FileSystem {
    use Medium::{Disk, Layers, Memory, Network, Process, Unknown};
    let (name, medium) = match magic {
        0x0000_ef53 => ("ext4", Disk),
        0x5846_5342 => ("xfs", Disk),
        0x9123_683e => ("btrfs", Disk),
        0x2fc1_2fc1 => ("zfs", Disk),
        0xf2f5_2010 => ("f2fs", Disk),
        0xca45_1a4e => ("bcachefs", Disk),
        0x3153_464a => ("jfs", Disk),
        0x5265_4973 => ("reiserfs", Disk),
        0x2405_1905 => ("ubifs", Disk),
        0x0000_f15f => ("ecryptfs", Disk),
        0x0000_4d44 => ("vfat", Disk),
        0x2011_bab0 => ("exfat", Disk),
        0x7366_746e => ("ntfs", Disk),
        0x0102_1994 => ("tmpfs", Memory),
        0x8584_58f6 => ("ramfs", Memory),
        0x794c_7630 => ("overlayfs", Layers),
        0x6175_6673 => ("aufs", Layers),
        0x0000_6969 => ("nfs", Network),
        0xff53_4d42 => ("cifs", Network),
        0xfe53_4d42 => ("smb", Network),
        0x0000_517b => ("smbfs", Network),
        0x0102_1997 => ("9p", Network),
        0x00c3_6400 => ("ceph", Network),
        0x5346_414f | 0x6b41_4653 => ("afs", Network),
        0x7375_7245 => ("coda", Network),
        0x0116_1970 => ("gfs2", Network),
        0x7461_636f => ("ocfs2", Network),
        0x0bd0_0bd0 => ("lustre", Network),
        0x4750_4653 => ("gpfs", Network),
        0x786f_4256 => ("vboxsf", Network),
        0x6573_5546 => ("fuse", Process),
        _ => return FileSystem { name: format!("{magic:#x}"), medium: Unknown },
    };
    FileSystem { name: name.to_owned(), medium }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Scratch;

    #[test]
    fn file_systems_are_known_by_their_number() {
        for (magic, name, medium) in [
            (0xef53, "ext4", Medium::Disk),
            (0x0102_1994, "tmpfs", Medium::Memory),
            (0x794c_7630, "overlayfs", Medium::Layers),
            (0x6969, "nfs", Medium::Network),
            (0xff53_4d42, "cifs", Medium::Network),
            (0xfe53_4d42, "smb", Medium::Network),
            (0x0102_1997, "9p", Medium::Network),
            (0x6573_5546, "fuse", Medium::Process),
            (0x1234, "0x1234", Medium::Unknown),
        ] {
            assert_eq!(named(magic), FileSystem { name: name.into(), medium });
        }
    }

    #[test]
    fn a_look_leaves_nothing_behind() {
        let dir = Scratch::new();
        let facts = examine(&dir.0).unwrap();
        assert_eq!((facts.format, facts.owner), (1, facts.user));
        let mut left: Vec<_> =
            fs::read_dir(&dir.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["format", "locks", "sessions"]);
    }

    #[test]
    fn two_open_files_exclude_each_other_and_one_does_not_exclude_itself() {
        let dir = Scratch::new();
        let path = dir.0.join("f");
        let file = File::create(&path).unwrap();
        assert_eq!(try_flock(&file, &file.try_clone().unwrap()), Flock::Ignored);
        flock(&file, FlockOperation::Unlock).unwrap();
        assert_eq!(try_flock(&file, &File::open(&path).unwrap()), Flock::Excludes);
        assert_eq!(try_flock(&File::open(&path).unwrap(), &file), Flock::Refused);
    }

    #[test]
    fn a_made_up_name_is_forgotten_and_an_absent_one_is_as_good() {
        let dir = Scratch::new();
        let name = Name::new("bramah/doctor/1").unwrap();
        let ledger = Layout::open(&dir.0, true).unwrap().ledger(&name);
        fs::write(&ledger, "").unwrap();
        forget(&dir.0, &name).unwrap();
        assert!(!ledger.exists());
        forget(&dir.0, &name).unwrap();
    }
}
