//! `mysql://host/database`.

use bramah_core::Reply;
use bramah_mysql::{
    MySql,
    checkup::{self, Facts},
};

use super::{Finding, Kind, Promise, Seen, Severity, Span, promise};

pub(super) const KIND: Kind = Kind {
    schemes: &["mysql", "mariadb"],
    excludes: Promise::new(
        "excludes",
        "primary",
        "all clients of this database on this server in the same mode; a failover to a replica forgets the grants that it had not got, \
               in mode=session all of them, and then two hold one lock until the first learns of it",
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
        Reply::later(async move { MySql::from_url(&url)?.forget(&name).await })
    },
};

fn seen(facts: &Facts) -> Seen {
    Seen { findings: judge(facts), crash: facts.is_session.then(promise::connection) }
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![
        Finding::new(Severity::Ok, "mysql.server", format!("{} is {}", facts.server, facts.version)),
        durability(facts),
        failover(facts),
        Finding::new(
            Severity::Ok,
            "mysql.connections",
            format!(
                "there may be {} connections; a process of ours has up to 12 with the default pool",
                facts.most_connections
            ),
        ),
        match facts.is_session {
            true => Finding::new(
                Severity::Ok,
                "mysql.waking",
                "mode=session: a wait has a connection of its own, and its end tells the waiter",
            ),
            false => Finding::new(
                Severity::Note,
                "mysql.waking",
                "nobody is told: a process asks every 4 to 50 ms for all its waiters",
            ),
        },
    ];
    findings.extend(schema(facts));
    if facts.expired > 1000 {
        let text = format!(
            "{} claims of processes that died are left; each session that opens clears some away",
            facts.expired
        );
        findings.push(Finding::new(Severity::Note, "mysql.expired", text));
    }
    findings
}

/// What is wrong with bramah's tables.
fn schema(facts: &Facts) -> Option<Finding> {
    facts.unfit.clone().map(|why| Finding::new(Severity::Problem, "mysql.schema", why))
}

/// What a grant has survived when it is answered.
fn durability(facts: &Facts) -> Finding {
    const CODE: &str = "mysql.durability";
    match facts.flushes.as_str() {
        "1" => Finding::new(Severity::Ok, CODE, "a grant is on disk before it is answered"),
        "2" => Finding::new(
            Severity::Warning,
            CODE,
            "innodb_flush_log_at_trx_commit is 2: a crash of the server forgets nothing, but a loss of power up to a second of grants \
             and fences; set it to 1",
        ),
        _ => Finding::new(
            Severity::Problem,
            CODE,
            "innodb_flush_log_at_trx_commit is 0: a crash forgets up to a second of grants and fences; set it to 1",
        ),
    }
}

/// What a replica knows.
fn failover(facts: &Facts) -> Finding {
    const CODE: &str = "mysql.failover";
    if !facts.logs {
        return Finding::new(
            Severity::Note,
            CODE,
            "no binary log, so no replica: if the server is gone, so are its locks",
        );
    }
    if facts.waits_for_replica {
        return Finding::new(
            Severity::Ok,
            CODE,
            "a replica has a grant before it is answered (semi-synchronous): fail over to one of those only",
        );
    }
    let text = format!(
        "replicas, if there are any, get a grant after it was answered (sync_binlog is {}): a failover may forget the last grants and \
         give their fences again; use semi-synchronous replication",
        facts.sync_log
    );
    Finding::new(Severity::Warning, CODE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            server: "mysql at db:3306".into(),
            version: "10.11.6-MariaDB".into(),
            flushes: "1".into(),
            logs: false,
            sync_log: "0".into(),
            waits_for_replica: false,
            most_connections: 151,
            unfit: None,
            expired: 0,
            is_session: false,
        }
    }

    fn severity(facts: &Facts, code: &str) -> Severity {
        judge(facts).iter().find(|finding| finding.code == code).map(|finding| finding.severity).unwrap()
    }

    #[test]
    fn what_makes_a_lock_forget_is_told() {
        assert!(judge(&facts()).iter().all(|finding| finding.severity < Severity::Warning));
        for (flushes, expected) in [("2", Severity::Warning), ("0", Severity::Problem)] {
            let facts = Facts { flushes: flushes.into(), ..facts() };
            assert_eq!(severity(&facts, "mysql.durability"), expected);
        }
        let half = Facts { unfit: Some("run bramah init".into()), ..facts() };
        assert_eq!(severity(&half, "mysql.schema"), Severity::Problem);
        let followed = Facts { logs: true, ..facts() };
        assert_eq!(severity(&followed, "mysql.failover"), Severity::Warning);
        let safe = Facts { logs: true, waits_for_replica: true, ..facts() };
        assert_eq!(severity(&safe, "mysql.failover"), Severity::Ok);
        assert_eq!(severity(&Facts { expired: 5000, ..facts() }, "mysql.expired"), Severity::Note);
    }
}
