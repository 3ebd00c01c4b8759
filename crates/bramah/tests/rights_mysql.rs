//! The rights in docs/engines/mysql.md are what locking, `init` and the doctor need.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod rights;

use bramah::{ErrorKind, doctor::Severity};
use bramah_lab::{
    MariaDb,
    servers::{self, Flavor},
};

use crate::rights::{block, examine, lock, revoke};

const PAGE: &str = include_str!("../../../docs/engines/mysql.md");

/// Servers with the page's database and users, none of whom may do anything.
fn ready() -> Vec<MariaDb> {
    let mut servers = Vec::new();
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        match servers::get(flavor) {
            Ok(_) => servers.push(MariaDb::of(flavor, &[]).unwrap()),
            Err(why) => servers::missing(flavor, &why),
        }
    }
    for server in &servers {
        let text = "CREATE DATABASE app; CREATE USER migrator IDENTIFIED BY 'pass'; CREATE USER app IDENTIFIED BY 'pass'";
        server.sql(text).unwrap();
    }
    servers
}

fn url(server: &MariaDb, user: &str, mode: &str) -> String {
    format!("mysql://{user}:pass@{}/app?mode={mode}", server.address())
}

#[tokio::test]
async fn the_rights_of_the_page_are_enough_and_none_is_too_much() {
    for server in ready() {
        let init = url(&server, "migrator", "table");
        for grant in block(PAGE, "For bramah init:") {
            bramah::init(&init).await.unwrap_err();
            server.sql(grant).unwrap();
        }
        bramah::init(&init).await.unwrap();
        bramah::init(&init).await.unwrap();
        for mode in ["table", "session"] {
            let url = url(&server, "app", mode);
            let grants = block(PAGE, &format!("For locks in {mode} mode:"));
            for grant in &grants {
                server.sql(grant).unwrap();
            }
            lock(&url).await.unwrap();
            examine(&url).await.unwrap();
            let by_hand = || server.sql_as("app", "pass", "app", "SELECT * FROM bramah_locks");
            if mode == "table" {
                // As the page begins.
                by_hand().unwrap();
            }
            for grant in &grants {
                server.sql(&revoke(grant)).unwrap();
                match grant.contains("bramah_locks") {
                    true => drop(by_hand().unwrap_err()),
                    false => {
                        assert!(lock(&url).await.is_err(), "{}, {mode}: not needed: {grant}", server.flavor())
                    }
                }
                server.sql(grant).unwrap();
            }
            for grant in &grants {
                server.sql(&revoke(grant)).unwrap();
            }
        }
    }
}

/// The server cannot undo what was done before the right was missing.
#[tokio::test]
async fn an_init_that_failed_half_way_is_told_and_can_be_run_again() {
    for server in ready() {
        let init = url(&server, "migrator", "table");
        let grants = block(PAGE, "For bramah init:");
        for grant in &grants {
            server.sql(&grant.replace(" DROP,", "")).unwrap();
        }
        let error = bramah::init(&init).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        for mode in ["table", "session"] {
            let url = url(&server, "migrator", mode);
            let error = bramah::connect(&url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(
                error.to_string().contains("incomplete") && error.to_string().ends_with("run bramah init"),
                "{error}"
            );
            told(&url, "incomplete").await;
        }
        for grant in &grants {
            server.sql(grant).unwrap();
        }
        bramah::init(&init).await.unwrap();
        examine(&init).await.unwrap();
        // Somebody has dropped one of them.
        for (mode, procedure) in [("table", "bramah_leave"), ("session", "bramah_tend")] {
            server.sql(&format!("DROP PROCEDURE app.{procedure}")).unwrap();
            let url = format!("{}&pool=2", url(&server, "migrator", mode));
            let error = bramah::connect(&url).await.unwrap_err().to_string();
            assert!(error.contains(procedure) && error.ends_with("run bramah init"), "{error}");
            told(&url, procedure).await;
        }
        bramah::init(&init).await.unwrap();
        server.sql("SET foreign_key_checks = 0; DROP TABLE app.bramah_stripes").unwrap();
        told(&format!("{init}&pool=3"), "bramah_stripes").await;
        // The other mode does without it.
        examine(&format!("{}&pool=3", url(&server, "migrator", "session"))).await.unwrap();
    }
}

/// The doctor has it among its findings.
async fn told(url: &str, what: &str) {
    let checkup = bramah::doctor::examine(url).await.unwrap();
    let finding = checkup.findings.iter().find(|finding| finding.code == "mysql.schema");
    let finding = finding.unwrap_or_else(|| panic!("no such finding: {checkup:#?}"));
    assert_eq!(finding.severity, Severity::Problem);
    assert!(finding.text.contains(what) && finding.text.ends_with("run bramah init"), "{finding:?}");
    assert!(!checkup.is_healthy(), "{checkup:#?}");
}
