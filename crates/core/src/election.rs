//! One leader at a time, with a value that everybody can read.

use std::{sync::Arc, time::Duration};

use crate::{
    About, Claim, Error, ErrorKind, Fence, Guard, LineView, Lock, Name, PlaceState, Release, Result, Scope,
    Session, Standing, Tag,
};

/// An election: whoever holds the line leads, and its value is there for all to see.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah_core::Result<()> {
/// # use bramah_core::{Memory, Session};
/// let session = Session::open(Memory::new()).await?;
/// let election = session.election("billing/leader")?;
/// let leadership = election.campaign("10.0.0.7:8080").await?;
/// assert_eq!(&*election.leader().await?.unwrap().value, "10.0.0.7:8080");
/// leadership.proclaim("10.0.0.7:8081").await?;
/// leadership.resign().await;
/// assert!(election.leader().await?.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    session: Session,
    lock: Lock,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// What the leader says of itself.
    pub value: Arc<str>,
    /// The fence of its leadership.
    pub fence: Option<Fence>,
    /// What its claim is called.
    pub tag: Tag,
    /// The process behind it, if the store knows.
    pub about: Option<Arc<About>>,
}

impl Session {
    /// The election of this name.
    ///
    /// # Errors
    /// `Invalid` for a broken name.
    pub fn election<N: TryInto<Name, Error = E>, E: Into<Error>>(&self, name: N) -> Result<Election> {
        let lock = Lock::new(self.0.clone(), name.try_into().map_err(Into::into)?, 1, 1);
        Ok(Election { session: self.clone(), lock })
    }
}

impl Election {
    /// Stands for election with `value` (at most 1024 bytes) and waits to be elected.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the candidate.
    pub async fn campaign(&self, value: impl AsRef<str>) -> Result<Leadership> {
        self.candidate(value).lock().await.map(Leadership::new)
    }

    /// Leads if nobody does; else `None`.
    ///
    /// # Errors
    /// As [`Lock::try_lock`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_lock`].
    pub async fn try_campaign(&self, value: impl AsRef<str>) -> Result<Option<Leadership>> {
        Ok(self.candidate(value).try_lock().await?.map(Leadership::new))
    }

    /// Waits to be elected for `wait` at the most.
    ///
    /// # Errors
    /// As [`Lock::lock_within`].
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the candidate.
    pub async fn campaign_within(&self, value: impl AsRef<str>, wait: Duration) -> Result<Leadership> {
        self.candidate(value).lock_within(wait).await.map(Leadership::new)
    }

    /// The same election with a fixed term: a leadership ends `term` after it began and is never renewed.
    #[must_use]
    pub fn term(&self, term: Duration) -> Self {
        Self { lock: self.lock.lease(term), ..self.clone() }
    }

    /// The same election with a limit on a leadership: after it the keeper stops renewing and declares it lost.
    #[must_use]
    pub fn max_hold(&self, max_hold: Duration) -> Self {
        Self { lock: self.lock.max_hold(max_hold), ..self.clone() }
    }

    /// Who leads now.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        Ok(leader_in(self.session.survey(&self.scope()).await?))
    }

    /// Everybody who leads from now on, beginning with who leads now.
    pub fn observe(&self) -> Observer {
        Observer { election: self.clone(), last: None, next: None }
    }

    fn candidate(&self, value: impl AsRef<str>) -> Lock {
        self.lock.reason(value)
    }

    fn scope(&self) -> Scope {
        Scope::Exact(self.lock.name().clone())
    }
}

fn leader_in(lines: Vec<LineView>) -> Option<Leader> {
    lines.into_iter().flat_map(|line| line.places).find_map(|place| match place.state {
        PlaceState::Held { fence, .. } => Some(Leader {
            value: place.claim.note.clone(),
            fence,
            tag: place.claim.id.tag(),
            about: place.about,
        }),
        PlaceState::Waiting => None,
    })
}

/// The leaders of an election, one after the other. From [`Election::observe`].
#[derive(Debug)]
pub struct Observer {
    election: Election,
    last: Option<Option<Leader>>,
    next: Option<(crate::Wake, Duration)>,
}

impl Observer {
    /// The next change: who leads now, or that nobody does. The first call answers at once. Changes that follow each
    /// other faster than they are read may be seen as one.
    ///
    /// # Errors
    /// What the engine says; it can be called again.
    ///
    /// # Cancel safety
    /// No change is lost when it is dropped.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        let clock = self.election.session.0.core.clock.clone();
        loop {
            if let Some((wake, sleep)) = &mut self.next {
                tokio::select! {
                    biased;
                    _ = wake => {}
                    () = clock.nap(*sleep) => {}
                }
                self.next = None;
            }
            let survey = self.election.session.watch(&self.election.scope()).await?;
            self.next = Some((survey.wake, survey.sleep));
            let leader = leader_in(survey.lines);
            if self.last.as_ref() != Some(&leader) {
                self.last = Some(leader.clone());
                return Ok(leader);
            }
        }
    }
}

/// A leadership, until it is resigned or dropped, or lost.
#[derive(Debug)]
#[must_use = "the leadership ends when it is dropped"]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    fn new(guard: Guard) -> Self {
        Self { guard }
    }

    /// The guard underneath: fence, remaining, lost, keep.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Changes the value that everybody reads.
    ///
    /// # Errors
    /// `Lost` if it does not lead any more, `Invalid` for a value over 1024 bytes, and what the engine says.
    ///
    /// # Cancel safety
    /// What was sent is finished when this is dropped: the value may or may not have changed.
    pub async fn proclaim(&self, value: impl AsRef<str>) -> Result<()> {
        self.guard.proclaim(value.as_ref()).await
    }

    /// Gives the leadership up.
    ///
    /// # Cancel safety
    /// It goes on when this is dropped.
    pub async fn resign(self) -> Release {
        self.guard.release().await
    }
}

impl Guard {
    /// Changes the note of the claim: what a leader says of itself.
    pub(crate) async fn proclaim(&self, value: &str) -> Result<()> {
        let hold = self.hold();
        if value.len() > Claim::MAX_NOTE_BYTES {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("a value of {} bytes; the most is 1024", value.len()),
            ));
        }
        if !self.is_held() {
            return Err(hold.lost_error());
        }
        let core = hold.core();
        match core.ask_about(hold.seat(), hold.seat().annotate(value.into())).await? {
            Some(Standing::Held { .. }) => Ok(()),
            None => Err(hold.lost_error()),
            Some(Standing::Gone) => {
                hold.seat().lose_gone();
                Err(hold.lost_error())
            }
            Some(Standing::Queued { .. } | Standing::Refused) => {
                core.lose_unheld(hold.seat());
                Err(hold.lost_error())
            }
        }
    }
}

impl From<Leadership> for Guard {
    fn from(leadership: Leadership) -> Guard {
        leadership.guard
    }
}
