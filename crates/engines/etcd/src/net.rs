//! The members of etcd, and which of them is asked.

use std::{
    fmt,
    future::Future,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bramah_core::{Clock, Error, ErrorKind, Moment, Result};
use bramah_remote::Office;
use tokio::time::timeout;
use tonic::{
    Request, Response, Status,
    metadata::{AsciiMetadataValue, MetadataValue},
    transport::{Channel, Endpoint},
};
use tracing::debug;

use crate::{
    config::Config,
    error::{Trouble, is_passing, is_token},
    proto::etcdserverpb::{AuthenticateRequest, auth_client::AuthClient},
};

/// A pause before the same members are asked again, and the longest: it doubles, for members that cannot keep up are not helped by
/// a thousand sessions that ask fifty times a second.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// A connection on which nothing was heard for this long, and that does not answer now, is replaced.
const STALE: Duration = Duration::from_secs(1);

/// The largest answer that is taken: a long line, or a page of a survey.
pub(crate) const LARGEST: usize = 64 << 20;

/// The members, each behind a channel that connects when it is needed. One of them is asked until it fails.
pub(crate) struct Net {
    config: Config,
    members: Vec<Member>,
    current: AtomicUsize,
    token: Mutex<Option<AsciiMetadataValue>>,
    clock: Clock,
}

struct Member {
    endpoint: Endpoint,
    line: Mutex<Line>,
}

struct Line {
    channel: Channel,
    heard: Moment,
}

/// The way to one member, for one call.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) channel: Channel,
    pub(crate) member: usize,
    token: Option<AsciiMetadataValue>,
}

impl Way {
    /// A request as every call of ours is: refused by a member that knows no leader, and with our token.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

impl Net {
    pub(crate) fn new(config: Config, office: &Office) -> Result<Self> {
        let _there = office.enter();
        let clock = Clock::boot();
        let members = config.members.iter().map(|member| {
            let endpoint = endpoint(&config, member)?;
            let line = Line { channel: endpoint.connect_lazy(), heard: clock.now() };
            Ok(Member { endpoint, line: Mutex::new(line) })
        });
        let members: Vec<Member> = members.collect::<Result<_>>()?;
        let current = AtomicUsize::new(fastrand::usize(..members.len().max(1)));
        Ok(Self { config, members, current, token: Mutex::default(), clock })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// As one line for people.
    pub(crate) fn explain(&self, trouble: &Trouble) -> Error {
        trouble.explain(&self.config.address())
    }

    /// How long the answer to a call about a claim of this ttl is waited for.
    pub(crate) fn patience(&self, ttl: Duration) -> Duration {
        self.config.timeout.min(ttl / 3).max(Duration::from_millis(10))
    }

    /// The way to the member that is asked now.
    pub(crate) async fn way(&self, patience: Duration) -> Result<Way, Trouble> {
        let at = self.current.load(Ordering::Relaxed) % self.members.len().max(1);
        let member = self.members.get(at).ok_or(Trouble::Odd("there are no members"))?;
        let channel = member.line().channel.clone();
        let mut way = Way { channel, member: at, token: self.token() };
        if way.token.is_none() {
            way.token = self.login(&way, patience).await?;
        }
        Ok(way)
    }

    fn token(&self) -> Option<AsciiMetadataValue> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says who we are, if we are to.
    async fn login(&self, way: &Way, patience: Duration) -> Result<Option<AsciiMetadataValue>, Trouble> {
        let Some((name, password)) = &self.config.login else { return Ok(None) };
        let ask = AuthenticateRequest { name: name.clone(), password: password.expose().to_owned() };
        let mut client = AuthClient::new(way.channel.clone());
        let told = match timeout(patience, client.authenticate(way.request(ask))).await {
            Ok(told) => told.map_err(Trouble::Said)?,
            Err(_) => return Err(Trouble::Silent(patience)),
        };
        let token = told.into_inner().token.parse();
        let token: AsciiMetadataValue = token.map_err(|_| Trouble::Odd("its token is not text"))?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(Some(token))
    }

    /// Gives a token up that was refused, unless there is a newer one.
    pub(crate) fn forget_token(&self, way: &Way) {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if *token == way.token {
            *token = None;
        }
    }

    /// This member did not answer: the next one is asked.
    pub(crate) fn leave(&self, way: &Way, was_silent: bool) {
        let next = (way.member + 1) % self.members.len().max(1);
        let _ = self.current.compare_exchange(way.member, next, Ordering::Relaxed, Ordering::Relaxed);
        let Some(member) = self.members.get(way.member) else { return };
        let mut line = member.line();
        if was_silent && self.clock.now().since(line.heard) > STALE {
            // A connection may be dead without our knowing; those who use it still have it.
            line.channel = member.endpoint.connect_lazy();
            line.heard = self.clock.now();
        }
    }

    /// This member answers.
    pub(crate) fn hear(&self, way: &Way) {
        if let Some(member) = self.members.get(way.member) {
            member.line().heard = self.clock.now();
        }
    }

    /// Asks until there is an answer or the patience is over. What is asked may be done twice, so it has to be such that this is
    /// harmless. While there are several members, the first one that is asked has half of the time.
    pub(crate) async fn call<T, F>(&self, patience: Duration, ask: impl Fn(Way) -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let until = self.clock.now() + patience;
        let (mut share, mut tried) = (if self.members.len() > 1 { patience / 2 } else { patience }, 0);
        let mut last = None;
        let mut has_new_token = false;
        loop {
            let left = until.since(self.clock.now());
            if left.is_zero() {
                return Err(last.unwrap_or(Trouble::Silent(patience)));
            }
            let now = left.min(share);
            tried += 1;
            let way = match self.way(now).await {
                Ok(way) => way,
                Err(Trouble::Said(status)) if !is_passing(&status) => return Err(Trouble::Said(status)),
                Err(trouble) => {
                    self.skip(&trouble);
                    last = Some(trouble);
                    share = patience;
                    self.pause(tried).await;
                    continue;
                }
            };
            match timeout(now, ask(way.clone())).await {
                Ok(Ok(answer)) => {
                    self.hear(&way);
                    return Ok(answer.into_inner());
                }
                Ok(Err(status)) if is_token(&status) && !has_new_token => {
                    has_new_token = true;
                    self.forget_token(&way);
                    last = Some(Trouble::Said(status));
                    continue;
                }
                Ok(Err(status)) if is_passing(&status) => {
                    debug!(member = way.member, said = status.message(), "the next member is asked");
                    self.leave(&way, false);
                    // What is no etcd is told, also if it hangs up the next time.
                    if !last.as_ref().is_some_and(Trouble::is_foreign) {
                        last = Some(Trouble::Said(status));
                    }
                }
                Ok(Err(status)) => {
                    self.hear(&way);
                    return Err(Trouble::Said(status));
                }
                Err(_) => {
                    debug!(member = way.member, "a member is silent; the next one is asked");
                    self.leave(&way, true);
                    last.get_or_insert(Trouble::Silent(patience));
                }
            }
            share = patience;
            self.pause(tried).await;
        }
    }

    fn skip(&self, trouble: &Trouble) {
        let member = self.current.load(Ordering::Relaxed) % self.members.len().max(1);
        let Some(line) = self.members.get(member).map(|member| member.line().channel.clone()) else { return };
        self.leave(&Way { channel: line, member, token: None }, matches!(trouble, Trouble::Silent(_)));
    }

    /// A pause once all of them were asked.
    async fn pause(&self, tried: usize) {
        let members = self.members.len().max(1);
        if tried.is_multiple_of(members) {
            let rounds = u32::try_from(tried / members).unwrap_or(u32::MAX);
            let pause = PAUSE.saturating_mul(1 << rounds.saturating_sub(1).min(8)).min(LONGEST_PAUSE);
            tokio::time::sleep(pause.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
        }
    }
}

impl Member {
    fn line(&self) -> std::sync::MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").field("config", &self.config).finish_non_exhaustive()
    }
}

fn endpoint(config: &Config, member: &str) -> Result<Endpoint> {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let wrong = |_| Error::new(ErrorKind::Invalid, format!("etcd url: {member} is no address of a member"));
    let endpoint = Endpoint::from_shared(format!("{scheme}://{member}")).map_err(wrong)?;
    let endpoint = endpoint.connect_timeout(config.connect_timeout).tcp_nodelay(true);
    secured(config, endpoint)
}

#[cfg(feature = "tls")]
fn secured(config: &Config, endpoint: Endpoint) -> Result<Endpoint> {
    use tonic::transport::{Certificate, ClientTlsConfig, Identity};

    let Some(tls) = &config.tls else { return Ok(endpoint) };
    let read = |path: &std::path::Path, what: &str| {
        let wrong = |why: String| {
            Error::new(ErrorKind::Invalid, format!("etcd url: the file {}: {why}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        // Of a file that has none, nothing would be trusted, and nobody told.
        match text.contains(&format!("{what}-----")) {
            true => Ok(text),
            false => Err(wrong(format!("there is no {} in it, as PEM", what.to_lowercase()))),
        }
    };
    let mut settings = ClientTlsConfig::new();
    settings = match &tls.authority {
        Some(path) => settings.ca_certificate(Certificate::from_pem(read(path, "CERTIFICATE")?)),
        None => settings.with_native_roots(),
    };
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        settings = settings
            .identity(Identity::from_pem(read(certificate, "CERTIFICATE")?, read(key, "PRIVATE KEY")?));
    }
    endpoint.tls_config(settings).map_err(|error| {
        // Its own words are "transport error".
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        let text = format!("etcd url: the files for TLS are not good: {why}; they have to be PEM");
        Error::new(ErrorKind::Invalid, text)
    })
}

#[cfg(not(feature = "tls"))]
fn secured(_config: &Config, endpoint: Endpoint) -> Result<Endpoint> {
    Ok(endpoint)
}
