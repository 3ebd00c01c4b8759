//! The rules that a lock hangs from, each with what happens without it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::time::Duration;

use bramah_core::{Session, Standing, Wait};
use bramah_etcd::{
    Config, Etcd,
    proto::etcdserverpb::{PutRequest, RequestOp, TxnRequest, kv_client::KvClient, request_op::Request},
};
use bramah_lab::{Etcd as Server, servers::Flavor};
use lab::{
    Proxied, flavors,
    raw::{Raw, is_gone, soon, waits},
    session_at, settled, until_free, url,
};

const LONG: Duration = Duration::from_secs(60);

/// What Jepsen found: whoever waited with a lease that had ended was granted the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_key_is_gone_is_not_granted() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let url = url(&server, &[0]);
        let (holder, waiter) = (Raw::open(&url, LONG).await, Raw::open(&url, LONG).await);
        let behind = Raw::open(&url, LONG).await;
        // Its key alone goes, while its lease lives; the second time, its lease.
        for revoked in [false, true] {
            let (held, waiting) = (holder.mutex("x"), waiter.mutex("x"));
            assert!(matches!(holder.enter(&held).await.unwrap(), Standing::Held { .. }));
            let wake = waits(waiter.enter(&waiting).await);
            match revoked {
                true => server.ctl(&["lease", "revoke", &waiter.lease()]).unwrap(),
                false => server.ctl(&["del", &waiter.key("x")]).unwrap(),
            };
            soon(wake).await;
            let next = behind.mutex("x");
            waits(behind.enter(&next).await);
            holder.withdraw(&held).await;
            is_gone(&waiter.ask(&waiting).await);
            assert!(matches!(behind.ask(&next).await.unwrap(), Standing::Held { .. }));
            behind.withdraw(&next).await;
            until_free(&server);
        }
    }
}

/// Its answer says that a claim lives for a ttl from now on, whenever the lease was last kept alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_has_the_lease_live_for_its_whole_time() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let ttl = Duration::from_secs(4);
    let raw = Raw::open(&format!("{}?margin=0s", url(&server, &[0])), ttl).await;
    tokio::time::sleep(ttl * 3 / 4).await;
    let claim = raw.mutex("x");
    assert!(matches!(raw.enter(&claim).await.unwrap(), Standing::Held { .. }));
    let told = server.ctl(&["lease", "timetolive", &raw.lease()]).unwrap();
    assert!(told.contains("remaining(4s)"), "{told}");
    raw.withdraw(&claim).await;
}

/// Its place is not given to somebody else's key of the same name either.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_created_anew_is_not_the_one_that_was_lost() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let raw = Raw::open(&url(&server, &[0]), LONG).await;
    let claim = raw.mutex("x");
    assert!(matches!(raw.enter(&claim).await.unwrap(), Standing::Held { .. }));
    let key = raw.key("x");
    let said = server.ctl(&["get", &key, "--print-value-only"]).unwrap();
    server.ctl(&["del", &key]).unwrap();
    server.ctl(&["put", &key, &said, &format!("--lease={}", raw.lease())]).unwrap();
    is_gone(&raw.ask(&claim).await);
    raw.withdraw(&claim).await;
}

/// One session has one key for a name: a claim that is on its way out is neither taken over nor taken out by the next one.
#[tokio::test(flavor = "multi_thread")]
async fn two_claims_of_a_session_are_told_apart() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let raw = Raw::open(&url(&server, &[0]), LONG).await;
    let (first, second) = (raw.mutex("x"), raw.mutex("x"));
    assert!(matches!(raw.enter(&first).await.unwrap(), Standing::Held { .. }));
    let wake = waits(raw.enter(&second).await);
    raw.withdraw(&second).await;
    assert!(
        matches!(raw.ask(&first).await.unwrap(), Standing::Held { .. }),
        "another claim's end was its own"
    );
    let mut tried = raw.mutex("x");
    tried.wait = Wait::No;
    assert!(matches!(raw.enter(&tried).await.unwrap(), Standing::Refused), "it was taken over");
    raw.withdraw(&first).await;
    soon(wake).await;
    let third = raw.mutex("x");
    assert!(matches!(raw.enter(&third).await.unwrap(), Standing::Held { .. }));
    raw.withdraw(&third).await;
    until_free(&server);
}

/// A leader that was deposed goes on renewing leases for a while: nobody counts on the last of a lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_outlives_what_its_holder_counts_on_by_the_margin() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    for (ttl, options, seconds) in
        [(5_000, "", 8), (600, "", 3), (5_000, "?margin=4s", 10), (5_000, "?margin=0s", 6)]
    {
        let ttl = Duration::from_millis(ttl);
        let raw = Raw::open(&format!("{}{options}", url(&server, &[0])), ttl).await;
        assert_eq!(raw.ttl, ttl);
        let told = server.ctl(&["lease", "timetolive", &raw.lease()]).unwrap();
        assert!(told.contains(&format!("granted with TTL({seconds}s)")), "{ttl:?}{options}: {told}");
        raw.engine.close(raw.session).await.unwrap();
    }
}

/// etcd has a shortest lease, of one and a half election timeouts: what it grants counts, not what was asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_the_server_made_longer_is_good() {
    let server =
        Server::with(Flavor::Etcd35, 1, &[("election-timeout", "5000"), ("heartbeat-interval", "500")])
            .unwrap();
    let session = session_at(&server, &[0], Duration::from_secs(1)).await;
    let guard = session.mutex("x").unwrap().lock().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(guard.is_held());
    guard.release().await;
    settled(&server, [session]).await;
}

/// Its own key is watched: whoever is robbed of it learns it long before the next renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_lease_is_revoked_is_told_at_once() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let session = session_at(&server, &[0], LONG).await;
        for revoked in [false, true] {
            let guard = session.mutex("x").unwrap().lock().await.unwrap();
            let lease = format!("{:x}", session.id().bits() & u128::from(u64::MAX >> 1));
            match revoked {
                true => server.ctl(&["lease", "revoke", &lease]).unwrap(),
                false => server.ctl(&["del", &format!("x/{lease}")]).unwrap(),
            };
            // A renewal comes every 20 s.
            let told = tokio::time::timeout(Duration::from_secs(5), guard.lost()).await;
            told.expect("it is not known that it is lost");
        }
        // It goes on under a new lease.
        session.mutex("x").unwrap().lock().await.unwrap().release().await;
        settled(&server, [session]).await;
    }
}

/// A session that ends its lease may have asked for that more than once: a request of those that is late takes nothing from the session
/// that was opened anew meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_comes_late_does_not_end_the_session_that_was_opened_anew() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let (session, other) = (session_at(&server, &[0], LONG).await, session_at(&server, &[0], LONG).await);
        let lease = format!("{:x}", session.id().bits() & u128::from(u64::MAX >> 1));
        let lost = session.mutex("x").unwrap().lock().await.unwrap();
        server.ctl(&["lease", "revoke", &lease]).unwrap();
        soon(lost.lost()).await;
        drop(lost);
        let again = soon(session.mutex("x").unwrap().lock()).await.unwrap();
        // What comes late; there is no such lease any more, or it is nobody's.
        let late = server.ctl(&["lease", "revoke", &lease]);
        assert!(
            other.mutex("x").unwrap().try_lock().await.unwrap().is_none(),
            "{flavor}: two hold it after {late:?}"
        );
        assert!(again.confirm().await.unwrap(), "{flavor}: it was lost");
        again.release().await;
        settled(&server, [session, other]).await;
    }
}

/// A waiter whose lease is revoked stands in line again, at the end, and is granted in its turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_lease_is_revoked_stands_in_line_again() {
    let server = Server::start(Flavor::Etcd35, 3).unwrap();
    let all = [0, 1, 2];
    let (a, b, c) = (
        session_at(&server, &all, LONG).await,
        session_at(&server, &all, LONG).await,
        session_at(&server, &all, LONG).await,
    );
    let lock = |session: &Session| {
        let mutex = session.mutex("x").unwrap();
        tokio::spawn(async move { mutex.lock().await.unwrap() })
    };
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    let robbed = lock(&b);
    lab::waiting(&a, "x", 1).await;
    let behind = lock(&c);
    lab::waiting(&a, "x", 2).await;
    let lease = format!("{:x}", b.id().bits() & u128::from(u64::MAX >> 1));
    server.ctl(&["lease", "revoke", &lease]).unwrap();
    let last = || async {
        a.inspect(&guard.name())
            .await
            .unwrap()
            .map(|line| line.places.last().map(|place| place.claim.id.session))
    };
    soon(async {
        while last().await.flatten() != Some(b.id()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    guard.release().await;
    let second = soon(behind).await.unwrap();
    assert!(!robbed.is_finished(), "two hold it");
    second.release().await;
    soon(robbed).await.unwrap().release().await;
    settled(&server, [a, b, c]).await;
}

/// What a stream would have to go on with is gone: whoever waits looks for himself, and is told from there on.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_when_what_it_began_with_was_compacted() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let proxied = Proxied::before(&server);
        let (holder, waiter) =
            (Raw::open(&url(&server, &[0]), LONG).await, Raw::open(&proxied.url(), LONG).await);
        let (held, waiting) = (holder.mutex("x"), waiter.mutex("x"));
        assert!(matches!(holder.enter(&held).await.unwrap(), Standing::Held { .. }));
        let wake = waits(waiter.enter(&waiting).await);
        proxied.all(|proxy| proxy.refuse(true));
        proxied.all(bramah_lab::Proxy::sever);
        for _ in 0..3 {
            server.ctl(&["put", "/other", "value"]).unwrap();
        }
        let revision = server.ctl(&["get", "/other", "--write-out=json"]).unwrap();
        let revision = revision.split("\"revision\":").nth(1).unwrap();
        let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
        server.ctl(&["compact", &revision]).unwrap();
        proxied.all(|proxy| proxy.refuse(false));
        // Nothing happened in the line, and still it asks, for something might have.
        soon(wake).await;
        let wake = waits(waiter.ask(&waiting).await);
        holder.withdraw(&held).await;
        soon(wake).await;
        assert!(matches!(waiter.ask(&waiting).await.unwrap(), Standing::Held { .. }));
        waiter.withdraw(&waiting).await;
        until_free(&server);
    }
}

/// What happened while no stream was there is told by the next one.
#[tokio::test(flavor = "multi_thread")]
async fn no_wake_is_lost_between_two_streams() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let proxied = Proxied::before(&server);
    let (holder, waiter) =
        (Raw::open(&url(&server, &[0]), LONG).await, Raw::open(&proxied.url(), LONG).await);
    for _ in 0..3 {
        let (held, waiting) = (holder.mutex("x"), waiter.mutex("x"));
        assert!(matches!(holder.enter(&held).await.unwrap(), Standing::Held { .. }));
        let wake = waits(waiter.enter(&waiting).await);
        proxied.all(|proxy| proxy.refuse(true));
        proxied.all(bramah_lab::Proxy::sever);
        holder.withdraw(&held).await;
        proxied.all(|proxy| proxy.refuse(false));
        soon(wake).await;
        assert!(matches!(waiter.ask(&waiting).await.unwrap(), Standing::Held { .. }));
        waiter.withdraw(&waiting).await;
    }
    until_free(&server);
}

/// A write of a user that etcd itself refuses once the lock is not held any more: what no deadline can promise.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_under_a_lock_is_done_under_it_or_not_at_all() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let etcd = Etcd::new(&Config::from_url(&url(&server, &[0])).unwrap()).unwrap();
    let (a, b) = (
        Session::builder(etcd.clone()).ttl(LONG).open().await.unwrap(),
        session_at(&server, &[0], LONG).await,
    );
    let channel = tonic::transport::Channel::from_shared(server.endpoints().remove(0)).unwrap();
    let mut kv = KvClient::new(channel.connect().await.unwrap());
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    let condition = etcd.guard_condition(&guard).unwrap();
    let put = PutRequest { key: b"/data".into(), value: b"mine".into(), ..PutRequest::default() };
    let put = RequestOp { request: Some(Request::RequestPut(put)) };
    let write = TxnRequest { compare: vec![condition.compare()], success: vec![put], failure: Vec::new() };
    assert!(kv.txn(write.clone()).await.unwrap().into_inner().succeeded);
    assert!(b.break_hold(&guard.name(), guard.tag(), "a test").await.unwrap());
    soon(guard.lost()).await;
    assert_eq!(etcd.guard_condition(&guard), None);
    // Also when the same session has it again.
    drop(guard);
    let again = soon(a.mutex("x").unwrap().lock()).await.unwrap();
    assert!(!kv.txn(write).await.unwrap().into_inner().succeeded, "a write that was late was done");
    assert_ne!(etcd.guard_condition(&again), Some(condition));
    again.release().await;
    server.ctl(&["del", "/data"]).unwrap();
    settled(&server, [a, b]).await;
}
