//! What a case works with.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bramah_core::{
    About, Claim, ClaimId, Clock, Engine, ErrorKind, Guard, Keep, LineView, Look, Name, Opening, Profile,
    Reply, Result, Scope, Session, SessionId, Standing, Wait,
};

use crate::{
    Target,
    case::{Failure, Outcome},
    twist::{Twist, Twisted},
};

/// Far longer than any case waits: whatever is found free was freed, and did not just expire.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// See [`Bench::short`].
const SHORT: Duration = Duration::from_millis(600);
/// How long a case waits for what should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(15);
/// Between two questions to a store that is away.
const PAUSE: Duration = Duration::from_millis(20);
/// The limit for the turns of a crowd on a slow store and a busy machine. The time is not the point there: a turn that is lost
/// never comes.
pub(crate) const SLOW: Duration = Duration::from_secs(120);

/// One case's place on the store: names of its own, clients, and time.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    target: Target,
    profile: Profile,
    prefix: Arc<str>,
}

impl Bench {
    pub(crate) fn new(target: Target, profile: Profile, case: &str) -> Self {
        let group = case.split("::").next().unwrap_or("case");
        let prefix = format!("{group}.{:08x}", fastrand::u32(..)).into();
        Self { target, profile, prefix }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The ttl of cases whose subject is the passing of time: so long that a machine under load, where a thread may not
    /// run for a tenth of a second, renews in time.
    pub(crate) fn short(&self) -> Duration {
        SHORT * self.target.pace()
    }

    pub(crate) fn profile(&self) -> Profile {
        self.profile
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock::boot()
    }

    /// Lets time go by, where that is the subject.
    pub(crate) async fn pass(&self, span: Duration) {
        let clock = self.clock();
        clock.sleep_until(clock.now() + span).await;
    }

    /// A name that no other case uses.
    pub(crate) fn name(&self, leaf: &str) -> Name {
        Name::new(format!("{}/{leaf}", self.prefix)).expect("a leaf of a case is a valid name")
    }

    /// The name that all of this case's are under.
    pub(crate) fn root(&self) -> Name {
        Name::new(&*self.prefix).expect("the prefix of a case is a valid name")
    }

    pub(crate) async fn client(&self) -> Result<Arc<dyn Engine>> {
        self.target.client().await
    }

    /// A new client with `twist` between it and the store.
    pub(crate) async fn twisted<T: Twist>(&self, twist: &Arc<T>) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Twisted::new(self.client().await?, twist.clone())))
    }

    /// A session on a client of its own that outlasts the case.
    pub(crate) async fn session(&self) -> Result<Session> {
        self.session_of(LONG).await
    }

    pub(crate) async fn session_of(&self, ttl: Duration) -> Result<Session> {
        self.session_on(self.client().await?, ttl).await
    }

    pub(crate) async fn session_on(&self, engine: Arc<dyn Engine>, ttl: Duration) -> Result<Session> {
        Session::builder(engine).ttl(ttl).store("conformance").open().await
    }

    pub(crate) async fn sessions(&self, count: usize) -> Result<Vec<Session>> {
        let mut sessions = Vec::with_capacity(count);
        for _ in 0..count {
            sessions.push(self.session().await?);
        }
        Ok(sessions)
    }

    /// A session below the faces, without a keeper.
    pub(crate) async fn raw(&self) -> Result<Raw> {
        self.raw_on(self.client().await?, LONG, Keep::Process).await
    }

    /// The same, with claims that end when they are not renewed for `ttl`, on every engine.
    pub(crate) async fn mortal(&self, ttl: Duration) -> Result<Raw> {
        self.raw_on(self.client().await?, ttl, self.silent()).await
    }

    /// How a session is opened that will not be kept, so that it ends with its ttl while this process lives.
    pub(crate) fn silent(&self) -> Keep {
        if self.target.is_bound() { Keep::Process } else { Keep::Nobody }
    }

    pub(crate) async fn raw_on(&self, engine: Arc<dyn Engine>, ttl: Duration, keep: Keep) -> Result<Raw> {
        let session = SessionId::random()?;
        let about = About::this_process();
        let opening = Arc::new(Opening::new(session, ttl, keep, about));
        let ttl = answered(|| engine.open(opening.clone())).await?;
        Ok(Raw { engine, session, ttl, seq: AtomicU64::new(0) })
    }

    /// The line of `name` as a new client sees it.
    pub(crate) async fn line(&self, name: &Name) -> Result<Option<LineView>> {
        let survey = self.client().await?.survey(&Scope::Exact(name.clone()), Look::Once).await?;
        Ok(survey.lines.into_iter().find(|line| !line.places.is_empty()))
    }

    /// How many stand in the line of `name`: holders and waiters.
    pub(crate) async fn standing(&self, name: &Name) -> Result<(usize, usize)> {
        let line = self.line(name).await?;
        Ok(line.map_or((0, 0), |line| (line.holders().count(), line.waiters().count())))
    }

    /// Waits until nobody stands in the line of `name`.
    pub(crate) async fn emptied(&self, name: &Name) -> Outcome {
        let deadline = self.clock().now() + SOON;
        loop {
            let Some(line) = self.line(name).await? else { return Ok(()) };
            if self.clock().now() >= deadline {
                return Err(Failure::new(format!("{} still stand in line: {line:?}", line.places.len())));
            }
            self.pass(Duration::from_millis(2)).await;
        }
    }

    /// Waits until so many wait in the line of `name`.
    pub(crate) async fn waiting(&self, name: &Name, count: usize) -> Outcome {
        let deadline = self.clock().now() + SOON;
        loop {
            let (_, waiters) = self.standing(name).await?;
            if waiters == count {
                return Ok(());
            }
            if self.clock().now() >= deadline {
                return Err(Failure::new(format!("{waiters} wait in line, not {count}")));
            }
            self.pass(Duration::from_millis(2)).await;
        }
    }

    /// The answer of what should come at once.
    pub(crate) async fn soon<T>(&self, what: &str, future: impl Future<Output = T>) -> Outcome<T> {
        self.within(SOON, what, future).await
    }

    pub(crate) async fn within<T>(
        &self,
        span: Duration,
        what: &str,
        future: impl Future<Output = T>,
    ) -> Outcome<T> {
        tokio::time::timeout(span, future)
            .await
            .map_err(|_| Failure::new(format!("not within {span:?}: {what}")))
    }
}

/// Asks until the store answers. A machine that stands still for a moment makes an engine give up a question with a short ttl, and
/// every question may be repeated.
async fn answered<T>(question: impl Fn() -> Reply<T>) -> Result<T> {
    let (clock, deadline) = (Clock::boot(), Clock::boot().now() + SOON);
    loop {
        match question().await {
            Err(error) if error.kind() == ErrorKind::Unavailable && clock.now() < deadline => {
                clock.sleep_until(clock.now() + PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// A session without a keeper: claims go to the engine as they are.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) session: SessionId,
    pub(crate) ttl: Duration,
    seq: AtomicU64,
}

impl Raw {
    /// A claim on a mutex, with a new id, willing to wait.
    pub(crate) fn mutex(&self, name: &Name) -> Claim {
        self.of(name, 1, 1)
    }

    pub(crate) fn of(&self, name: &Name, capacity: u32, weight: u32) -> Claim {
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        Claim {
            id: ClaimId { session: self.session, seq },
            name: name.clone(),
            capacity,
            weight,
            wait: Wait::Line,
            again: false,
            floor: None,
            ttl: self.ttl,
            lease: None,
            note: "".into(),
        }
    }

    pub(crate) async fn enter(&self, claim: &Claim) -> Result<Standing> {
        self.claim(claim.clone()).await
    }

    pub(crate) async fn ask(&self, claim: &Claim) -> Result<Standing> {
        self.claim(claim.asking()).await
    }

    async fn claim(&self, claim: Claim) -> Result<Standing> {
        let claim = Arc::new(claim);
        answered(|| self.engine.claim(claim.clone())).await
    }

    pub(crate) async fn withdraw(&self, claim: &Claim) -> Result<()> {
        let claim = Arc::new(claim.clone());
        answered(|| self.engine.withdraw(claim.clone(), bramah_core::Exit::Own)).await
    }

    /// Renews until the store has answered for each of them.
    pub(crate) async fn renew(&self, claims: &[&Claim]) -> Result<bramah_core::Renewal> {
        let claims: Arc<[Arc<Claim>]> = claims.iter().map(|claim| Arc::new(claim.asking())).collect();
        let (clock, deadline) = (Clock::boot(), Clock::boot().now() + SOON);
        loop {
            let renewal = answered(|| self.engine.renew(self.session, claims.clone())).await?;
            if renewal.unknown.is_empty() || clock.now() >= deadline {
                return Ok(renewal);
            }
        }
    }

    /// Enters a claim that must be held at once.
    pub(crate) async fn hold(&self, claim: &Claim) -> Outcome<Option<bramah_core::Fence>> {
        held(self.enter(claim).await?)
    }
}

/// The fence of a standing that must be held.
#[track_caller]
pub(crate) fn held(standing: Standing) -> Outcome<Option<bramah_core::Fence>> {
    match standing {
        Standing::Held { fence, .. } => Ok(fence),
        other => Err(Failure::new(format!("not held: {other:?}"))),
    }
}

/// Whether an answer says that a claim is not there: as such, or with its whole session.
pub(crate) fn is_gone(answer: &Result<Standing>) -> bool {
    match answer {
        Ok(standing) => matches!(standing, Standing::Gone),
        Err(error) => error.kind() == ErrorKind::Lost,
    }
}

/// The guard that a try must get.
#[track_caller]
pub(crate) fn got(tried: Result<Option<Guard>>) -> Outcome<Guard> {
    match tried {
        Ok(Some(guard)) => Ok(guard),
        Ok(None) => Err(Failure::new("busy, and should be free")),
        Err(error) => Err(error.into()),
    }
}

/// Polls `future` so many times with room for others in between, then drops it. What it gave, if it was done.
pub(crate) async fn poll_times<F: Future + Send>(future: F, polls: usize) -> Option<F::Output> {
    let mut future: Pin<Box<F>> = Box::pin(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Whether `future` is ready without waiting.
pub(crate) fn is_ready(future: impl Future) -> bool {
    pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}
