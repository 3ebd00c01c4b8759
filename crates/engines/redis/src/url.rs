//! Redis URLs.

use std::{path::PathBuf, time::Duration};

use bramah_core::{Error, ErrorKind, Result};

use crate::{
    config::{Address, Config, Eviction, Layout, MOST_CONNECTIONS, PubSub, Replicas, Secret, Tls, Topology},
    error::clean,
};

/// What can follow the `?`.
const OPTIONS: &str = "layout, prefix, fair, pubsub, replicas, connections, connect_timeout, timeout, client_name, ca, cert, key, \
                       password_file, sentinel_user, sentinel_password_file, eviction";

impl Config {
    /// Reads a URL.
    ///
    /// - `redis://[user[:password]@]host[:port][/database][?options]` is one node, on port 6379 if not said.
    /// - `redis+sentinel://host[:port][,host[:port]]…/service[/database]` is the master that sentinels know, on port
    ///   26379 if not said.
    /// - `redis+cluster://host[:port][,host[:port]]…` is a cluster.
    /// - `rediss://`, `rediss+sentinel://` and `rediss+cluster://` are the same with TLS.
    ///
    /// User, password, names and the values of options may be percent-encoded. A user and password may stand before
    /// each of several hosts, but must be the same everywhere.
    ///
    /// The options, joined by `&`:
    ///
    /// | option | values |
    /// |---|---|
    /// | `layout` | `native` (if not said), `plain`, `redisson` |
    /// | `fair` | `true` or `false` (if not said): whether mutexes of Redisson's layout are fair locks |
    /// | `pubsub` | `auto` (if not said), `sharded`, `plain`, `both`: how Redisson's waiters in a cluster are told |
    /// | `prefix` | what every key starts with |
    /// | `replicas` | `none` (if not said), `any`, `majority`, `all` or a number |
    /// | `connections` | 1 (if not said) to 64, to each node |
    /// | `connect_timeout`, `timeout` | `500ms`, `2s` (if not said) |
    /// | `client_name` | as in `CLIENT LIST`; `bramah` if not said |
    /// | `ca`, `cert`, `key` | PEM files, with TLS |
    /// | `password_file` | a file of one line |
    /// | `sentinel_user`, `sentinel_password_file` | the login at the sentinels |
    /// | `eviction` | `refuse` (if not said), `allow` |
    ///
    /// # Errors
    /// `Invalid`, with what is wrong and what is allowed, never with a password; `Unsupported` for TLS in a build
    /// without it.
    pub fn from_url(url: &str) -> Result<Self> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| wrong("a redis url starts with redis://"))?;
        let (base, tls) = match scheme {
            "redis" | "redis+sentinel" | "redis+cluster" => (scheme, false),
            "rediss" => ("redis", true),
            "rediss+sentinel" => ("redis+sentinel", true),
            "rediss+cluster" => ("redis+cluster", true),
            _ => {
                return Err(wrong(format!(
                    "the scheme {:?} is not one of redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster, \
                     rediss+cluster",
                    clean(scheme)
                )));
            }
        };
        let Parts { authority, segments, query } = Parts::of(rest)?;
        let hosts = Hosts::read(authority, if base == "redis+sentinel" { 26379 } else { 6379 })?;
        let mut config = match (base, &*segments) {
            ("redis+sentinel", [service]) => hosts.sentinel(service)?,
            ("redis+sentinel", [service, database]) => hosts.sentinel(service)?.database(number(database)?),
            ("redis+sentinel", _) => {
                return Err(wrong(
                    "sentinels need the name of a service: redis+sentinel://host/<service>[/<database>]",
                ));
            }
            ("redis+cluster", []) => Config::cluster(hosts.addresses.clone()),
            ("redis+cluster", [database]) => {
                Config::cluster(hosts.addresses.clone()).database(number(database)?)
            }
            ("redis", []) => hosts.single()?,
            ("redis", [database]) => hosts.single()?.database(number(database)?),
            _ => return Err(wrong("the path has too many parts; it is at most a database")),
        };
        config.user = hosts.user;
        config.password = hosts.password;
        config.tls = tls.then(Tls::default);
        options(&mut config, query)?;
        config.check()?;
        Ok(config)
    }
}

/// What follows the scheme of a URL, cut up.
pub(crate) struct Parts<'a> {
    pub(crate) authority: &'a str,
    pub(crate) segments: Vec<&'a str>,
    pub(crate) query: &'a str,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(rest: &'a str) -> Result<Self> {
        // A `?`, `#` or `/` in a password must be percent-encoded. Without this a part of one that is not would be
        // taken for an option, and named in an error.
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(authority_end);
        if !authority.contains('@') && rest.contains('@') {
            return Err(wrong("an @ after the host; percent-encode / ? # and @ in a user or password"));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.contains('#') || query.contains('#') {
            return Err(wrong("a redis url has no fragment; percent-encode # as %23"));
        }
        let segments: Vec<&str> = match path.strip_prefix('/') {
            None | Some("") => Vec::new(),
            Some(path) => path.split('/').collect(),
        };
        Ok(Self { authority, segments, query })
    }
}

/// What stands between the scheme and the path.
pub(crate) struct Hosts {
    pub(crate) addresses: Vec<Address>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
}

impl Hosts {
    pub(crate) fn read(authority: &str, port: u16) -> Result<Self> {
        let mut addresses = Vec::new();
        let mut logins: Vec<Option<(Option<String>, Option<Secret>)>> = Vec::new();
        for part in authority.split(',') {
            let (login, host) = match part.rsplit_once('@') {
                Some((login, host)) => (Some(login), host),
                None => (None, part),
            };
            addresses.push(address(host, port)?);
            logins.push(login.map(read_login).transpose()?);
        }
        // One for all is written before the first; otherwise each says the same.
        let first = logins.first().cloned().flatten();
        if logins.iter().skip(1).any(|login| login.is_some() && *login != first) {
            return Err(wrong(
                "the user and password must be the same for every host; write them before the first",
            ));
        }
        let (user, password) = first.unwrap_or((None, None));
        Ok(Self { addresses, user, password })
    }

    fn single(&self) -> Result<Config> {
        match &*self.addresses {
            [address] => Ok(Config::single(address.host.clone(), address.port)),
            _ => Err(wrong(
                "redis:// has one host; for several use redis+sentinel://, redis+cluster:// or redlock://",
            )),
        }
    }

    fn sentinel(&self, service: &str) -> Result<Config> {
        Ok(Config::sentinel(self.addresses.clone(), decode(service, "the service")?))
    }
}

fn read_login(login: &str) -> Result<(Option<String>, Option<Secret>)> {
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (login, None),
    };
    // No error here may show what could not be read.
    let user = decode(user, "the user")?;
    let password = password.map(|password| decode(password, "the password")).transpose()?;
    Ok((Some(user).filter(|user| !user.is_empty()), password.filter(|p| !p.is_empty()).map(Secret::from)))
}

fn address(text: &str, port: u16) -> Result<Address> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or_else(|| wrong("an ipv6 address needs its ]"))?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(wrong(format!("[{}] is not an ipv6 address", clean(host))));
            }
            (host.to_owned(), rest)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            (decode(&text[..end], "the host")?, &text[end..])
        }
    };
    if host.is_empty() {
        return Err(wrong("a redis url needs a host: redis://<host>[:<port>], an ipv6 address in brackets"));
    }
    if host.chars().any(|c| c.is_control() || c.is_whitespace() || "/?#@,".contains(c)) {
        return Err(wrong("the host has characters that no host has"));
    }
    let port = match rest.strip_prefix(':') {
        Some(digits) => match digits.parse::<u16>() {
            Ok(port) if port > 0 && digits.bytes().all(|b| b.is_ascii_digit()) => port,
            // It might be a part of a password that was not percent-encoded: not shown.
            _ => {
                return Err(wrong(
                    "the port must be a number from 1 to 65535; write an ipv6 address in brackets",
                ));
            }
        },
        None if rest.is_empty() => port,
        None => return Err(wrong("after an ipv6 address there can only be a port")),
    };
    Ok(Address { host, port })
}

pub(crate) fn options(config: &mut Config, query: &str) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    let mut files: (Option<PathBuf>, Option<PathBuf>, Option<PathBuf>) = (None, None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if seen.contains(&key) {
            return Err(wrong(format!("option {} is given twice", clean(key))));
        }
        seen.push(key);
        let value = decode(value, key)?;
        let bad = |allowed: &str| wrong(format!("{key}={} is wrong: allowed is {allowed}", clean(&value)));
        if value.is_empty() && !matches!(key, "prefix" | "client_name") {
            return Err(wrong(format!("option {} needs a value", clean(key))));
        }
        match key {
            "layout" => {
                config.layout = match &*value {
                    "native" => Layout::Native,
                    "plain" => Layout::Plain,
                    "redisson" => Layout::Redisson,
                    _ => return Err(bad("native, plain or redisson")),
                }
            }
            "fair" => {
                config.fair = match &*value {
                    "true" => true,
                    "false" => false,
                    _ => return Err(bad("true or false")),
                }
            }
            "pubsub" => {
                config.pubsub = match &*value {
                    "auto" => PubSub::Auto,
                    "sharded" => PubSub::Sharded,
                    "plain" => PubSub::Plain,
                    "both" => PubSub::Both,
                    _ => return Err(bad("auto, sharded, plain or both")),
                }
            }
            "prefix" => config.prefix = Some(value),
            "replicas" => {
                config.replicas = match &*value {
                    "none" => Replicas::None,
                    "any" => Replicas::Any,
                    "majority" => Replicas::Majority,
                    "all" => Replicas::All,
                    count => match digits(count).filter(|&count| count > 0) {
                        Some(count) => Replicas::Count(count),
                        None => return Err(bad("none, any, majority, all or a number from 1")),
                    },
                }
            }
            "connections" => {
                config.connections = digits(&value)
                    .and_then(|count| usize::try_from(count).ok())
                    .filter(|count| (1..=MOST_CONNECTIONS).contains(count))
                    .ok_or_else(|| bad("a number from 1 to 64"))?;
            }
            "connect_timeout" => config.connect_timeout = span(&value).ok_or_else(|| bad(SPANS))?,
            "timeout" => config.timeout = span(&value).ok_or_else(|| bad(SPANS))?,
            "client_name" => config.client_name = Some(value).filter(|name| !name.is_empty()),
            "ca" => files.0 = Some(value.into()),
            "cert" => files.1 = Some(value.into()),
            "key" => files.2 = Some(value.into()),
            "password_file" => config.password_file = Some(value.into()),
            "sentinel_user" | "sentinel_password_file" => match &mut config.topology {
                Topology::Sentinel { user, .. } if key == "sentinel_user" => *user = Some(value),
                Topology::Sentinel { password_file, .. } => *password_file = Some(value.into()),
                _ => return Err(wrong(format!("option {key} is for redis+sentinel:// only"))),
            },
            "eviction" => {
                config.eviction = match &*value {
                    "refuse" => Eviction::Refused,
                    "allow" => Eviction::Allowed,
                    _ => return Err(bad("refuse or allow")),
                }
            }
            _ => return Err(wrong(format!("there is no option {}; there are {OPTIONS}", clean(key)))),
        }
    }
    match (&mut config.tls, files) {
        (_, (None, None, None)) => Ok(()),
        (None, _) => Err(wrong("ca, cert and key are for rediss:// only")),
        (Some(_), (_, Some(_), None) | (_, None, Some(_))) => {
            Err(wrong("cert and key are given together or not at all"))
        }
        (Some(tls), (ca, cert, key)) => {
            *tls = Tls { ca, identity: cert.zip(key) };
            Ok(())
        }
    }
}

pub(crate) const SPANS: &str = "a time like 500ms or 2s, up to 1h";

/// A time like `500ms`, `2s` or `1m`.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let count = u64::from(digits(&text[..end])?);
    let span = match &text[end..] {
        "ms" => Duration::from_millis(count),
        "s" => Duration::from_secs(count),
        "m" => Duration::from_secs(count * 60),
        _ => return None,
    };
    (!span.is_zero() && span <= Duration::from_secs(3600)).then_some(span)
}

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

pub(crate) fn number(database: &str) -> Result<u32> {
    digits(database)
        .filter(|&number| number <= 65535)
        .ok_or_else(|| wrong("the database must be a number from 0 to 65535, as the last part of the path"))
}

/// Takes percent-encoding back. The error does not show the text: it may be secret.
pub(crate) fn decode(text: &str, what: &str) -> Result<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        (out, rest) = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let nibbles = char::from(*high).to_digit(16).zip(char::from(*low).to_digit(16));
                let byte = nibbles.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                out.push(byte.ok_or_else(|| wrong(format!("a % in {} that is not %25", clean(what))))?);
                (out, tail)
            }
            (b'%', _) => return Err(wrong(format!("a % in {} that is not %25", clean(what)))),
            (&byte, tail) => {
                out.push(byte);
                (out, tail)
            }
        };
    }
    String::from_utf8(out).map_err(|_| wrong(format!("{} is not utf-8", clean(what))))
}

pub(crate) fn wrong(text: impl Into<String>) -> Error {
    let text: String = text.into();
    Error::new(ErrorKind::Invalid, format!("redis url: {text}"))
}

#[cfg(test)]
mod tests;
