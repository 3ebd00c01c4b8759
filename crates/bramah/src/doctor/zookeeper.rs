//! `zookeeper://host,host,host/chroot`.

use bramah_core::{Reply, Session};
use bramah_zookeeper::{
    Access, ZooKeeper,
    checkup::{self, Facts, Member, Rights, Role, Service, Word},
};

use super::{Finding, Kind, Latest, Promise, Seen, Severity, Span, majority, promise, promise::Crash, short};

pub(super) const KIND: Kind = Kind {
    schemes: &["zookeeper", "zookeepers"],
    excludes: Promise::new(
        "excludes",
        "majority",
        "all clients of this ensemble with the same chroot, Java programs with Curator among them, for as long as a majority \
               of its members keeps its data",
    ),
    span: Span::Own,
    look: |url| {
        let url = url.to_owned();
        Reply::later(async move { checkup::examine(&url).await.map(|facts| seen(&facts)) })
    },
    code: |_| None,
    // ZooKeeper would remove the empty folders as well, after a while.
    forget: |url, name| {
        let (url, name) = (url.to_owned(), name.clone());
        Reply::later(async move { ZooKeeper::from_url(&url)?.forget(&name).await })
    },
};

fn seen(facts: &Facts) -> Seen {
    Seen { findings: judge(facts), crash: Some(crash(facts)) }
}

/// A session is one and a half ttl long, and ZooKeeper ends sessions by the tick: up to one later. The shortest session is two
/// ticks unless told otherwise.
fn crash(facts: &Facts) -> Crash {
    let shortest = facts.service.as_ref().ok().and_then(|service| service.shortest);
    let more = shortest.map_or(promise::NOTICE, |(shortest, _)| shortest.max(promise::NOTICE));
    let text = format!(
        "a lock is kept by a session with ZooKeeper that its process renews: after a crash it is free when that has ended, one \
         and a half ttl and up to {} later (sessions end by the tick)",
        short(more)
    );
    Crash { word: "after_ttl", text, latest: Latest { ttl_percent: 150, more } }
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let serves = facts.service.is_ok();
    let mut findings: Vec<Finding> = facts.members.iter().map(|member| judge_one(member, serves)).collect();
    findings.dedup_by(|one, other| one.text == other.text);
    match &facts.service {
        Ok(service) => {
            let observes = |member: &&Member| matches!(&member.word, Word::Told { role: Role::Observer, .. });
            let observers = facts.members.iter().filter(observes).count();
            let named = facts.members.len() - observers;
            findings.extend(majority::judge("zookeeper.members", service.voters, named));
            findings.push(sessions(service));
            findings.push(folders(facts, service));
            findings.extend(rights(facts, &service.rights));
        }
        Err(why) => {
            let text = format!("it grants nothing: {why}");
            findings.push(Finding::new(Severity::Problem, "zookeeper.service", text));
        }
    }
    findings.push(access(facts));
    findings.push(match facts.is_private {
        true => Finding::new(Severity::Ok, "zookeeper.tls", "connections are private (TLS)"),
        false => Finding::new(
            Severity::Note,
            "zookeeper.tls",
            "connections are not private: who is on the way can read and change them; zookeepers:// is",
        ),
    });
    findings
}

fn judge_one(member: &Member, serves: bool) -> Finding {
    const CODE: &str = "zookeeper.member";
    let address = &member.address;
    let (version, role) = match &member.word {
        Word::Told { version, role } => (version, role),
        Word::Idle => {
            let why = format!("{address}: it is there and does not serve, for it sees no majority");
            return majority::silent(CODE, serves, &why);
        }
        Word::Silent(why) => {
            return majority::silent(
                "zookeeper.silent",
                serves,
                &format!("{address}: it cannot be asked: {why}"),
            );
        }
        Word::Withheld => {
            let text = format!(
                "{address}: it is there, and may not say what it is; put srvr into its 4lw.commands.whitelist"
            );
            return Finding::new(Severity::Note, CODE, text);
        }
        Word::Unasked => {
            let text =
                "members were not asked one by one for their version and role, for that is not done by TLS";
            return Finding::new(Severity::Note, CODE, text);
        }
    };
    let said = match role {
        Role::Leader => "leads",
        Role::Follower => "follows",
        Role::Observer => "observes: it has no vote, and a majority is one without it",
        Role::Standalone => "stands alone",
        Role::Other(mode) => mode,
    };
    let text = format!("{address}: it is ZooKeeper {version} and {said}");
    if majority::version(version) < (3, 6, 0) {
        return Finding::new(
            Severity::Problem,
            CODE,
            format!("{text}; it is too old, 3.6 and newer will do"),
        );
    }
    let severity = if *role == Role::Observer { Severity::Note } else { Severity::Ok };
    Finding::new(severity, CODE, text)
}

/// How long sessions may be, and so a ttl: two thirds of that.
fn sessions(service: &Service) -> Finding {
    const CODE: &str = "zookeeper.sessions";
    let trip = short(service.round_trip);
    let (Some((shortest, asked)), Some(longest)) = (service.shortest, service.longest) else {
        let text = format!(
            "a write takes {trip}; how short and how long sessions may be could not be found out; try again"
        );
        return Finding::new(Severity::Note, CODE, text);
    };
    let least = if shortest > asked { "" } else { "or less " };
    let (low, high) = (short(shortest * 2 / 3), longest * 2 / 3);
    let text = format!(
        "a write takes {trip}; sessions last {shortest:?} {least}to {longest:?}, so a ttl is {low} to {} here; the lock of a process \
         that died is free after one and a half ttl and a tick",
        short(high)
    );
    let default = Session::DEFAULT_TTL;
    if high < default {
        let text = format!(
            "{text}; the ttl of {default:?} that is used if none is said is cut to that: raise maxSessionTimeout to {:?}",
            default * 3 / 2
        );
        return Finding::new(Severity::Note, CODE, text);
    }
    Finding::new(Severity::Ok, CODE, text)
}

fn folders(facts: &Facts, service: &Service) -> Finding {
    const CODE: &str = "zookeeper.folders";
    let chroot = &facts.chroot;
    if !service.has_containers {
        let text = "it has no container nodes, which the folders of locks are; 3.6 and newer have them";
        return Finding::new(Severity::Problem, CODE, text);
    }
    match (chroot.as_str(), service.has_chroot) {
        ("", _) => Finding::new(
            Severity::Ok,
            CODE,
            "locks are below /, in containers, which it removes when they are empty; with other users use a chroot",
        ),
        (chroot, true) => Finding::new(
            Severity::Ok,
            CODE,
            format!("locks are below {chroot}, in containers, which it removes when they are empty"),
        ),
        (chroot, false) => Finding::new(
            Severity::Note,
            CODE,
            format!(
                "{chroot} was not there: the first lock creates it, also the one of this examination, and it stays"
            ),
        ),
    }
}

fn rights(facts: &Facts, rights: &Rights) -> Vec<Finding> {
    const CODE: &str = "zookeeper.rights";
    let who = facts.user.as_ref().map_or("who has no user".to_owned(), |user| format!("the user {user}"));
    let chroot = &facts.chroot;
    let root = if chroot.is_empty() { "/" } else { chroot };
    let mut findings = Vec::new();
    for (has, severity, lacks) in [
        (
            rights.lock,
            Severity::Problem,
            format!(
                "may not create below {root}, so no new lock can be taken; it needs CREATE, READ, WRITE and DELETE there"
            ),
        ),
        (
            rights.records,
            Severity::Warning,
            format!(
                "may not create below {chroot}/%bramah, so that a lock was broken cannot be written down; it needs CREATE and WRITE there"
            ),
        ),
        (
            rights.list,
            Severity::Warning,
            format!("may not list {root}, so ls and watch cannot list locks; it needs READ there"),
        ),
    ] {
        if !has {
            findings.push(Finding::new(severity, CODE, format!("{who} {lacks}")));
        }
    }
    if findings.is_empty() {
        let text = format!("{who} may create and list below {root} (it was asked; nothing was written)");
        findings.push(Finding::new(Severity::Ok, CODE, text));
    }
    findings
}

fn access(facts: &Facts) -> Finding {
    const CODE: &str = "zookeeper.acl";
    match facts.access {
        Access::Creator => Finding::new(
            Severity::Ok,
            CODE,
            "acl=creator: what we create is for our user alone; all others who share these locks need the same",
        ),
        Access::Open => Finding::new(
            Severity::Note,
            CODE,
            "acl=open: whoever reaches it may take and break every lock; with a user in the url it is acl=creator",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn word(role: Role) -> Word {
        Word::Told { version: "3.9.3".into(), role }
    }

    fn facts(words: Vec<Word>) -> Facts {
        let service = Service {
            voters: Some(words.len()),
            shortest: Some((Duration::from_secs(4), Duration::from_millis(200))),
            longest: Some(Duration::from_secs(60)),
            has_chroot: true,
            has_containers: true,
            rights: Rights { lock: true, records: true, list: true },
            round_trip: Duration::from_micros(800),
        };
        let member = |(at, word)| Member { address: format!("m{at}:2181"), word };
        Facts {
            members: words.into_iter().enumerate().map(member).collect(),
            service: Ok(service),
            user: Some("ana".into()),
            access: Access::Creator,
            is_private: true,
            chroot: "/app".into(),
        }
    }

    fn three() -> Facts {
        facts(vec![word(Role::Leader), word(Role::Follower), word(Role::Follower)])
    }

    fn with_service(change: impl FnOnce(&mut Service)) -> Facts {
        with_service_of(vec![word(Role::Leader), word(Role::Follower), word(Role::Follower)], change)
    }

    fn with_service_of(words: Vec<Word>, change: impl FnOnce(&mut Service)) -> Facts {
        let mut facts = facts(words);
        facts.service.as_mut().map(change).unwrap();
        facts
    }

    fn told(facts: &Facts) -> Vec<(Severity, &'static str)> {
        let findings = judge(facts).into_iter().filter(|finding| finding.severity > Severity::Ok);
        findings.map(|finding| (finding.severity, finding.code)).collect()
    }

    #[test]
    fn an_ensemble_as_it_should_be_has_nothing_to_tell() {
        assert_eq!(told(&three()), []);
    }

    #[test]
    fn each_thing_that_is_not_as_it_should_be_is_told_by_its_code() {
        use Severity::{Note, Problem, Warning};
        let silent = || Word::Silent("connection refused".into());
        let rights = Rights { lock: true, records: true, list: true };
        let old = Word::Told { version: "3.4.14".into(), role: Role::Leader };
        for (facts, expected) in [
            (facts(vec![word(Role::Standalone)]), vec![(Note, "zookeeper.members")]),
            (
                facts(vec![word(Role::Follower), word(Role::Leader), silent()]),
                vec![(Warning, "zookeeper.silent")],
            ),
            (
                Facts { service: Err("no answer".into()), ..facts(vec![Word::Idle, silent(), silent()]) },
                vec![
                    (Problem, "zookeeper.member"),
                    (Problem, "zookeeper.silent"),
                    (Problem, "zookeeper.silent"),
                    (Problem, "zookeeper.service"),
                ],
            ),
            (
                facts(vec![word(Role::Leader), word(Role::Follower), Word::Withheld]),
                vec![(Note, "zookeeper.member")],
            ),
            (facts(vec![Word::Unasked; 3]), vec![(Note, "zookeeper.member")]),
            (
                facts(vec![word(Role::Follower), word(Role::Follower), old]),
                vec![(Problem, "zookeeper.member")],
            ),
            (
                with_service_of(vec![word(Role::Leader), word(Role::Observer)], |service| {
                    service.voters = Some(3);
                }),
                vec![(Note, "zookeeper.member"), (Note, "zookeeper.members")],
            ),
            (
                with_service_of(
                    vec![
                        word(Role::Leader),
                        word(Role::Follower),
                        word(Role::Follower),
                        word(Role::Observer),
                    ],
                    |service| service.voters = Some(3),
                ),
                vec![(Note, "zookeeper.member")],
            ),
            (Facts { access: Access::Open, ..three() }, vec![(Note, "zookeeper.acl")]),
            (Facts { is_private: false, ..three() }, vec![(Note, "zookeeper.tls")]),
            (
                with_service(|service| service.longest = Some(Duration::from_secs(40))),
                vec![(Note, "zookeeper.sessions")],
            ),
            (with_service(|service| service.shortest = None), vec![(Note, "zookeeper.sessions")]),
            (with_service(|service| service.has_chroot = false), vec![(Note, "zookeeper.folders")]),
            (with_service(|service| service.has_containers = false), vec![(Problem, "zookeeper.folders")]),
            (
                with_service(|service| service.rights = Rights { lock: false, ..rights }),
                vec![(Problem, "zookeeper.rights")],
            ),
            (
                with_service(|service| service.rights = Rights { records: false, ..rights }),
                vec![(Warning, "zookeeper.rights")],
            ),
        ] {
            assert_eq!(told(&facts), expected, "{facts:?}");
        }
    }
}
