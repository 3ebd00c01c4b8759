//! What there is to know of servers before one trusts locks to them: plain facts, for a doctor to judge.

mod cause;
mod rights;

use std::{sync::Arc, time::Duration};

use bramah_core::{Clock, Error, ErrorKind, Result};
use redis::{Cmd, ServerError, Value};

pub(crate) use self::cause::Marker;
pub use self::{
    cause::{Cause, cause},
    rights::{Missing, Proof, Purpose, Rights},
};
use crate::{
    config::{Config, Eviction, Layout, Replicas, Restart, Topology},
    driver::{Driver, Ear, Node},
    ears::Ears,
    error::clean,
    net::Network,
    preflight::Info,
    redlock::Redlock,
};

/// How often the time is asked for.
const ROUNDS: usize = 7;

/// What is asked for of a server's settings. None of them is secret.
const SETTINGS: [&str; 7] =
    ["CONFIG", "GET", "appendfsync", "save", "min-replicas-to-write", "bind", "protected-mode"];

/// Servers as they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How locks look there.
    pub layout: Layout,
    /// How many replicas must have a grant.
    pub replicas: Replicas,
    /// Whether a server that may evict locks is used.
    pub eviction: Eviction,
    /// The servers that have keys, as far as they could be asked: one, or the masters of a cluster.
    pub nodes: Vec<Server>,
    /// Those that could not be asked: where, and why.
    pub silent: Vec<(String, String)>,
    /// Who takes over when a server is gone.
    pub failover: Failover,
}

/// Who takes over when a server is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failover {
    /// Nobody that we know of.
    Nobody,
    /// Sentinels: those of the URL, in its order.
    Sentinels(Vec<Sentinel>),
    /// The other nodes of the cluster.
    Cluster,
    /// The other masters of a redlock.
    Masters {
        /// How many of them must grant.
        need: usize,
        /// Whether one that was just started grants at once.
        restart: Restart,
    },
}

/// One sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinel {
    /// Where it is.
    pub address: String,
    /// What it says, or why it says nothing.
    pub word: std::result::Result<Verdict, String>,
}

/// What a sentinel says of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Where the master is.
    pub master: String,
    /// How many sentinels must find it down.
    pub quorum: u64,
    /// How many sentinels there are, this one included.
    pub sentinels: u64,
    /// Whether enough of them could agree on a failover now; `None` if it may not be asked.
    pub can_agree: Option<bool>,
}

/// One server. What is `None` could not be asked for, mostly because the user may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where it is; of the master of a service its name.
    pub address: String,
    /// Its name and version: `Redis 7.0.15`.
    pub product: Option<String>,
    /// Whether it takes writes.
    pub is_master: Option<bool>,
    /// How long it has run, in whole seconds.
    pub uptime: Option<Duration>,
    /// How many replicas follow it.
    pub followers: Option<u64>,
    /// How many must, or it refuses writes: `min-replicas-to-write`.
    pub least_followers: Option<u64>,
    /// Whether it writes a log of changes, the AOF.
    pub log: Option<bool>,
    /// When that reaches the disk: `appendfsync`.
    pub log_sync: Option<String>,
    /// Whether it saves snapshots from time to time.
    pub snapshots: Option<bool>,
    /// Whether the last write to disk went well.
    pub saves_well: Option<bool>,
    /// How much memory it may use, in bytes; 0 is no limit.
    pub most_memory: Option<u64>,
    /// How much it uses.
    pub used_memory: Option<u64>,
    /// What it does when that is full: `maxmemory-policy`.
    pub when_full: Option<String>,
    /// How its clock differs from this machine's.
    pub clock: Option<Offset>,
    /// How long a question takes; the median of some.
    pub round_trip: Option<Duration>,
    /// What it says of its cluster.
    pub cluster: Option<Cluster>,
    /// Who is let in.
    pub access: Access,
    /// What we may do there.
    pub rights: Rights,
}

/// Who is let in by a server. What is `None` could not be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it lets clients in that say no password and show no certificate.
    pub open: Option<bool>,
    /// The addresses that it listens on: `bind`.
    pub bind: Option<String>,
    /// Whether it refuses clients of other machines while it has no password: `protected-mode`.
    pub protected: Option<bool>,
}

/// How a server's wall clock differs from ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The server's, in microseconds.
    pub server_us: u64,
    /// How far it is ahead of ours; negative if it is behind.
    pub ahead_us: i64,
    /// How wrong that may be.
    pub within_us: u64,
}

/// A cluster as one of its nodes sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Whether it serves.
    pub is_ok: bool,
    /// How many of the 16384 slots are served.
    pub slots: u64,
}

/// Looks at the servers of a URL. Nothing is changed there; where the rights of our user cannot be asked for they are
/// tried on a key of their own, which is removed again.
///
/// # Errors
/// As [`Config::from_url`], and what the servers say when none of them lets itself be asked.
pub async fn examine(url: &str) -> Result<Facts> {
    if url.starts_with("redlock") {
        return masters(&Redlock::from_url(url)?).await;
    }
    let config = Config::from_url(url)?;
    let ears = nobody();
    let network = Network::new(&config, Arc::downgrade(&ears))?;
    let mut found = Found::default();
    for node in network.nodes(config.timeout).await? {
        found.add(&node.0, server(&network, &config, &node).await);
    }
    let Found { nodes, silent, .. } = found.or_error()?;
    let failover = match &config.topology {
        Topology::Single(_) => Failover::Nobody,
        Topology::Sentinel { service, .. } => Failover::Sentinels(sentinels(&network, service).await),
        Topology::Cluster(_) => Failover::Cluster,
    };
    let Config { layout, replicas, eviction, .. } = config;
    Ok(Facts { layout, replicas, eviction, nodes, silent, failover })
}

/// Looks at each master by itself, with more time than a quorum would give it.
async fn masters(redlock: &Redlock) -> Result<Facts> {
    let mut found = Found::default();
    for config in redlock.configs() {
        let config = config.timeout(Duration::from_secs(2));
        let ears = nobody();
        let network = Network::new(&config, Arc::downgrade(&ears))?;
        for node in network.nodes(config.timeout).await? {
            found.add(&node.0, server(&network, &config, &node).await);
        }
    }
    let Found { nodes, silent, .. } = found.or_error()?;
    let Config { layout, replicas, eviction, restart, .. } = redlock.each.clone();
    let failover = Failover::Masters { need: redlock.need(), restart };
    Ok(Facts { layout, replicas, eviction, nodes, silent, failover })
}

/// Nobody is told anything: nothing waits here.
fn nobody() -> Arc<dyn Ear> {
    Arc::new(Ears::default())
}

/// Servers that were asked.
#[derive(Default)]
struct Found {
    nodes: Vec<Server>,
    silent: Vec<(String, String)>,
    failure: Option<Error>,
}

impl Found {
    fn add(&mut self, address: &str, server: Result<Server>) {
        match server {
            Ok(server) => self.nodes.push(server),
            Err(error) => {
                self.silent.push((address.to_owned(), error.to_string()));
                self.failure = Some(error);
            }
        }
    }

    /// Those that answered and those that did not; an error if that is all of them.
    fn or_error(mut self) -> Result<Self> {
        match self.failure.take() {
            Some(error) if self.nodes.is_empty() => Err(error),
            _ => Ok(self),
        }
    }
}

async fn server(network: &Network, config: &Config, node: &Node) -> Result<Server> {
    let asker = Asker { network, node, config };
    let info = asker.text(&["INFO"]).await?.map(|text| Info::read(&text)).unwrap_or_default();
    if info.get("redis_mode") == Some("sentinel") {
        return Err(is_sentinel(config, &node.0, &info));
    }
    let settings = asker.pairs(&SETTINGS).await?;
    let cluster = match network.is_cluster() {
        true => asker.text(&["CLUSTER", "INFO"]).await?.map(|text| Info::read(&text)),
        false => None,
    };
    let (clock, round_trip) = asker.clock().await?;
    let rights = rights::of(&asker).await?;
    let open = is_open(config, node).await;
    let number = |key: &str| info.get(key).and_then(|text| text.parse::<u64>().ok());
    let setting = |key: &str| settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let well = |key: &str| info.get(key).map(|word| word == "ok");
    let log = number("aof_enabled").map(|enabled| enabled == 1);
    Ok(Server {
        address: node.0.to_string(),
        product: product(&info),
        is_master: info.get("role").map(|role| role == "master"),
        uptime: number("uptime_in_seconds").map(Duration::from_secs),
        followers: number("connected_slaves"),
        least_followers: setting("min-replicas-to-write").and_then(|text| text.parse().ok()),
        log,
        log_sync: setting("appendfsync"),
        snapshots: setting("save").map(|save| !save.is_empty()),
        saves_well: match log {
            Some(true) => well("aof_last_write_status"),
            _ => well("rdb_last_bgsave_status"),
        },
        most_memory: number("maxmemory"),
        used_memory: number("used_memory"),
        when_full: info.get("maxmemory_policy").map(clean),
        clock,
        round_trip,
        cluster: cluster.as_ref().map(read_cluster),
        access: Access {
            open,
            bind: setting("bind").map(|bind| clean(&bind)),
            protected: setting("protected-mode").map(|word| word == "yes"),
        },
        rights,
    })
}

/// Whether the server lets in who says no password: we are, or it is tried.
async fn is_open(config: &Config, node: &Node) -> Option<bool> {
    if config.tls.as_ref().is_some_and(|tls| tls.identity.is_some()) {
        return None;
    }
    let Config { user, password, password_file, .. } = config;
    if user.is_none() && password.is_none() && password_file.is_none() {
        return Some(true);
    }
    let nobody_in_particular = Config { user: None, password: None, password_file: None, ..config.clone() };
    let ears = nobody();
    let network = Network::new(&nobody_in_particular, Arc::downgrade(&ears)).ok()?;
    match network.ask(node, command(&["PING"]), config.timeout).await {
        Ok(_) => Some(true),
        // It was let in all the same.
        Err(error) if is_refused(&error) => Some(true),
        Err(error) if error.kind() == ErrorKind::Denied => Some(false),
        Err(_) => None,
    }
}

/// A sentinel knows where masters are, and keeps no data.
fn is_sentinel(config: &Config, address: &str, info: &Info) -> Error {
    let field = |text: &str| text.split(',').find_map(|part| part.strip_prefix("name=").map(clean));
    let service = info.get("master0").and_then(field).unwrap_or_else(|| "SERVICE".to_owned());
    let scheme = if config.tls.is_some() { "rediss" } else { "redis" };
    Error::caused(
        ErrorKind::Unsupported,
        format!(
            "{address} is a sentinel, which keeps no locks; use {scheme}+sentinel://{address}/{service}, with the other sentinels \
             behind commas"
        ),
        Marker(Cause::Sentinel),
    )
}

/// What the server is called, by what it says of itself.
fn product(info: &Info) -> Option<String> {
    let (name, version) = match info.get("valkey_version") {
        Some(version) => ("Valkey", version),
        None => ("Redis", info.get("redis_version")?),
    };
    Some(clean(&format!("{name} {version}")))
}

fn read_cluster(info: &Info) -> Cluster {
    let slots = info.get("cluster_slots_ok").and_then(|text| text.parse().ok()).unwrap_or(0);
    Cluster { is_ok: info.get("cluster_state") == Some("ok"), slots }
}

/// Asks one node.
struct Asker<'a> {
    network: &'a Network,
    node: &'a Node,
    config: &'a Config,
}

impl Asker<'_> {
    /// The answer; `None` if it may not be asked, or the server does not know the question.
    async fn ask(&self, words: &[&str]) -> Result<Option<Value>> {
        match self.network.ask(self.node, command(words), self.config.timeout).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if hides(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn text(&self, words: &[&str]) -> Result<Option<String>> {
        Ok(self.ask(words).await?.as_ref().and_then(text))
    }

    async fn pairs(&self, words: &[&str]) -> Result<Vec<(String, String)>> {
        Ok(self.ask(words).await?.as_ref().map(pairs).unwrap_or_default())
    }

    /// The time there, bracketed by the time here: the quicker the answer, the better it is known.
    async fn clock(&self) -> Result<(Option<Offset>, Option<Duration>)> {
        let clock = Clock::boot();
        let (mut best, mut trips): (Option<Offset>, Vec<Duration>) = (None, Vec::new());
        for _ in 0..ROUNDS {
            let (start, wall_us) = (clock.now(), clock.wall_us());
            let Some(answer) = self.ask(&["TIME"]).await? else { return Ok((None, None)) };
            let trip = clock.now().since(start);
            trips.push(trip);
            let within_us = u64::try_from(trip.as_micros()).unwrap_or(u64::MAX) / 2;
            let Some(server_us) = time(&answer) else { continue };
            let ahead = i128::from(server_us) - i128::from(wall_us.saturating_add(within_us));
            let ahead_us = i64::try_from(ahead).unwrap_or(i64::MAX);
            if best.is_none_or(|known| within_us < known.within_us) {
                best = Some(Offset { server_us, ahead_us, within_us });
            }
        }
        trips.sort();
        Ok((best, trips.get(trips.len() / 2).copied()))
    }
}

/// Whether an error says that a question is not for us, or not known there.
fn hides(error: &Error) -> bool {
    is_refused(error) || error.kind() == ErrorKind::Unsupported
}

/// Whether our user was let in, and may not do this.
fn is_refused(error: &Error) -> bool {
    let said = std::error::Error::source(error).and_then(|source| source.downcast_ref::<ServerError>());
    error.kind() == ErrorKind::Denied && said.is_some_and(|said| said.code() == "NOPERM")
}

fn command(words: &[&str]) -> Cmd {
    let mut cmd = Cmd::new();
    for word in words {
        cmd.arg(*word);
    }
    cmd
}

fn time(answer: &Value) -> Option<u64> {
    let Value::Array(parts) = answer else { return None };
    let mut numbers = parts.iter().map(|part| text(part)?.parse::<u64>().ok());
    let (seconds, micros) = (numbers.next()??, numbers.next()??);
    Some(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

/// Names and values: a map in RESP3, one after the other in a list.
fn pairs(answer: &Value) -> Vec<(String, String)> {
    match answer {
        Value::Map(pairs) => {
            pairs.iter().filter_map(|(key, value)| Some((text(key)?, text(value)?))).collect()
        }
        Value::Array(words) => words
            .chunks_exact(2)
            .filter_map(|pair| Some((text(pair.first()?)?, text(pair.last()?)?)))
            .collect(),
        _ => Vec::new(),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Okay => Some("OK".to_owned()),
        _ => None,
    }
}

async fn sentinels(network: &Network, service: &str) -> Vec<Sentinel> {
    let told = network.ask_sentinels(&command(&["SENTINEL", "MASTER", service])).await;
    let agreed = network.ask_sentinels(&command(&["SENTINEL", "CKQUORUM", service])).await;
    let agreed = |address: &str| {
        let (_, answer) = agreed.iter().find(|(at, _)| at.to_string() == address)?;
        match answer {
            Ok(_) => Some(true),
            // It says NOQUORUM, and why.
            Err(error) if error.to_string().contains("NOQUORUM") => Some(false),
            Err(_) => None,
        }
    };
    told.into_iter()
        .map(|(address, answer)| {
            let address = address.to_string();
            let word = match answer {
                Ok(answer) => Ok(verdict(&pairs(&answer), agreed(&address))),
                Err(error) => Err(error.to_string()),
            };
            Sentinel { address, word }
        })
        .collect()
}

fn verdict(fields: &[(String, String)], can_agree: Option<bool>) -> Verdict {
    let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let number = |key: &str| field(key).and_then(|text| text.parse::<u64>().ok());
    Verdict {
        master: clean(&format!("{}:{}", field("ip").unwrap_or("?"), field("port").unwrap_or("?"))),
        quorum: number("quorum").unwrap_or(0),
        sentinels: number("num-other-sentinels").map_or(1, |others| others.saturating_add(1)),
        can_agree,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_by_what_it_says_of_itself() {
        let of = |text: &str| product(&Info::read(text));
        assert_eq!(of("redis_version:7.0.15\r\n").as_deref(), Some("Redis 7.0.15"));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        assert_eq!(of(valkey).as_deref(), Some("Valkey 8.1.1"));
        assert_eq!(of("redis_version:\u{1b}[2J\r\n").as_deref(), Some("Redis \\u{1b}[2J"));
        assert_eq!(of(""), None);
    }

    #[test]
    fn names_and_values_are_read_from_maps_and_lists() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let expected = [("a".to_owned(), "1".to_owned())];
        assert_eq!(pairs(&Value::Map(vec![(bulk("a"), bulk("1"))])), expected);
        assert_eq!(pairs(&Value::Array(vec![bulk("a"), bulk("1"), bulk("b")])), expected);
        assert_eq!(pairs(&Value::Nil), []);
        assert_eq!(time(&Value::Array(vec![bulk("2"), bulk("3")])), Some(2_000_003));
        assert_eq!(time(&Value::Array(vec![bulk("2")])), None);
    }
}
