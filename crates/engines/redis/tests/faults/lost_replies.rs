//! The server does what it is asked, and the answer is lost on the way.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use bramah_core::{ErrorKind, Lock, Release, Session};
use bramah_lab::{Loss, Proxy, Redis as Server};

use crate::rig::*;

const ROUNDS: usize = 6;
const TTL: Duration = ms(900);
/// A ghost that is renewed stays for ever; how soon after its ttl another one is gone depends on the machine.
const AT_LAST: Duration = ms(10_000);

/// What a claim on Redisson's layout ends with.
const REDISSONS: &str = "\r\n{lost}:timeout";

/// A server, the way to it that loses answers, a session on that way, and one with a way of its own.
struct Scene {
    server: Server,
    proxy: Proxy,
    ours: Session,
    other: Session,
    ledger: Arc<Ledger>,
    loss: Loss,
}

impl Scene {
    async fn set(layout: Layout, loss: Loss) -> Self {
        Self::lasting(TTL, layout, loss).await
    }

    /// The same with another ttl.
    async fn lasting(ttl: Duration, layout: Layout, loss: Loss) -> Self {
        let server = server(&[]);
        let proxy = Proxy::to(&server.address()).unwrap();
        let ours = open(&layout.url(&format!("redis://{}", proxy.address())), ttl).await;
        let other = open(&layout.url(&server.url()), ttl).await;
        Self { server, proxy, ours, other, ledger: Ledger::strict(), loss }
    }

    fn ours(&self) -> Lock {
        mutex(&self.ours, "lost")
    }

    fn other(&self) -> Lock {
        mutex(&self.other, "lost")
    }

    /// From here on the answer to the next script is lost.
    fn lose_next(&self) -> u64 {
        self.lose_next_ending(&[""])
    }

    /// The same for the next script whose last argument is one of these.
    fn lose_next_ending(&self, words: &[&str]) -> u64 {
        let before = self.proxy.counts().lost;
        let mut armed = true;
        let ends: Vec<_> = words.iter().map(|word| format!("{word}\r\n")).collect();
        self.proxy.lose_replies_matching(self.loss, move |bytes| {
            // Several may have come together, and each of them begins with a star.
            let text = String::from_utf8_lossy(bytes);
            let is_one =
                |request: &str| request.contains("EVALSHA") && ends.iter().any(|end| request.ends_with(end));
            let ours = text.match_indices("\r\n*").map(|(at, _)| &text[..at + 2]).chain([&*text]).any(is_one);
            let lose = armed && ours;
            armed &= !ours;
            lose
        });
        before
    }

    async fn await_lost(&self, before: u64) {
        eventually("an answer that is lost", PATIENCE, || {
            if self.proxy.counts().lost > before { Ok(()) } else { Err("none yet".into()) }
        })
        .await;
    }

    /// Whatever is left in doubt is over when its ttl is, and the other one can have the lock.
    async fn other_gets_it(&self) {
        let began = now();
        self.ledger.lock(&self.other()).await.release().await;
        let waited = now().since(began);
        assert!(waited < AT_LAST, "a ghost held it for {waited:?}");
    }

    async fn end(self) {
        self.proxy.lose_nothing();
        close_all([self.ours, self.other], &[&self.server]).await;
    }
}

async fn lost_claims(layout: Layout, loss: Loss) {
    let scene = Scene::set(layout, loss).await;
    for _ in 0..ROUNDS {
        scene.ledger.persist(&scene.ours()).await.release().await;
        let before = scene.lose_next();
        // The store has granted it to a claim whose owner does not know.
        let held = scene.ledger.persist(&scene.ours()).await;
        scene.await_lost(before).await;
        assert!(scene.other().try_lock().await.unwrap().is_none(), "it is held");
        assert_ne!(held.release().await, Release::AlreadyLost);
        scene.other_gets_it().await;
    }
    scene.end().await;
}

async fn lost_tries(layout: Layout, loss: Loss) {
    let scene = Scene::set(layout, loss).await;
    for _ in 0..ROUNDS {
        scene.ledger.persist(&scene.ours()).await.release().await;
        // Not that of a withdrawal of the last round, which goes on for a ttl.
        let before = scene.lose_next_ending(&["\r\nn", "\r\nns", REDISSONS]);
        let error = scene.ours().try_lock().await.expect_err("its answer is lost");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        scene.await_lost(before).await;
        scene.other_gets_it().await;
    }
    scene.end().await;
}

async fn lost_questions(layout: Layout, loss: Loss) {
    let scene = Scene::set(layout, loss).await;
    for _ in 0..ROUNDS {
        let held = scene.ledger.persist(&scene.ours()).await;
        let waiting = wait_for(&scene.ledger, &scene.other());
        let before = scene.lose_next();
        // Either the question or a renewal was the one; both only prove life.
        let _ = held.confirm().await;
        scene.await_lost(before).await;
        assert!(held.is_held() && !waiting.is_finished());
        assert_ne!(held.release().await, Release::AlreadyLost);
        waiting.await.unwrap().release().await;
    }
    scene.end().await;
}

async fn lost_places(layout: Layout, loss: Loss) {
    let scene = Scene::set(layout, loss).await;
    for _ in 0..ROUNDS {
        let held = scene.ledger.lock(&scene.other()).await;
        // The store knows of a waiter that does not know whether it waits.
        let before = scene.lose_next_ending(&["\r\nl", "\r\nls", "\r\nw", "\r\nws", "\r\nwo", REDISSONS]);
        let waiting = tokio::spawn({
            let (ledger, lock) = (scene.ledger.clone(), scene.ours());
            async move { ledger.persist(&lock).await }
        });
        scene.await_lost(before).await;
        assert_eq!(held.release().await, Release::Released);
        let released = now();
        let next = waiting.await.unwrap();
        assert!(now().since(released) < AT_LAST, "after {:?}", now().since(released));
        assert!(scene.other().try_lock().await.unwrap().is_none(), "it is held");
        assert_ne!(next.release().await, Release::AlreadyLost);
        scene.other_gets_it().await;
    }
    scene.end().await;
}

/// Who waits in line asks when its connection has ended; and that answer is lost, too.
async fn lost_questions_of_a_waiter(loss: Loss) {
    let scene = Scene::set(Layout::Native, loss).await;
    for _ in 0..ROUNDS {
        let held = scene.ledger.lock(&scene.other()).await;
        let waiting = tokio::spawn({
            let (ledger, lock) = (scene.ledger.clone(), scene.ours());
            async move { ledger.persist(&lock).await }
        });
        await_line(&scene.server, Layout::Native, "lost", 2).await;
        // A question ends with an empty argument.
        let before = scene.lose_next_ending(&["$0\r\n"]);
        scene.proxy.sever();
        scene.await_lost(before).await;
        assert!(held.confirm().await.unwrap() && !waiting.is_finished());
        assert_eq!(held.release().await, Release::Released);
        assert_ne!(waiting.await.unwrap().release().await, Release::AlreadyLost);
        scene.other_gets_it().await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiters_question_whose_answer_is_cut_off_is_asked_again() {
    lost_questions_of_a_waiter(Loss::Kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiters_question_whose_answer_never_comes_is_asked_again() {
    lost_questions_of_a_waiter(Loss::Stall).await;
}

async fn lost_renewals(layout: Layout, loss: Loss) {
    // A third of it goes by until the lost answer is given up, and the machine may stand still for a second of the rest.
    let scene = Scene::lasting(TTL * 4, layout, loss).await;
    for _ in 0..ROUNDS / 2 {
        let held = scene.ledger.persist(&scene.ours()).await;
        let before = scene.lose_next();
        scene.await_lost(before).await;
        // One renewal of three: the next ones keep it, over another connection.
        let (asked, remaining) = (now(), held.remaining());
        eventually("the next renewal", PATIENCE, || {
            assert!(held.is_held(), "one lost answer cost the lock");
            let passed = now().since(asked);
            if held.remaining() + passed > remaining + ms(50) { Ok(()) } else { Err("none yet".into()) }
        })
        .await;
        assert_ne!(held.release().await, Release::AlreadyLost);
        scene.other_gets_it().await;
    }
    scene.end().await;
}

async fn lost_releases(layout: Layout, loss: Loss) {
    let scene = Scene::set(layout, loss).await;
    for round in 0..ROUNDS {
        let held = scene.ledger.persist(&scene.ours()).await;
        let waiting = (round % 2 == 1).then(|| wait_for(&scene.ledger, &scene.other()));
        if waiting.is_some() {
            nap(ms(50)).await;
        }
        let before = scene.lose_next();
        assert_ne!(held.release().await, Release::AlreadyLost);
        scene.await_lost(before).await;
        // The withdrawal is repeated, and must not end the hold of the next one.
        match waiting {
            Some(waiting) => {
                let next = waiting.await.unwrap();
                nap(ms(100)).await;
                assert!(next.confirm().await.unwrap(), "a late withdrawal hit somebody else");
                next.release().await;
            }
            None => scene.other_gets_it().await,
        }
    }
    scene.end().await;
}

macro_rules! lost {
    ($($name:ident: $test:ident, $loss:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $name() {
            on_all(|layout| $test(layout, Loss::$loss)).await;
        }
    )*};
}

lost! {
    a_claim_whose_answer_is_cut_off_is_granted_once: lost_claims, Kill;
    a_claim_whose_answer_never_comes_is_granted_once: lost_claims, Stall;
    a_try_whose_answer_is_cut_off_leaves_no_ghost: lost_tries, Kill;
    a_try_whose_answer_never_comes_leaves_no_ghost: lost_tries, Stall;
    a_question_whose_answer_is_cut_off_changes_nothing: lost_questions, Kill;
    a_question_whose_answer_never_comes_changes_nothing: lost_questions, Stall;
    a_place_whose_answer_is_cut_off_is_served_once: lost_places, Kill;
    a_place_whose_answer_never_comes_is_served_once: lost_places, Stall;
    a_renewal_whose_answer_is_cut_off_is_followed_by_another: lost_renewals, Kill;
    a_renewal_whose_answer_never_comes_is_followed_by_another: lost_renewals, Stall;
    a_release_whose_answer_is_cut_off_is_a_release: lost_releases, Kill;
    a_release_whose_answer_never_comes_is_a_release: lost_releases, Stall;
}

/// Everything that a server is asked, one line each.
fn overhear(server: &Server) -> Arc<Mutex<Vec<String>>> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let theirs = heard.clone();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            theirs.lock().unwrap().push(line);
        }
    });
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_claim_that_may_have_been_carried_out_is_not_sent_again_by_the_driver() {
    for (layout, loss) in [
        (Layout::Native, Loss::Kill),
        (Layout::Native, Loss::Stall),
        (Layout::Plain, Loss::Kill),
        (Layout::Plain, Loss::Stall),
    ] {
        let scene = Scene::set(layout, loss).await;
        scene.ledger.persist(&scene.ours()).await.release().await;
        let heard = overhear(&scene.server);
        let before = scene.lose_next();
        // A try is sent once by core. The withdrawals after it are another script, and no claim.
        let error = scene.ours().try_lock().await.expect_err("its answer is lost");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        scene.await_lost(before).await;
        scene.other_gets_it().await;
        let session = scene.ours.id().to_string();
        scene.end().await;
        let heard = heard.lock().unwrap();
        let claims = |flags: [&str; 2]| {
            let ours = heard.iter().filter(|line| line.contains("\"EVALSHA\"") && line.contains(&session));
            ours.filter(|line| flags.iter().any(|flag| line.ends_with(flag))).count()
        };
        assert_eq!(claims([" \"n\"", " \"ns\""]), 1, "{layout:?} {loss:?}: {heard:#?}");
    }
}
