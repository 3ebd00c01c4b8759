//! The file engine of Bramah: locks between the processes of one host, without a server.
//!
//! ```
//! use bramah_core::{Engine, Order};
//! # fn main() -> bramah_core::Result<()> {
//! let dir = std::env::temp_dir().join(format!("bramah-doc-{}", std::process::id()));
//! let engine = bramah_file::File::open(&dir)?;
//! assert_eq!(engine.profile().order, Order::Fifo);
//! # std::fs::remove_dir_all(&dir).ok();
//! # Ok(())
//! # }
//! ```
//!
//! # What lies in the directory
//! ```text
//! <dir>/                              made with mode 0700; its files with 0600
//!   format                            "bramah-file 1": the version of this layout
//!   locks/
//!     orders%2F42                     a ledger per name: who stands in line, who holds, the last fence
//!   sessions/
//!     <32 hex>.<incarnation>          a session; its process keeps an exclusive flock on it while it lives
//!     <32 hex>.<incarnation>.mail     its mailbox, a named pipe: "claim 7 is held with fence 1799…", "claim 9 should ask"
//!     <32 hex>.<incarnation>.asked    which of its claims somebody asks it to let go of; there once somebody has
//! ```
//! - A **ledger** is locked with `flock` for the few system calls of one operation, never while a lock is held. It
//!   is not unlinked and not replaced by rename: two processes would then lock two files of one name. The
//!   file name is the percent-encoded name; one that would be too long is cut and gets a hash, and the ledger itself
//!   tells the full name. What fits 4096 bytes is written by one write within the first page; a longer line goes
//!   beside the old one and a small write of the header switches over: a process killed at any point
//!   leaves the old line or the new one.
//! - A **session** lives while its file is at its path and locked. The kernel gives the flock back when the process
//!   ends, however it ends. A session that was lost is opened under another incarnation, so what it left in ledgers
//!   stays dead. A *detached* session (`Keep::Nobody`) has no flock but a time: boot id and boot clock.
//! - A **mailbox** is a named pipe that its owner alone reads: a hand-over wakes the process that gets the lock and the
//!   one that is next, not all that wait. It also tells of the session's end. Its owner keeps it open for writing, under
//!   an exclusive flock of its own; the first in line opens those of the holders for reading, each waiter behind it that of
//!   the one ahead of it, and the kernel tells it when the last copy is closed. A pipe says *when* to look, the session's
//!   flock says *whether* it lives. It also tells a holder that its hold was broken. One thread per engine listens, from
//!   the first lock on. A slow poll is the fallback for a letter whose sender was killed before it sent it: the first in
//!   line asks every three seconds, the others by their place, up to every thirty, and every renewal looks too. A detached
//!   session has a mailbox from the first wait in it on, read by the process that waited first; others ask.
//!
//! # Who may use it
//! The user whose directory it is, and nobody else, root included: [`File::open`] refuses a directory of another user,
//! and one that others may write to. Files are opened without following links and must be regular
//! ones, so that nothing in it leads elsewhere or blocks.
//!
//! # Who may use it
//! The user whose directory it is, and nobody else, root included: [`File::open`] refuses a directory of another user,
//! and one that others may write to. Files are opened without following links and must be regular
//! ones, so that nothing in it leads elsewhere or blocks.
//!
//! # What happens when
//! - **A process crashes** or is killed: its flock ends with it, the first in line is told by the kernel at once,
//!   drops it from the line and goes on. A waiter that died is dropped by the one behind it. Their files are removed when the next
//!   session opens. A process that was handed the session's lifelines keeps it alive for as long as it has them open.
//! - **A holder is frozen** (SIGSTOP, a debugger, a swap storm): it keeps its locks, as long as it takes. A survey
//!   shows it as stopped; `break` ends its hold and raises the fence. Frozen in the middle of an operation
//!   it keeps that one ledger locked: others get `Unavailable` with the path after ten seconds.
//! - **The machine loses power**: nobody who held anything has survived, and nothing is synced to disk. Fences are a
//!   hybrid clock, so they still rise, unless the wall clock comes back behind by more than the outage *and* the
//!   ledger was lost. A ledger whose line was only partly written counts as an empty line if its header is from
//!   another boot; one without a readable header is `Corrupt` and wants to be moved away by a person.
//! - **The wall clock jumps**: fences still rise by one from the last. Everything else counts on the boot clock.
//! - **The machine sleeps**: locks stay held; a detached session's time runs on.
//! - **A cleaner deletes files**: a session whose file is gone is dead to the others, who find it when they next ask; its
//!   own process answers `Lost` from the next claim or renewal on, and until then believes in its hold (fences tell the
//!   resource). A deleted ledger is noticed by the next operation and made anew; who held by it is told `gone` at the
//!   next renewal. A deleted mailbox, or something else in its place, costs speed: its owner falls back to the net, and
//!   from then on asks often (every 25 ms at the front). So keep the directory out of reach of cleaners (`/run`,
//!   a user's runtime directory, not `/tmp` where files are removed by age).
//! - **A process forks without exec**: the child shares the flock of the session, so the locks live until both have
//!   ended. The child must not use the engine. A child that execs shares nothing: every descriptor is close-on-exec.
//! - **A ledger is damaged, foreign or of a newer format**: `Corrupt`, with the path and what to do; it is never
//!   reset or rewritten.
//! - **The disk is full**: `Unavailable`. Releasing writes within a page that is already there, so it works
//!   on most file systems.
//!
//! # Where it does not hold
//! - **Network file systems.** Linux NFS turns `flock` into byte-range locks of the server: exclusion between hosts
//!   then depends on the server's leases (a partition longer than a lease takes a session's flock away without
//!   telling its process), a pipe joins processes of one host only, so waiters for another host's ask by themselves, and
//!   a detached session of another host looks dead, as it counts on another boot. Health is told for processes of this
//!   host only. Use a server for locks between hosts.
//! - **File systems without named pipes**: waiters ask by themselves, who is next every 25 ms and those behind by their
//!   place, up to every two seconds. The same where the user's pipes or the process's open files have run out.
//! - **More than 64 holders of one lock**: the first in line listens to 64 of them and looks at the others every second.
//! - **More processes that watch lines than inotify instances** (`fs.inotify.max_user_instances`, 128 a user unless
//!   raised): the others look ten times a second. Only surveys that go on watching need one; waiting does not.
//! - **Not Linux**: nothing is told, so waiters ask every 25 ms and the profile says `Polled`. Not tested.
//! - **Containers** that share the directory must share the kernel too (they do on one host); health may be unknown.
//! - **A fixed lease** is ended by its own process; the profile says `Kept`.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is pushed there"))]

mod asked;
mod bells;
mod boot;
pub mod checkup;
mod claim;
mod codec;
mod engine;
mod error;
mod guard;
mod layout;
mod ledger;
mod life;
mod mail;
#[cfg(target_os = "linux")]
mod notify;
mod renew;
#[cfg(test)]
mod samples;
mod session;
mod shelf;
mod state;
mod store;
mod survey;
mod trust;
mod turn;
#[cfg_attr(not(target_os = "linux"), path = "unwatched.rs")]
mod watch;
mod withdraw;

pub use engine::File;
