//! Where the ensemble is, and how to use it.

use std::{fmt, path::PathBuf, time::Duration};

use bramah_core::{Error, ErrorKind, Result};
use zookeeper_client::Acls;

use crate::line::Form;

/// The port of members for which none is said.
const PORT: u16 = 2181;

/// Who may do what with the nodes that we create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody may do everything.
    Open,
    /// The user of the url may do everything, and nobody else anything.
    Creator,
}

/// How the connections are made private.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "a build without TLS only says so"))]
pub(crate) struct Tls {
    /// Who signed the members' certificates.
    pub(crate) ca: PathBuf,
    /// Our own certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Where a ZooKeeper is and how to use it.
#[derive(Clone)]
pub struct Config {
    pub(crate) members: Vec<String>,
    /// Empty, or a path that starts with `/` and does not end with one.
    pub(crate) chroot: String,
    /// `user:password`.
    pub(crate) user: Option<String>,
    pub(crate) access: Access,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) tls: Option<Tls>,
    /// What a mutex is.
    pub(crate) mutex: Form,
}

impl Config {
    /// Reads `zookeeper://[user:password@]member[:port][,member[:port]…][/chroot][?options]`; `zookeepers://` is the same by TLS.
    ///
    /// A user is one of ZooKeeper's digest scheme. Without a port a member is at 2181.
    ///
    /// The options, joined by `&`:
    ///
    /// | option | values |
    /// |---|---|
    /// | `acl` | `creator` (if a user is said): only that user may use what is created; `open` (if none is): everybody may |
    /// | `mutex` | `lock` (if not said): mutexes and elections are Curator's `InterProcessMutex` and `LeaderSelector`; `latch`: they are its `LeaderLatch` |
    /// | `timeout` | `2s` (if not said): how long to wait for an answer; never longer than a third of the ttl |
    /// | `connect_timeout` | `5s` (if not said): how long to wait for a session |
    /// | `ca` | with `zookeepers://`: a PEM file of who signed the members' certificates |
    /// | `cert`, `key` | with `zookeepers://`: PEM files of our own certificate, where the members want one |
    ///
    /// # Errors
    /// `Invalid`, with what is wrong and what is allowed, never with a password.
    pub fn from_url(url: &str) -> Result<Self> {
        let (is_private, rest) = match (url.strip_prefix("zookeeper://"), url.strip_prefix("zookeepers://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(wrong("it starts with zookeeper:// or zookeepers://")),
        };
        let [mut ca, mut cert, mut key] = [const { None::<PathBuf> }; 3];
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !place.contains('@') && query.contains('@') {
            return Err(wrong(
                "there is an @ behind the members; write / ? # and @ of a user or password as %2F %3F %23 and %40",
            ));
        }
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let user = user.map(read_user).transpose()?;
        let (members, chroot) = match place.find('/') {
            Some(at) => place.split_at(at),
            None => (place, ""),
        };
        let members = members.split(',').map(read_member).collect::<Result<Vec<_>>>()?;
        let mut config = Self {
            members,
            chroot: read_chroot(chroot)?,
            access: if user.is_some() { Access::Creator } else { Access::Open },
            user,
            timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
            tls: None,
            mutex: Form::Mutex,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "timeout" => config.timeout = span(name, value)?,
                "connect_timeout" => config.connect_timeout = span(name, value)?,
                "ca" => ca = Some(file(value)?),
                "cert" => cert = Some(file(value)?),
                "key" => key = Some(file(value)?),
                "mutex" => {
                    config.mutex = match value {
                        "lock" => Form::Mutex,
                        "latch" => Form::Latch,
                        _ => return Err(wrong("mutex= is lock or latch")),
                    }
                }
                "acl" => {
                    config.access = match value {
                        "open" => Access::Open,
                        "creator" => Access::Creator,
                        _ => return Err(wrong("acl= is open or creator")),
                    }
                }
                "password" => {
                    return Err(wrong(
                        "a password among the options would be printed; put it before the members",
                    ));
                }
                _ => {
                    let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
                    return Err(wrong(format!(
                        "there is no option \"{shown}\"; there are acl, mutex, timeout, connect_timeout, ca, cert, key"
                    )));
                }
            }
        }
        if config.access == Access::Creator && config.user.is_none() {
            return Err(wrong("acl=creator needs user:password@ before the members"));
        }
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(wrong("cert= and key= go together")),
        };
        config.tls = match (is_private, ca) {
            (true, Some(ca)) => Some(Tls { ca, identity }),
            (true, None) => {
                return Err(wrong(
                    "zookeepers:// needs ca=, a PEM file of who signed the members' certificates",
                ));
            }
            (false, None) if identity.is_none() => None,
            (false, _) => return Err(wrong("ca=, cert= and key= go with zookeepers://")),
        };
        Ok(config)
    }

    /// `host:port,host:port`, for errors and the driver.
    pub(crate) fn address(&self) -> String {
        self.members.join(",")
    }

    /// The rights of what we create.
    pub(crate) fn acls(&self) -> Acls<'static> {
        match self.access {
            Access::Open => Acls::anyone_all(),
            Access::Creator => Acls::creator_all(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No password.
        f.debug_struct("Config")
            .field("members", &self.members)
            .field("chroot", &self.chroot)
            .field("access", &self.access)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

fn wrong(what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("zookeeper url: {what}"))
}

fn read_user(text: &str) -> Result<String> {
    let refuse = || wrong("before the members stands user:password@; percent-encode : / ? # and @ in them");
    let (user, password) = text.split_once(':').ok_or_else(refuse)?;
    let (user, password) = (decoded(user).ok_or_else(refuse)?, decoded(password).ok_or_else(refuse)?);
    if user.is_empty() || user.contains(':') {
        return Err(refuse());
    }
    Ok(format!("{user}:{password}"))
}

fn read_member(text: &str) -> Result<String> {
    let is_host = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        !inner.is_empty()
            && inner.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'))
    };
    // Not shown: it may be a password in the wrong place.
    let refuse = || wrong("a member is host, host:port or [ipv6]:port; write them joined by commas");
    let after_bracket = text.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match text.get(after_bracket..).and_then(|rest| rest.rfind(':')) {
        Some(at) => text.split_at(after_bracket + at),
        None => (text, ""),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(refuse)?,
        None => PORT,
    };
    if !is_host(host) || (host.contains(':') && !host.starts_with('[')) {
        return Err(refuse());
    }
    Ok(format!("{host}:{port}"))
}

fn read_chroot(text: &str) -> Result<String> {
    let refuse = || wrong("the chroot is a path such as /app/locks, without empty segments, . and ..");
    let path = decoded(text.trim_end_matches('/')).ok_or_else(refuse)?;
    let is_fine = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && !segment
                .chars()
                .any(|c| matches!(u32::from(c), 0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..))
    };
    if path.is_empty() || path.split('/').skip(1).all(is_fine) { Ok(path) } else { Err(refuse()) }
}

fn file(value: &str) -> Result<PathBuf> {
    let path = decoded(value).filter(|path| !path.is_empty());
    path.map(PathBuf::from).ok_or_else(|| wrong("ca=, cert= and key= are paths of files, percent-encoded"))
}

/// `500ms`, `2s`.
fn span(name: &str, value: &str) -> Result<Duration> {
    let millis = match value.strip_suffix("ms") {
        Some(number) => number.parse::<u64>().ok(),
        None => value.strip_suffix('s').and_then(|number| number.parse::<u64>().ok()?.checked_mul(1000)),
    };
    let fitting = millis.filter(|millis| (10..=600_000).contains(millis));
    fitting
        .map(Duration::from_millis)
        .ok_or_else(|| wrong(format!("{name}= is a time from 10ms to 600s, such as 500ms or 2s")))
}

fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_its_password_is_never_shown() {
        let url = "zookeeper://ana:s%2Fecret@a,b:2182,[::1]:2183/app/locks/?timeout=500ms&connect_timeout=3s";
        let config = Config::from_url(url).unwrap();
        assert_eq!(config.address(), "a:2181,b:2182,[::1]:2183");
        assert_eq!(config.chroot, "/app/locks");
        assert_eq!(config.user.as_deref(), Some("ana:s/ecret"));
        assert_eq!(
            (config.timeout, config.connect_timeout),
            (Duration::from_millis(500), Duration::from_secs(3))
        );
        assert_eq!(config.access, Access::Creator);
        let shown = format!("{config:?}");
        assert!(!shown.contains("ecret"), "{shown}");
        let plain = Config::from_url("zookeeper://localhost").unwrap();
        assert_eq!((plain.chroot.as_str(), plain.access), ("", Access::Open));
    }

    #[test]
    fn mistakes_are_told_without_the_password() {
        for (url, said) in [
            ("redis://h", "it starts with zookeeper://"),
            ("zookeepers://u:secret@h", "needs ca="),
            ("zookeepers://u:secret@h?ca=a.pem&cert=b.pem", "go together"),
            ("zookeeper://u:secret@h?ca=a.pem", "go with zookeepers://"),
            ("zookeeper://u:secret@", "a member is host"),
            ("zookeeper://u:secret@a,,b", "a member is host"),
            ("zookeeper://u:secret@a:0", "a member is host"),
            ("zookeeper://u:secret@a b", "a member is host"),
            ("zookeeper://u:secret", "a member is host"),
            ("zookeeper://u:sec?secret@a", "there is an @"),
            ("zookeeper://secret@a", "user:password@"),
            ("zookeeper://u:secret@a/x//y", "the chroot is a path"),
            ("zookeeper://u:secret@a/../y", "the chroot is a path"),
            ("zookeeper://u:secret@a?color=red", "there is no option \"color\""),
            ("zookeeper://u:secret@a?timeout=5", "timeout= is a time"),
            ("zookeeper://u:secret@a?acl=mine", "acl= is open or creator"),
            ("zookeeper://u:secret@a?mutex=fair", "mutex= is lock or latch"),
            ("zookeeper://u:secret@a?password=secret", "would be printed"),
            ("zookeeper://a?acl=creator", "needs user:password@"),
        ] {
            let error = Config::from_url(url).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
