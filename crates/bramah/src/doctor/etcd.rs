//! `etcd://host,host,host`.

use std::{collections::BTreeSet, time::Duration};

use bramah_core::Reply;
use bramah_etcd::checkup::{self, Facts, Member, Rights, Role, Service, Status};

use super::{Finding, Kind, Latest, Promise, Seen, Severity, Span, majority, promise, promise::Crash, short};

pub(super) const KIND: Kind = Kind {
    schemes: &["etcd", "etcds"],
    excludes: Promise::new(
        "excludes",
        "majority",
        "all clients of this cluster with the same prefix, etcdctl and Go programs among them, for as long as a majority of \
               its members keeps its data",
    ),
    span: Span::Own,
    look: |url| {
        let url = url.to_owned();
        Reply::later(async move { checkup::examine(&url).await.map(|facts| seen(&facts)) })
    },
    code: |_| None,
    // A lock that is free has no key.
    forget: |_, _| Reply::now(Ok(())),
};

fn seen(facts: &Facts) -> Seen {
    Seen { findings: judge(facts), crash: Some(crash(facts)) }
}

/// A lease is of whole seconds, never shorter than the cluster's shortest one, and etcd looks twice a second for those
/// that have run out.
fn crash(facts: &Facts) -> Crash {
    let least = facts.service.as_ref().map_or(Duration::ZERO, |service| service.least_lease);
    let more = facts.margin.max(least).saturating_add(promise::NOTICE);
    let text = format!(
        "a lock is kept by a lease that its process renews: after a crash it is free when that has run out, up to {} after \
         the ttl (margin=, whole seconds, and how often etcd looks); a change of leaders renews all leases",
        short(more)
    );
    Crash { word: "after_ttl", text, latest: Latest { ttl_percent: 100, more } }
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let serves = facts.service.is_ok();
    let mut findings: Vec<Finding> =
        facts.members.iter().flat_map(|member| judge_one(member, serves)).collect();
    let learns = |member: &&Member| member.word.as_ref().is_ok_and(|status| status.role == Role::Learner);
    let learners = facts.members.iter().filter(learns).count();
    findings.extend(majority::judge("etcd.members", facts.voters, facts.members.len() - learners));
    let told: Vec<&Status> = facts.members.iter().filter_map(|member| member.word.as_ref().ok()).collect();
    if told.windows(2).any(|two| two.iter().any(|one| one.cluster != told[0].cluster)) {
        let text = "the members of the url are of different clusters, which know nothing of each other's locks; name those of one";
        findings.push(Finding::new(Severity::Problem, "etcd.cluster", text));
    }
    let versions: BTreeSet<&str> = told.iter().map(|status| status.version.as_str()).collect();
    findings.extend(versions.into_iter().map(version));
    match &facts.service {
        Ok(service) => {
            findings.push(lease(facts, service));
            findings.extend(rights(facts, &service.rights));
        }
        Err(why) => {
            let text = format!("it grants nothing: {why}");
            findings.push(Finding::new(Severity::Problem, "etcd.service", text));
        }
    }
    findings.push(user(facts));
    findings.push(match facts.is_private {
        true => Finding::new(Severity::Ok, "etcd.tls", "connections are private (TLS)"),
        false => Finding::new(
            Severity::Note,
            "etcd.tls",
            "connections are not private: who is on the way can read and change them; etcds:// is",
        ),
    });
    findings
}

fn judge_one(member: &Member, serves: bool) -> Vec<Finding> {
    let address = &member.address;
    let status = match &member.word {
        Ok(status) => status,
        Err(why) => return vec![majority::silent("etcd.silent", serves, why)],
    };
    let (severity, role) = match status.role {
        Role::Leader => (Severity::Ok, "leads"),
        Role::Follower => (Severity::Ok, "follows"),
        Role::Learner => (Severity::Note, "learns: it has no vote yet, and a majority is one without it"),
        Role::Leaderless if serves => (Severity::Warning, "knows no leader; can it see the others?"),
        Role::Leaderless => (Severity::Problem, "knows no leader; a majority has to run and see each other"),
    };
    let trip = short(status.round_trip);
    let text = format!("{address}: it is etcd {} and {role}; a question takes {trip}", status.version);
    let mut findings = vec![Finding::new(severity, "etcd.member", text)];
    findings.extend(status.alarms.iter().map(|alarm| {
        let means = match alarm.as_str() {
            "NOSPACE" => {
                "its database is full, and nothing new can be locked; compact, defragment, and disarm it"
            }
            "CORRUPT" => "its data is not what the others have, and it refuses to serve; replace it",
            _ => "see what etcd's documentation says of it",
        };
        Finding::new(Severity::Problem, "etcd.alarm", format!("{address}: its alarm {alarm} is on: {means}"))
    }));
    findings
}

/// What is known of the leases of this version.
fn version(text: &str) -> Finding {
    const CODE: &str = "etcd.version";
    let (major, minor, patch) = majority::version(text);
    if (major, minor) < (3, 4) {
        return Finding::new(
            Severity::Problem,
            CODE,
            format!("etcd {text} is too old; 3.4 and newer will do"),
        );
    }
    // The first patch that has it right, by line.
    let until = |fixed: &[(u32, u32)]| fixed.iter().find(|line| line.0 == minor && patch < line.1).copied();
    let until = |fixed: &[(u32, u32)]| until(fixed).filter(|_| major == 3);
    let mut faults = Vec::new();
    let mut severity = Severity::Ok;
    if let Some((minor, fixed)) = until(&[(4, 31), (5, 13)]) {
        severity = Severity::Warning;
        faults.push(format!(
            "a leader that was replaced may revoke leases that live, and then a lock goes to the next while its holder is told \
             (right since 3.{minor}.{fixed})"
        ));
    }
    if let Some((minor, fixed)) = until(&[(4, 38), (5, 23), (6, 5)]) {
        severity = severity.max(Severity::Note);
        faults.push(format!(
            "it may answer a keep-alive for a lease that it has revoked, which harms nobody here: a renewal looks at the keys as \
             well (right since 3.{minor}.{fixed})"
        ));
    }
    if (major, minor) == (3, 4) {
        severity = severity.max(Severity::Note);
        faults.push(
            "its own lock service, etcdctl and Go programs of 3.4 take a lock although their lease has run out while they \
             waited; that service is not used here"
                .to_owned(),
        );
    }
    let text = match faults.is_empty() {
        true => format!("etcd {text}: no fault of its leases is known here"),
        false => format!("etcd {text}: {}", faults.join("; ")),
    };
    Finding::new(severity, CODE, text)
}

/// How long leases are, and whether the margin is long enough for this cluster.
fn lease(facts: &Facts, service: &Service) -> Finding {
    const CODE: &str = "etcd.lease";
    let (least, margin) = (service.least_lease, facts.margin);
    // The least lease is one and a half election timeouts, in whole seconds: so that is more than this.
    let elections = Duration::from_millis(
        u64::try_from(least.as_millis()).unwrap_or(u64::MAX).saturating_sub(1000).saturating_mul(4) / 3,
    );
    let alone = facts.voters == Some(1);
    if !alone && (margin.is_zero() || margin < elections) {
        let enough = least.as_secs().saturating_mul(4).div_ceil(3);
        let text = format!(
            "margin= is {margin:?}, and a leader that was cut off renews leases for longer than that: two may hold one lock \
             for a moment; two election timeouts are enough, here margin={enough}s"
        );
        return Finding::new(Severity::Warning, CODE, text);
    }
    let text = format!(
        "leases are of whole seconds, {least:?} at least; the lock of a process that died is free after its ttl, the margin \
         of {margin:?} and up to two seconds"
    );
    Finding::new(Severity::Ok, CODE, text)
}

fn rights(facts: &Facts, rights: &Rights) -> Vec<Finding> {
    const CODE: &str = "etcd.rights";
    let who = facts.user.as_ref().map_or("whoever asks".to_owned(), |user| format!("the user {user}"));
    let grant = match facts.prefix.as_str() {
        "" => {
            "grant its role readwrite on NAME/ for each lock, and on /bramah/, with --prefix=true".to_owned()
        }
        prefix => format!("etcdctl role grant-permission ROLE readwrite {prefix} --prefix=true"),
    };
    let prefix = &facts.prefix;
    let mut findings = Vec::new();
    for (has, severity, lacks) in [
        (
            rights.lock,
            Severity::Problem,
            format!("may not read and write below {prefix}bramah/doctor/, where this examination locks"),
        ),
        (
            rights.records,
            Severity::Warning,
            format!("may not read and write below {prefix}/bramah/, so locks cannot be broken"),
        ),
        (
            rights.list,
            Severity::Warning,
            format!("may not read all that is below \"{prefix}\", so ls and watch cannot list locks"),
        ),
    ] {
        if !has {
            findings.push(Finding::new(severity, CODE, format!("{who} {lacks}; {grant}")));
        }
    }
    if findings.is_empty() {
        let text = format!("{who} may do what locks need (it was asked; nothing was written)");
        findings.push(Finding::new(Severity::Ok, CODE, text));
    }
    findings
}

fn user(facts: &Facts) -> Finding {
    const CODE: &str = "etcd.user";
    match (&facts.user, facts.is_private) {
        (Some(user), _) => Finding::new(Severity::Ok, CODE, format!("we are {user} to it")),
        (None, true) => Finding::new(
            Severity::Note,
            CODE,
            "no user is in the url: unless it asks for certificates, whoever reaches it may take and break every lock",
        ),
        (None, false) => Finding::new(
            Severity::Note,
            CODE,
            "it asks nobody who they are: whoever reaches it may take and break every lock",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        Status {
            version: "3.5.23".into(),
            cluster: 7,
            role: Role::Follower,
            alarms: Vec::new(),
            round_trip: Duration::from_micros(400),
        }
    }

    fn facts(words: Vec<Result<Status, String>>) -> Facts {
        let voters = Some(words.len());
        let member = |(at, word)| Member { address: format!("m{at}:2379"), word };
        Facts {
            members: words.into_iter().enumerate().map(member).collect(),
            voters,
            service: Ok(Service {
                least_lease: Duration::from_secs(2),
                rights: Rights { lock: true, records: true, list: true },
            }),
            prefix: "locks/".into(),
            user: Some("ana".into()),
            is_private: true,
            margin: Duration::from_secs(2),
        }
    }

    fn three() -> Facts {
        facts(vec![Ok(Status { role: Role::Leader, ..status() }), Ok(status()), Ok(status())])
    }

    fn told(facts: &Facts) -> Vec<(Severity, &'static str)> {
        let findings = judge(facts).into_iter().filter(|finding| finding.severity > Severity::Ok);
        findings.map(|finding| (finding.severity, finding.code)).collect()
    }

    fn with_service(change: impl FnOnce(&mut Service)) -> Facts {
        let mut facts = three();
        facts.service.as_mut().map(change).unwrap();
        facts
    }

    #[test]
    fn a_cluster_as_it_should_be_has_nothing_to_tell() {
        assert_eq!(told(&three()), []);
    }

    #[test]
    fn each_thing_that_is_not_as_it_should_be_is_told_by_its_code() {
        use Severity::{Note, Problem, Warning};
        let silent = || Err("etcd at m2:2379 did not answer within 2s".to_owned());
        let full = Status { alarms: vec!["NOSPACE".into()], ..status() };
        let lost = Status { role: Role::Leaderless, ..status() };
        let other = Status { cluster: 8, ..status() };
        let learner = Status { role: Role::Learner, ..status() };
        let rights = Rights { lock: true, records: true, list: true };
        for (facts, expected) in [
            (facts(vec![Ok(status())]), vec![(Note, "etcd.members")]),
            (facts(vec![Ok(status()); 4]), vec![(Note, "etcd.members")]),
            (facts(vec![Ok(status()), Ok(status()), silent()]), vec![(Warning, "etcd.silent")]),
            (
                Facts {
                    service: Err("no leader".into()),
                    ..facts(vec![Ok(lost.clone()), silent(), silent()])
                },
                vec![
                    (Problem, "etcd.member"),
                    (Problem, "etcd.silent"),
                    (Problem, "etcd.silent"),
                    (Problem, "etcd.service"),
                ],
            ),
            (facts(vec![Ok(status()), Ok(status()), Ok(lost)]), vec![(Warning, "etcd.member")]),
            (facts(vec![Ok(status()), Ok(status()), Ok(full)]), vec![(Problem, "etcd.alarm")]),
            (facts(vec![Ok(status()), Ok(status()), Ok(other)]), vec![(Problem, "etcd.cluster")]),
            (Facts { voters: None, ..three() }, vec![(Note, "etcd.members")]),
            (Facts { voters: Some(5), ..three() }, vec![(Note, "etcd.members")]),
            // Two of three that vote are in the url, and one that learns.
            (
                Facts { voters: Some(3), ..facts(vec![Ok(status()), Ok(status()), Ok(learner.clone())]) },
                vec![(Note, "etcd.member"), (Note, "etcd.members")],
            ),
            (
                Facts {
                    voters: Some(3),
                    ..facts(vec![Ok(status()), Ok(status()), Ok(status()), Ok(learner)])
                },
                vec![(Note, "etcd.member")],
            ),
            (Facts { user: None, ..three() }, vec![(Note, "etcd.user")]),
            (Facts { is_private: false, ..three() }, vec![(Note, "etcd.tls")]),
            (Facts { margin: Duration::from_secs(1), ..three() }, vec![(Warning, "etcd.lease")]),
            (
                with_service(|service| service.least_lease = Duration::from_secs(8)),
                vec![(Warning, "etcd.lease")],
            ),
            (
                with_service(|service| service.rights = Rights { lock: false, ..rights }),
                vec![(Problem, "etcd.rights")],
            ),
            (
                with_service(|service| service.rights = Rights { list: false, ..rights }),
                vec![(Warning, "etcd.rights")],
            ),
        ] {
            assert_eq!(told(&facts), expected, "{facts:?}");
        }
        // One member has no leader to be cut off.
        let alone = Facts { margin: Duration::ZERO, ..facts(vec![Ok(status())]) };
        assert_eq!(told(&alone), [(Note, "etcd.members")]);
    }

    #[test]
    fn versions_with_faults_are_named_with_the_one_that_has_it_right() {
        for (text, severity, words) in [
            ("3.3.27", Severity::Problem, "too old"),
            ("3.4.23", Severity::Warning, "3.4.31"),
            ("3.4.31", Severity::Note, "3.4.38"),
            ("3.4.45", Severity::Note, "that service is not used here"),
            ("3.5.12", Severity::Warning, "3.5.13"),
            ("3.5.16", Severity::Note, "3.5.23"),
            ("3.5.23", Severity::Ok, "no fault"),
            ("3.6.4", Severity::Note, "3.6.5"),
            ("3.6.5", Severity::Ok, "no fault"),
            ("4.4.0", Severity::Ok, "no fault"),
        ] {
            let finding = version(text);
            assert_eq!(finding.severity, severity, "{text}");
            assert!(finding.text.contains(words), "{}", finding.text);
        }
    }
}
