//! What the environment says.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use bramah::Tag;

use crate::{exit::Failure, span};

/// The environment as far as it matters here. A variable that is empty counts as not set.
#[derive(Clone, Default)]
pub(crate) struct Env {
    /// `BRAMAH_ENGINE`, which may have a password in it.
    pub(crate) engine: Option<String>,
    /// `BRAMAH_PROFILE`
    pub(crate) profile: Option<String>,
    /// `BRAMAH_CONFIG`
    pub(crate) config: Option<PathBuf>,
    /// `BRAMAH_NAMESPACE`
    pub(crate) namespace: Option<String>,
    /// `BRAMAH_TTL`
    pub(crate) ttl: Option<Duration>,
    /// `BRAMAH_WAIT`
    pub(crate) wait: Option<Duration>,
    /// `BRAMAH_HANDLE`, which is a key.
    pub(crate) handle: Option<String>,
    /// `BRAMAH_HELD`: the holds of the runs that we are inside of.
    pub(crate) inside: Vec<Tag>,
    /// The URL of the CI job.
    pub(crate) job: Option<String>,
    /// `XDG_STATE_HOME`
    pub(crate) state: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`
    pub(crate) config_home: Option<PathBuf>,
    /// `HOME`
    pub(crate) home: Option<PathBuf>,
    /// Where we are.
    pub(crate) here: Option<PathBuf>,
}

impl Env {
    /// The environment of this process.
    pub(crate) fn real() -> Result<Self, Failure> {
        let env = Self::of(|key| std::env::var_os(key))?;
        Ok(Self { here: std::env::current_dir().ok(), ..env })
    }

    /// `path` seen from the root.
    pub(crate) fn absolute(&self, path: &Path) -> Result<PathBuf, Failure> {
        let whole = match &self.here {
            _ if path.is_absolute() => path.to_owned(),
            Some(here) => here.join(path),
            None => {
                return Err(Failure::usage(format!(
                    "{} is relative, and the current directory is gone; give a whole path",
                    path.display()
                )));
            }
        };
        // Without its dots that say nothing.
        Ok(whole.components().collect())
    }

    fn of(get: impl Fn(&str) -> Option<OsString>) -> Result<Self, Failure> {
        let get = |key: &str| get(key).filter(|value| !value.is_empty());
        let text = |key: &str| {
            let value = get(key).map(|value| value.into_string());
            value.transpose().map_err(|_| Failure::usage(format!("{key} is not text in UTF-8")))
        };
        let time = |key: &str| {
            let span = text(key)?.map(|value| span::read(&value));
            span.transpose().map_err(|why| Failure::usage(format!("{key}: {why}")))
        };
        let path = |key: &str| get(key).map(PathBuf::from);
        // What a foreign hand wrote there is no hold of ours.
        let inside = text("BRAMAH_HELD")?.unwrap_or_default();
        Ok(Self {
            engine: text("BRAMAH_ENGINE")?,
            profile: text("BRAMAH_PROFILE")?,
            config: path("BRAMAH_CONFIG"),
            namespace: text("BRAMAH_NAMESPACE")?,
            ttl: time("BRAMAH_TTL")?,
            wait: time("BRAMAH_WAIT")?,
            handle: text("BRAMAH_HANDLE")?,
            inside: inside.split(',').filter_map(|tag| tag.parse().ok()).collect(),
            // It goes to the store with the session, where there is little room.
            job: job(&text).filter(|url| url.len() <= 1000),
            state: path("XDG_STATE_HOME"),
            config_home: path("XDG_CONFIG_HOME"),
            home: path("HOME"),
            here: None,
        })
    }
}

/// GitLab, Jenkins and GitHub say where a job is to be seen.
fn job(text: &impl Fn(&str) -> Result<Option<String>, Failure>) -> Option<String> {
    let get = |key: &str| text(key).ok().flatten();
    let github = || {
        let (server, repository) = (get("GITHUB_SERVER_URL")?, get("GITHUB_REPOSITORY")?);
        Some(format!("{server}/{repository}/actions/runs/{}", get("GITHUB_RUN_ID")?))
    };
    get("CI_JOB_URL").or_else(|| get("BUILD_URL")).or_else(github)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Env, Failure> {
        Env::of(|key| pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| value.into()))
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let env =
            of(&[("BRAMAH_ENGINE", ""), ("BRAMAH_TTL", ""), ("HOME", ""), ("BRAMAH_PROFILE", "a")]).unwrap();
        assert_eq!((env.engine, env.ttl, env.home, env.profile), (None, None, None, Some("a".into())));
    }

    #[test]
    fn a_time_that_is_none_is_refused_by_the_name_of_its_variable() {
        for key in ["BRAMAH_TTL", "BRAMAH_WAIT"] {
            let said = format!("{:?}", of(&[(key, "soon")]).err().unwrap());
            assert!(said.contains(key) && said.contains("30s"), "{said}");
        }
    }

    #[test]
    fn paths_are_seen_from_the_root() {
        let env = Env { here: Some("/job".into()), ..Env::default() };
        for (path, whole) in
            [("a.toml", "/job/a.toml"), ("./a/./b", "/job/a/b"), ("../a", "/job/../a"), ("/a", "/a")]
        {
            assert_eq!(env.absolute(Path::new(path)).unwrap(), Path::new(whole));
        }
        assert!(Env::default().absolute(Path::new("a")).is_err());
        assert_eq!(Env::default().absolute(Path::new("/a")).unwrap(), Path::new("/a"));
    }
}
