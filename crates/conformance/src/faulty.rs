//! An engine behind bad weather: calls are delayed, lost, repeated and overtaken.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    Claim, Clock, Engine, Error, ErrorKind, Exit, Look, Moment, Opening, Profile, Renewal, Reply, Result,
    Scope, SessionId, Standing, Survey, Wake,
};

/// What the network between one client and its store is like.
#[derive(Debug)]
pub struct Weather {
    rng: Mutex<fastrand::Rng>,
    clock: Clock,
    /// Nothing that arrives later than this after it was sent: the longest ttl.
    horizon: Duration,
    /// Of a thousand calls, how many meet with a fault.
    per_mille: u32,
    calm: AtomicBool,
    repeats: AtomicBool,
    cut_until: Mutex<Moment>,
}

/// What happens to one call.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It takes so long to get there, and so long to be answered.
    Fine { there: Duration, back: Duration },
    /// It never arrives.
    RequestLost { noticed: Duration },
    /// It is carried out, and nobody hears of it.
    ReplyLost { there: Duration, noticed: Duration },
    /// It is carried out twice: a driver's resend arrives after the answer.
    Repeated { there: Duration, back: Duration, again: Duration },
    /// It arrives after its sender was told that it failed.
    Overtaken { noticed: Duration, there: Duration },
}

impl Weather {
    /// Weather of this seed over calls that may be held back for up to `horizon`.
    pub fn new(seed: u64, clock: Clock, horizon: Duration, per_mille: u32) -> Arc<Self> {
        let cut_until = Mutex::new(clock.now());
        let rng = Mutex::new(fastrand::Rng::with_seed(seed));
        Arc::new(Self {
            rng,
            clock,
            horizon,
            per_mille,
            calm: AtomicBool::new(false),
            repeats: AtomicBool::new(true),
            cut_until,
        })
    }

    /// No faults from here on.
    pub fn clear_up(&self) {
        self.calm.store(true, Ordering::Relaxed);
        *self.cut_until.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.now();
    }

    /// No call arrives again after it was answered. For clients whose claims pass from one ttl to another: a store cannot tell an old
    /// renewal from a new one.
    pub fn never_repeat(&self) {
        self.repeats.store(false, Ordering::Relaxed);
    }

    /// Nothing gets through for `span`.
    pub fn cut(&self, span: Duration) {
        *self.cut_until.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.now() + span;
    }

    fn fate(&self) -> Fate {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let short = |rng: &mut fastrand::Rng| Duration::from_micros(rng.u64(100..5_000));
        let long = |rng: &mut fastrand::Rng| self.horizon.mul_f64(rng.f64() * 0.9);
        if *self.cut_until.lock().unwrap_or_else(PoisonError::into_inner) > self.clock.now() {
            return Fate::RequestLost { noticed: self.horizon / 4 };
        }
        if self.calm.load(Ordering::Relaxed) || rng.u32(0..1000) >= self.per_mille {
            return Fate::Fine { there: short(&mut rng), back: short(&mut rng) };
        }
        match rng.u32(0..6) {
            0 => Fate::Fine { there: long(&mut rng), back: short(&mut rng) },
            1 => Fate::Fine { there: short(&mut rng), back: long(&mut rng) },
            2 => Fate::RequestLost { noticed: long(&mut rng) },
            3 => Fate::ReplyLost { there: short(&mut rng), noticed: long(&mut rng) },
            4 if self.repeats.load(Ordering::Relaxed) => {
                Fate::Repeated { there: short(&mut rng), back: short(&mut rng), again: long(&mut rng) }
            }
            _ => Fate::Overtaken { noticed: short(&mut rng), there: long(&mut rng) },
        }
    }

    /// What becomes of a pushed wake: delayed, or lost.
    fn push(&self) -> Option<Duration> {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        if self.calm.load(Ordering::Relaxed) || rng.u32(0..1000) >= self.per_mille {
            return Some(Duration::from_micros(rng.u64(50..2_000)));
        }
        rng.bool().then(|| self.horizon.mul_f64(rng.f64()))
    }
}

/// An engine reached through [`Weather`]. For tests on a paused runtime.
#[derive(Debug, Clone)]
pub struct Faulty {
    inner: Arc<dyn Engine>,
    weather: Arc<Weather>,
}

impl Faulty {
    /// `inner`, as seen through `weather`.
    pub fn new(inner: Arc<dyn Engine>, weather: Arc<Weather>) -> Self {
        Self { inner, weather }
    }

    fn send<T: Send + 'static>(&self, call: impl Fn(&dyn Engine) -> Reply<T> + Send + 'static) -> Reply<T> {
        let (inner, fate) = (self.inner.clone(), self.weather.fate());
        Reply::later(async move {
            match fate {
                Fate::Fine { there, back } => {
                    tokio::time::sleep(there).await;
                    let answer = call(&*inner).await;
                    tokio::time::sleep(back).await;
                    answer
                }
                Fate::RequestLost { noticed } => {
                    tokio::time::sleep(noticed).await;
                    lost()
                }
                Fate::ReplyLost { there, noticed } => {
                    tokio::time::sleep(there).await;
                    drop(call(&*inner).await);
                    tokio::time::sleep(noticed).await;
                    lost()
                }
                Fate::Repeated { there, back, again } => {
                    tokio::time::sleep(there).await;
                    let answer = call(&*inner).await;
                    tokio::spawn(async move {
                        tokio::time::sleep(again).await;
                        drop(call(&*inner).await);
                    });
                    tokio::time::sleep(back).await;
                    answer
                }
                Fate::Overtaken { noticed, there } => {
                    tokio::spawn(async move {
                        tokio::time::sleep(there).await;
                        drop(call(&*inner).await);
                    });
                    tokio::time::sleep(noticed).await;
                    lost()
                }
            }
        })
    }
}

fn lost<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unavailable, "no answer: lost in bad weather"))
}

impl Engine for Faulty {
    fn profile(&self) -> Profile {
        self.inner.profile()
    }

    fn open(&self, opening: Arc<Opening>) -> Reply<Duration> {
        self.inner.open(opening)
    }

    fn claim(&self, claim: Arc<Claim>) -> Reply<Standing> {
        let weather = self.weather.clone();
        let reply = self.send(move |engine| engine.claim(claim.clone()));
        Reply::later(async move {
            let standing = reply.await?;
            let Standing::Queued { ahead, wake, sleep } = standing else { return Ok(standing) };
            let wake = match weather.push() {
                Some(delay) => Wake::from_future(async move {
                    let woken = wake.await;
                    tokio::time::sleep(delay).await;
                    woken
                }),
                None => Wake::never(),
            };
            Ok(Standing::Queued { ahead, wake, sleep })
        })
    }

    fn renew(&self, session: SessionId, claims: Arc<[Arc<Claim>]>) -> Reply<Renewal> {
        self.send(move |engine| engine.renew(session, claims.clone()))
    }

    fn withdraw(&self, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        self.send(move |engine| engine.withdraw(claim.clone(), exit.clone()))
    }

    fn ask(&self, claim: Arc<Claim>) -> Reply<()> {
        self.send(move |engine| engine.ask(claim.clone()))
    }

    fn close(&self, session: SessionId) -> Reply<()> {
        self.send(move |engine| engine.close(session))
    }

    fn survey(&self, scope: &Scope, look: Look) -> Reply<Survey> {
        let scope = scope.clone();
        self.send(move |engine| engine.survey(&scope, look))
    }

    fn lifelines(&self, session: SessionId) -> Vec<std::os::fd::OwnedFd> {
        self.inner.lifelines(session)
    }
}
