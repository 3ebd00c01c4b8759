//! What becomes of session mode when things fail.

mod pair;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::Clock;
use bramah_lab::{Fault, Proxy};

use pair::{HAD, LONG, SOON, WAITING, lock, lock_anyhow, lost, opened, ready, session, until};

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
