//! A server that goes back in time, and keys and users that are not what they should be.

use bramah_core::ErrorKind;

use crate::rig::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_are_not_given_twice_by_a_server_that_went_back_in_time() {
    on_both(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let (a, b) = (open(&url, ms(30_000)).await, open(&url, ms(30_000)).await);
        let _busy = mutex(&a, "busy").lock().await.unwrap();
        let (busy, x) = (mutex(&b, "busy"), mutex(&b, "x"));
        x.lock().await.unwrap().release().await;
        server.call(&["SAVE"]).unwrap();
        let mut last = None;
        for _ in 0..50 {
            // A moment later, so that the first of the two is the one that looks at the clock, and it is refused.
            nap(ms(2)).await;
            let (refused, got) = tokio::join!(busy.try_lock(), x.lock());
            assert!(refused.unwrap().is_none());
            let got = got.unwrap();
            last = last.max(got.fence());
            got.release().await;
        }
        server.kill();
        server.restart().unwrap();
        while !matches!(busy.try_lock().await, Ok(None)) {
            nap(ms(20)).await;
        }
        // At once: a connection that has not been used for a moment is looked at first, and then both look at the clock.
        // And a try: who would wait listens on the new connection first, and looks at it too.
        let (_, got) = tokio::join!(busy.try_lock(), x.try_lock());
        let after = got.unwrap().expect("it is free").fence();
        assert!(after > last, "{layout:?}: {after:?} after {last:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_the_store_has_in_line_again_is_lost() {
    let server = server(&[]);
    let (a, b) = (open(&server.url(), ms(9_000)).await, open(&server.url(), ms(30_000)).await);
    let held = mutex(&a, "n").lock().await.unwrap();
    let lock = mutex(&b, "n");
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    await_line(&server, Layout::Native, "n", 2).await;
    server.call(&["SAVE"]).unwrap();
    held.release().await;
    let granted = waiter.await.unwrap();
    server.kill();
    server.restart().unwrap();
    // The store says that the first one holds it, and keeps the second one's place for seconds only.
    tokio::time::timeout(ms(6_000), granted.lost()).await.expect("it believes in a place in line");
    assert!(!granted.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_no_lock_any_more_costs_one_hold_and_not_its_neighbours() {
    let server = server(&[]);
    let session = open(&server.url(), ms(3_000)).await;
    let mut guards = Vec::new();
    for number in 0..6 {
        guards.push(mutex(&session, &format!("k{number}")).lock().await.unwrap());
    }
    server.call(&["DEL", "bramah:{k0}"]).unwrap();
    server.call(&["LPUSH", "bramah:{k0}", "x"]).unwrap();
    tokio::time::timeout(PATIENCE, guards[0].lost()).await.expect("it is held, and its key is a list");
    // Those that were not renewed beside it would be lost by now.
    nap(ms(1_500)).await;
    let held: Vec<bool> = guards.iter().map(|guard| guard.is_held()).collect();
    assert_eq!(held, [false, true, true, true, true, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_whose_only_holder_has_a_new_note_still_expires() {
    let server = server(&[]);
    let (a, b) = (open(&server.url(), ms(9_000)).await, open(&server.url(), ms(9_000)).await);
    let leadership = a.election("e").unwrap().campaign("one").await.unwrap();
    let election = b.election("e").unwrap();
    let waiter = tokio::spawn(async move { election.campaign("two").await.map(drop) });
    await_line(&server, Layout::Native, "e", 2).await;
    waiter.abort();
    await_line(&server, Layout::Native, "e", 1).await;
    leadership.proclaim("three").await.unwrap();
    let left: i64 = server.call(&["PTTL", "bramah:{e}"]).unwrap().text().parse().unwrap();
    assert!(left > 0, "a key that stays for ever: {left}");
    leadership.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_open_a_line_harms_nobody() {
    let server = server(&[]);
    let rights = ["ACL", "SETUSER", "narrow", "on", ">hush", "~*", "&*", "+@all", "-zadd"];
    server.call(&rights).unwrap();
    let owner = open(&server.url(), ms(9_000)).await;
    let guard = mutex(&owner, "z").lock().await.unwrap();
    let narrow = format!("redis://narrow:hush@{}", server.address());
    let narrow = open(&narrow, ms(9_000)).await;
    let error = mutex(&narrow, "z").lock_within(ms(500)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("zadd") && !error.to_string().contains("user_script"), "{error}");
    assert!(guard.confirm().await.unwrap(), "who may not wait took it away");
}
