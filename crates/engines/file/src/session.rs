//! A session of this process.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use bramah_core::{Alarm, Claim, Error, ErrorKind, Keep, Opening, Result, SessionId};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::{
    asked::Seen,
    bells::Recipient,
    boot::Boot,
    error::io_error,
    guard,
    layout::{Layout, Part, parse_session_file},
    life::{self, Kept},
    mail::Mailbox,
};

/// One life of a session. A lost one is opened anew under another incarnation, so what it left in ledgers stays dead.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) incarnation: u64,
    pub(crate) path: PathBuf,
    mail: PathBuf,
    /// Its wishes, and those that the last renewal found.
    pub(crate) asked: PathBuf,
    pub(crate) seen: Seen,
    /// Made with the session, as others wait for its end there; a detached one's when somebody first waits by it.
    /// `None` where that could not be so far: it is tried again with each question.
    mailbox: Mutex<Option<Arc<Mailbox>>>,
    /// Who hears of its claims.
    pub(crate) recipient: Arc<Recipient>,
    /// With the flock, for as long as it lives; a detached one is just open.
    file: File,
    /// Which file that is: device and inode.
    identity: (u64, u64),
    pub(crate) keep: Keep,
    /// What has entered a line and was not withdrawn, by its number.
    claims: Mutex<HashMap<u64, Arc<Claim>>>,
    /// The number of the watch on the mailbox, once its letters are read.
    pub(crate) watch: OnceLock<u64>,
}

impl Session {
    /// Makes the session's file.
    pub(crate) fn create(layout: &Layout, opening: &Opening, boot: &Boot) -> Result<Self> {
        for _ in 0..16 {
            if let Some(session) = Self::try_create(layout, opening, boot)? {
                return Ok(session);
            }
        }
        let why = "somebody keeps removing or locking what is made there";
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("cannot open a session in {}: {why}", layout.sessions.display()),
        ))
    }

    fn try_create(layout: &Layout, opening: &Opening, boot: &Boot) -> Result<Option<Self>> {
        let incarnation = u64::try_from(SessionId::random()?.bits() >> 64).unwrap_or(1);
        let path = layout.session(opening.session, incarnation);
        let failed = |error| io_error("make the session", &path, error);
        // Exclusive: whatever is there already, also a link, is refused.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let Some(identity) = secure(&file, &path).map_err(failed)? else { return Ok(None) };
        let keep = match opening.keep {
            Keep::Process => Kept::Process,
            Keep::Nobody => Kept::for_ttl(u64::try_from(opening.ttl.as_nanos()).unwrap_or(u64::MAX), boot),
        };
        file.write_all_at(format!("{}{}\n", keep.encode(), opening.about.encode()).as_bytes(), 0)
            .map_err(failed)?;
        if opening.keep == Keep::Nobody {
            flock(&file, FlockOperation::Unlock).map_err(|error| failed(error.into()))?;
        }
        let recipient = Recipient { session: opening.session, alarm: opening.alarm.clone() };
        let session = Self::with(layout, recipient, incarnation, (file, identity), opening.keep);
        if opening.keep == Keep::Process {
            session.mailbox();
        }
        Ok(Some(session))
    }

    /// Finds a detached session that lives and was opened by another process.
    pub(crate) fn adopt(layout: &Layout, id: SessionId, boot: &Boot) -> Result<Option<Self>> {
        let failed = |error| io_error("list", &layout.sessions, error);
        let prefix = format!("{id}.");
        for entry in std::fs::read_dir(&layout.sessions).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(&prefix)) else { continue };
            let Some((_, incarnation, Part::Life)) = parse_session_file(name) else { continue };
            let path = layout.session(id, incarnation);
            let Ok(Some(file)) = guard::open_regular("the session", &path, OFlags::RDWR) else { continue };
            let left = life::read(&file, &path)?.and_then(|record| record.keep.left_ns(boot));
            if left.is_some_and(|left| left > 0) {
                let identity = life::identity(&file).map_err(failed)?;
                let recipient = Recipient { session: id, alarm: Alarm::none() };
                return Ok(Some(Self::with(layout, recipient, incarnation, (file, identity), Keep::Nobody)));
            }
        }
        Ok(None)
    }

    fn with(
        layout: &Layout,
        recipient: Recipient,
        incarnation: u64,
        (file, identity): (File, (u64, u64)),
        keep: Keep,
    ) -> Self {
        let id = recipient.session;
        let (path, mail) = (layout.session(id, incarnation), layout.mail(id, incarnation));
        let (mailbox, recipient, watch) = (Mutex::default(), Arc::new(recipient), OnceLock::new());
        let (claims, asked, seen) = (Mutex::default(), layout.asked(id, incarnation), Seen::default());
        Self {
            id,
            incarnation,
            path,
            mail,
            asked,
            seen,
            mailbox,
            recipient,
            file,
            identity,
            keep,
            claims,
            watch,
        }
    }

    /// Its mailbox, if this process has it or can have it now.
    pub(crate) fn mailbox(&self) -> Option<Arc<Mailbox>> {
        let mut mailbox = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        if mailbox.is_none() {
            *mailbox = Mailbox::open(&self.mail).map(Arc::new);
        }
        mailbox.clone()
    }

    /// Whether it lives in the eyes of the others. They go by the path, so a file that somebody removed or moved
    /// is a dead session, flock or not.
    pub(crate) fn is_alive(&self, boot: &Boot) -> Result<bool> {
        match self.keep {
            Keep::Process => Ok(life::is_at(&self.path, self.identity)),
            Keep::Nobody => life::is_alive(&self.path, boot),
        }
    }

    /// Proves that it lives; a detached one lives for its ttl from now. `false` if it is too late.
    pub(crate) fn renew(&self, boot: &Boot) -> Result<bool> {
        self.renew_for(None, boot)
    }

    /// The same, and a detached one has another ttl from here on.
    pub(crate) fn renew_for(&self, ttl: Option<Duration>, boot: &Boot) -> Result<bool> {
        if self.keep == Keep::Process || !self.is_alive(boot)? {
            return self.is_alive(boot);
        }
        // Under the flock, so that nobody finds it dead between our look and our writing.
        let free = |_| flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !(0..100).any(|round| free(round) || yielded()) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("cannot renew {}: it is locked", self.path.display()),
            ));
        }
        let moved = self.move_on(ttl, boot);
        let _ = flock(&self.file, FlockOperation::Unlock);
        moved
    }

    /// Writes a detached session's new time over the old one, if that has not passed.
    fn move_on(&self, ttl: Option<Duration>, boot: &Boot) -> Result<bool> {
        let Some(keep) = life::read(&self.file, &self.path)?.map(|record| record.keep) else {
            return Ok(false);
        };
        let in_time =
            keep.left_ns(boot).is_some_and(|left| left > 0) && life::is_at(&self.path, self.identity);
        let Kept::Until { ttl_ns, .. } = keep else { return Ok(false) };
        if in_time {
            let ttl_ns = ttl.map_or(ttl_ns, |ttl| u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX));
            let next = Kept::for_ttl(ttl_ns, boot).encode();
            let failed = |error| io_error("renew the session", &self.path, error);
            self.file.write_all_at(next.as_bytes(), 0).map_err(failed)?;
        }
        Ok(in_time)
    }

    /// Removes its files, under its flock if it has one.
    pub(crate) fn remove(&self) {
        // Absent is as good; a failure leaves a dead file for the next sweep.
        life::remove_beside(&self.mail);
        if life::is_at(&self.path, self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// The flock belongs to the open file, so a copy of its descriptor keeps the session alive wherever it is open; one
    /// of the mailbox puts off the news of its end for as long. A detached session lives by time.
    pub(crate) fn lifelines(&self) -> Vec<OwnedFd> {
        let flock = (self.keep == Keep::Process).then(|| self.file.try_clone()).and_then(Result::ok);
        // A copy of the mailbox alone would keep an end secret that has come.
        let Some(flock) = flock else { return Vec::new() };
        let mailbox = self.mailbox().and_then(|mailbox| mailbox.copy());
        [Some(OwnedFd::from(flock)), mailbox].into_iter().flatten().collect()
    }

    /// What has entered a line and was not withdrawn.
    pub(crate) fn claims(&self) -> MutexGuard<'_, HashMap<u64, Arc<Claim>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the flock of a session's new file. `None` if somebody who swept the directory was quicker and has taken
/// it for a dead one: then it may be gone from its path, and a flock on it would tell nobody anything.
fn secure(file: &File, path: &Path) -> std::io::Result<Option<(u64, u64)>> {
    let locked = flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
    let identity = life::identity(file)?;
    if locked && life::is_at(path, identity) {
        return Ok(Some(identity));
    }
    let _ = std::fs::remove_file(path);
    Ok(None)
}

/// Lets others run; never the answer to "is it free?".
fn yielded() -> bool {
    std::thread::yield_now();
    false
}

#[cfg(test)]
mod tests {
    use bramah_core::About;

    use super::*;
    use crate::samples::Scratch;

    fn opening(keep: Keep, ttl: Duration) -> Opening {
        Opening::new(SessionId::from_bits(9), ttl, keep, About::this_process())
    }

    #[test]
    fn a_file_that_was_swept_before_its_flock_is_not_used() {
        let (dir, boot) = (Scratch::new(), Boot::current());
        let (path, mail) = (dir.0.join("s"), dir.0.join("m"));
        let make = || OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
        let file = make();
        life::reap(&path, &mail, &boot);
        assert!(!path.exists(), "it looked dead");
        assert_eq!(secure(&file, &path).unwrap(), None);
        let (file, looker) = (make(), File::open(&path).unwrap());
        flock(&looker, FlockOperation::LockShared).unwrap();
        assert_eq!(secure(&file, &path).unwrap(), None, "somebody looks at it right now");
        assert!(!path.exists());
        let file = make();
        assert!(secure(&file, &path).unwrap().is_some());
        life::reap(&path, &mail, &boot);
        assert!(path.exists(), "from the flock on it is safe");
    }

    #[test]
    fn each_life_of_a_session_has_a_file_of_its_own() {
        let (dir, boot) = (Scratch::new(), Boot::current());
        let layout = Layout::open(&dir.0, true).unwrap();
        let opening = opening(Keep::Process, Duration::MAX);
        let (first, second) =
            (Session::create(&layout, &opening, &boot), Session::create(&layout, &opening, &boot));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_ne!(first.path, second.path);
        drop(first);
        life::sweep(&layout, &boot);
        assert!(second.is_alive(&boot).unwrap() && life::is_alive(&second.path, &boot).unwrap());
        second.remove();
        assert!(!second.is_alive(&boot).unwrap());
    }

    #[test]
    fn a_detached_session_is_renewed_by_its_own_ttl_and_only_in_time() {
        let (dir, boot) = (Scratch::new(), Boot::current());
        let layout = Layout::open(&dir.0, true).unwrap();
        let long = Session::create(&layout, &opening(Keep::Nobody, Duration::from_secs(60)), &boot).unwrap();
        let left = || life::read(&long.file, &long.path).unwrap().unwrap().keep.left_ns(&boot).unwrap();
        let before = left();
        let adopted = Session::adopt(&layout, long.id, &boot).unwrap().unwrap();
        assert!(adopted.renew(&boot).unwrap() && left() <= 60_000_000_000 && left() + 1_000_000_000 > before);
        long.remove();
        assert!(!adopted.renew(&boot).unwrap());
        let short = Session::create(&layout, &opening(Keep::Nobody, Duration::ZERO), &boot).unwrap();
        assert!(!short.renew(&boot).unwrap());
        assert!(Session::adopt(&layout, short.id, &boot).unwrap().is_none());
    }
}
