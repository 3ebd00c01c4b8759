//! What our user may do: asked for with `ACL DRYRUN`, or else tried.

use bramah_core::{ErrorKind, Name, Result, SessionId};

use super::{Asker, command, is_refused, text};
use crate::{
    config::{Layout, Replicas},
    driver::{Driver, Lane, Request},
    error::clean,
    layout::{Place, Scheme, Setting},
};

/// What our user may do on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Who we are there, if that may be asked.
    pub user: Option<String>,
    /// How the rest is known.
    pub proof: Proof,
    /// What the user lacks.
    pub missing: Vec<Missing>,
    /// Rules that may be missing as well: they could neither be asked for nor tried.
    pub untried: Vec<String>,
}

/// How rights are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The server was asked what it would permit.
    Asked,
    /// It was tried.
    Tried,
}

/// A right that a user lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// As `ACL SETUSER` takes it: `+zadd`, `~bramah:*`, `&bramah:*`.
    pub rule: String,
    /// What it is needed for.
    pub purpose: Purpose,
}

/// What a right is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Taking, renewing and releasing locks.
    Lock,
    /// Waiting for one that is taken.
    Wait,
    /// The policy that `replicas=` asks for.
    Replicas,
    /// Listing locks.
    List,
    /// Watching locks.
    Watch,
}

/// A script that does nothing, and its SHA-1.
const NOTHING: &str = "return 1";
const NOTHING_SHA: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

/// One right and how to find out about it.
struct Trial {
    purpose: Purpose,
    /// The command as `ACL SETUSER` takes it: `client|tracking`.
    command: &'static str,
    words: Vec<String>,
    /// What the patterns of its keys and channels would be.
    pattern: String,
    /// The slot of its key; none for a command without.
    place: Option<Place>,
}

pub(super) async fn of(asker: &Asker<'_>) -> Result<Rights> {
    let trials = trials(asker)?;
    let user = asker.text(&["ACL", "WHOAMI"]).await?.map(|user| clean(&user));
    let (mut missing, mut untried) = (Vec::new(), Vec::new());
    let mut proof = if user.is_some() { Proof::Asked } else { Proof::Tried };
    for trial in &trials {
        let asked = match (proof, &user) {
            (Proof::Asked, Some(user)) => dry_run(asker, user, trial).await?,
            _ => None,
        };
        let refusal = match asked {
            Some(answer) => answer,
            None => {
                proof = Proof::Tried;
                if !can_be_tried(trial, &missing) {
                    untried.push(format!("+{}", trial.command));
                    continue;
                }
                tried(asker, trial).await?
            }
        };
        if let Some(said) = refusal {
            let (rule, purpose) = (rule(&said, trial), trial.purpose);
            let known = |known: &Missing| known.rule == rule;
            if !missing.iter().any(known) {
                missing.push(Missing { rule, purpose });
            }
        }
    }
    Ok(Rights { user, proof, missing, untried })
}

/// What the server says against it, if it would; the outer `None` if that may not be asked.
async fn dry_run(asker: &Asker<'_>, user: &str, trial: &Trial) -> Result<Option<Option<String>>> {
    let mut words = vec!["ACL", "DRYRUN", user];
    words.extend(trial.words.iter().map(String::as_str));
    let Some(answer) = asker.ask(&words).await? else { return Ok(None) };
    Ok(Some(text(&answer).filter(|said| said != "OK")))
}

/// Whether sending it tells. A connection that hears of the end of a subscription that it did not ask for is given up, and a
/// script that could not be loaded cannot be called.
fn can_be_tried(trial: &Trial, missing: &[Missing]) -> bool {
    match trial.command {
        "unsubscribe" => false,
        "evalsha" => !missing.iter().any(|missing| missing.rule == "+script|load"),
        _ => true,
    }
}

/// What the server says against it, if it does.
async fn tried(asker: &Asker<'_>, trial: &Trial) -> Result<Option<String>> {
    let words: Vec<&str> = trial.words.iter().map(String::as_str).collect();
    let (network, patience) = (asker.network, asker.config.timeout);
    let slot = trial.place.as_ref().map_or(0, |place| place.slot);
    let answer = match (trial.command, &*words) {
        ("subscribe" | "ssubscribe", [_, channel]) => network.listen(slot, (*channel).into(), patience).await,
        // Of the script that was loaded before, on the node where it was. Its keys are tried by other commands.
        ("evalsha", _) => {
            network.ask(asker.node, command(&["EVALSHA", NOTHING_SHA, "0"]), patience).await.map(drop)
        }
        // Rights are looked at first; that tracking is off is said after that.
        _ => {
            let cmd = command(&words);
            let sent = match trial.place {
                Some(_) => {
                    let lane = Lane::Calls;
                    network
                        .send(Request { slot, lane, patience, cmd, script: None, track: false, age: None })
                        .await
                }
                None => network.ask(asker.node, cmd, patience).await,
            };
            sent.map(drop)
        }
    };
    match answer {
        Err(error) if is_refused(&error) => Ok(Some(error.to_string())),
        Err(error) if error.kind().is_transient() || error.kind() == ErrorKind::Denied => Err(error),
        // It was let in, whatever came of it.
        _ => Ok(None),
    }
}

/// The rule that would permit it.
fn rule(said: &str, trial: &Trial) -> String {
    if said.contains("channel") {
        format!("&{}", trial.pattern)
    } else if said.contains("key") && !said.contains("to run the") {
        format!("~{}", trial.pattern)
    } else {
        format!("+{}", trial.command)
    }
}

/// What Redisson's locks need beside that.
fn for_redisson(
    need: &mut impl FnMut(Purpose, &'static str, Option<&Place>, &[&str]),
    scheme: &Scheme,
    lock: &Place,
) {
    let words: [(&'static str, &[&str]); 22] = [
        ("exists", &[]),
        ("hset", &["a", "1"]),
        ("hget", &["a"]),
        ("hexists", &["a"]),
        ("hlen", &[]),
        ("hkeys", &[]),
        ("hgetall", &[]),
        ("hdel", &["a"]),
        ("lindex", &["0"]),
        ("llen", &[]),
        ("lpos", &["a"]),
        ("lrange", &["0", "0"]),
        ("lrem", &["0", "a"]),
        ("rpush", &["a"]),
        ("zadd", &["1", "a"]),
        ("zincrby", &["1", "a"]),
        ("zrange", &["0", "0"]),
        ("zscore", &["a"]),
        ("zcard", &[]),
        ("zrem", &["a"]),
        ("incrby", &["0"]),
        ("decrby", &["0"]),
    ];
    for (command, rest) in words {
        need(Purpose::Lock, command, Some(lock), rest);
    }
    let [token, permits, channel] = scheme.beside_redisson(lock);
    need(Purpose::Lock, "get", Some(&token), &[]);
    need(Purpose::Lock, "zcard", Some(&permits), &[]);
    for publish in scheme.tells() {
        need(Purpose::Lock, publish, Some(&channel), &[""]);
    }
}

/// Everything that the engine asks of a server.
fn trials(asker: &Asker<'_>) -> Result<Vec<Trial>> {
    let config = asker.config;
    let is_cluster = asker.network.is_cluster();
    let scheme = Scheme::new(Setting {
        layout: config.layout,
        prefix: config.prefix.as_deref(),
        cluster: is_cluster,
        connections: config.connections,
        fair: config.fair,
        pubsub: config.pubsub,
    });
    let session = SessionId::random()?;
    let lock = scheme.place(&Name::new(format!("bramah/doctor/{session}"))?);
    let record = Place { key: scheme.record(&lock), slot: lock.slot };
    let mark = Place { key: scheme.mark(lock.slot), slot: lock.slot };
    let member = scheme.session(session);
    let beside = format!("{}*", member.key.trim_end_matches(&format!("session:{session}")));
    let locks = match config.layout {
        Layout::Native => beside.clone(),
        Layout::Plain | Layout::Redisson => format!("{}*", config.prefix.as_deref().unwrap_or_default()),
    };
    let channel = Place { key: scheme.channel(lock.slot, session), slot: lock.slot };
    let mut all = Vec::new();
    let mut need = |purpose, command: &'static str, place: Option<&Place>, rest: &[&str]| {
        let mut words: Vec<String> = command.split('|').map(str::to_uppercase).collect();
        // The key comes first but in a script.
        let key = place.map(|place| place.key.clone()).filter(|_| command != "evalsha");
        words.extend(key.into_iter().chain(rest.iter().map(|word| (*word).to_owned())));
        let pattern = match place.map(|place| place.key.as_str()) {
            Some(key) if key == lock.key => locks.clone(),
            // What Redisson has beside a lock.
            Some(key) if key.starts_with("redisson_") => "redisson_*".to_owned(),
            Some(key) if key.starts_with('{') => format!("{{{locks}"),
            _ => beside.clone(),
        };
        all.push(Trial { purpose, command, words, pattern, place: place.cloned() });
    };
    let line = Some(&lock);
    need(Purpose::Lock, "script|load", None, &[NOTHING]);
    need(Purpose::Lock, "evalsha", line, &[NOTHING_SHA, "1", &lock.key]);
    need(Purpose::Lock, "time", None, &[]);
    need(Purpose::Lock, "set", line, &["1", "PX", "1000"]);
    need(Purpose::Lock, "set", Some(&member), &["1", "PX", "1000"]);
    need(Purpose::Lock, "set", Some(&record), &["1", "PX", "1000"]);
    need(Purpose::Lock, "get", line, &[]);
    need(Purpose::Lock, "type", line, &[]);
    need(Purpose::Lock, "pttl", line, &[]);
    need(Purpose::Lock, "pexpire", line, &["1000"]);
    // Its own increment would be a fence that nobody has: harmless.
    need(Purpose::Lock, "incr", Some(&mark), &[]);
    for place in [&member, &record, &lock] {
        need(Purpose::Lock, "del", Some(place), &[]);
    }
    if config.layout == Layout::Native {
        need(Purpose::Lock, "exists", line, &[]);
        need(Purpose::Lock, "mget", line, &[]);
        need(Purpose::Lock, "zadd", line, &["1", "a"]);
        need(Purpose::Lock, "zincrby", line, &["1", "a"]);
        need(Purpose::Lock, "zrange", line, &["0", "0"]);
        need(Purpose::Lock, "zscore", line, &["a"]);
        need(Purpose::Lock, "zcount", line, &["0", "1"]);
        need(Purpose::Lock, "zrem", line, &["a"]);
        let (hear, part) =
            if is_cluster { ("ssubscribe", "sunsubscribe") } else { ("subscribe", "unsubscribe") };
        need(Purpose::Wait, hear, Some(&channel), &[]);
        if !is_cluster {
            need(Purpose::Wait, part, Some(&channel), &[]);
        }
    }
    if config.layout == Layout::Redisson {
        for_redisson(&mut need, &scheme, &lock);
    }
    let publish = if is_cluster { "spublish" } else { "publish" };
    need(Purpose::Lock, publish, Some(&channel), &[""]);
    let tells = if config.layout == Layout::Native { Purpose::Watch } else { Purpose::Wait };
    need(tells, "client|tracking", None, &["ON", "OPTIN"]);
    if config.layout != Layout::Native {
        need(tells, "client|caching", None, &["YES"]);
        need(tells, "ping", None, &[]);
    }
    need(Purpose::List, "scan", None, &["0", "COUNT", "1"]);
    if config.replicas != Replicas::None {
        need(Purpose::Replicas, "wait", None, &["0", "1"]);
        need(Purpose::Replicas, "role", None, &[]);
    }
    Ok(all)
}
