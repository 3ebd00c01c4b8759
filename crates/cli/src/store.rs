//! Which store is meant. Pure text.

use crate::{env::Env, exit::Failure};

/// A store by its URL, which may have a password in it: it is shown by [`shown`](Store::shown) only.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Store {
    url: String,
    origin: Origin,
}

/// Where the URL comes from: so a command that runs under a lock finds the same store.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// From --engine, or the default: it has no secrets.
    Plain,
    /// From `BRAMAH_ENGINE`.
    Environment,
}

impl Store {
    /// The flag, else the environment, else files in the user's state directory.
    pub(crate) fn choose(flag: Option<String>, env: &Env) -> Result<Self, Failure> {
        if let Some(url) = flag {
            if has_password(&url) {
                return Err(Failure::usage(
                    "--engine has a password in it, which every user of this machine can read in the process \
                     list; give the URL in the environment instead: BRAMAH_ENGINE",
                ));
            }
            return Ok(Self { url, origin: Origin::Plain });
        }
        if let Some(url) = env.engine.clone() {
            return Ok(Self { url, origin: Origin::Environment });
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
        Ok(Self { url: format!("file://{}", encode(dir)), origin: Origin::Plain })
    }

    /// What a command that runs under a lock needs in its environment to reach the same store, beside what it
    /// inherits: variables to set, or to take out. Nothing that was secret appears in it.
    pub(crate) fn pass_on(&self) -> Vec<(&'static str, Option<String>)> {
        match self.origin {
            Origin::Plain => vec![("BRAMAH_ENGINE", Some(self.url.clone()))],
            Origin::Environment => Vec::new(),
        }
    }

    /// Whether it ends with this process.
    pub(crate) fn is_memory(&self) -> bool {
        self.url.starts_with("memory:")
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
fn has_password(url: &str) -> bool {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    // Not cut at the first slash: there may be one in a password that was not encoded. `file:///` has no user.
    let authority = base.split_once("//").map_or("", |(_, rest)| rest);
    let authority = if authority.starts_with('/') { "" } else { authority };
    let in_user_info = authority.rsplit_once('@').is_some_and(|(users, _)| users.contains(':'));
    let in_query = query.split('&').filter_map(|pair| pair.split_once('=')).any(|(key, value)| {
        let key = key.to_ascii_lowercase();
        !value.is_empty() && ["pass", "secret", "token"].iter().any(|word| key.contains(word))
    });
    // A question mark in a password cuts it in two.
    in_user_info || in_query || (authority.contains(':') && query.contains('@'))
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
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        for url in [
            "redis://u:hush@h",
            "redis://:hush@h/0",
            "redlock://a,u:hush@b",
            "redis://h?password=hush",
            "redis://u:a/hush@h",
        ] {
            let refused = Store::choose(Some(url.into()), &Env::default()).unwrap_err();
            assert_eq!(refused.exit.code(), 64);
            let said = format!("{refused:?}");
            assert!(said.contains("BRAMAH_ENGINE") && !said.contains("hush"), "{said}");
        }
        for url in
            ["redis://u@h:6379", "redis://h:6379/0", "file:///a:b@c", "memory:", "redis://h?layout=plain"]
        {
            assert!(Store::choose(Some(url.into()), &Env::default()).is_ok(), "{url}");
        }
        let kept = Store::choose(None, &env(Some("redis://u:hush@h"), None, None)).unwrap();
        assert!(!format!("{kept:?} {}", kept.shown()).contains("hush"));
    }
}
