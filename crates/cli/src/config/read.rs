//! From TOML to what it says. Pure text.
//!
//! Read by hand, value by value: what a derived reader says of a value of the wrong kind repeats the value, and that may
//! be a password in the wrong place.

use std::{collections::BTreeMap, fmt::Display, ops::Range, path::Path, time::Duration};

use bramah::{Name, Session};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use super::{
    Config, Profile, no_profile,
    rule::{Pattern, Rules, Setting},
    secret,
};
use crate::{args::OnLost, exit::Failure, span, store};

type Value<'a> = Spanned<DeValue<'a>>;

/// Reads a whole file; `path` is absolute, and what is relative in the file is so to its directory.
pub(super) fn read(text: &str, path: &str) -> Result<Config, Failure> {
    let source = Source { text, path };
    // Of the error only what is wrong and where: its Display has the line itself as well.
    let table = DeTable::parse(text).map_err(|error| source.refuse(error.span(), error.message()))?;
    source.config(table.get_ref())
}

/// The file, to say where in it something is wrong.
struct Source<'a> {
    text: &'a str,
    path: &'a str,
}

impl Source<'_> {
    fn config(&self, table: &DeTable<'_>) -> Result<Config, Failure> {
        let mut config = Config {
            path: self.path.to_owned(),
            default: None,
            namespace: None,
            profiles: BTreeMap::new(),
            rules: Rules::default(),
        };
        let mut default_span = None;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "default" => {
                    default_span = Some(value.span());
                    config.default = Some(self.text("default", value)?.to_owned());
                }
                "namespace" => config.namespace = Some(self.name("namespace", value)?),
                "profile" => {
                    for (name, value) in self.table("profile", value)? {
                        let profile = self.profile(&path_of("profile", name), value)?;
                        config.profiles.insert(name.get_ref().to_string(), profile);
                    }
                }
                "lock" => {
                    for (pattern, value) in self.table("lock", value)? {
                        config.rules.0.push(self.rule(pattern, value)?);
                    }
                }
                _ => {
                    return Err(self.unknown(
                        key,
                        "",
                        "default, namespace, [profile.NAME] and [lock.PATTERN]",
                    ));
                }
            }
        }
        match &config.default {
            Some(name) if !config.profiles.contains_key(name) => {
                let why = format!("default: {}", no_profile(name, &config.profiles));
                Err(self.refuse(default_span, why))
            }
            _ => Ok(config),
        }
    }

    fn profile(&self, at: &str, value: &Value<'_>) -> Result<Profile, Failure> {
        const KNOWN: &str = "engine, password_file, ttl, wait and namespace";
        let (mut engine, mut password_file, mut namespace) = (None, None, None);
        let mut settings = Vec::new();
        for (key, value) in self.table(at, value)? {
            let here = path_of(at, key);
            match key.get_ref().as_ref() {
                "engine" => engine = Some(self.engine(&here, value)?),
                "password_file" => password_file = Some((self.text(&here, value)?, value)),
                "ttl" => settings.push(Setting::Ttl(self.ttl(&here, value)?)),
                "wait" => settings.push(Setting::Wait(self.time(&here, value)?)),
                "namespace" => namespace = Some(self.name(&here, value)?),
                _ => return Err(self.unknown(key, at, KNOWN)),
            }
        }
        let Some(engine) = engine else {
            return Err(
                self.refuse(Some(value.span()), format!("{at} has no engine; give the URL of a store"))
            );
        };
        let password_file = match password_file {
            Some((_, value)) if let Some(why) = secret::objection(&engine) => {
                return Err(self.refuse(Some(value.span()), format!("{at}.password_file: {why}")));
            }
            Some(("", value)) => {
                return Err(self.refuse(Some(value.span()), format!("{at}.password_file: it is empty")));
            }
            Some((file, _)) => Some(self.directory().join(file)),
            None => None,
        };
        Ok(Profile { engine, password_file, namespace, settings })
    }

    fn rule(
        &self,
        key: &Spanned<DeString<'_>>,
        value: &Value<'_>,
    ) -> Result<(Pattern, Vec<Setting>), Failure> {
        const KNOWN: &str = "ttl, wait, grace, max_run, min_hold, on_lost, slots and require_reason";
        let at = path_of("lock", key);
        let pattern = Pattern::new(key.get_ref()).ok_or_else(|| {
            let why = format!("{at} fits no lock; write a name, a name and /*, or * alone");
            self.refuse(Some(key.span()), why)
        })?;
        let mut settings = Vec::new();
        for (key, value) in self.table(&at, value)? {
            let here = path_of(&at, key);
            settings.push(match key.get_ref().as_ref() {
                "ttl" => Setting::Ttl(self.ttl(&here, value)?),
                "wait" => Setting::Wait(self.time(&here, value)?),
                "grace" => Setting::Grace(self.time(&here, value)?),
                "max_run" => Setting::MaxRun(self.time(&here, value)?),
                "min_hold" => Setting::MinHold(self.time(&here, value)?),
                "on_lost" => Setting::OnLost(self.on_lost(&here, value)?),
                "slots" => Setting::Slots(self.slots(&here, value)?),
                "require_reason" => Setting::RequireReason(self.truth(&here, value)?),
                _ => return Err(self.unknown(key, &at, KNOWN)),
            });
        }
        Ok((pattern, settings))
    }

    fn engine(&self, at: &str, value: &Value<'_>) -> Result<String, Failure> {
        let url = self.text(at, value)?.to_owned();
        store::anchored(url, Some(self.directory()))
            .map_err(|why| self.refuse(Some(value.span()), format!("{at}: {why}")))
    }

    fn name(&self, at: &str, value: &Value<'_>) -> Result<Name, Failure> {
        // Not the library's words: they repeat the text.
        const WHY: &str = "it is no name; use 1 to 200 bytes such as shop or shop/eu";
        Name::new(self.text(at, value)?).map_err(|_| self.refuse(Some(value.span()), format!("{at}: {WHY}")))
    }

    fn ttl(&self, at: &str, value: &Value<'_>) -> Result<Duration, Failure> {
        let ttl = self.time(at, value)?;
        let (least, most) = (Session::MIN_TTL, Session::MAX_TTL);
        if (least..=most).contains(&ttl) {
            return Ok(ttl);
        }
        let range = format!("{} to {}", span::write(least), span::write(most));
        Err(self.refuse(Some(value.span()), format!("{at}: it is out of range; use {range}")))
    }

    fn time(&self, at: &str, value: &Value<'_>) -> Result<Duration, Failure> {
        let read = match value.get_ref() {
            DeValue::String(text) => span::read(text),
            DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
                Ok(seconds) => Ok(Duration::from_secs(seconds)),
                Err(_) => Err("it is less than nothing, or longer than time itself".into()),
            },
            DeValue::Float(number) => {
                let seconds = number.as_str().parse().ok();
                let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                span.ok_or_else(|| "it is less than nothing, or longer than time itself".into())
            }
            _ => Err("write \"30s\", \"5m\", \"1h30m\", \"500ms\" or a number of seconds".into()),
        };
        read.map_err(|why| self.refuse(Some(value.span()), format!("{at}: {why}")))
    }

    fn on_lost(&self, at: &str, value: &Value<'_>) -> Result<OnLost, Failure> {
        let read = self.text(at, value)?.parse();
        read.map_err(|why: String| self.refuse(Some(value.span()), format!("{at}: {why}")))
    }

    fn slots(&self, at: &str, value: &Value<'_>) -> Result<u32, Failure> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        number
            .filter(|number| (1..=1_000_000).contains(number))
            .ok_or_else(|| self.refuse(Some(value.span()), format!("{at}: write a number from 1 to 1000000")))
    }

    fn truth(&self, at: &str, value: &Value<'_>) -> Result<bool, Failure> {
        match value.get_ref() {
            DeValue::Boolean(truth) => Ok(*truth),
            _ => Err(self.refuse(Some(value.span()), format!("{at}: write true or false"))),
        }
    }

    fn text<'a>(&self, at: &str, value: &'a Value<'_>) -> Result<&'a str, Failure> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.refuse(Some(value.span()), format!("{at}: write a text in quotes"))),
        }
    }

    fn table<'a, 'b>(&self, at: &str, value: &'a Value<'b>) -> Result<&'a DeTable<'b>, Failure> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.refuse(Some(value.span()), format!("{at} has to be a table"))),
        }
    }

    fn unknown(&self, key: &Spanned<DeString<'_>>, at: &str, known: &str) -> Failure {
        self.refuse(Some(key.span()), format!("there is no key {}; there are {known}", path_of(at, key)))
    }

    fn directory(&self) -> &Path {
        Path::new(self.path).parent().unwrap_or(Path::new("/"))
    }

    fn refuse(&self, span: Option<Range<usize>>, why: impl Display) -> Failure {
        let path = self.path;
        let Some(span) = span else { return Failure::usage(format!("the config file {path}: {why}")) };
        let before = self.text.as_bytes().iter().take(span.start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Failure::usage(format!("the config file {path}, line {line}: {why}"))
    }
}

/// `profile.prod.ttl`, as it would be written. A key may be a URL in the wrong place.
fn path_of(table: &str, key: &Spanned<DeString<'_>>) -> String {
    let key = bramah::redacted(key.get_ref());
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let key = if bare { key } else { format!("\"{key}\"") };
    if table.is_empty() { key } else { format!("{table}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/cfg/bramah.toml";

    fn refused(text: &str) -> String {
        format!("{:?}", read(text, PATH).err().unwrap_or_else(|| panic!("{text}")))
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = r#"
default = "prod"
namespace = "shop"
[profile.prod]
engine = "redis://redis-1:6379/0"
password_file = "secrets/redis"
ttl = "30s"
wait = 600
namespace = "shop/eu"
[profile.dev]
engine = "file:locks"
"#;
        let config = read(text, PATH).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!(
            (config.default.as_deref(), config.namespace.as_ref().map(Name::as_str)),
            (Some("prod"), Some("shop"))
        );
        let prod = &config.profiles["prod"];
        assert_eq!(prod.engine, "redis://redis-1:6379/0");
        assert_eq!(prod.password_file.as_deref(), Some(Path::new("/cfg/secrets/redis")));
        assert_eq!(prod.namespace.as_ref().map(Name::as_str), Some("shop/eu"));
        let (ttl, wait) = (Duration::from_secs(30), Duration::from_secs(600));
        assert_eq!(prod.settings, [Setting::Ttl(ttl), Setting::Wait(wait)]);
        assert_eq!(config.profiles["dev"].engine, "file:///cfg/locks");
    }

    #[test]
    fn every_key_of_a_lock_is_read() {
        let text = r#"[lock."deploy/*"]
ttl = "1m"
wait = 1.5
grace = "10s"
max_run = "1h"
min_hold = 0x32
on_lost = "signal:HUP"
slots = 3
require_reason = true
"#;
        let config = read(text, PATH).unwrap_or_else(|failure| panic!("{failure:?}"));
        let defaults = config.rules.over(Default::default(), &Name::new("deploy/prod").unwrap(), None);
        let seconds = |seconds| Some(Duration::from_secs_f64(seconds));
        assert_eq!((defaults.ttl, defaults.wait), (seconds(60.0), seconds(1.5)));
        assert_eq!((defaults.grace, defaults.max_run), (seconds(10.0), seconds(3600.0)));
        assert_eq!((defaults.min_hold, defaults.slots), (seconds(50.0), Some(3)));
        assert_eq!(defaults.on_lost, "signal:HUP".parse().ok());
        assert!(defaults.require_reason);
    }

    #[test]
    fn an_empty_file_says_nothing() {
        assert!(read("", PATH).is_ok_and(|config| config.profiles.is_empty() && config.default.is_none()));
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_place_and_what_to_write() {
        let redis = "engine = 'redis://h'\n";
        for (text, line, words) in [
            ("\nfrob = 1", 2, &["frob", "default, namespace"][..]),
            ("[profile.a]\nengine='memory:'\npasword='x'", 3, &["profile.a.pasword", "password_file"]),
            ("[lock.a]\nengine='memory:'", 2, &["lock.a.engine", "max_run"]),
            ("[lock.'a/*']\nbreak=['sre']", 2, &["lock.\\\"a/*\\\".break"]),
            ("[profile.a]\nttl='1s'", 1, &["profile.a", "no engine"]),
            ("[lock.a]\nttl='soon'", 2, &["lock.a.ttl", "30s"]),
            ("[lock.a]\nttl='1ms'", 2, &["lock.a.ttl", "100ms"]),
            ("[lock.a]\nwait=-1", 2, &["lock.a.wait", "less than nothing"]),
            ("[lock.a]\nwait=nan", 2, &["lock.a.wait", "less than nothing"]),
            ("[lock.a]\nwait=true", 2, &["lock.a.wait", "seconds"]),
            ("[lock.a]\nslots=0", 2, &["lock.a.slots", "1000000"]),
            ("[lock.a]\non_lost='shrug'", 2, &["lock.a.on_lost", "keep"]),
            ("[lock.a]\nrequire_reason='yes'", 2, &["lock.a.require_reason", "true or false"]),
            ("[lock.'a*']\nslots=1", 1, &["a*", "/*"]),
            ("lock = 3", 1, &["lock", "table"]),
            ("profile.a = 3", 1, &["profile.a", "table"]),
            ("namespace = 'a//b'", 1, &["namespace", "200 bytes"]),
            ("namespace = 7", 1, &["namespace", "quotes"]),
            ("\n\ndefault = 'b'\n[profile.a]\nengine='memory:'", 3, &["no profile b", "there is a"]),
            ("default = 'b'", 1, &["no profile b", "there is none"]),
            ("default = 'a'\ndefault = 'b'", 2, &["duplicate"]),
            ("a = \n", 1, &["value"]),
            (&format!("[profile.a]\n{redis}password_file=''"), 3, &["password_file", "empty"]),
        ] {
            let said = refused(text);
            let place = format!("{PATH}, line {line}: ");
            assert!(said.contains(&place) && words.iter().all(|word| said.contains(word)), "{text}: {said}");
        }
    }

    #[test]
    fn a_password_file_is_for_stores_with_passwords_that_have_none() {
        for (engine, word) in [
            ("memory:", "no password"),
            ("file:///a", "no password"),
            ("redis://u:hush@h", "already"),
            ("redis://h?password=hush", "already"),
            ("redis:h", "redis://host"),
        ] {
            let said = refused(&format!("[profile.a]\nengine='{engine}'\npassword_file='x'"));
            assert!(said.contains("line 3: profile.a.password_file") && said.contains(word), "{said}");
            assert!(!said.contains("hush"), "{said}");
        }
    }

    #[test]
    fn a_secret_in_the_wrong_place_is_not_repeated() {
        let url = "redis://u:hush@h";
        for text in [
            format!("engine = '{url}'"),
            format!("engine = {url}"),
            format!("'{url}' = 1"),
            format!("{url} = 1"),
            url.to_owned(),
            format!("'{url}'"),
            format!("default = '{url}'"),
            format!("namespace = '{url}'"),
            format!("profile = '{url}'"),
            format!("profile.a = '{url}'"),
            format!("profile.a = ['{url}']"),
            format!("profile.a.engine = ['{url}']"),
            format!("profile.a.engine = \"{url}\\q\""),
            format!("profile.a.engine = '{url}\n"),
            format!("profile.a.engine = '{url}' '{url}'"),
            format!("profile.a.engine = '{url}'\nprofile.a.engine = '{url}'"),
            format!("profile.a.engine = '{url}\u{1}'"),
            format!("profile.a = {{ engine = '{url}'"),
            format!("[profile.'{url}']"),
            format!("[profile.{url}]"),
            format!("[profile.a\nengine = '{url}'"),
            format!("[lock.'{url}']"),
            format!("[lock.'{url}*']"),
            format!("[lock.a]\nttl = '{url}'"),
            format!("[lock.a]\nslots = '{url}'"),
            format!("[lock.a]\non_lost = '{url}'"),
            format!("[lock.a]\nrequire_reason = '{url}'"),
            format!("[lock.a]\n'{url}' = 1"),
            "password = 'hush'".to_owned(),
            "profile.a.password = 'hush'".to_owned(),
            "profile.a.password = hush".to_owned(),
            "profile.a = { engine = 'memory:', password = 'hush".to_owned(),
        ] {
            let said = refused(&text);
            assert!(
                !said.contains("hush") && said.contains("line 1") | said.contains("line 2"),
                "{text}: {said}"
            );
        }
    }
}
