//! Which store, which names, which defaults: flags over environment over config file.

use std::time::Duration;

use bramah::{Name, Scope};

pub(crate) use crate::config::Defaults;
use crate::{
    args::Place,
    config::{Config, Rules},
    env::Env,
    exit::Failure,
    store::Store,
};

/// What is settled before a verb looks at its own flags.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) store: Store,
    pub(crate) env_ttl: Option<Duration>,
    pub(crate) env_wait: Option<Duration>,
    namespace: Option<Name>,
    /// What the profile says of every lock.
    base: Defaults,
    rules: Rules,
}

impl Settings {
    pub(crate) fn resolve(place: &Place, env: &Env) -> Result<Self, Failure> {
        Self::with(Config::load(place.config.as_deref(), env)?, place, env)
    }

    fn with(config: Option<Config>, place: &Place, env: &Env) -> Result<Self, Failure> {
        let chosen = Config::choose(config.as_ref(), place, env)?;
        let mut store = match chosen {
            Some(chosen) => chosen.store()?,
            None => Store::choose(place.engine.clone(), env)?,
        };
        let namespace = match (&place.namespace, &env.namespace, &config) {
            (Some(space), ..) | (None, Some(space), _) => Some(Name::new(space)?),
            (None, None, Some(config)) => config.namespace(chosen).cloned(),
            (None, None, None) => None,
        };
        let inherited = place.namespace.is_none() && env.namespace.is_some();
        if let Some(space) = namespace.as_ref().filter(|_| !inherited) {
            store = store.passing_on(("BRAMAH_NAMESPACE", Some(space.to_string())));
        }
        Ok(Self {
            store,
            env_ttl: env.ttl,
            env_wait: env.wait,
            namespace,
            base: chosen.map(|chosen| chosen.defaults()).unwrap_or_default(),
            rules: config.map(|config| config.rules).unwrap_or_default(),
        })
    }

    /// The lock of this name, in the namespace. A name that is in it already is meant as it stands, so that names
    /// can be copied from what is listed.
    pub(crate) fn name(&self, text: &str) -> Result<Name, Failure> {
        let name = Name::new(text)?;
        match &self.namespace {
            Some(space) if !name.is_under(space) => Ok(Name::new(format!("{space}/{name}"))?),
            _ => Ok(name),
        }
    }

    /// `deploy` and `deploy/` mean the same; without a prefix, all of the namespace.
    pub(crate) fn scope(&self, prefix: Option<&str>) -> Result<Scope, Failure> {
        Ok(match (prefix, &self.namespace) {
            (Some(prefix), _) => Scope::Under(self.name(prefix.strip_suffix('/').unwrap_or(prefix))?),
            (None, Some(space)) => Scope::Under(space.clone()),
            (None, None) => Scope::All,
        })
    }

    /// What the config file says of this lock.
    pub(crate) fn defaults(&self, name: &Name) -> Defaults {
        self.rules.over(self.base.clone(), name, self.namespace.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/cfg/bramah.toml";

    fn settings(text: &str, place: &Place, env: &Env) -> Result<Settings, Failure> {
        Settings::with(Some(Config::of_text(text, FILE)?), place, env)
    }

    fn env() -> Env {
        Env { home: Some("/ana".into()), here: Some("/job".into()), ..Env::default() }
    }

    fn place(namespace: &str) -> Place {
        Place { namespace: Some(namespace.into()), ..Place::default() }
    }

    const PROFILES: &str = r#"
        default = "prod"
        namespace = "shop"
        [profile.prod]
        engine = "redis://u:hush@h"
        ttl = "20s"
        wait = "2m"
        [profile.eu]
        engine = "file:locks"
        namespace = "shop/eu"
        [lock."deploy/*"]
        wait = "5m"
    "#;

    #[test]
    fn a_lock_says_more_than_its_profile_and_the_environment_is_kept_apart() {
        let env = Env { ttl: Some(Duration::from_secs(7)), ..env() };
        let settings = settings(PROFILES, &Place::default(), &env).unwrap();
        assert_eq!((settings.env_ttl, settings.env_wait), (Some(Duration::from_secs(7)), None));
        let of = |name: &str| settings.defaults(&settings.name(name).unwrap());
        let (ttl, minute) = (Some(Duration::from_secs(20)), Duration::from_secs(60));
        assert_eq!((of("deploy/prod").ttl, of("deploy/prod").wait), (ttl, Some(5 * minute)));
        assert_eq!((of("shop/deploy/prod").ttl, of("shop/deploy/prod").wait), (ttl, Some(5 * minute)));
        assert_eq!((of("mail").ttl, of("mail").wait), (ttl, Some(2 * minute)));
    }

    #[test]
    fn what_a_profile_says_counts_with_its_store_only() {
        let env = Env { engine: Some("memory:".into()), ..env() };
        let settings = settings(PROFILES, &Place::default(), &env).unwrap();
        let name = settings.name("deploy/prod").unwrap();
        assert_eq!((settings.defaults(&name).ttl, settings.store.url()), (None, "memory:"));
        assert!(settings.defaults(&name).wait.is_some());
    }

    #[test]
    fn the_namespace_is_the_flags_the_environments_the_profiles_or_the_files() {
        let space =
            |place: &Place, env: &Env| settings(PROFILES, place, env).unwrap().name("a").unwrap().to_string();
        let from_env = Env { namespace: Some("env".into()), profile: Some("eu".into()), ..env() };
        let profile = Env { namespace: None, ..from_env.clone() };
        assert_eq!(space(&place("flag"), &from_env), "flag/a");
        assert_eq!(space(&Place::default(), &from_env), "env/a");
        assert_eq!(space(&Place::default(), &profile), "shop/eu/a");
        assert_eq!(space(&Place::default(), &env()), "shop/a");
    }

    #[test]
    fn what_is_passed_on_means_the_same_locks_and_has_no_secret() {
        let passed = |place: &Place, env: &Env| settings(PROFILES, place, env).unwrap().store.pass_on();
        let profile = |name: &str| {
            vec![
                ("BRAMAH_ENGINE", None),
                ("BRAMAH_PROFILE", Some(name.into())),
                ("BRAMAH_CONFIG", Some(FILE.into())),
            ]
        };
        let space = |name: &str| vec![("BRAMAH_NAMESPACE", Some(name.into()))];
        assert_eq!(passed(&Place::default(), &env()), [profile("prod"), space("shop")].concat());
        let eu = Env { profile: Some("eu".into()), ..env() };
        assert_eq!(passed(&Place::default(), &eu), [profile("eu"), space("shop/eu")].concat());
        let inherited = Env { engine: Some("redis://u:hush@h".into()), namespace: Some("x".into()), ..env() };
        assert_eq!(passed(&Place::default(), &inherited), []);
        assert_eq!(passed(&place("y"), &inherited), space("y"));
        let engine = Place { engine: Some("file:x".into()), ..Place::default() };
        let expected = [vec![("BRAMAH_ENGINE", Some("file:///job/x".into()))], space("shop")].concat();
        assert_eq!(passed(&engine, &env()), expected);
    }

    #[test]
    fn a_relative_directory_in_the_file_is_relative_to_the_file() {
        let eu = Env { profile: Some("eu".into()), ..env() };
        assert_eq!(settings(PROFILES, &Place::default(), &eu).unwrap().store.url(), "file:///cfg/locks");
    }

    #[test]
    fn settings_show_no_secret() {
        let settings = settings(PROFILES, &Place::default(), &env()).unwrap();
        assert_eq!(settings.store.url(), "redis://u:hush@h");
        assert!(!format!("{settings:?} {}", settings.store.shown()).contains("hush"));
    }

    #[test]
    fn names_are_put_into_the_namespace_once() {
        let settings = settings("namespace = 'shop'", &Place::default(), &env()).unwrap();
        for (text, name) in [
            ("deploy", "shop/deploy"),
            ("shop/deploy", "shop/deploy"),
            ("shop", "shop"),
            ("shopping", "shop/shopping"),
        ] {
            assert_eq!(settings.name(text).unwrap().as_str(), name);
        }
        let under = |name: &str| Scope::Under(Name::new(name).unwrap());
        assert_eq!(settings.scope(None).unwrap(), under("shop"));
        assert_eq!(settings.scope(Some("deploy/")).unwrap(), under("shop/deploy"));
        let bare = Settings::with(None, &Place::default(), &env()).unwrap();
        assert_eq!((bare.scope(None).unwrap(), bare.name("a").unwrap().as_str()), (Scope::All, "a"));
    }

    #[test]
    fn a_namespace_that_is_no_name_is_refused() {
        assert_eq!(settings("", &place("a//b"), &env()).unwrap_err().exit.code(), 64);
    }
}
