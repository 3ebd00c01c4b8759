//! Who is woken by a release: whoever it is for, and no herd.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::time::Duration;

use bramah_core::{Claim, Standing, Wait, Wake, line::WHOLE};
use bramah_lab::{Etcd as Server, servers::Flavor};
use lab::{
    raw::{Raw, soon, waits},
    until_free, url,
};
use tokio::{sync::mpsc, time::timeout};

const LONG: Duration = Duration::from_secs(60);

/// Longer than a wake takes to arrive.
const QUIET: Duration = Duration::from_millis(700);

/// Waiters, and the numbers of those that were woken.
struct Line {
    raws: Vec<Raw>,
    claims: Vec<Claim>,
    tell: mpsc::UnboundedSender<usize>,
    told: mpsc::UnboundedReceiver<usize>,
}

impl Line {
    /// Enters one claim of each weight, each of a session of its own.
    async fn of(server: &Server, capacity: u32, weights: &[u32]) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let mut line = Self { raws: Vec::new(), claims: Vec::new(), tell, told };
        for weight in weights {
            let raw = Raw::open(&url(server, &[0]), LONG).await;
            let claim = raw.of("x", capacity, *weight);
            if let Standing::Queued { wake, .. } = raw.enter(&claim).await.unwrap() {
                line.hear(line.raws.len(), wake);
            }
            line.raws.push(raw);
            line.claims.push(claim);
        }
        line
    }

    fn hear(&self, number: usize, wake: Wake) {
        let tell = self.tell.clone();
        tokio::spawn(async move {
            wake.await;
            let _ = tell.send(number);
        });
    }

    /// Whoever is woken asks, until nobody is: how many were, and who holds it then.
    async fn leave(&mut self, number: usize) -> (usize, Vec<usize>) {
        self.raws[number].withdraw(&self.claims[number]).await;
        let (mut woken, mut held) = (0, Vec::new());
        while let Ok(Some(told)) = timeout(QUIET, self.told.recv()).await {
            // A wake ends with its claim.
            if told == number {
                continue;
            }
            let number = told;
            woken += 1;
            match self.raws[number].ask(&self.claims[number]).await.unwrap() {
                Standing::Held { .. } => held.push(number),
                Standing::Queued { wake, .. } => self.hear(number, wake),
                other => panic!("{number}: {other:?}"),
            }
        }
        held.sort_unstable();
        (woken, held)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_a_mutex_wakes_the_next_alone() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let mut line = Line::of(&server, 1, &[1; 6]).await;
    // One in the midst gives up: the one behind it stands behind another now.
    assert_eq!(line.leave(3).await, (1, vec![]));
    for (leaves, next) in [(0, vec![1]), (1, vec![2]), (2, vec![4]), (4, vec![5])] {
        assert_eq!(line.leave(leaves).await, (1, next));
    }
    line.leave(5).await;
    until_free(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_a_permit_wakes_two_at_the_most() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let mut line = Line::of(&server, 3, &[1, 1, 1, 1, 1, 1, 2]).await;
    for (leaves, next) in [(1, vec![3]), (0, vec![4]), (3, vec![5]), (2, vec![])] {
        let (woken, held) = line.leave(leaves).await;
        assert_eq!(held, next);
        assert!(woken <= 2, "{woken} were woken");
    }
    assert_eq!(line.leave(4).await.1, [6]);
    line.leave(5).await;
    line.leave(6).await;
    until_free(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_a_writer_wakes_the_readers_behind_it() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let mut line = Line::of(&server, WHOLE, &[WHOLE, 1, 1, 1, WHOLE, 1]).await;
    assert_eq!(line.leave(0).await, (3, vec![1, 2, 3]));
    assert_eq!(line.leave(1).await, (0, vec![]));
    assert_eq!(line.leave(3).await.1, Vec::<usize>::new());
    assert_eq!(line.leave(2).await.1, [4]);
    assert_eq!(line.leave(4).await, (1, vec![5]));
    line.leave(5).await;
    until_free(&server);
}

/// A lock whose sub-locks change all the time is free or busy as ever, and whoever is refused leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_among_busy_names_below_is_answered() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let below = Raw::open(&url(&server, &[0]), LONG).await;
    let (a, b) = (Raw::open(&url(&server, &[0]), LONG).await, Raw::open(&url(&server, &[0]), LONG).await);
    let busy = tokio::spawn(async move {
        loop {
            let claim = below.mutex("x/y");
            below.enter(&claim).await.unwrap();
            below.withdraw(&claim).await;
        }
    });
    for _ in 0..20 {
        let (mut first, mut second) = (a.mutex("x"), b.mutex("x"));
        (first.wait, second.wait) = (Wait::No, Wait::No);
        assert!(matches!(a.enter(&first).await.unwrap(), Standing::Held { .. }));
        assert!(matches!(b.enter(&second).await.unwrap(), Standing::Refused));
        let queued = b.mutex("x");
        let wake = waits(b.enter(&queued).await);
        a.withdraw(&first).await;
        soon(wake).await;
        assert!(matches!(b.ask(&queued).await.unwrap(), Standing::Held { .. }));
        b.withdraw(&queued).await;
    }
    busy.abort();
    let _ = busy.await;
    bramah_lab::until("one key at the most", Duration::from_secs(5), || {
        let keys = server.ctl(&["get", "x/", "--prefix", "--keys-only"])?;
        if keys.lines().filter(|key| !key.is_empty() && !key.contains("/y/")).count() == 0 {
            Ok(())
        } else {
            Err(keys)
        }
    })
    .unwrap();
}
