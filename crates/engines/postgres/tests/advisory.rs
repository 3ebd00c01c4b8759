//! Session mode beside other programs, and what becomes of it when things fail.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use bramah_core::{Engine, Error, ErrorKind, Guard, Scope, Session};
use bramah_lab::{Fault, How, PgBouncer, Pooling, Postgres as Server, Proxy};
use bramah_postgres::Postgres;

const SOON: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(30);

/// The advisory locks that are had or waited for.
const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";

async fn ready() -> Server {
    let server = Server::start().unwrap();
    Postgres::from_url(&server.url()).unwrap().init().await.unwrap();
    server
}

async fn opened(url: &str, ttl: Duration) -> Result<Session, Error> {
    let engine: Arc<dyn Engine> = Postgres::from_url(url)?.into();
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
async fn psql_and_we_wait_for_each_other() {
    let server = ready().await;
    // What each way of naming makes of a name, written as other programs have it. Ruby: CRC-32 without its highest bit, and zero.
    // .NET: the letters of a short name, seven bits each, then a zero and ones; digits; the SHA-1 of others, lowest byte first.
    let ways = [
        ("", "orders/42", "(SELECT ('x' || left(encode(sha256('orders/42'), 'hex'), 16))::bit(64)::bigint)"),
        ("&keys=integer", "42", "42"),
        ("&keys=integer", "-7,8", "-7, 8"),
        ("&keys=with_advisory_lock", "123456789", "1274296614, 0"),
        ("&keys=distributedlock", "a", "-1023410177, -1"),
        ("&keys=distributedlock", "00000000000000ff", "255"),
        ("&keys=distributedlock", "abcdefghijklmnopqrstuvwxyz", "8099153886650880306"),
    ];
    for (options, name, key) in ways {
        let session = session(&server, options).await;
        let mut psql = server.console().unwrap();
        assert_eq!(psql.ask(&format!("SELECT pg_try_advisory_lock({key});")).unwrap(), "t", "{name}");
        assert!(session.mutex(name).unwrap().try_lock().await.unwrap().is_none(), "{name}: psql has it");
        let mutex = session.mutex(name).unwrap();
        let waiter = tokio::spawn(async move { mutex.lock().await });
        until(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", "1");
        assert_eq!(psql.ask(&format!("SELECT pg_advisory_unlock({key});")).unwrap(), "t", "{name}");
        let guard = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap();
        assert_eq!(
            psql.ask(&format!("SELECT pg_try_advisory_lock({key});")).unwrap(),
            "f",
            "{name}: we have it"
        );
        psql.say(&format!("SELECT pg_advisory_lock({key}), 'mine';")).unwrap();
        until(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", "1");
        guard.release().await;
        assert_eq!(psql.row().unwrap(), "|mine", "{name}");
        let mutex = session.mutex(name).unwrap();
        let waiter = tokio::spawn(async move { mutex.lock().await });
        until(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", "1");
        // Its connection ends without a word.
        drop(psql);
        let guard = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap();
        guard.release().await;
        assert_eq!(session.close(SOON).await.left, []);
    }
    until(&server, LOCKS, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_psql_and_ours_are_in_together_and_a_writer_waits() {
    let server = ready().await;
    let session = session(&server, "&keys=integer").await;
    let config = session.rwlock("5").unwrap();
    let mut psql = server.console().unwrap();
    assert_eq!(psql.ask("SELECT pg_try_advisory_lock_shared(5);").unwrap(), "t");
    let reader = config.read().lock().await.unwrap();
    assert!(reader.fence().is_none());
    reader.release().await;
    assert!(config.write().try_lock().await.unwrap().is_none(), "a writer beside a reader");
    assert_eq!(psql.ask("SELECT pg_advisory_unlock_shared(5);").unwrap(), "t");
    let writer = config.write().lock().await.unwrap();
    assert_eq!(psql.ask("SELECT pg_try_advisory_lock_shared(5);").unwrap(), "f");
    writer.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_psql_has_is_shown_and_can_be_broken() {
    let server = ready().await;
    let session = session(&server, "&keys=integer").await;
    // A key has a name from its first use on.
    lock(&session, "7").await.release().await;
    let mut psql = server.console().unwrap();
    assert_eq!(psql.ask("SELECT pg_try_advisory_lock(7);").unwrap(), "t");
    let lines = session.survey(&Scope::All).await.unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let place = &lines[0].places[0];
    assert_eq!((lines[0].name.as_str(), lines[0].holders().count()), ("7", 1));
    assert!(place.claim.note.starts_with("not bramah: psql, pid "), "{}", place.claim.note);
    let tag = place.claim.id.tag();
    assert!(session.break_hold(&lines[0].name, tag, "a test").await.unwrap(), "it was not found");
    lock(&session, "7").await.release().await;
    assert!(psql.ask("SELECT 1;").is_err(), "its connection was not ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_names_of_one_key_are_told_apart() {
    let server = ready().await;
    // CRC-32 has these two the same.
    let (a, b) = ("plumless", "buckeroo");
    let one = session(&server, "&keys=with_advisory_lock").await;
    let guard = lock(&one, a).await;
    let error = one.mutex(b).unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().starts_with("buckeroo and plumless are the same lock to the server"),
        "{error}"
    );
    // Another process learns it from the table, also when the first has ended.
    let two = session(&server, "&keys=with_advisory_lock&holds=999").await;
    let mutex = two.mutex(b).unwrap();
    assert_eq!(mutex.lock_within(SOON).await.unwrap_err().kind(), ErrorKind::Invalid);
    guard.release().await;
    assert_eq!(mutex.lock_within(SOON).await.unwrap_err().kind(), ErrorKind::Invalid);
    lock(&two, a).await.release().await;
    until(&server, LOCKS, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_is_terminated_is_noticed_long_before_the_ttl() {
    let server = ready().await;
    let ttl = Duration::from_secs(60);
    let one = opened(&format!("{}?mode=session", server.url()), ttl).await.unwrap();
    let two = session(&server, "&holds=999").await;
    for waited in [false, true] {
        let before = waited.then_some(lock(&two, "a").await);
        let mutex = one.mutex("a").unwrap();
        let waiter = tokio::spawn(async move { mutex.lock().await });
        if let Some(before) = before {
            until(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", "1");
            before.release().await;
        }
        let guard = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap();
        let fence = guard.fence().unwrap();
        let ended = server
            .sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted")
            .unwrap();
        assert_eq!(ended, "t");
        let started = bramah_core::Clock::boot().now();
        lost(&guard).await;
        let took = bramah_core::Clock::boot().now().since(started);
        assert!(took < ttl / 6, "it was noticed after {took:?}, with the renewal");
        let next = lock(&two, "a").await;
        assert!(next.fence().unwrap() > fence);
        next.release().await;
        // The same session goes on, with another connection.
        lock(&one, "a").await.release().await;
    }
    until(&server, LOCKS, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_ends_every_lock_and_everybody_is_told() {
    let server = ready().await;
    for how in [How::Fast, How::Immediate] {
        let one = opened(&format!("{}?mode=session", server.url()), Duration::from_secs(3)).await.unwrap();
        let two = opened(&format!("{}?mode=session&holds=999", server.url()), LONG).await.unwrap();
        let held = lock(&one, "a").await;
        let fence = held.fence().unwrap();
        let mutex = two.mutex("a").unwrap();
        let waiter = tokio::spawn(async move {
            loop {
                match mutex.lock().await {
                    Err(error) if error.kind().is_transient() => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    other => return other,
                }
            }
        });
        until(&server, LOCKS, "2");
        server.stop(how).unwrap();
        lost(&held).await;
        server.start_again().unwrap();
        let next = tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap();
        assert!(next.fence().unwrap() > fence, "{how:?}");
        next.release().await;
        lock_anyhow(&one, "a").await.release().await;
        assert_eq!((one.close(SOON).await.left, two.close(SOON).await.left), (vec![], vec![]));
    }
    until(&server, LOCKS, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_cut_off_knows_before_the_next_one_is_granted() {
    let server = ready().await;
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
    until(&server, LOCKS, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_answer_was_late_is_had_once() {
    let server = ready().await;
    let proxy = Proxy::to(&server.address()).unwrap();
    let options = "?mode=session&timeout=300ms";
    let far = opened(&format!("{}{options}", server.url_at(&proxy.address())), LONG).await.unwrap();
    proxy.replies(Fault::Hold);
    let mutex = far.mutex("late").unwrap();
    let taken = tokio::spawn(async move { mutex.lock().await });
    until(&server, LOCKS, "1");
    // Longer than an answer is waited for: it is asked again.
    tokio::time::sleep(Duration::from_millis(800)).await;
    proxy.replies(Fault::Pass);
    let guard = tokio::time::timeout(SOON, taken).await.expect("no grant").unwrap().unwrap();
    guard.release().await;
    // The server counts how often it was taken.
    until(&server, LOCKS, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_that_are_given_up_at_any_moment_leave_nothing() {
    let server = ready().await;
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
    until(&server, LOCKS, "0");
    until(&server, "SELECT count(*) FROM bramah_places", "0");
    lock(&one, "a").await.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_cancelled_by_others_cost_nothing_but_time() {
    let server = Arc::new(ready().await);
    let sessions = [session(&server, "").await, session(&server, "&holds=999").await];
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let harm = std::thread::spawn({
        let (server, over) = (server.clone(), over.clone());
        move || {
            while !over.load(std::sync::atomic::Ordering::SeqCst) {
                server
                    .sql("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'bramah' AND state = 'active'")
                    .unwrap();
            }
        }
    });
    let inside = Arc::new(std::sync::Mutex::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..4 {
        let (session, inside) = (sessions[task % 2].clone(), inside.clone());
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
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    harm.join().unwrap();
    until(&server, LOCKS, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_hold_takes_no_other_with_it() {
    let server = ready().await;
    let (one, two) = (session(&server, "").await, session(&server, "&holds=999").await);
    let (broken, other) = (lock(&one, "a").await, lock(&one, "b").await);
    assert!(two.break_hold(&broken.name(), broken.tag(), "a test").await.unwrap());
    lost(&broken).await;
    assert!(other.confirm().await.unwrap(), "the other lock of the same connection went with it");
    lock(&two, "a").await.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_who_does_not_answer_is_broken_with_its_connection() {
    let server = ready().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn the_bounds_are_told() {
    let server = ready().await;
    // One connection for the session, and one to wait with.
    let few = session(&server, "&connections=2&holds=3").await;
    let holder = session(&server, "").await;
    let _held = (lock(&holder, "a").await, lock(&holder, "b").await);
    let first = few.mutex("a").unwrap();
    let first = tokio::spawn(async move { first.lock().await });
    until(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", "1");
    let error = few.mutex("b").unwrap().lock_within(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("all 2 connections of session mode are in use"), "{error}");
    let error =
        opened(&format!("{}?mode=session&connections=2&holds=3", server.url()), LONG).await.unwrap_err();
    assert!(error.to_string().contains("raise connections= in the url"), "{error}");
    first.abort();
    // The waiter that was given up counts until it has left.
    let third = few.mutex("3").unwrap();
    let (one, two) = (lock(&few, "1").await, lock(&few, "2").await);
    let last = async {
        loop {
            match third.lock().await {
                Err(error) if error.kind() == ErrorKind::Invalid => tokio::task::yield_now().await,
                taken => break taken.unwrap(),
            }
        }
    };
    let guards = [one, two, tokio::time::timeout(SOON, last).await.expect("the waiter never leaves")];
    let error = few.mutex("4").unwrap().lock().await.unwrap_err();
    assert!(error.to_string().contains("this session has 3 locks in session mode"), "{error}");
    drop(guards);
}

/// What the server's own memory takes, and how it says that it takes no more.
#[tokio::test(flavor = "multi_thread")]
async fn more_locks_than_the_server_has_room_for_are_refused_and_hurt_nobody() {
    let server = Server::with(&[("max_locks_per_transaction", "10"), ("max_connections", "20")]).unwrap();
    Postgres::from_url(&server.url()).unwrap().init().await.unwrap();
    let session = session(&server, "&holds=100000").await;
    let mut guards = Vec::new();
    let error = loop {
        match session.mutex(format!("many/{}", guards.len())).unwrap().try_lock().await {
            Ok(guard) => guards.push(guard.unwrap()),
            Err(error) => break error,
        }
        assert!(guards.len() < 50_000, "there is no end");
    };
    assert!(guards.len() > 200, "{} and then {error}", guards.len());
    assert!(error.to_string().contains("has no memory left for more locks"), "{error}");
    // Nobody can ask anything there now, which is why holds= has a bound that a server of ordinary settings is far above.
    let last = guards.pop().unwrap();
    drop(guards);
    until(&server, LOCKS, "1");
    assert!(last.confirm().await.unwrap(), "what was held is not held any more");
    drop(last);
    until(&server, LOCKS, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_by_transaction_is_refused_and_one_by_session_is_not() {
    let server = ready().await;
    for (pooling, is_fit) in [(Pooling::Transaction, false), (Pooling::Session, true)] {
        let bouncer = PgBouncer::before(&server, pooling).unwrap();
        let opened = opened(&format!("{}?mode=session", bouncer.url()), LONG).await;
        match opened {
            Ok(session) => {
                assert!(is_fit, "it was not noticed");
                lock(&session, "a").await.release().await;
            }
            Err(error) => {
                assert!(!is_fit && error.kind() == ErrorKind::Unsupported, "{error}");
                assert!(
                    error.to_string().contains("a pooler hands its connections out by transaction"),
                    "{error}"
                );
            }
        }
    }
    until(&server, LOCKS, "0");
}
