//! Which store is meant. Pure text.

use std::path::Path;

use crate::{env::Env, exit::Failure};

/// A variable for a command that runs under a lock: to be set, or to be taken out.
pub(crate) type Variable = (&'static str, Option<String>);

/// A store by its URL, which may have a password in it: it is shown by [`shown`](Store::shown) only.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Store {
    url: String,
    pass_on: Vec<Variable>,
    /// Nobody named it.
    is_default: bool,
}

impl Store {
    /// The flag, else the environment, else files in the user's state directory.
    pub(crate) fn choose(flag: Option<String>, env: &Env) -> Result<Self, Failure> {
        if let Some(url) = flag {
            if has_password(&url) {
                return Err(Failure::usage(
                    "--engine has a password in it, which every user of this machine can read in the process \
                     list; give the URL in the environment (BRAMAH_ENGINE) or in a profile of the config file, \
                     or name a password_file there",
                ));
            }
            return Ok(Self::plain(anchored(url, env.here.as_deref()).map_err(Failure::usage)?));
        }
        if let Some(given) = &env.engine {
            let url = anchored(given.clone(), env.here.as_deref()).map_err(Failure::usage)?;
            // What is inherited will do, unless it means something else from another directory.
            let pass_on = if url == *given { Vec::new() } else { vec![("BRAMAH_ENGINE", Some(url.clone()))] };
            return Ok(Self { url, pass_on, is_default: false });
        }
        // A relative XDG_STATE_HOME is to be ignored, says its specification.
        let state = env.state.clone().filter(|dir| dir.is_absolute());
        let state =
            state.or_else(|| env.home.as_ref().map(|home| home.join(".local/state"))).ok_or_else(|| {
                Failure::usage(
                    "no place for the locks: neither HOME nor XDG_STATE_HOME is set; \
                 give --engine or BRAMAH_ENGINE, such as file:///var/lib/bramah",
                )
            })?;
        let dir = state.join("bramah");
        let dir = dir.to_str().ok_or_else(|| {
            Failure::usage("the state directory is not text in UTF-8; give --engine, such as file:///dir")
        })?;
        Ok(Self { is_default: true, ..Self::plain(format!("file://{}", encode(dir))) })
    }

    /// Of a URL without secrets.
    fn plain(url: String) -> Self {
        let pass_on = vec![("BRAMAH_ENGINE", Some(url.clone()))];
        Self { url, pass_on, is_default: false }
    }

    /// Of a profile: its name and the file that it stands in are no secret.
    pub(crate) fn of_profile(url: String, name: &str, config: &str) -> Self {
        let pass_on = vec![
            ("BRAMAH_ENGINE", None),
            ("BRAMAH_PROFILE", Some(name.to_owned())),
            ("BRAMAH_CONFIG", Some(config.to_owned())),
        ];
        Self { url, pass_on, is_default: false }
    }

    /// The same with one more variable to pass on.
    pub(crate) fn passing_on(mut self, variable: Variable) -> Self {
        self.pass_on.push(variable);
        self
    }

    /// What a command that runs under a lock needs in its environment to mean the same locks, beside what it
    /// inherits. Nothing that was secret appears in it.
    pub(crate) fn pass_on(&self) -> Vec<Variable> {
        self.pass_on.clone()
    }

    /// Whether it ends with this process.
    pub(crate) fn is_memory(&self) -> bool {
        self.url.starts_with("memory:")
    }

    /// Whether it is the directory that is used when none is named, which cannot be mistyped.
    pub(crate) fn is_default(&self) -> bool {
        self.is_default
    }

    /// The whole URL, for the engine.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The URL without secrets, for everybody.
    pub(crate) fn shown(&self) -> String {
        bramah::redacted(&self.url)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.shown()).finish()
    }
}

/// Whether a URL carries a secret: user info with a colon, or an option that is called like one.
pub(crate) fn has_password(url: &str) -> bool {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    // Not cut at the first slash: there may be one in a password that was not encoded. `file:///` has no user.
    let authority = base.split_once("//").map_or("", |(_, rest)| rest);
    let authority = if authority.starts_with('/') { "" } else { authority };
    let in_user_info = authority.rsplit_once('@').is_some_and(|(users, _)| names_password(users));
    let in_query = query.split('&').filter_map(|pair| pair.split_once('=')).any(|(key, value)| {
        let key = key.to_ascii_lowercase();
        // A file with a password in it is no password.
        !value.is_empty()
            && !key.ends_with("_file")
            && ["pass", "secret", "token"].iter().any(|word| key.contains(word))
    });
    // A question mark in a password cuts it in two.
    in_user_info || in_query || (authority.contains(':') && query.contains('@'))
}

/// Whether there is a password in what stands before the last `@`: a user, behind whole hosts and commas if there are
/// several. A colon there may be a port's. What is not certain to be a port is taken for a password, which may have
/// commas in it.
fn names_password(users: &str) -> bool {
    let (others, last) = users.rsplit_once(',').map_or((None, users), |(others, last)| (Some(others), last));
    last.contains(':')
        || others.into_iter().flat_map(|others| others.split(',')).any(|part| {
            let (user, host) = part.rsplit_once('@').unwrap_or(("", part));
            user.contains(':') || !is_host(host)
        })
}

/// `host`, `host:6379`, `[::1]`, `[::1]:6379`.
fn is_host(text: &str) -> bool {
    let rest = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((_, rest)) => rest,
        None => text.find(':').map_or("", |colon| &text[colon..]),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)
}

/// `file:dir` with the directory that it is relative to, so that it means the same everywhere. Others stay as they are.
pub(crate) fn anchored(url: String, dir: Option<&Path>) -> Result<String, String> {
    let relative = |rest: &&str| !rest.is_empty() && !rest.starts_with('/');
    let Some(rest) = url.strip_prefix("file:").filter(relative) else { return Ok(url) };
    let dir = dir.and_then(Path::to_str).ok_or_else(|| {
        format!("{url} is relative to a directory that is gone, or is not text in UTF-8; use file:///dir")
    })?;
    let rest = rest.strip_prefix("./").unwrap_or(rest);
    Ok(format!("file://{}/{rest}", encode(dir).trim_end_matches('/')))
}

/// What a `file:` URL would read as something else.
fn encode(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3F").replace('#', "%23")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(engine: Option<&str>, state: Option<&str>, home: Option<&str>) -> Env {
        Env {
            engine: engine.map(Into::into),
            state: state.map(Into::into),
            home: home.map(Into::into),
            ..Env::default()
        }
    }

    #[test]
    fn the_flag_wins_over_the_environment_and_that_over_the_state_directory() {
        let choose =
            |flag: Option<&str>, env: &Env| Store::choose(flag.map(Into::into), env).map(|store| store.url);
        let all = env(Some("memory:"), Some("/state"), Some("/ana"));
        assert_eq!(choose(Some("file:///x"), &all).unwrap(), "file:///x");
        assert_eq!(choose(None, &all).unwrap(), "memory:");
        assert_eq!(choose(None, &env(None, Some("/st?te"), None)).unwrap(), "file:///st%3Fte/bramah");
        assert_eq!(
            choose(None, &env(None, Some("state"), Some("/ana"))).unwrap(),
            "file:///ana/.local/state/bramah"
        );
        let nowhere = Store::choose(None, &Env::default()).unwrap_err();
        assert_eq!(nowhere.exit.code(), 64);
        assert!(format!("{nowhere:?}").contains("--engine"));
    }

    #[test]
    fn a_relative_directory_is_settled_once() {
        let env = Env { here: Some("/a b%/c".into()), ..Env::default() };
        for (url, whole) in [
            ("file:x/y%20z", "file:///a b%25/c/x/y%20z"),
            ("file:./x", "file:///a b%25/c/x"),
            ("file:../x", "file:///a b%25/c/../x"),
            ("file:/x", "file:/x"),
            ("file:///x", "file:///x"),
            ("file:", "file:"),
            ("memory:", "memory:"),
            ("redis:x", "redis:x"),
        ] {
            let store = Store::choose(Some(url.into()), &env).unwrap();
            assert_eq!((store.url(), store.pass_on()), (whole, vec![("BRAMAH_ENGINE", Some(whole.into()))]));
        }
        assert_eq!(anchored("file:x".into(), Some(Path::new("/"))).unwrap(), "file:///x");
        assert!(anchored("file:x".into(), None).unwrap_err().contains("file:x"));
    }

    #[test]
    fn a_store_is_passed_on_without_secrets() {
        let engine = |url: &str| Env { here: Some("/here".into()), ..env(Some(url), None, None) };
        let passed = |env: &Env| Store::choose(None, env).unwrap().pass_on();
        assert_eq!(passed(&engine("redis://u:hush@h")), []);
        assert_eq!(passed(&engine("file:x")), [("BRAMAH_ENGINE", Some("file:///here/x".into()))]);
        let home = env(None, None, Some("/ana"));
        assert_eq!(passed(&home), [("BRAMAH_ENGINE", Some("file:///ana/.local/state/bramah".into()))]);
        let profile = Store::of_profile("redis://u:hush@h".into(), "prod", "/cfg.toml");
        let expected = [
            ("BRAMAH_ENGINE", None),
            ("BRAMAH_PROFILE", Some("prod".into())),
            ("BRAMAH_CONFIG", Some("/cfg.toml".into())),
        ];
        assert_eq!(profile.pass_on(), expected);
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        for url in [
            "redis://u:hush@h",
            "redis://:hush@h/0",
            "redlock://a,u:hush@b",
            "redis://h?password=hush",
            "redis://u:a/hush@h",
            "redlock://u:hush,1@h",
            "redlock://u:1:hush,1@h",
            "redlock://u:,hush@h",
            "redlock://u@a:1,u:hush@b:2",
            "redlock://u:hush@a:1,b:2,u@c",
        ] {
            let refused = Store::choose(Some(url.into()), &Env::default()).unwrap_err();
            assert_eq!(refused.exit.code(), 64);
            let said = format!("{refused:?}");
            assert!(!said.contains("hush"), "{said}");
            for way in ["BRAMAH_ENGINE", "password_file", "config file"] {
                assert!(said.contains(way), "{said}");
            }
        }
        for url in [
            "redis://u@h:6379",
            "redis://h?password_file=/run/secret",
            "redis://h:6379/0",
            "redlock://u@a:1,u@b:2,c:3",
            "redlock://u@[::1]:1,[::2],u@b/0",
            "file:///a:b@c",
            "memory:",
            "redis://h?layout=plain",
        ] {
            assert!(Store::choose(Some(url.into()), &Env::default()).is_ok(), "{url}");
        }
        let kept = Store::choose(None, &env(Some("redis://u:hush@h"), None, None)).unwrap();
        assert!(!format!("{kept:?} {}", kept.shown()).contains("hush"));
    }
}
