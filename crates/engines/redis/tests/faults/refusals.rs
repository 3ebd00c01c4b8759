//! Servers that are full, and servers that do not allow it.

use bramah_core::{ErrorKind, Release};

use crate::rig::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_out_of_memory_grants_nothing_new_and_keeps_and_hands_over_what_is_there() {
    on_both(|layout| async move {
        let server = server(&[]);
        let url = layout.url(&server.url());
        let ttl = ms(4500);
        // Of three sessions, for a script that has written something is not stopped any more.
        let (a, b, c) = (open(&url, ttl).await, open(&url, ttl).await, open(&url, ttl).await);
        let ledger = Ledger::strict();
        let alone = mutex(&c, "alone").lock().await.unwrap();
        let contended = ledger.lock(&mutex(&a, "line")).await;
        let waiting = tokio::spawn({
            let (ledger, lock) = (ledger.clone(), mutex(&b, "line"));
            async move { ledger.persist(&lock).await }
        });
        await_line(&server, layout, "line", 2).await;

        server.call(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        let error = mutex(&a, "new").try_lock().await.expect_err("there is no room");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("memory"), "{error}");
        // Both outlive their ttl, so they have been renewed.
        let until = now() + ttl + ms(300);
        eventually("more than a ttl", PATIENCE, || {
            assert!(alone.is_held(), "a hold was not renewed");
            assert!(contended.is_held(), "a hold that somebody waits for was not renewed");
            if now() > until { Ok(()) } else { Err("not yet".into()) }
        })
        .await;
        assert!(alone.confirm().await.unwrap() && contended.confirm().await.unwrap());
        assert_eq!(alone.release().await, Release::Released);
        assert_eq!(contended.release().await, Release::Released);
        if layout == Layout::Native {
            assert_eq!(waiting.await.unwrap().release().await, Release::Released);
            server.call(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        } else {
            // Without a line the next holder is a new one.
            server.call(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
            assert_eq!(waiting.await.unwrap().release().await, Release::Released);
        }
        assert_eq!(ledger.persist(&mutex(&a, "line")).await.release().await, Release::Released);
        close_all([a, b, c], &[&server]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_user_who_may_not_run_scripts_is_told_so() {
    on_both(|layout| async move {
        let server = server(&[]);
        server.call(&["ACL", "SETUSER", "clerk", "on", ">sesame", "~*", "&*", "+@all", "-evalsha"]).unwrap();
        let url = layout.url(&format!("redis://clerk:sesame@{}", server.address()));
        let session = open(&url, ms(3000)).await;
        for error in [
            mutex(&session, "denied").try_lock().await.map(drop).expect_err("it is not permitted"),
            mutex(&session, "denied").lock().await.map(drop).expect_err("it is not permitted"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(error.to_string().contains("evalsha"), "{error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
        }
        server.call(&["ACL", "SETUSER", "clerk", "+evalsha"]).unwrap();
        let guard = mutex(&session, "denied").lock().await.unwrap();
        assert_eq!(guard.release().await, Release::Released);
        close_all([session], &[&server]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wrong_password_is_denied_and_never_shown() {
    let server = server(&[("requirepass", "sesame")]);
    for (login, word) in [(":mellon@", "password"), ("", "password"), ("clerk:mellon@", "password")] {
        let url = format!("redis://{login}{}", server.address());
        let error = try_open(&url, ms(3000)).await.map(drop).expect_err("the password is wrong");
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(!format!("{error} {error:?}").contains("mellon"), "{error:?}");
    }
    let session = open(&format!("redis://:sesame@{}", server.address()), ms(3000)).await;
    close_all([session], &[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_may_throw_locks_away_is_refused_unless_that_is_accepted() {
    let server = server(&[("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")]);
    let error = try_open(&server.url(), ms(3000)).await.map(drop).expect_err("it evicts");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(
        error.to_string().contains("allkeys-lru") && error.to_string().contains("eviction=allow"),
        "{error}"
    );
    let session = open(&format!("{}?eviction=allow", server.url()), ms(3000)).await;
    let guard = mutex(&session, "kept").lock().await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
    close_all([session], &[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_user_who_may_not_ask_for_replicas_leaves_no_grant_behind() {
    on_both(|layout| async move {
        let server = server(&[]);
        server
            .call(&["ACL", "SETUSER", "clerk", "on", ">sesame", "~*", "&*", "+@all", "-role", "-wait"])
            .unwrap();
        for policy in ["majority", "any"] {
            let base = format!("redis://clerk:sesame@{}?replicas={policy}", server.address());
            let session = open(&layout.url(&base), ms(30_000)).await;
            let error = mutex(&session, "shown").try_lock().await.map(drop).expect_err("not permitted");
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            // What was granted on the way there must not be left for a ttl of half a minute.
            eventually("nothing but the session", ms(5000), || {
                let left = leftovers(&server)?;
                let only = left.iter().all(|key| key.starts_with("bramah:session:"));
                if only { Ok(()) } else { Err(format!("{left:?}")) }
            })
            .await;
            close_all([session], &[&server]).await;
        }
    })
    .await;
}
