//! Three members, of which some fail. After everything: nobody held it twice, whoever lost it knew before the next one had it, fences
//! rose, and nothing is left.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::time::Duration;

use bramah_core::{Fence, Guard, Session};
use bramah_lab::{Etcd as Server, Fault, Loss, servers::Flavor};
use lab::{Proxied, SOON, got, others, session_at, settled, until_free, waiter};

/// Long enough that a member may be replaced, short enough to be waited for.
const TTL: Duration = Duration::from_secs(3);

fn three() -> Server {
    Server::start(Flavor::Etcd35, 3).unwrap()
}

/// Gives it on so often, from one session to the other and back. The last guard, and its fence above all others.
async fn hand_over(sessions: [&Session; 2], name: &str, mut guard: Guard, times: usize) -> Guard {
    for turn in 0..times {
        let next = waiter(sessions[(turn + 1) % 2], name);
        tokio::time::timeout(SOON, async {
            while sessions[0]
                .inspect(&guard.name())
                .await
                .ok()
                .flatten()
                .is_none_or(|line| line.waiters().count() == 0)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("nobody waits");
        let before: Option<Fence> = guard.fence();
        assert!(guard.is_held(), "it was lost before it was given on");
        guard.release().await;
        guard = got(next).await;
        assert!(guard.fence() > before, "{:?} after {before:?}", guard.fence());
    }
    guard
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_costs_nobody_a_lock() {
    let server = three();
    let (a, b) = (session_at(&server, &[0, 1, 2], TTL).await, session_at(&server, &[2, 1, 0], TTL).await);
    let mut guard = a.mutex("x").unwrap().lock().await.unwrap();
    for _ in 0..2 {
        let leader = server.leader().unwrap();
        server.kill(leader).unwrap();
        server.await_leader(&others(leader)).unwrap();
        // Longer than what it had when the leader died.
        tokio::time::sleep(TTL + TTL / 2).await;
        assert!(guard.is_held(), "a holder that lives lost its lock");
        guard = hand_over([&a, &b], "x", guard, 2).await;
        server.start_again(leader).unwrap();
        server.await_leader(&[0, 1, 2]).unwrap();
    }
    guard.release().await;
    settled(&server, [a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_stands_still_costs_nobody_a_lock() {
    let server = three();
    let (a, b) = (session_at(&server, &[0, 1, 2], TTL).await, session_at(&server, &[0, 1, 2], TTL).await);
    let mut guard = a.mutex("x").unwrap().lock().await.unwrap();
    // Whichever of them is asked, it is frozen in one of these turns.
    for member in 0..3 {
        server.freeze(member).unwrap();
        server.await_leader(&others(member)).unwrap();
        tokio::time::sleep(TTL + TTL / 2).await;
        assert!(guard.is_held(), "a holder that lives lost its lock when member {member} stood still");
        guard = hand_over([&a, &b], "x", guard, 2).await;
        server.thaw(member).unwrap();
        server.await_leader(&[0, 1, 2]).unwrap();
    }
    guard.release().await;
    settled(&server, [a, b]).await;
}

/// A holder that reaches one member alone, which is cut off from the others.
async fn cut_off(server: &Server, member: usize) {
    let name = format!("cut{member}");
    let (far, near) =
        (session_at(server, &[member], TTL).await, session_at(server, &others(member), TTL).await);
    let old = far.mutex(&*name).unwrap().lock().await.unwrap();
    let next = waiter(&near, &name);
    lab::waiting(&near, &name, 1).await;
    server.isolate(member);
    let next = got(next).await;
    assert!(!old.is_held(), "who was cut off believed in it when the next had it");
    assert!(next.fence() > old.fence(), "{:?} after {:?}", next.fence(), old.fence());
    server.heal();
    server.await_leader(&[0, 1, 2]).unwrap();
    assert!(!old.is_held(), "what was lost came back");
    drop(old);
    // It stands in line again, behind.
    let again = waiter(&far, &name);
    lab::waiting(&near, &name, 1).await;
    next.release().await;
    got(again).await.release().await;
    settled(server, [far, near]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_at_a_follower_that_is_cut_off_knows_before_the_next_is_granted() {
    let server = three();
    let leader = server.leader().unwrap();
    cut_off(&server, others(leader)[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_at_a_leader_that_is_cut_off_knows_before_the_next_is_granted() {
    let server = three();
    for _ in 0..3 {
        let leader = server.leader().unwrap();
        cut_off(&server, leader).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nothing_is_granted_and_holders_know() {
    let server = three();
    let (a, b) = (session_at(&server, &[0, 1, 2], TTL).await, session_at(&server, &[2, 1, 0], TTL).await);
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    for member in 0..3 {
        server.isolate(member);
    }
    tokio::time::timeout(TTL * 2, guard.lost()).await.expect("it is not known that it is lost");
    let tried = b.mutex("y").unwrap().try_lock().await.unwrap_err();
    assert!(tried.kind().is_transient(), "{tried}");
    server.heal();
    server.await_leader(&[0, 1, 2]).unwrap();
    let next = got(waiter(&b, "x")).await;
    assert!(next.fence() > guard.fence() && !guard.is_held());
    drop(guard);
    let guard = hand_over([&b, &a], "x", next, 3).await;
    guard.release().await;
    settled(&server, [a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_knows_and_comes_back() {
    let server = three();
    let proxied = Proxied::before(&server);
    let (far, near) = (proxied.session(TTL).await, session_at(&server, &[0, 1, 2], TTL).await);
    for fault in [Fault::Hold, Fault::Drop] {
        let old = far.mutex("x").unwrap().lock().await.unwrap();
        let next = waiter(&near, "x");
        lab::waiting(&near, "x", 1).await;
        proxied.all(|proxy| proxy.requests(fault));
        let next = got(next).await;
        assert!(!old.is_held(), "who was cut off believed in it when the next had it");
        assert!(next.fence() > old.fence());
        drop(old);
        proxied.all(|proxy| proxy.requests(Fault::Pass));
        // What was held arrives now, late, and takes nothing from the next.
        let again = waiter(&far, "x");
        lab::waiting(&near, "x", 1).await;
        assert!(next.is_held() && !again.is_finished());
        next.release().await;
        got(again).await.release().await;
    }
    settled(&server, [far, near]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minority_of_ways_that_is_cut_costs_nobody_a_lock() {
    let server = three();
    let proxied = Proxied::before(&server);
    let (a, b) = (proxied.session(TTL).await, proxied.session(TTL).await);
    let mut guard = a.mutex("x").unwrap().lock().await.unwrap();
    for proxy in &proxied.proxies {
        proxy.requests(Fault::Drop);
        proxy.replies(Fault::Drop);
        tokio::time::sleep(TTL + TTL / 2).await;
        assert!(guard.is_held(), "a holder that lives lost its lock");
        guard = hand_over([&a, &b], "x", guard, 2).await;
        proxy.requests(Fault::Pass);
        proxy.replies(Fault::Pass);
        proxy.sever();
    }
    guard.release().await;
    settled(&server, [a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_survive_a_restart_of_all_members() {
    let server = three();
    let ttl = Duration::from_secs(20);
    let (a, b) = (session_at(&server, &[0, 1, 2], ttl).await, session_at(&server, &[2, 1, 0], ttl).await);
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    let next = waiter(&b, "x");
    lab::waiting(&a, "x", 1).await;
    lab::restart(&server);
    assert!(!next.is_finished(), "it was handed on by a restart");
    assert!(guard.confirm().await.unwrap(), "it was lost by a restart");
    let before = guard.fence();
    guard.release().await;
    let next = got(next).await;
    assert!(next.fence() > before);
    let guard = hand_over([&b, &a], "x", next, 2).await;
    guard.release().await;
    until_free(&server);
    settled(&server, [a, b]).await;
}

/// Whoever came first is served first, whatever happens to members meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_served_in_order_whatever_happens_to_members() {
    let server = three();
    let ttl = Duration::from_secs(20);
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(session_at(&server, &[0, 1, 2], ttl).await);
    }
    for harm in ["the leader is killed", "a follower freezes", "a minority is cut off", "all are restarted"] {
        let holder = got(waiter(&sessions[0], "x")).await;
        let mut line = Vec::new();
        for session in &sessions[1..] {
            line.push(waiter(session, "x"));
            lab::waiting(&sessions[0], "x", line.len()).await;
        }
        let leader = server.leader().unwrap();
        let follower = others(leader)[0];
        match harm {
            "the leader is killed" => server.kill(leader).unwrap(),
            "a follower freezes" => server.freeze(follower).unwrap(),
            "a minority is cut off" => server.isolate(leader),
            _ => lab::restart(&server),
        }
        let mut last = holder.fence();
        holder.release().await;
        while !line.is_empty() {
            let next = got(line.remove(0)).await;
            assert!(next.is_held() && next.fence() > last, "{harm}: {:?} after {last:?}", next.fence());
            assert!(line.iter().all(|later| !later.is_finished()), "{harm}: not in order");
            last = next.fence();
            next.release().await;
        }
        match harm {
            "the leader is killed" => server.start_again(leader).unwrap(),
            "a follower freezes" => server.thaw(follower).unwrap(),
            _ => server.heal(),
        }
        server.await_leader(&[0, 1, 2]).unwrap();
    }
    let sessions: [Session; 4] = sessions.try_into().unwrap();
    settled(&server, sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_taken_out_of_the_cluster_costs_nobody_a_lock() {
    let server = three();
    let (a, b) = (session_at(&server, &[0, 1, 2], TTL).await, session_at(&server, &[2, 1, 0], TTL).await);
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    let leader = server.leader().unwrap();
    let members = server.ctl_at(others(leader)[0], &["member", "list"]).unwrap();
    let line = members.lines().find(|line| line.contains(&format!(" m{leader},"))).unwrap();
    let id = line.split(',').next().unwrap();
    // Not before its members have known each other for some seconds.
    let remove = || server.ctl_at(others(leader)[0], &["member", "remove", id]);
    bramah_lab::until("a smaller cluster", SOON, remove).unwrap();
    server.await_leader(&others(leader)).unwrap();
    tokio::time::sleep(TTL + TTL / 2).await;
    assert!(guard.is_held(), "a holder that lives lost its lock");
    let guard = hand_over([&a, &b], "x", guard, 3).await;
    guard.release().await;
    for session in [a, b] {
        assert_eq!(session.close(SOON).await.left, []);
    }
    let left = server.ctl_at(others(leader)[0], &["get", "x/", "--prefix", "--keys-only"]).unwrap();
    assert!(!left.contains("x/"), "{left}");
}

/// The server does what it was asked, and the answer is lost: asked again, it is done once.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_leave_no_ghost() {
    let server = three();
    let proxied = Proxied::before(&server);
    let (a, b) = (proxied.session(TTL).await, session_at(&server, &[0, 1, 2], TTL).await);
    let (mutex, other) = (a.mutex("x").unwrap(), b.mutex("x").unwrap());
    let mut last = None;
    for round in 0..20 {
        proxied.all(|proxy| proxy.execute_and_lose(1 + round % 2, Loss::Kill));
        let guard = tokio::time::timeout(SOON, got(waiter(&a, "x"))).await.unwrap();
        assert!(guard.is_held() && guard.fence() > last, "{:?} after {last:?}", guard.fence());
        assert!(other.try_lock().await.unwrap().is_none(), "two hold it");
        last = guard.fence();
        proxied.all(|proxy| proxy.execute_and_lose(1, Loss::Kill));
        guard.release().await;
        let guard = tokio::time::timeout(SOON, other.lock()).await.expect("a ghost holds it").unwrap();
        assert!(guard.fence() > last && mutex.try_lock().await.ok().flatten().is_none(), "two hold it");
        last = guard.fence();
        guard.release().await;
    }
    proxied.all(bramah_lab::Proxy::lose_nothing);
    settled(&server, [a, b]).await;
}
