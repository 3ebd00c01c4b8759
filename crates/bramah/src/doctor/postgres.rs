//! `postgres://host/database`.

use bramah_core::Reply;
use bramah_postgres::{
    Postgres,
    checkup::{self, Facts},
};

use super::{Finding, Kind, Promise, Seen, Severity, Span, promise};

pub(super) const KIND: Kind = Kind {
    schemes: &["postgres", "postgresql"],
    excludes: Promise::new(
        "excludes",
        "primary",
        "all clients of this database in the same mode, in mode=table also behind a pooler; a failover to a standby forgets the grants \
               that it had not got, in mode=session all of them, and then two hold one lock until the first learns of it",
    ),
    span: Span::Own,
    look: |url| {
        let url = url.to_owned();
        Reply::later(async move { checkup::examine(&url).await.map(|facts| seen(&facts)) })
    },
    code: |_| None,
    // In mode=table a lock that is free has no row.
    forget: |url, name| {
        let (url, name) = (url.to_owned(), name.clone());
        Reply::later(async move { Postgres::from_url(&url)?.forget(&name).await })
    },
};

fn seen(facts: &Facts) -> Seen {
    Seen { findings: judge(facts), crash: facts.room.map(|_| promise::connection()) }
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![Finding::new(
        Severity::Ok,
        "postgres.server",
        format!("{} is PostgreSQL {}", facts.address, facts.version),
    )];
    findings.extend(schema(facts));
    findings.push(durability(facts));
    findings.push(failover(facts));
    findings.push(connections(facts.connections));
    findings.extend(facts.room.map(room));
    findings.extend(match &*facts.forbidden {
        [] if facts.unfit.is_some() => None,
        [] => Some(Finding::new(Severity::Ok, "postgres.rights", "this user may use all tables")),
        tables => Some(Finding::new(
            Severity::Problem,
            "postgres.rights",
            format!(
                "this user may not read and write {}; grant SELECT, INSERT, UPDATE and DELETE",
                tables.join(", ")
            ),
        )),
    });
    if facts.room.is_some() {
        let text = "mode=session: a wait has a connection of its own, and its end tells the waiter";
        findings.push(Finding::new(Severity::Ok, "postgres.waiting", text));
        return findings;
    }
    findings.push(match facts.is_told {
        Some(true) => Finding::new(Severity::Ok, "postgres.notify", "waiters are told by NOTIFY"),
        Some(false) => Finding::new(
            Severity::Warning,
            "postgres.notify",
            "NOTIFY does not reach us, as behind a pooler that hands connections out by transaction: waiters ask every 50 ms; \
             say listen=off, or connect directly",
        ),
        None => Finding::new(Severity::Note, "postgres.notify", "listen=off: waiters ask every 50 ms"),
    });
    if facts.expired > 1000 {
        let text = format!(
            "{} claims of processes that died are left; each session that opens clears some away",
            facts.expired
        );
        findings.push(Finding::new(Severity::Note, "postgres.expired", text));
    }
    findings
}

/// What is wrong with bramah's tables.
fn schema(facts: &Facts) -> Option<Finding> {
    facts.unfit.clone().map(|why| Finding::new(Severity::Problem, "postgres.schema", why))
}

/// What a grant has survived when it is answered.
fn durability(facts: &Facts) -> Finding {
    const CODE: &str = "postgres.durability";
    if !facts.fsync {
        let text = "fsync is off: after a loss of power locks that were held may be free, and fences may fall; turn it on";
        return Finding::new(Severity::Problem, CODE, text);
    }
    if facts.synchronous_commit == "off" {
        let text = "synchronous_commit is off: after a crash the last grants and fences may be forgotten; turn it on for this user";
        return Finding::new(Severity::Problem, CODE, text);
    }
    Finding::new(Severity::Ok, CODE, "a grant is on disk before it is answered")
}

/// What a standby knows.
fn failover(facts: &Facts) -> Finding {
    const CODE: &str = "postgres.failover";
    match facts.standbys {
        None => Finding::new(
            Severity::Note,
            CODE,
            "this user may not see whether standbys follow (pg_monitor): a failover may forget the last grants",
        ),
        Some((0, _)) => {
            Finding::new(Severity::Note, CODE, "no standby follows: if the server is gone, so are its locks")
        }
        Some((all, 0)) => Finding::new(
            Severity::Warning,
            CODE,
            format!(
                "{all} standbys follow, and none has to have a grant before it is answered: a failover may forget the last \
                 grants and give their fences again; set synchronous_standby_names"
            ),
        ),
        Some((all, sync)) => Finding::new(
            Severity::Ok,
            CODE,
            format!(
                "{sync} of {all} standbys have a grant before it is answered: fail over to one of those only"
            ),
        ),
    }
}

/// How many locks the server has memory for.
fn room((used, most): (i64, i64)) -> Finding {
    let text = format!(
        "mode=session: {used} locks of all kinds are held, and the server has memory for about {most} \
         (max_locks_per_transaction times max_connections); when it is full, nobody can do anything there"
    );
    let severity = if used * 10 > most * 5 { Severity::Warning } else { Severity::Ok };
    Finding::new(severity, "postgres.room", text)
}

fn connections((used, most): (i64, i64)) -> Finding {
    let text = format!(
        "{used} of {most} connections are in use; a process of ours has up to 13 with the default pool, in mode=session up to 24"
    );
    let severity = if used * 10 > most * 8 { Severity::Warning } else { Severity::Ok };
    Finding::new(severity, "postgres.connections", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            address: "db:5432".into(),
            version: "15.6".into(),
            synchronous_commit: "on".into(),
            fsync: true,
            standbys: Some((0, 0)),
            synchronous_standbys: String::new(),
            connections: (3, 100),
            forbidden: Vec::new(),
            unfit: None,
            is_told: Some(true),
            expired: 0,
            room: None,
        }
    }

    fn severity(facts: &Facts, code: &str) -> Severity {
        judge(facts).iter().find(|finding| finding.code == code).map(|finding| finding.severity).unwrap()
    }

    #[test]
    fn what_makes_a_lock_forget_is_told() {
        assert!(judge(&facts()).iter().all(|finding| finding.severity < Severity::Warning));
        let forgetful = Facts { fsync: false, ..facts() };
        assert_eq!(severity(&forgetful, "postgres.durability"), Severity::Problem);
        let hasty = Facts { synchronous_commit: "off".into(), ..facts() };
        assert_eq!(severity(&hasty, "postgres.durability"), Severity::Problem);
        let followed = Facts { standbys: Some((2, 0)), ..facts() };
        assert_eq!(severity(&followed, "postgres.failover"), Severity::Warning);
        let safe = Facts { standbys: Some((2, 1)), ..facts() };
        assert_eq!(severity(&safe, "postgres.failover"), Severity::Ok);
        let pooled = Facts { is_told: Some(false), ..facts() };
        assert_eq!(severity(&pooled, "postgres.notify"), Severity::Warning);
        let poor = Facts { forbidden: vec!["bramah_claims".into()], ..facts() };
        assert_eq!(severity(&poor, "postgres.rights"), Severity::Problem);
        let half = Facts { unfit: Some("run bramah init".into()), ..facts() };
        assert_eq!(severity(&half, "postgres.schema"), Severity::Problem);
        let full = Facts { connections: (90, 100), ..facts() };
        assert_eq!(severity(&full, "postgres.connections"), Severity::Warning);
    }
}
