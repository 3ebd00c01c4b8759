//! Session mode beside other programs, and what it shows.

mod pair;

use std::time::Duration;

use bramah_core::{Error, ErrorKind, Scope};
use bramah_mysql::MySql;

use pair::{HAD, LONG, SOON, WAITING, lock, lost, opened, ready, session, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_client_and_we_wait_for_each_other() {
    // What each way of naming makes of a name, as other programs have it.
    let ways = [
        ("", "orders/42 é😂", "CONCAT('bramah:', LEFT(SHA2('bramah/orders/42 é😂', 256), 48))"),
        ("&keys=plain", "My Job", "'My Job'"),
        ("&keys=distributedlock", "orders/42", "'orders/42'"),
        ("&keys=distributedlock", "Orders/42", "'orders/42p6ipcx5ezmmdv4suukxexpk7qzeoizik'"),
    ];
    for server in ready().await {
        for (options, name, key) in ways {
            let session = session(&server, options).await;
            let mut client = server.console().unwrap();
            client.say("SET NAMES utf8mb4;").unwrap();
            assert_eq!(client.ask(&format!("SELECT GET_LOCK({key}, 0);")).unwrap(), "1", "{name}");
            assert!(session.mutex(name).unwrap().try_lock().await.unwrap().is_none(), "{name}: it has it");
            let mutex = session.mutex(name).unwrap();
            let waiter = tokio::spawn(async move { mutex.lock().await });
            until(&server, WAITING, "1");
            assert_eq!(client.ask(&format!("SELECT RELEASE_LOCK({key});")).unwrap(), "1", "{name}");
            let guard = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap();
            assert_eq!(
                client.ask(&format!("SELECT GET_LOCK({key}, 0);")).unwrap(),
                "0",
                "{name}: we have it"
            );
            client.say(&format!("SELECT GET_LOCK({key}, 60), 'mine';")).unwrap();
            until(&server, WAITING, "1");
            guard.release().await;
            assert_eq!(client.row().unwrap(), "1\tmine", "{name}");
            let mutex = session.mutex(name).unwrap();
            let waiter = tokio::spawn(async move { mutex.lock().await });
            until(&server, WAITING, "1");
            // Its connection ends without a word.
            drop(client);
            let guard = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap();
            guard.release().await;
            assert_eq!(session.close(SOON).await.left, []);
        }
        until(&server, HAD, "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_servers_own_client_has_is_shown_and_can_be_broken() {
    for server in ready().await {
        let session = session(&server, "&keys=plain").await;
        let mut client = server.console().unwrap();
        assert_eq!(client.ask("SELECT GET_LOCK('job', 0);").unwrap(), "1");
        // A key has a name from the first time on that it is waited for.
        let mutex = session.mutex("job").unwrap();
        let waiter = tokio::spawn(async move { mutex.lock().await });
        until(&server, WAITING, "1");
        let lines = session.survey(&Scope::All).await.unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0].holders().count(), lines[0].waiters().count()), (1, 1), "{lines:?}");
        let place = lines[0].holders().next().unwrap();
        assert!(place.claim.note.starts_with("not bramah: bramah@"), "{}", place.claim.note);
        let tag = place.claim.id.tag();
        assert!(session.break_hold(&lines[0].name, tag, "a test").await.unwrap(), "it was not found");
        let guard = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap();
        guard.release().await;
        assert!(client.ask("SELECT 1;").is_err(), "its connection was not ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_names_of_one_key_are_told_apart() {
    for server in ready().await {
        // MySQL has these two the same, and MariaDB has not: nobody is to depend on it.
        let (a, b) = ("job", "Job");
        let one = session(&server, "&keys=plain").await;
        let guard = lock(&one, a).await;
        let refused = |error: Error| {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().starts_with("Job and job are the same lock to the server"), "{error}");
        };
        refused(one.mutex(b).unwrap().try_lock().await.unwrap_err());
        // Another process learns it from the table, also when the first has ended.
        let two = session(&server, "&keys=plain&holds=999").await;
        refused(two.mutex(b).unwrap().lock().await.unwrap_err());
        guard.release().await;
        refused(two.mutex(b).unwrap().lock().await.unwrap_err());
        lock(&two, a).await.release().await;
        until(&server, HAD, "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_databases_of_one_server_have_locks_of_their_own() {
    for server in ready().await {
        server.sql("CREATE DATABASE other; GRANT ALL ON other.* TO bramah").unwrap();
        let url = format!("{}/other", server.url().strip_suffix("/bramah").unwrap());
        MySql::from_url(&url).unwrap().init().await.unwrap();
        let (here, there) =
            (session(&server, "").await, opened(&format!("{url}?mode=session"), LONG).await.unwrap());
        let guards = [lock(&here, "a").await, lock(&there, "a").await];
        for guard in guards {
            assert!(guard.confirm().await.unwrap());
            guard.release().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_hold_takes_no_other_with_it() {
    for server in ready().await {
        let (one, two) = (session(&server, "").await, session(&server, "&holds=999").await);
        let (broken, other) = (lock(&one, "a").await, lock(&one, "b").await);
        assert!(two.break_hold(&broken.name(), broken.tag(), "a test").await.unwrap());
        lost(&broken).await;
        assert!(other.confirm().await.unwrap(), "the other lock of the same connection went with it");
        lock(&two, "a").await.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bounds_are_told() {
    for server in ready().await {
        // One connection for the session, and one to wait with.
        let few = session(&server, "&connections=2&holds=3").await;
        let holder = session(&server, "").await;
        let _held = (lock(&holder, "a").await, lock(&holder, "b").await);
        let first = few.mutex("a").unwrap();
        let first = tokio::spawn(async move { first.lock().await });
        until(&server, WAITING, "1");
        let error = few.mutex("b").unwrap().lock_within(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("all 2 connections of session mode are in use"), "{error}");
        first.abort();
        until(&server, WAITING, "0");
        let guards = [lock(&few, "1").await, lock(&few, "2").await, lock(&few, "3").await];
        let error = few.mutex("4").unwrap().lock().await.unwrap_err();
        assert!(error.to_string().contains("this session has 3 locks in session mode"), "{error}");
        drop(guards);
    }
}

/// What is left of those who died is cleared away by whoever opens, and what lives is not.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_the_dead_are_cleared_away_and_those_of_the_living_are_not() {
    for server in ready().await {
        let one = session(&server, "").await;
        let guard = lock(&one, "a").await;
        server
            .sql(
                "INSERT INTO bramah_places (lock_name, name, session, seq, connection, boot, account, capacity, weight, ttl, note, \
                                            entered) \
                   SELECT 'x', 'x', UNHEX(REPEAT('ab', 16)), 1, 999999, boot, account, 1, 1, 1, '', 0 FROM bramah_places LIMIT 1; \
                 INSERT INTO bramah_places (lock_name, name, session, seq, connection, boot, account, capacity, weight, ttl, note, \
                                            entered) \
                   SELECT lock_name, 'x', UNHEX(REPEAT('ab', 16)), 2, connection, boot - 9, account, 1, 1, 1, '', 0 \
                     FROM bramah_places WHERE name = 'a'; \
                 UPDATE bramah_places SET entered = 0",
            )
            .unwrap();
        let lines = one.survey(&Scope::All).await.unwrap();
        assert_eq!(lines.len(), 1, "the dead are shown: {lines:?}");
        assert_eq!(session(&server, "&holds=999").await.close(SOON).await.left, []);
        assert_eq!(server.sql("SELECT name FROM bramah_places").unwrap(), "a");
        assert!(guard.confirm().await.unwrap());
        guard.release().await;
    }
}
