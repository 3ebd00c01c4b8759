//! The config file: which one it is, and what it says.

mod read;
mod rule;
mod secret;
mod source;

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use bramah::Name;

pub(crate) use rule::{Defaults, Rules};

use crate::{
    args::Place,
    env::Env,
    exit::Failure,
    say::say,
    store::{Store, has_password},
};
use rule::Setting;

/// Far more than anybody writes by hand.
const MOST_BYTES: u64 = 1 << 20;

/// What a config file says. It may have passwords in it, so it cannot be printed as a whole.
pub(crate) struct Config {
    /// Absolute.
    path: String,
    /// The profile used when none is named.
    default: Option<String>,
    namespace: Option<Name>,
    profiles: BTreeMap<String, Profile>,
    pub(crate) rules: Rules,
}

/// A store with a name, and what goes with it.
pub(crate) struct Profile {
    /// May have a password in it.
    engine: String,
    password_file: Option<PathBuf>,
    namespace: Option<Name>,
    settings: Vec<Setting>,
}

/// A profile that was asked for, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Chosen<'a> {
    name: &'a str,
    config: &'a Config,
    profile: &'a Profile,
}

impl Config {
    /// The file that is asked for, else the first of the usual places that has one.
    pub(crate) fn load(flag: Option<&Path>, env: &Env) -> Result<Option<Self>, Failure> {
        let asked = flag.map(|path| ("--config", path));
        let asked = asked.or_else(|| env.config.as_deref().map(|path| ("BRAMAH_CONFIG", path)));
        let Some((by, path)) = asked else {
            for place in places(env) {
                match source::open(&place.path) {
                    Ok(file) => {
                        place.refuse_foreign(&file)?;
                        place.refuse_pipe(&file)?;
                        return Self::from_file(file, &place.path).map(Some);
                    }
                    Err(error) if is_absent(&error) || place.is_closed(&error) => {}
                    Err(error) => return Err(unreadable(&place.path, &error)),
                }
            }
            return Ok(None);
        };
        let path = env.absolute(path)?;
        match source::open(&path) {
            Ok(file) => Self::from_file(file, &path).map(Some),
            Err(error) if is_absent(&error) => {
                let path = path.display();
                Err(Failure::usage(format!("{by}: there is no file {path}")))
            }
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    #[cfg(test)]
    pub(crate) fn of_text(text: &str, path: &str) -> Result<Self, Failure> {
        read::read(text, path)
    }

    fn from_file(file: File, path: &Path) -> Result<Self, Failure> {
        let refuse = |why: &str| Err(Failure::usage(format!("the config file {} {why}", path.display())));
        let mode = secret::mode_for_others(&file);
        let bytes = match source::read(file, MOST_BYTES + 1) {
            Ok(bytes) if bytes.len() as u64 > MOST_BYTES => return refuse("has more than 1 MB"),
            Ok(bytes) => bytes,
            Err(error) => return Err(unreadable(path, &error)),
        };
        let Ok(text) = String::from_utf8(bytes) else { return refuse("is not text in UTF-8") };
        // A command that runs under a lock may have to find it again.
        let Some(name) = path.to_str() else { return refuse("has a name that is not text in UTF-8") };
        let config = read::read(&text, name)?;
        if let Some(mode) = mode.filter(|_| config.has_password()) {
            say(&format!(
                "the config file {name} has a password in it, and mode {mode:04o} lets others read it; \
                 chmod 600 it, or use password_file"
            ));
        }
        Ok(config)
    }

    fn has_password(&self) -> bool {
        self.profiles.values().any(|profile| has_password(&profile.engine))
    }

    /// The profile to use, if it is not a URL that counts: `--engine`, `--profile`, `BRAMAH_ENGINE`,
    /// `BRAMAH_PROFILE`, the file's default, in this order.
    pub(crate) fn choose<'a>(
        config: Option<&'a Self>,
        place: &'a Place,
        env: &'a Env,
    ) -> Result<Option<Chosen<'a>>, Failure> {
        let (by, name) = match (&place.engine, &place.profile, &env.engine, &env.profile) {
            (Some(_), ..) => return Ok(None),
            (None, Some(name), ..) => ("--profile", name),
            (None, None, Some(_), _) => return Ok(None),
            (None, None, None, Some(name)) => ("BRAMAH_PROFILE", name),
            (None, None, None, None) => match config.and_then(|config| config.default.as_ref()) {
                Some(name) => ("default", name),
                None => return Ok(None),
            },
        };
        match config {
            Some(config) => config.profile(name, by).map(Some),
            None => {
                let places: Vec<_> = places(env).map(|place| place.path.display().to_string()).collect();
                Err(Failure::usage(format!(
                    "{by}: there is no profile {}, because there is no config file; looked for {}; give --config",
                    bramah::redacted(name),
                    places.join(", ")
                )))
            }
        }
    }

    fn profile<'a>(&'a self, name: &'a str, by: &str) -> Result<Chosen<'a>, Failure> {
        match self.profiles.get(name) {
            Some(profile) => Ok(Chosen { name, config: self, profile }),
            None => Err(Failure::usage(format!(
                "{by}: {}, in the config file {}",
                no_profile(name, &self.profiles),
                self.path
            ))),
        }
    }

    /// What is put before names, if nothing else says it.
    pub(crate) fn namespace<'a>(&'a self, chosen: Option<Chosen<'a>>) -> Option<&'a Name> {
        chosen.and_then(|chosen| chosen.profile.namespace.as_ref()).or(self.namespace.as_ref())
    }
}

impl Chosen<'_> {
    /// Its store, with the password if there is a file for it.
    pub(crate) fn store(&self) -> Result<Store, Failure> {
        let engine = &self.profile.engine;
        let url = match &self.profile.password_file {
            Some(file) => secret::with_password(engine, &secret::read(file)?),
            None => engine.clone(),
        };
        Ok(Store::of_profile(url, self.name, &self.config.path))
    }

    /// What it says of every lock.
    pub(crate) fn defaults(&self) -> Defaults {
        let mut defaults = Defaults::default();
        for setting in &self.profile.settings {
            setting.apply(&mut defaults);
        }
        defaults
    }
}

/// Where a file may be without being named.
struct Usual {
    path: PathBuf,
    /// Whether it is the user's, found by `HOME`.
    personal: bool,
}

impl Usual {
    /// A home that cannot be entered is somebody else's: `HOME` is left over from before the user was changed, and
    /// its config is not for us. A file that is there and cannot be read is another matter.
    fn is_closed(&self, error: &io::Error) -> bool {
        let closed = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        self.personal && closed(error) && self.path.metadata().is_err_and(|error| closed(&error))
    }

    /// A file that somebody else has written could point us to his store, with a password of ours.
    fn refuse_foreign(&self, file: &File) -> Result<(), Failure> {
        let Ok(data) = file.metadata() else { return Ok(()) };
        let us = rustix::process::getuid().as_raw();
        let why = match (data.uid(), data.mode()) {
            (owner, _) if owner != us && owner != 0 => "belongs to another user",
            (_, mode) if mode & 0o002 != 0 => "can be written by everybody",
            _ => return Ok(()),
        };
        Err(Failure::usage(format!(
            "the config file {} {why}, so it is not taken just because it is there; name it with --config if you \
             trust it, or pass --config /dev/null",
            self.path.display()
        )))
    }

    /// A pipe would be waited for by every command.
    fn refuse_pipe(&self, file: &File) -> Result<(), Failure> {
        if !file.metadata().is_ok_and(|data| data.file_type().is_fifo()) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "the config file {} is a pipe; put a file in its place, or pass --config /dev/null",
            self.path.display()
        )))
    }
}

fn places(env: &Env) -> impl Iterator<Item = Usual> {
    let here = env.here.as_ref().map(|dir| Usual { path: dir.join("bramah.toml"), personal: false });
    // A relative XDG_CONFIG_HOME is to be ignored, says its specification.
    let home = env.config_home.clone().filter(|dir| dir.is_absolute());
    let home = home.or_else(|| Some(env.home.as_ref()?.join(".config")).filter(|dir| dir.is_absolute()));
    let home = home.map(|dir| Usual { path: dir.join("bramah/config.toml"), personal: true });
    let system = Usual { path: "/etc/bramah/config.toml".into(), personal: false };
    here.into_iter().chain(home).chain([system])
}

fn no_profile(name: &str, profiles: &BTreeMap<String, Profile>) -> String {
    let names: Vec<&str> = profiles.keys().map(String::as_str).collect();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    // A name may be a URL in the wrong place.
    format!("there is no profile {}; there is {}", bramah::redacted(name), bramah::redacted(&there))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("the config file {} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::of_text(text, "/etc/bramah/config.toml").unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    fn some(text: &str) -> Option<String> {
        Some(text.into()).filter(|text: &String| !text.is_empty())
    }

    #[test]
    fn a_file_is_looked_for_here_then_at_home_then_in_etc() {
        let looked = |env: &Env| -> Vec<String> {
            places(env).map(|place| place.path.display().to_string()).collect()
        };
        let env =
            Env { here: some("/job").map(Into::into), home: some("/ana").map(Into::into), ..Env::default() };
        let (here, etc) = ("/job/bramah.toml", "/etc/bramah/config.toml");
        assert_eq!(looked(&env), [here, "/ana/.config/bramah/config.toml", etc]);
        let xdg = Env { config_home: some("/cfg").map(Into::into), ..env.clone() };
        assert_eq!(looked(&xdg), [here, "/cfg/bramah/config.toml", etc]);
        let relative = Env { config_home: some("cfg").map(Into::into), ..env };
        assert_eq!(looked(&relative), [here, "/ana/.config/bramah/config.toml", etc]);
        assert_eq!(looked(&Env::default()), [etc]);
    }

    #[test]
    fn the_store_is_named_by_flags_then_by_the_environment_then_by_the_file() {
        let config = config(
            "default = 'c'\n[profile.a]\nengine = 'memory:'\n[profile.b]\nengine = 'memory:'\n\
             [profile.c]\nengine = 'memory:'",
        );
        let chosen = |engine: &str, profile: &str, env_engine: &str, env_profile: &str| {
            let place = Place { engine: some(engine), profile: some(profile), ..Place::default() };
            let env = Env { engine: some(env_engine), profile: some(env_profile), ..Env::default() };
            Config::choose(Some(&config), &place, &env)
                .map(|chosen| chosen.map(|chosen| chosen.name.to_owned()))
        };
        assert_eq!(chosen("memory:", "", "memory:", "b").unwrap(), None);
        assert_eq!(chosen("", "a", "memory:", "b").unwrap(), some("a"));
        assert_eq!(chosen("", "", "memory:", "b").unwrap(), None);
        assert_eq!(chosen("", "", "", "b").unwrap(), some("b"));
        assert_eq!(chosen("", "", "", "").unwrap(), some("c"));
        for (profile, env_profile, by) in [("x", "", "--profile"), ("", "x", "BRAMAH_PROFILE")] {
            let said = format!("{:?}", chosen("", profile, "", env_profile).unwrap_err());
            for word in ["profile x", by, "a, b, c", "/etc/bramah/config.toml"] {
                assert!(said.contains(word), "{said}");
            }
        }
    }

    #[test]
    fn a_profile_without_a_file_is_refused_with_the_places() {
        let env = Env { profile: some("x"), here: Some("/job".into()), ..Env::default() };
        let said = format!("{:?}", Config::choose(None, &Place::default(), &env).err().unwrap());
        assert!(said.contains("/job/bramah.toml, /etc/bramah/config.toml"), "{said}");
        assert!(matches!(Config::choose(None, &Place::default(), &Env::default()), Ok(None)));
    }
}
