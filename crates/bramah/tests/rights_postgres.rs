//! The rights in docs/engines/postgres.md are what locking, `init` and the doctor need.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod rights;

use bramah::ErrorKind;
use bramah_lab::Postgres;

use crate::rights::{block, examine, lock, revoke};

const PAGE: &str = include_str!("../../../docs/engines/postgres.md");

/// A server with the page's database and users, none of whom may do anything.
fn server() -> Postgres {
    let server = Postgres::start().unwrap();
    server.sql("CREATE DATABASE app").unwrap();
    server
        .sql(
            "REVOKE ALL ON DATABASE app FROM PUBLIC; CREATE ROLE migrator LOGIN PASSWORD 'pass'; \
             CREATE ROLE app LOGIN PASSWORD 'pass';\n\\connect app\nREVOKE ALL ON SCHEMA public FROM PUBLIC",
        )
        .unwrap();
    server
}

/// Runs statements in the page's database, as `user` if that is not the superuser.
fn sql(server: &Postgres, user: &str, text: &str) -> Result<String, String> {
    server.sql(&format!("\\connect app\nSET ROLE {user};\n{text}"))
}

fn url(server: &Postgres, user: &str, mode: &str) -> String {
    format!("postgres://{user}:pass@{}/app?mode={mode}", server.address())
}

#[tokio::test]
async fn the_rights_of_the_page_are_enough_and_none_is_too_much() {
    let server = server();
    let init = url(&server, "migrator", "table");
    for grant in block(PAGE, "For bramah init:") {
        bramah::init(&init).await.unwrap_err();
        sql(&server, "postgres", grant).unwrap();
    }
    bramah::init(&init).await.unwrap();
    bramah::init(&init).await.unwrap();
    for mode in ["table", "session"] {
        let url = url(&server, "app", mode);
        let grants = block(PAGE, &format!("For locks in {mode} mode:"));
        for grant in &grants {
            sql(&server, "postgres", grant).unwrap();
        }
        lock(&url).await.unwrap();
        examine(&url).await.unwrap();
        if mode == "table" {
            // As the page begins.
            sql(&server, "app", "SELECT * FROM bramah_locks").unwrap();
        }
        for grant in &grants {
            sql(&server, "postgres", &revoke(grant)).unwrap();
            match grant.contains("bramah_locks") {
                true => drop(sql(&server, "app", "SELECT * FROM bramah_locks").unwrap_err()),
                false => assert!(lock(&url).await.is_err(), "{mode}: not needed: {grant}"),
            }
            sql(&server, "postgres", grant).unwrap();
        }
        for grant in &grants {
            sql(&server, "postgres", &revoke(grant)).unwrap();
        }
    }
    for grant in block(PAGE, "For locks in table mode:") {
        sql(&server, "postgres", grant).unwrap();
    }
    for grant in block(PAGE, "For bramah doctor, to see standbys:") {
        sql(&server, "postgres", grant).unwrap();
    }
    let facts = bramah::postgres::checkup::examine(&url(&server, "app", "table")).await.unwrap();
    assert_eq!((facts.standbys, facts.forbidden), (Some((0, 0)), vec![]));
}

#[tokio::test]
async fn what_a_user_may_not_use_is_told_for_its_own_mode() {
    let server = server();
    for grant in block(PAGE, "For bramah init:") {
        sql(&server, "postgres", grant).unwrap();
    }
    bramah::init(&url(&server, "migrator", "table")).await.unwrap();
    for grant in block(PAGE, "For locks in table mode:") {
        sql(&server, "postgres", grant).unwrap();
    }
    let denied = lock(&url(&server, "app", "session")).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    let facts = bramah::postgres::checkup::examine(&url(&server, "app", "table")).await.unwrap();
    assert_eq!(facts.forbidden, [""; 0]);
    let facts = bramah::postgres::checkup::examine(&url(&server, "app", "session")).await.unwrap();
    assert_eq!(facts.forbidden, ["bramah_keys", "bramah_places"]);
}
