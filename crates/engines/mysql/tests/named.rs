//! Session mode beside other programs, and what becomes of it when things fail.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{Clock, Engine, Error, ErrorKind, Guard, Scope, Session};
use bramah_lab::{
    Fault, MariaDb as Server, Proxy,
    servers::{self, Flavor},
};
use bramah_mysql::MySql;

const SOON: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(30);

/// The locks that are had, of those whose names are known, and the connections that wait for one.
const HAD: &str = "SELECT COUNT(*) FROM bramah_keys WHERE IS_USED_LOCK(lock_name) IS NOT NULL";
const WAITING: &str = "SELECT COUNT(*) FROM /*!50700 performance_schema.*/ /*M! information_schema.*/ processlist \
    WHERE state = 'User lock'";

/// The servers that can be had, each with tables.
async fn ready() -> Vec<Arc<Server>> {
    let mut servers = Vec::new();
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        match servers::get(flavor) {
            Err(why) => servers::missing(flavor, &why),
            Ok(_) => {
                let settings = [("innodb_flush_log_at_trx_commit", "2"), ("sync_binlog", "0")];
                let server = Server::of(flavor, &settings).unwrap();
                MySql::from_url(&server.url()).unwrap().init().await.unwrap();
                servers.push(Arc::new(server));
            }
        }
    }
    servers
}

async fn opened(url: &str, ttl: Duration) -> Result<Session, Error> {
    let engine: Arc<dyn Engine> = MySql::from_url(url)?.into();
    Session::builder(engine).ttl(ttl).open().await
}

async fn session(server: &Server, options: &str) -> Session {
    opened(&format!("{}?mode=session{options}", server.url()), LONG).await.unwrap()
}

async fn lock(session: &Session, name: &str) -> Guard {
    let mutex = session.mutex(name).unwrap();
    tokio::time::timeout(SOON, mutex.lock()).await.expect("no grant").unwrap()
}

/// Locks however often the store is away.
async fn lock_anyhow(session: &Session, name: &str) -> Guard {
    let mutex = session.mutex(name).unwrap();
    let patient = async {
        loop {
            match mutex.lock().await {
                Ok(guard) => return guard,
                Err(error) if error.kind().is_transient() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(SOON, patient).await.expect("no grant")
}

async fn lost(guard: &Guard) {
    tokio::time::timeout(SOON, guard.lost()).await.expect("it is not known that it is lost");
}

/// Waits until a question is answered so.
fn until(server: &Server, question: &str, want: &str) {
    let ask = || match server.sql(question)? {
        answer if answer == want => Ok(()),
        answer => Err(format!("{question}: {answer}, and not {want}")),
    };
    bramah_lab::until(question, SOON, ask).unwrap();
}

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
async fn a_connection_that_is_killed_is_noticed_long_before_the_ttl() {
    for server in ready().await {
        let (one, two) = (session(&server, "").await, session(&server, "&holds=999").await);
        for waited in [false, true] {
            let before = if waited { Some(lock(&two, "a").await) } else { None };
            let mutex = one.mutex("a").unwrap();
            let waiter = tokio::spawn(async move { mutex.lock().await });
            if let Some(before) = before {
                until(&server, WAITING, "1");
                before.release().await;
            }
            let guard = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap();
            let fence = guard.fence().unwrap();
            let holder = server.sql("SELECT IS_USED_LOCK(lock_name) FROM bramah_keys").unwrap();
            server.sql(&format!("KILL {holder}")).unwrap();
            let started = Clock::boot().now();
            lost(&guard).await;
            let took = Clock::boot().now().since(started);
            assert!(took < LONG / 3, "it was noticed after {took:?}, with the renewal");
            let next = lock(&two, "a").await;
            assert!(next.fence().unwrap() > fence);
            next.release().await;
            // The same session goes on, with another connection.
            lock(&one, "a").await.release().await;
        }
        until(&server, HAD, "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_released_behind_our_back_is_noticed() {
    for server in ready().await {
        let (one, two) = (session(&server, "").await, session(&server, "&holds=999").await);
        let guard = lock(&one, "a").await;
        // As far as the connection goes all is well; only the lock is another's.
        let holder = server.sql("SELECT IS_USED_LOCK(lock_name) FROM bramah_keys").unwrap();
        server
            .sql(&format!(
                "UPDATE bramah_places SET lock_name = 'nobody has this' WHERE connection = {holder}"
            ))
            .unwrap();
        lost(&guard).await;
        lock(&two, "a").await.release().await;
        until(&server, HAD, "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_ends_every_lock_and_everybody_is_told() {
    for server in ready().await {
        for is_killed in [false, true] {
            let one =
                opened(&format!("{}?mode=session", server.url()), Duration::from_secs(3)).await.unwrap();
            let two = opened(&format!("{}?mode=session&holds=999", server.url()), LONG).await.unwrap();
            let held = lock(&one, "a").await;
            let fence = held.fence().unwrap();
            let waiter = tokio::spawn({
                let two = two.clone();
                async move { lock_anyhow(&two, "a").await }
            });
            until(&server, WAITING, "1");
            if is_killed {
                server.kill();
            } else {
                server.stop().unwrap();
            }
            lost(&held).await;
            server.start_again().unwrap();
            let next = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap();
            assert!(next.fence().unwrap() > fence);
            next.release().await;
            lock_anyhow(&one, "a").await.release().await;
            assert_eq!(one.close(SOON).await.left, []);
            assert_eq!(two.close(SOON).await.left, []);
        }
        until(&server, HAD, "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_the_same_number_after_a_restart_is_left_alone() {
    for server in ready().await {
        let old = opened(&format!("{}?mode=session", server.url()), LONG).await.unwrap();
        let held = lock(&old, "a").await;
        let number: u64 =
            server.sql("SELECT IS_USED_LOCK(lock_name) FROM bramah_keys").unwrap().parse().unwrap();
        let boot = server.sql("SELECT boot FROM bramah_places").unwrap();
        server.stop().unwrap();
        server.start_again().unwrap();
        // Consoles until one has the number that the holder had.
        let mut consoles = Vec::new();
        loop {
            let mut console = server.console().unwrap();
            let got: u64 = console.ask("SELECT CONNECTION_ID();").unwrap().parse().unwrap();
            consoles.push(console);
            assert!(got <= number, "the number {number} was passed by");
            if got == number {
                break;
            }
        }
        lost(&held).await;
        lock_anyhow(&old, "a").await.release().await;
        // Whoever had to end the old connection has had time to.
        let call = format!("CALL bramah_stop({number}, {boot}, {boot} + 1, TRUE)");
        server.sql_as_user(&call).unwrap();
        assert_eq!(consoles.last_mut().unwrap().ask("SELECT 'still there';").unwrap(), "still there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_cut_off_knows_before_the_next_one_is_granted() {
    for server in ready().await {
        let proxy = Proxy::to(&server.address()).unwrap();
        let ttl = Duration::from_secs(2);
        let far = opened(&format!("{}?mode=session", server.url_at(&proxy.address())), ttl).await.unwrap();
        let near = session(&server, "").await;
        let guard = lock(&far, "cut").await;
        let fence = guard.fence().unwrap();
        proxy.requests(Fault::Hold);
        proxy.replies(Fault::Hold);
        // The server ends a connection that has said nothing for the ttl.
        let next = lock(&near, "cut").await;
        assert!(!guard.is_held(), "two believe to hold it");
        assert!(next.fence().unwrap() > fence);
        next.release().await;
        proxy.requests(Fault::Pass);
        proxy.replies(Fault::Pass);
        lock_anyhow(&far, "cut").await.release().await;
        until(&server, HAD, "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_that_are_given_up_at_any_moment_leave_nothing() {
    for server in ready().await {
        let (one, two) = (session(&server, "").await, session(&server, "&holds=999").await);
        for n in 0..40_u64 {
            let guard = lock(&one, "a").await;
            // From before the wait has begun on the server to the moment of the grant.
            let wait = Duration::from_millis(n % 20);
            let mutex = two.mutex("a").unwrap();
            let waiter = tokio::spawn(async move { mutex.lock_within(wait).await });
            tokio::time::sleep(Duration::from_millis(n % 8)).await;
            guard.release().await;
            if let Ok(guard) = waiter.await.unwrap() {
                guard.release().await;
            }
        }
        until(&server, HAD, "0");
        until(&server, WAITING, "0");
        until(&server, "SELECT COUNT(*) FROM bramah_places", "0");
        lock(&one, "a").await.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_given_up_ends_on_the_server_and_its_connection_serves_the_next() {
    for server in ready().await {
        let (one, two) = (session(&server, "").await, session(&server, "&holds=999").await);
        let guard = lock(&one, "a").await;
        let mut numbers = Vec::new();
        for _ in 0..3 {
            let mutex = two.mutex("a").unwrap();
            let waiter = tokio::spawn(async move { mutex.lock().await });
            until(&server, WAITING, "1");
            numbers.push(server.sql(&WAITING.replace("COUNT(*)", "id")).unwrap());
            waiter.abort();
            until(&server, WAITING, "0");
            until(&server, "SELECT COUNT(*) FROM bramah_places", "1");
        }
        numbers.dedup();
        assert_eq!(numbers.len(), 1, "the connections {numbers:?} waited");
        guard.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_killed_begins_anew_and_is_no_grant() {
    for server in ready().await {
        let (one, two) = (session(&server, "").await, session(&server, "&holds=999").await);
        let guard = lock(&one, "a").await;
        let mutex = two.mutex("a").unwrap();
        let waiter = tokio::spawn(async move { mutex.lock().await });
        until(&server, WAITING, "1");
        let place = server.sql("SELECT MAX(place) FROM bramah_places").unwrap();
        let number = server.sql(&WAITING.replace("COUNT(*)", "id")).unwrap();
        server.sql(&format!("KILL QUERY {number}")).unwrap();
        until(&server, &format!("SELECT COUNT(*) FROM bramah_places WHERE place > {place}"), "1");
        until(&server, WAITING, "1");
        assert!(guard.is_held() && !waiter.is_finished(), "two hold it");
        let fence = guard.fence();
        guard.release().await;
        let next = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap();
        assert!(next.fence() > fence);
        next.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_killed_by_others_cost_nothing_but_time() {
    for server in ready().await {
        let sessions = [session(&server, "").await, session(&server, "&holds=999").await];
        let over = Arc::new(AtomicBool::new(false));
        let harm = std::thread::spawn({
            let (server, over) = (server.clone(), over.clone());
            move || {
                while !over.load(Ordering::SeqCst) {
                    let busy = "SELECT id FROM information_schema.processlist WHERE user = 'bramah' AND command <> 'Sleep'";
                    for number in server.sql(busy).unwrap().lines() {
                        // It may have ended meanwhile.
                        let _ = server.sql(&format!("KILL QUERY {number}"));
                    }
                }
            }
        });
        let inside = Arc::new(Mutex::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for session in sessions.iter().cycle().take(4) {
            let (session, inside) = (session.clone(), inside.clone());
            tasks.spawn(async move {
                for _ in 0..25 {
                    let guard = lock_anyhow(&session, "counted").await;
                    let fence = guard.fence().unwrap().get();
                    {
                        let mut last = inside.try_lock().expect("two are in");
                        assert!(fence > *last, "{fence} after {last}");
                        *last = fence;
                    }
                    guard.release().await;
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        over.store(true, Ordering::SeqCst);
        harm.join().unwrap();
        until(&server, HAD, "0");
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
async fn a_hold_of_who_does_not_answer_is_broken_with_its_connection() {
    for server in ready().await {
        let proxy = Proxy::to(&server.address()).unwrap();
        let far = opened(&format!("{}?mode=session", server.url_at(&proxy.address())), LONG).await.unwrap();
        let near = session(&server, "").await;
        let guard = lock(&far, "a").await;
        proxy.requests(Fault::Hold);
        proxy.replies(Fault::Hold);
        assert!(near.break_hold(&guard.name(), guard.tag(), "a test").await.unwrap());
        let next = lock(&near, "a").await;
        assert!(next.fence() > guard.fence());
        proxy.requests(Fault::Pass);
        proxy.replies(Fault::Pass);
        lost(&guard).await;
        next.release().await;
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
