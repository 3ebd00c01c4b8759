//! Redlock: one lock on several masters that know nothing of each other.
//!
//! [`Redlock`] is where they are and how they are to be used; [`engine`](Redlock::engine) makes a
//! [`Quorum`] of them, which has the rules. What is said here is what a Redis has to do to be a member of one:
//!
//! - **One layout for all.** [`Plain`](Layout::Plain) if not said, so that every other Redlock client contends for the same
//!   locks; [`Redisson`](Layout::Redisson) for RedissonRedLock and MultiLock, and for readers and writers. Not
//!   [`Native`](Layout::Native): its line has no use here.
//! - **Little time.** A master that does not answer within the time-out of a node is left behind, and its request ended soon
//!   after.
//! - **Delayed restart.** A master that has forgotten its locks would vote a second time while the first vote counts. So
//!   each is asked with every new connection how long it has run, and one that has not run for longer than the longest ttl
//!   of the fleet (`max_ttl`, or [`Restart::DEFAULT_MAX_TTL`]) does not vote. A longer ttl or lease is refused, also that of
//!   a lock that is left behind. A supervisor that starts a master again at once breaks nothing.

use std::{sync::Arc, time::Duration};

use bramah_core::{
    Name, Result,
    quorum::{Member, Quorum, Share},
};

use crate::{
    Redis,
    config::{Address, Config, Layout, Replicas, Restart, Tls, Topology},
    error::clean,
    url::{self, Hosts, Parts, SPANS, decode, number, span, wrong},
};

/// What can follow the `?` of a redlock URL, before what can follow that of any.
const OPTIONS: [&str; 5] = ["quorum", "node_timeout", "fences", "max_ttl", "restart"];

/// What of a single server has no meaning here, and why.
const MEANINGLESS: [(&str, &str); 4] = [
    ("timeout", "a master has node_timeout to answer"),
    ("replicas", "the other masters take the place of replicas"),
    ("fair", "a place in several queues can be the first in one and the last in another, for ever"),
    ("pubsub", "it is for a cluster"),
];

/// Independent masters, and how a lock is taken on them.
///
/// ```
/// use bramah_redis::redlock::Redlock;
/// let redlock = Redlock::from_url("redlock://cache-1,cache-2,cache-3?max_ttl=1m")?;
/// let engine = redlock.engine()?; // nothing is connected to yet
/// # Ok::<(), bramah_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redlock {
    masters: Vec<Address>,
    pub(crate) each: Config,
    share: Share,
    node_timeout: Duration,
    fences: bool,
}

impl Redlock {
    /// These masters, with everything as it is if nothing is said.
    pub fn new(masters: impl IntoIterator<Item = impl Into<Address>>) -> Self {
        let nowhere = Topology::Single(Address { host: String::new(), port: 6379 });
        Self {
            masters: masters.into_iter().map(Into::into).collect(),
            each: Config::new(nowhere).layout(Layout::Plain).restart(Restart::Waits(None)),
            share: Share::Majority,
            node_timeout: Duration::from_millis(50),
            fences: true,
        }
    }

    /// Reads `redlock://[user[:password]@]host[:port][,host[:port]]…[/database][?options]`, on port 6379 if not said;
    /// `redlocks://` is the same with TLS.
    ///
    /// The options are those of [`Config::from_url`] that a single master has, and:
    ///
    /// | option | values |
    /// |---|---|
    /// | `layout` | `plain` (if not said), `redisson` |
    /// | `quorum` | `majority` (if not said) or `all`: how many masters must grant |
    /// | `node_timeout` | how long one master may take to answer: `50ms` if not said, never above a tenth of the ttl |
    /// | `fences` | `true` (if not said) or `false`: whether a lock has a fence, for a second round trip |
    /// | `restart` | `wait` (if not said) or `trust`: whether a master that was just started votes at once |
    /// | `max_ttl` | the longest ttl and lease of the whole fleet, for which it does not; `30s` if not said. Longer ones are refused |
    ///
    /// # Errors
    /// As [`Config::from_url`]; `Invalid` for an address that is named twice.
    pub fn from_url(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it starts with redlock://"))?;
        if !matches!(scheme, "redlock" | "redlocks") {
            return Err(wrong(format!("the scheme {:?} is not redlock or redlocks", clean(scheme))));
        }
        let Parts { authority, segments, query } = Parts::of(rest)?;
        let Hosts { addresses, user, password } = Hosts::read(authority, 6379)?;
        let mut redlock = Self::new(addresses);
        redlock.each.user = user;
        redlock.each.password = password;
        redlock.each.tls = (scheme == "redlocks").then(Tls::default);
        redlock.each.database = match &*segments {
            [] => 0,
            [database] => number(database)?,
            _ => return Err(wrong("the path has too many parts; it is at most a database")),
        };
        redlock.options(query)?;
        redlock.check()?;
        Ok(redlock)
    }

    fn options(&mut self, query: &str) -> Result<()> {
        let key = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
        let pairs = || query.split('&').filter(|pair| !pair.is_empty());
        for pair in pairs() {
            if let Some((key, why)) = MEANINGLESS.iter().find(|(name, _)| *name == key(pair)) {
                return Err(wrong(format!("redlock:// has no option {key}: {why}")));
            }
        }
        let ours = |pair: &&str| OPTIONS.contains(&&*key(pair));
        let mut seen: Vec<String> = Vec::new();
        let (mut trusted, mut max_ttl) = (false, None);
        for pair in pairs().filter(ours) {
            let key = key(pair);
            if seen.contains(&key) {
                return Err(wrong(format!("option {key} is given twice")));
            }
            let value = decode(pair.split_once('=').map_or("", |(_, value)| value), &key)?;
            let bad =
                |allowed: &str| wrong(format!("{key}={} is wrong: allowed is {allowed}", clean(&value)));
            match (&*key, &*value) {
                ("quorum", "majority") => self.share = Share::Majority,
                ("quorum", "all") => self.share = Share::All,
                ("quorum", _) => return Err(bad("majority or all")),
                ("fences", "true") => self.fences = true,
                ("fences", "false") => self.fences = false,
                ("fences", _) => return Err(bad("true or false")),
                ("restart", "wait") => trusted = false,
                ("restart", "trust") => trusted = true,
                ("restart", _) => return Err(bad("wait or trust")),
                ("max_ttl", _) => max_ttl = Some(span(&value).ok_or_else(|| bad(SPANS))?),
                _ => self.node_timeout = span(&value).ok_or_else(|| bad(SPANS))?,
            }
            seen.push(key);
        }
        if trusted && max_ttl.is_some() {
            return Err(wrong(
                "max_ttl says how long a master that was started waits, and restart=trust that it does not",
            ));
        }
        self.each.restart = if trusted { Restart::Trusted } else { Restart::Waits(max_ttl) };
        let rest: Vec<&str> = pairs().filter(|pair| !ours(pair)).collect();
        url::options(&mut self.each, &rest.join("&")).map_err(|error| {
            // Whoever mistypes one of ours should read of them.
            if error.to_string().contains("there is no option") {
                wrong(format!(
                    "{}, and {}",
                    error.to_string().trim_start_matches("redis url: "),
                    OPTIONS.join(", ")
                ))
            } else {
                error
            }
        })
    }

    /// How to talk to each of them: user, password, TLS, database, layout, time to connect. Where it is and how many replicas
    /// it has means nothing here.
    #[must_use]
    pub fn each(mut self, settings: impl FnOnce(Config) -> Config) -> Self {
        self.each = settings(self.each);
        self
    }

    /// How many masters must grant; more than half if not said.
    #[must_use]
    pub fn share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// How long one master may take to answer; 50 ms if not said, and never more than a tenth of the ttl.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Whether there are fences, at the price of a second round trip for each grant; yes if not said.
    #[must_use]
    pub fn fences(mut self, fences: bool) -> Self {
        self.fences = fences;
        self
    }

    fn check(&self) -> Result<()> {
        if let Some(twice) =
            self.masters.iter().enumerate().find(|(at, master)| self.masters[..*at].contains(master))
        {
            return Err(wrong(format!("{} is named twice; one master has one vote", twice.1)));
        }
        if self.each.replicas != Replicas::None || self.each.fair {
            return Err(wrong("masters of a redlock have neither replicas= nor fair="));
        }
        if self.each.layout == Layout::Native {
            return Err(wrong(
                "redlock:// has layout=plain or layout=redisson; a line on several masters has no order",
            ));
        }
        for master in &self.masters {
            self.at(master).check()?;
        }
        Ok(())
    }

    fn at(&self, master: &Address) -> Config {
        // A little sooner than it is given up, so that it is said why.
        let claim_timeout = self.node_timeout.mul_f64(0.9);
        Config {
            topology: Topology::Single(master.clone()),
            claim_timeout,
            fences: self.fences,
            ..self.each.clone()
        }
    }

    /// How each of the masters is talked to by itself.
    pub(crate) fn configs(&self) -> impl Iterator<Item = Config> {
        self.masters.iter().map(|master| self.at(master))
    }

    /// How many of them must grant.
    pub(crate) fn need(&self) -> usize {
        self.share.of(self.masters.len())
    }

    /// As [`Redis::delete_token`], at every master.
    ///
    /// # Errors
    /// Of the first master that cannot be reached or refuses.
    pub async fn delete_token(&self, name: &Name) -> Result<()> {
        for config in self.configs() {
            Redis::new(&config)?.delete_token(name).await?;
        }
        Ok(())
    }

    /// The engine. Nothing is connected to yet.
    ///
    /// # Errors
    /// `Invalid` when the settings contradict each other.
    pub fn engine(&self) -> Result<Quorum> {
        self.check()?;
        let peers = Arc::default();
        let members = self.masters.iter().zip(self.configs());
        let members = members.map(|(master, config)| {
            let redis = Redis::among(&config, Arc::clone(&peers))?;
            Ok(Member::new(master.to_string(), redis))
        });
        Quorum::builder(members.collect::<Result<Vec<_>>>()?)
            .share(self.share)
            .node_timeout(self.node_timeout)
            .fences(self.fences)
            .build()
    }
}

#[cfg(test)]
mod tests;
