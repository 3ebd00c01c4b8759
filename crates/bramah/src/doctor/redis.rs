//! `redis://host`, `redis+sentinel://…`, `redis+cluster://…`, and the same over TLS.

mod access;
mod clock;
mod failover;
#[cfg(test)]
mod samples;

use std::time::Duration;

use bramah_core::{Name, Reply, Result};
use bramah_redis::{
    Eviction, Layout, Redis, Replicas, Restart,
    checkup::{self, Cause, Facts, Failover, Server},
    redlock::Redlock,
};

use super::{Finding, Kind, Promise, Severity, Span, short};

pub(super) const ONE: Kind = kind(
    &["redis", "rediss"],
    ("server", "all clients of this database of this server, for as long as it keeps its data"),
);

pub(super) const SENTINEL: Kind = kind(
    &["redis+sentinel", "rediss+sentinel"],
    (
        "until_failover",
        "all clients of this service; a failover can forget the last grants, and then two hold one lock until the \
         first learns of it",
    ),
);

pub(super) const CLUSTER: Kind = kind(
    &["redis+cluster", "rediss+cluster"],
    (
        "until_failover",
        "all clients of this cluster; a failover can forget the last grants of its slots, and then two hold one lock \
         until the first learns of it",
    ),
);

pub(super) const REDLOCK: Kind = kind(
    &["redlock", "redlocks"],
    (
        "quorum",
        "all clients that name the same masters, while clocks run evenly: a master that is gone, slow or started anew \
         breaks nothing as long as most of them are there",
    ),
);

const fn kind(schemes: &'static [&'static str], (word, text): (&'static str, &'static str)) -> Kind {
    Kind {
        schemes,
        excludes: Promise::new("excludes", word, text),
        span: Span::Own,
        look: |url| {
            let url = url.to_owned();
            Reply::later(async move { checkup::examine(&url).await.map(|facts| judge(&facts).into()) })
        },
        code: |error| {
            Some(match checkup::cause(error)? {
                Cause::Replica => "redis.role",
                Cause::Sentinel => "redis.sentinel",
                Cause::Password => "redis.password",
                Cause::ProtectedMode => "redis.protected_mode",
                Cause::Rights => "redis.rights",
                _ => return None,
            })
        },
        // A lock that is free has no key, and a mark is never removed; but Redisson counts for each name.
        forget: |url, name| {
            let (url, name) = (url.to_owned(), name.clone());
            Reply::later(async move { forget(&url, &name).await })
        },
    }
}

async fn forget(url: &str, name: &Name) -> Result<()> {
    match url.starts_with("redlock") {
        true => Redlock::from_url(url)?.delete_token(name).await,
        false => Redis::from_url(url)?.delete_token(name).await,
    }
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (address, why) in &facts.silent {
        let (severity, means) = match facts.failover {
            Failover::Masters { need, .. } if facts.nodes.len() >= need => {
                (Severity::Warning, "and has no vote; the others are enough")
            }
            Failover::Masters { .. } => (Severity::Problem, "and has no vote; the others are not enough"),
            _ => (Severity::Problem, "and its locks cannot be had"),
        };
        let text = format!("{address}: it cannot be asked, {means}: {why}");
        findings.push(Finding::new(severity, "redis.silent", text));
    }
    for server in &facts.nodes {
        findings.extend(judge_one(facts, server));
    }
    findings.extend(failover::judge(facts));
    findings
}

fn judge_one(facts: &Facts, server: &Server) -> Vec<Finding> {
    let parts = [
        product(server),
        role(server),
        persistence(facts, server),
        saves(server),
        memory(facts, server),
        replicas(facts, server),
        clock::judge(facts, server),
        access::judge(server),
    ];
    let mut findings: Vec<Finding> = parts.into_iter().flatten().collect();
    findings.extend(access::rights(server));
    findings.extend(hidden(server));
    for finding in &mut findings {
        finding.text = format!("{}: {}", server.address, finding.text);
    }
    findings
}

fn product(server: &Server) -> Option<Finding> {
    let product = server.product.as_deref()?;
    let trip =
        server.round_trip.map_or_else(String::new, |trip| format!("; a question takes {}", short(trip)));
    Some(Finding::new(Severity::Ok, "redis.server", format!("it is {product}{trip}")))
}

fn role(server: &Server) -> Option<Finding> {
    let text =
        "it is a replica and takes no writes: nothing can be locked; name its master, or its sentinels";
    (server.is_master == Some(false)).then(|| Finding::new(Severity::Problem, "redis.role", text))
}

/// A master of a redlock that may forget is not asked until that does no harm.
fn waits(longest: Option<Duration>, server: &Server) -> Finding {
    let longest = longest.unwrap_or(Restart::DEFAULT_MAX_TTL);
    let text = format!(
        "a restart may forget locks, so it does not vote for {longest:?} after one; max_ttl must be the longest ttl of the fleet"
    );
    let young = server.uptime.is_some_and(|uptime| uptime <= longest);
    match server.uptime {
        Some(uptime) if young => Finding::new(
            Severity::Warning,
            "redis.persistence",
            format!("it was started {uptime:?} ago and does not vote yet: {text}"),
        ),
        _ => Finding::new(Severity::Ok, "redis.persistence", text),
    }
}

/// What a restart would forget.
fn persistence(facts: &Facts, server: &Server) -> Option<Finding> {
    const CODE: &str = "redis.persistence";
    let fences = match facts.layout {
        Layout::Redisson => "fences begin again at 1",
        _ => "fences still rise",
    };
    if let Failover::Masters { restart: Restart::Waits(longest), .. } = facts.failover
        && server.log_sync.as_deref() != Some("always")
        && server.log.is_some()
    {
        return Some(waits(longest, server));
    }
    let two =
        format!("its holder and the next one may both believe to hold it until the first learns; {fences}");
    let (severity, text) = match (server.log, server.log_sync.as_deref(), server.snapshots) {
        (Some(true), Some("always"), _) => (
            Severity::Ok,
            "every change is on disk before it is answered (appendfsync always): a restart forgets no lock"
                .to_owned(),
        ),
        (Some(true), Some("everysec"), _) => (
            Severity::Note,
            format!(
                "changes are on disk within a second (appendfsync everysec): a restart forgets no lock, a machine \
                 that loses power forgets up to a second of them, and then {two}; appendfsync always forgets none"
            ),
        ),
        (Some(true), Some("no"), _) => (
            Severity::Warning,
            format!(
                "changes are on disk when the system sees fit (appendfsync no): a machine that loses power forgets \
                 the last locks, often half a minute of them, and then {two}; set appendfsync always or everysec"
            ),
        ),
        (Some(true), _, _) => (
            Severity::Note,
            "changes are logged to disk (appendonly yes); how soon is not for this user to ask (CONFIG GET \
             appendfsync)"
                .to_owned(),
        ),
        (Some(false), _, Some(true)) => (
            Severity::Warning,
            format!(
                "only snapshots are on disk: a restart forgets every lock since the last one, and then {two}; set \
                 appendonly yes"
            ),
        ),
        (Some(false), _, Some(false)) => (
            Severity::Warning,
            format!("nothing is on disk: a restart forgets every lock, and then {two}; set appendonly yes"),
        ),
        (Some(false), _, None) => (
            Severity::Warning,
            format!("no log is on disk: a restart forgets locks, and then {two}; set appendonly yes"),
        ),
        (None, ..) => return None,
    };
    Some(Finding::new(severity, CODE, text))
}

fn saves(server: &Server) -> Option<Finding> {
    let text = "its last write to disk failed: it may refuse locks (MISCONF), and a restart forgets them; look at its \
                disk and log";
    (server.saves_well == Some(false)).then(|| Finding::new(Severity::Problem, "redis.saves", text))
}

/// What happens to locks when memory is full.
fn memory(facts: &Facts, server: &Server) -> Option<Finding> {
    const CODE: &str = "redis.eviction";
    let policy = server.when_full.as_deref()?;
    if policy != "noeviction" {
        let means = format!(
            "it throws keys away when its memory is full (maxmemory-policy {policy}), and a lock whose key is gone is \
             free while somebody believes to hold it"
        );
        return Some(match (facts.layout, facts.eviction) {
            (Layout::Native, Eviction::Refused) => Finding::new(
                Severity::Problem,
                CODE,
                format!(
                    "{means}: it is refused; set noeviction, use another server, or accept it with eviction=allow"
                ),
            ),
            _ => Finding::new(
                Severity::Warning,
                CODE,
                format!("{means}; set noeviction or use another server"),
            ),
        });
    }
    let full = match (server.most_memory, server.used_memory) {
        (Some(most @ 1..), Some(used)) => used.saturating_mul(100) / most,
        _ => 0,
    };
    if full >= 90 {
        let text = format!(
            "{full} % of its memory is used: when it is full new locks fail, and those that are held can still be \
             released; raise maxmemory"
        );
        return Some(Finding::new(Severity::Warning, "redis.memory", text));
    }
    let text = "it throws no lock away when its memory is full (noeviction)";
    Some(Finding::new(Severity::Ok, CODE, text))
}

/// Who else has a grant.
fn replicas(facts: &Facts, server: &Server) -> Option<Finding> {
    const CODE: &str = "redis.replicas";
    let followers = server.followers?;
    let follow = match followers {
        1 => "1 replica follows".to_owned(),
        count => format!("{count} replicas follow"),
    };
    if let Some(least) = server.least_followers.filter(|least| *least > followers) {
        let text = format!(
            "{follow}, and it refuses writes with fewer than {least} (min-replicas-to-write): nothing can be locked; \
             look at the replicas"
        );
        return Some(Finding::new(Severity::Problem, CODE, text));
    }
    let needed = match facts.replicas {
        Replicas::None if followers == 0 => return None,
        Replicas::None => {
            let severity =
                if facts.failover == Failover::Nobody { Severity::Note } else { Severity::Warning };
            let text = format!(
                "{follow}, and a grant counts before they have it: a failover may forget it, and then its holder and \
                 the next one may both believe to hold the lock until the first learns; replicas=majority makes that \
                 rarer, and the fence is what protects you"
            );
            return Some(Finding::new(severity, CODE, text));
        }
        Replicas::Count(count) => u64::from(count),
        _ => 1,
    };
    let policy = facts.replicas;
    if followers < needed {
        let text = format!(
            "{follow}, and replicas={policy} asks for {needed} at least: no lock is granted; look at the replicas, or \
             ask for fewer"
        );
        return Some(Finding::new(Severity::Problem, CODE, text));
    }
    let text = format!(
        "{follow}, and a grant counts when replicas={policy} is met; a failover to a replica that lacks it may still \
         forget it"
    );
    Some(Finding::new(Severity::Ok, CODE, text))
}

/// What the user may not ask for is no fault.
fn hidden(server: &Server) -> Option<Finding> {
    let unknown = [
        (server.product.is_none(), "its version, memory, replicas and persistence (INFO)"),
        (server.snapshots.is_none(), "when it writes to disk and where it listens (CONFIG GET)"),
        (server.clock.is_none(), "its clock (TIME)"),
    ];
    let unknown: Vec<&str> = unknown.into_iter().filter_map(|(is, what)| is.then_some(what)).collect();
    if unknown.is_empty() {
        return None;
    }
    let text = format!("not for this user to ask: {}; locks do not need it", unknown.join(", "));
    Some(Finding::new(Severity::Note, "redis.hidden", text))
}

#[cfg(test)]
mod tests {
    use bramah_redis::checkup::{Access, Missing, Offset, Proof, Purpose, Rights};

    use super::{
        samples::{facts, server, told},
        *,
    };

    #[test]
    fn a_server_as_it_should_be_has_nothing_to_tell() {
        assert_eq!(told(&facts(server())), []);
    }

    #[test]
    fn each_thing_that_is_not_as_it_should_be_is_told_by_its_code() {
        use Severity::{Note, Problem, Warning};
        let sync = |word: &str| Server { log_sync: Some(word.into()), ..server() };
        let none = Server { log: Some(false), snapshots: Some(false), ..server() };
        let evicts = || Server { when_full: Some("allkeys-lru".into()), ..server() };
        let clock = |server_us, ahead_us| Some(Offset { server_us, ahead_us, within_us: 100 });
        let now_us = 1_800_000_000_000_000;
        let open = |bind: Option<&str>, protected| {
            let access = Access { open: Some(true), bind: bind.map(str::to_owned), protected };
            Server { access, ..server() }
        };
        for server in [
            open(Some("127.0.0.1 -::1"), Some(false)),
            open(Some("* -::*"), Some(true)),
            open(None, None),
            Server { address: "127.0.0.1:6379".into(), ..open(None, None) },
        ] {
            assert_eq!(told(&facts(server.clone())), [], "{server:?}");
        }
        for (server, severity, code) in [
            (sync("everysec"), Note, "redis.persistence"),
            (sync("no"), Warning, "redis.persistence"),
            (Server { log_sync: None, ..server() }, Note, "redis.persistence"),
            (Server { snapshots: Some(true), ..none.clone() }, Warning, "redis.persistence"),
            (none, Warning, "redis.persistence"),
            (Server { is_master: Some(false), ..server() }, Problem, "redis.role"),
            (Server { saves_well: Some(false), ..server() }, Problem, "redis.saves"),
            (evicts(), Problem, "redis.eviction"),
            (Server { most_memory: Some(100), used_memory: Some(90), ..server() }, Warning, "redis.memory"),
            (Server { followers: Some(1), ..server() }, Note, "redis.replicas"),
            (Server { least_followers: Some(1), ..server() }, Problem, "redis.replicas"),
            (Server { clock: clock(now_us, -5_000_000), ..server() }, Note, "redis.clock"),
            (Server { clock: clock(now_us, -30_100_000), ..server() }, Problem, "redis.clock"),
            (Server { clock: clock(now_us, 3_600_000_000), ..server() }, Problem, "redis.clock"),
            (Server { clock: clock(7, 0), ..server() }, Warning, "redis.clock"),
            (open(Some("0.0.0.0"), Some(false)), Warning, "redis.password"),
            (open(Some(""), Some(false)), Warning, "redis.password"),
            (Server { address: "10.0.0.1:6379".into(), ..open(None, None) }, Warning, "redis.password"),
            (Server { snapshots: None, ..server() }, Note, "redis.hidden"),
        ] {
            assert_eq!(told(&facts(server.clone())), [(severity, code)], "{server:?}");
        }
        let allowed = Facts { eviction: Eviction::Allowed, ..facts(evicts()) };
        assert_eq!(told(&allowed), [(Warning, "redis.eviction")]);
        let plain = Facts { layout: Layout::Plain, ..facts(evicts()) };
        assert_eq!(told(&plain), [(Warning, "redis.eviction")]);
        let silent = Facts { silent: vec![("h:2".into(), "gone".into())], ..facts(server()) };
        assert_eq!(told(&silent), [(Problem, "redis.silent")]);
    }

    #[test]
    fn a_policy_that_cannot_be_met_is_a_problem_and_one_that_is_met_is_none() {
        let with = |replicas, count| {
            let server = Server { followers: Some(count), ..server() };
            told(&Facts { replicas, ..facts(server) })
        };
        let problem = [(Severity::Problem, "redis.replicas")];
        assert_eq!(with(Replicas::Majority, 0), problem);
        assert_eq!(with(Replicas::Count(2), 1), problem);
        assert_eq!(with(Replicas::Count(2), 2), []);
        assert_eq!(with(Replicas::Any, 1), []);
    }

    #[test]
    fn a_lack_of_rights_is_as_bad_as_what_it_keeps_from() {
        let lacks = |purpose| {
            let missing = vec![Missing { rule: "+x|y".into(), purpose }];
            let rights =
                Rights { user: Some("ana".into()), proof: Proof::Asked, missing, untried: Vec::new() };
            let findings = judge(&facts(Server { rights, ..server() }));
            let found = findings.into_iter().find(|finding| finding.code == "redis.rights");
            found.map(|found| (found.severity, found.text)).unwrap_or((Severity::Ok, String::new()))
        };
        for purpose in [Purpose::Lock, Purpose::Wait, Purpose::Replicas] {
            let (severity, text) = lacks(purpose);
            assert_eq!(severity, Severity::Problem);
            assert!(text.contains("the user ana lacks +x|y: "), "{text}");
        }
        assert_eq!(lacks(Purpose::List).0, Severity::Warning);
        assert_eq!(lacks(Purpose::Watch).0, Severity::Warning);
    }
}
