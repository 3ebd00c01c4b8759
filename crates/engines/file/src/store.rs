//! What the operations share: sessions, open ledgers, and who is to be told.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use bramah_core::{ClaimId, Error, ErrorKind, Keep, Name, Opening, Result, SessionId, Woken};

use crate::{
    bells::{Bells, Ear},
    boot::Boot,
    layout::Layout,
    life,
    mail::{self, Mailbox},
    session::Session,
    shelf::Shelf,
    state::{Entry, Notice, Stamp, State},
    trust::Trust,
    turn::Turn,
    watch::Watcher,
};

/// How many holders of one lock are listened to: each costs an open file. Of more, an end shows within a second.
const LIVES: usize = 64;

/// On whose behalf a line is looked after.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker {
    /// Nobody in particular.
    None,
    /// A claim that stands in it.
    InLine(ClaimId),
    /// One that is about to enter at its end, or would if it could be held at once.
    Entering,
}

impl Asker {
    fn place(self, state: &State) -> Option<usize> {
        match self {
            Self::None => None,
            Self::InLine(id) => state.find(id),
            Self::Entering => Some(state.line.len()),
        }
    }
}

/// One directory of locks, as one engine uses it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) layout: Layout,
    pub(crate) boot: Boot,
    pub(crate) bells: Arc<Bells>,
    shelf: Shelf,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// One session is opened at a time: two files of one session would be two lives of it.
    opening: Mutex<()>,
    /// Started with the first claim that is held or waits, if the kernel can tell.
    watcher: OnceLock<Watcher>,
    /// Held while the watcher is started.
    starting: Mutex<()>,
}

impl Store {
    /// Opens the directory; with `make`, what is absent of it is made.
    pub(crate) fn open(dir: &Path, make: bool) -> Result<Self> {
        Ok(Self {
            layout: Layout::open(dir, make)?,
            boot: Boot::current(),
            bells: Arc::default(),
            shelf: Shelf::default(),
            sessions: Mutex::default(),
            opening: Mutex::default(),
            watcher: OnceLock::new(),
            starting: Mutex::default(),
        })
    }

    /// Opens a session, or finds it open. Answers the ttl.
    pub(crate) fn open_session(&self, opening: &Opening) -> Result<Duration> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let ttl = match opening.keep {
            Keep::Process => Duration::MAX,
            Keep::Nobody => opening.ttl,
        };
        let known = match (self.own_session(opening.session), opening.keep) {
            (None, Keep::Nobody) => Session::adopt(&self.layout, opening.session, &self.boot)?.map(Arc::new),
            (known, _) => known,
        };
        if let Some(session) = known {
            if session.keep == opening.keep && session.renew_for(Some(opening.ttl), &self.boot)? {
                self.sessions().insert(opening.session, session);
                return Ok(ttl);
            }
            self.lose(&session);
        }
        life::sweep(&self.layout, &self.boot);
        let session = Session::create(&self.layout, opening, &self.boot)?;
        self.sessions().insert(opening.session, Arc::new(session));
        Ok(ttl)
    }

    /// Removes the files of a session and gives its flock back, in this order: so nobody finds a file without flock.
    pub(crate) fn close_session(&self, id: SessionId) -> Result<()> {
        match self.session(id) {
            Ok(session) => {
                session.remove();
                self.lose(&session);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Lost => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A session that lives: ours, or a detached one that another process opened. `Lost` if there is none.
    pub(crate) fn session(&self, id: SessionId) -> Result<Arc<Session>> {
        let session = match self.own_session(id) {
            Some(session) => session,
            None => match Session::adopt(&self.layout, id, &self.boot)? {
                Some(session) => Arc::clone(self.sessions().entry(id).or_insert(Arc::new(session))),
                None => return Err(lost(id)),
            },
        };
        if session.is_alive(&self.boot)? {
            return Ok(session);
        }
        self.lose(&session);
        Err(lost(id))
    }

    /// The session if this process has it.
    pub(crate) fn own_session(&self, id: SessionId) -> Option<Arc<Session>> {
        self.sessions().get(&id).cloned()
    }

    /// Forgets a session that has ended; whoever waits by it should ask.
    pub(crate) fn lose(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions();
        if sessions.get(&session.id).is_some_and(|found| Arc::ptr_eq(found, session)) {
            sessions.remove(&session.id);
        }
        drop(sessions);
        if let (Some(number), Some(watcher)) = (session.watch.get(), self.watcher.get()) {
            watcher.forget(*number);
        }
        let claims = std::mem::take(&mut *session.claims());
        for seq in claims.into_keys() {
            self.bells.ring(Ear::Claim(ClaimId { session: session.id, seq }), Woken::Ask);
        }
    }

    /// Works on the ledger of `name`, alone with it. `Turn::Done(None)` if it is absent and not to be made. What
    /// `work` answers `true` for is written.
    pub(crate) fn visit<T>(
        &self,
        name: &Name,
        make: Option<u32>,
        work: impl FnOnce(&mut State) -> Result<(T, bool)>,
    ) -> Result<Turn<Option<T>>> {
        // The second time only when somebody removed the file; whoever keeps doing that keeps the lock busy.
        for _ in 0..3 {
            let Some(slot) = self.shelf.get(&self.layout, name, make.is_some())? else {
                return Ok(Turn::Done(None));
            };
            let ledger = slot.ledger();
            let Some(locked) = ledger.lock()? else { return Ok(Turn::Busy) };
            if !ledger.is_current() {
                drop(locked);
                drop(ledger);
                self.shelf.discard(name, &slot);
                continue;
            }
            let Some(mut content) = ledger.read(Some(name), make.unwrap_or(1), self.boot.mark)? else {
                return Ok(Turn::Done(None));
            };
            let (answer, changed) = work(&mut content.state)?;
            if changed {
                locked.write(&content, self.boot.mark)?;
            }
            return Ok(Turn::Done(Some(answer)));
        }
        Ok(Turn::Busy)
    }

    /// Drops dead holders, and the dead that wait directly ahead of whoever asks, and advances the line until all of them
    /// are alive. Before each look at them `listen` may arm a wake for their deaths, so that none falls between. Whether
    /// the line changed.
    pub(crate) fn tend(
        &self,
        state: &mut State,
        stamp: Stamp,
        notices: &mut Vec<Notice>,
        asker: Asker,
        mut listen: impl FnMut(&Store, &State),
    ) -> Result<bool> {
        let mut changed = false;
        loop {
            listen(self, state);
            let before = state.front();
            let mut alive = self.lives();
            let mut dropped = state.drop_dead_holders(&mut alive)?;
            if let Some(at) = asker.place(state) {
                dropped |= state.drop_dead_ahead(at, &mut alive)?;
            }
            if !dropped {
                return Ok(changed);
            }
            changed = true;
            // Whoever asks need not be told that it is the first now.
            let front = match (asker, state.front()) {
                (Asker::InLine(us), Some(first)) if first == us => Some(us),
                _ => before,
            };
            state.advance(front, stamp, &mut alive, notices)?;
        }
    }

    /// Looks whether the session of an entry lives, each session once.
    pub(crate) fn lives(&self) -> impl FnMut(&Entry) -> Result<bool> {
        let mut seen: HashMap<(SessionId, u64), bool> = HashMap::new();
        move |entry| {
            let key = (entry.id.session, entry.incarnation);
            if let Some(alive) = seen.get(&key) {
                return Ok(*alive);
            }
            let alive = match self.own_session(key.0).filter(|session| session.incarnation == key.1) {
                Some(session) => session.is_alive(&self.boot)?,
                None => life::is_alive(&self.layout.session(key.0, key.1), &self.boot)?,
            };
            seen.insert(key, alive);
            Ok(alive)
        }
    }

    /// Has `ear` told of the ends that concern the place `at` in line: of whoever waits directly ahead of it, or of the
    /// holders if nobody does. So each death has somebody to hear of it, and each waiter listens to few.
    pub(crate) fn listen_ahead(&self, state: &State, at: usize, ear: Ear) -> Trust {
        match at.checked_sub(1).filter(|ahead| *ahead >= state.line.held()) {
            Some(ahead) => state.line.get(ahead).map_or(Trust::FULL, |entry| self.listen_for_end(entry, ear)),
            None => self.listen_for_deaths(state, ear),
        }
    }

    /// Has `ear` told when the session of a holder ends.
    pub(crate) fn listen_for_deaths(&self, state: &State, ear: Ear) -> Trust {
        let mut trust = Trust::FULL;
        let mut seen = None;
        for entry in state.line.iter().take(state.line.held().min(LIVES)) {
            let session = Some((entry.id.session, entry.incarnation));
            if seen != session {
                trust = trust.and(self.listen_for_end(entry, ear));
                seen = session;
            }
        }
        match state.line.held() > LIVES {
            true => trust.and(Trust::within(Duration::from_secs(1))),
            false => trust,
        }
    }

    /// Has `ear` told when the session of an entry ends, unless it is one of this process.
    fn listen_for_end(&self, entry: &Entry, ear: Ear) -> Trust {
        let Some(watcher) = self.watcher() else { return Trust::NONE };
        let (id, incarnation) = (entry.id.session, entry.incarnation);
        if self.own_session(id).is_some_and(|session| session.incarnation == incarnation) {
            return Trust::FULL;
        }
        let session = self.layout.session(id, incarnation);
        if watcher.death(&session, &self.layout.mail(id, incarnation), ear) {
            return Trust::FULL;
        }
        // A detached one's end comes by the clock. Any other is dying this moment, or cannot be heard.
        let left = life::left(&session, &self.boot).map(|left| left + Duration::from_millis(1));
        left.map_or(Trust::NONE, Trust::within)
    }

    /// Has letters to the session read as they come. What fails is tried again with the next question.
    pub(crate) fn listen_for_letters(&self, session: &Session) -> Trust {
        let Some(mailbox) = session.mailbox().filter(|mailbox| mailbox.is_in_place()) else {
            return Trust::NONE;
        };
        self.read_letters(session, mailbox).into()
    }

    /// Has the session of a holder told when its hold is broken. Without that it learns so when it renews, as a detached one
    /// does: its process is seldom there.
    pub(crate) fn listen_for_breaks(&self, session: &Session) {
        if session.keep == Keep::Process
            && session.watch.get().is_none()
            && let Some(mailbox) = session.mailbox()
        {
            self.read_letters(session, mailbox);
        }
    }

    fn read_letters(&self, session: &Session, mailbox: Arc<Mailbox>) -> bool {
        if session.watch.get().is_some() {
            return true;
        }
        let Some(watcher) = self.watcher() else { return false };
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if session.watch.get().is_none()
            && let Some(number) = watcher.deliver(Arc::clone(&session.recipient), mailbox)
        {
            let _ = session.watch.set(number);
        }
        session.watch.get().is_some()
    }

    /// Tells those whom a written change concerns: here by their bell, elsewhere by a letter.
    pub(crate) fn tell(&self, notices: &[Notice]) {
        for Notice { id, incarnation, woken } in notices {
            let own = self.own_session(id.session).filter(|session| session.incarnation == *incarnation);
            if let Some(session) = &own {
                session.recipient.tell(id.seq, *woken, &self.bells);
            }
            // A detached session may be waited for by more than one process.
            if own.is_none_or(|session| session.keep == Keep::Nobody) {
                mail::send(&self.layout.mail(id.session, *incarnation), id.seq, *woken);
            }
        }
    }

    /// The watcher; `None` where the kernel cannot tell. One that could not be started is tried again.
    pub(crate) fn watcher(&self) -> Option<&Watcher> {
        if let Some(watcher) = self.watcher.get() {
            return Some(watcher);
        }
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.watcher.get().is_none() {
            let _ = self.watcher.set(Watcher::start(Arc::clone(&self.bells)).ok()?);
        }
        self.watcher.get()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for a session that does not live.
pub(crate) fn lost(id: SessionId) -> Error {
    Error::new(
        ErrorKind::Lost,
        format!("{id:?} is not open here: it was closed, or its file was removed; open it anew"),
    )
}
