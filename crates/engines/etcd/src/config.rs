//! Where etcd is, and how to use it.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Name, Result};

/// What can follow the `?`.
const OPTIONS: &str = "timeout, connect_timeout, margin, cacert, cert, key, password_file";

/// The port of a member that says none.
const PORT: u16 = 2379;

/// A password, which nothing prints.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Where the members of etcd are, and how to use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `host:port`, one or more.
    pub(crate) members: Vec<String>,
    pub(crate) login: Option<(String, Secret)>,
    /// What every key begins with: empty, or with a slash at its end.
    pub(crate) prefix: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) margin: Duration,
}

/// PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) authority: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl Config {
    /// Reads `etcd://[user:password@]host[:port][,host[:port]]…[/prefix][?options]`; `etcds://` is the same with TLS.
    ///
    /// With `/prefix` the lock `a` is what `etcdctl lock prefix/a` takes, else what `etcdctl lock a` takes. User, password, prefix and
    /// the values of options may be percent-encoded.
    ///
    /// The options, joined by `&`:
    ///
    /// | option | values |
    /// |---|---|
    /// | `timeout` | how long an answer is waited for, `2s` if not said; never longer than a third of the ttl |
    /// | `connect_timeout` | how long a connection may take, `2s` if not said |
    /// | `margin` | `2s` if not said: how much longer than the ttl the server keeps a lease. Not less than two election timeouts of the cluster |
    /// | `cacert`, `cert`, `key` | PEM files, with `etcds://`; without `cacert` the system's roots are trusted |
    /// | `password_file` | a file of one line, instead of a password in the url |
    ///
    /// # Errors
    /// `Invalid`, with what is wrong and what is allowed, never with a password; `Unsupported` for TLS in a build without it.
    pub fn from_url(url: &str) -> Result<Self> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| wrong("it starts with etcd:// or etcds://"))?;
        let tls = match scheme {
            "etcd" => None,
            "etcds" if cfg!(feature = "tls") => Some(Tls::default()),
            "etcds" => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "etcd url: this build has no TLS; build with the feature tls, or use etcd://",
                ));
            }
            _ => return Err(wrong("it starts with etcd:// or etcds://")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        // A part of a password that is not percent-encoded would else be taken for an option, and named in an error.
        if !authority.contains('@') && rest.contains('@') {
            return Err(wrong("an @ after the host; percent-encode / ? # and @ in a user or password"));
        }
        if rest.contains('#') {
            return Err(wrong("it has no fragment; percent-encode # as %23"));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let mut config = Self {
            members: hosts.split(',').map(member).collect::<Result<_>>()?,
            login: login.map(read_login).transpose()?,
            prefix: prefix(path)?,
            tls,
            timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            margin: Duration::from_secs(2),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            config.set(name, value)?;
        }
        config.check()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "timeout" => self.timeout = span(name, value, Duration::from_millis(1))?,
            "connect_timeout" => self.connect_timeout = span(name, value, Duration::from_millis(1))?,
            "margin" => self.margin = span(name, value, Duration::ZERO)?,
            "cacert" | "cert" | "key" => {
                let tls = self.tls.as_mut().ok_or_else(|| wrong(format!("{name}= needs etcds://")))?;
                let path = Some(PathBuf::from(decoded(value)?));
                match name {
                    "cacert" => tls.authority = path,
                    "cert" => tls.certificate = path,
                    _ => tls.key = path,
                }
            }
            "password_file" => {
                let password = read_password(Path::new(&decoded(value)?))?;
                match &mut self.login {
                    Some((_, known)) if known.expose().is_empty() => *known = password,
                    Some(_) => return Err(wrong("a password and a password_file; say one of them")),
                    None => return Err(wrong("password_file= needs a user: etcd://user@host")),
                }
            }
            "password" => {
                return Err(wrong(
                    "a password among the options would be printed; put it before the host, or in password_file=",
                ));
            }
            _ => {
                let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
                return Err(wrong(format!("there is no option \"{shown}\"; there are {OPTIONS}")));
            }
        }
        Ok(())
    }

    fn check(self) -> Result<Self> {
        let is_half = |tls: &Tls| tls.certificate.is_some() != tls.key.is_some();
        if self.tls.as_ref().is_some_and(is_half) {
            return Err(wrong("cert= and key= go together"));
        }
        if self.login.as_ref().is_some_and(|(_, password)| password.expose().is_empty()) {
            return Err(wrong("a user without a password; etcd://user:password@host, or password_file="));
        }
        Ok(self)
    }

    /// The members, for errors.
    pub(crate) fn address(&self) -> String {
        self.members.join(",")
    }
}

fn member(text: &str) -> Result<String> {
    let is_bare = |host: &str| !host.is_empty() && !host.contains([':', '[', ']', '@', ' ', '%']);
    let is_literal = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
        _ => (text, Some(PORT)),
    };
    match port {
        Some(port) if port > 0 && (is_bare(host) || is_literal(host)) => Ok(format!("{host}:{port}")),
        _ => Err(wrong("a member is host, host:port or [ipv6]:port, and members are parted by commas")),
    }
}

fn read_login(text: &str) -> Result<(String, Secret)> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let user = decoded(user)?;
    if user.is_empty() {
        return Err(wrong("a login without a user; etcd://user:password@host"));
    }
    Ok((user, Secret(decoded(password)?)))
}

fn prefix(path: &str) -> Result<String> {
    let path = decoded(path.strip_prefix('/').unwrap_or(path))?;
    let path = path.strip_suffix('/').unwrap_or(&path);
    if path.is_empty() {
        return Ok(String::new());
    }
    // It follows the rules of names, so that a prefix and a name are a name to etcdctl.
    let name = Name::new(path).map_err(|error| wrong(format!("the prefix: {error}")))?;
    Ok(format!("{name}/"))
}

fn read_password(path: &Path) -> Result<Secret> {
    let refuse = |why: String| wrong(format!("password_file {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Secret(line.to_owned())),
        None => Err(refuse("its first line is empty".to_owned())),
    }
}

fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => u8::try_from(high * 16 + low).unwrap_or_default(),
                _ => return Err(wrong("a % that two hex digits do not follow; write % as %25")),
            },
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong("what is percent-encoded is not UTF-8"))
}

fn span(name: &str, value: &str, least: Duration) -> Result<Duration> {
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let unit = match unit {
        "ms" => Some(Duration::from_millis(1)),
        "s" => Some(Duration::from_secs(1)),
        "m" => Some(Duration::from_secs(60)),
        _ => None,
    };
    let span = number.parse().ok().zip(unit).and_then(|(number, unit): (u32, _)| unit.checked_mul(number));
    span.filter(|span| *span >= least && *span <= Duration::from_secs(3600)).ok_or_else(|| {
        let shown: String = value.chars().take(40).flat_map(char::escape_debug).collect();
        wrong(format!("{name}={shown}: expected a time such as 500ms or 2s, up to 1h"))
    })
}

fn wrong(what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("etcd url: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_its_password_is_never_shown() {
        let url = "etcd://ana:s%2Fecret@a,b:2380,[::1]:7/locks/blue?timeout=250ms&margin=0s";
        let config = Config::from_url(url).unwrap();
        assert_eq!(config.members, ["a:2379", "b:2380", "[::1]:7"]);
        assert_eq!(config.prefix, "locks/blue/");
        assert_eq!(config.login, Some(("ana".to_owned(), Secret("s/ecret".to_owned()))));
        assert_eq!((config.timeout, config.margin), (Duration::from_millis(250), Duration::ZERO));
        assert!(!format!("{config:?}").contains("s/ecret"));
        assert_eq!(Config::from_url("etcd://a/").unwrap().prefix, "");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn files_are_read_with_tls_alone() {
        let config = Config::from_url("etcds://a?cacert=%2Fca.pem&cert=c.pem&key=k.pem").unwrap();
        assert_eq!(config.tls.unwrap().authority, Some("/ca.pem".into()));
        assert!(Config::from_url("etcds://a?cert=c.pem").unwrap_err().to_string().contains("go together"));
    }

    #[test]
    fn mistakes_are_told_without_the_password() {
        for (url, said) in [
            ("http://h", "it starts with etcd://"),
            ("etcd://u:secret@", "a member is host"),
            ("etcd://u:secret@h:port", "a member is host"),
            ("etcd://u:secret@h?color=red", "there is no option \"color\""),
            ("etcd://u:secret@h?password=secret", "a password among the options"),
            ("etcd://u:sec/ret@h", "percent-encode"),
            ("etcd://u:secret@h?timeout=5", "timeout=5: expected"),
            ("etcd://u:secret@h/a//b", "the prefix: "),
            ("etcd://u:secret@h?cacert=x", "needs etcds://"),
            ("etcd://u@h", "a user without a password"),
            ("etcd://u:secret%zz@h", "two hex digits"),
        ] {
            let error = Config::from_url(url).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
