//! Sessions and guards that are dropped inside of runtimes, of either kind, and at the end of a process.

use std::{process::Command, sync::Arc};

use bramah_core::Session;
use bramah_lab::{Fault, Proxy};
use bramah_redis::Redis;
use tokio::runtime::{Builder, Runtime};

use crate::rig::*;

const TASKS: usize = 8;
const ROUNDS: usize = 50;

fn runtimes() -> [Runtime; 2] {
    [Builder::new_multi_thread(), Builder::new_current_thread()]
        .map(|mut kind| kind.enable_all().build().unwrap())
}

#[test]
fn sessions_dropped_by_many_tasks_at_once_fail_nothing_and_leave_nothing() {
    for runtime in runtimes() {
        let server = Arc::new(server(&[]));
        let engine = Redis::from_url(&server.url()).unwrap();
        runtime.block_on(async {
            let one = |task: usize| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    for round in 0..ROUNDS {
                        let session = Session::builder(engine.clone()).open().await?;
                        let guard = session.mutex(format!("dropped/{task}/{round}"))?.lock().await?;
                        drop(session);
                        drop(guard);
                    }
                    Ok::<_, bramah_core::Error>(())
                })
            };
            for task in (0..TASKS).map(one).collect::<Vec<_>>() {
                task.await.unwrap().unwrap();
            }
            await_nothing_left(&[&server]).await;
        });
    }
}

const CHILD: &str = "BRAMAH_DROPPING_CHILD";

/// What a program does whose `main` is a future on a runtime of one thread: it ends with everything it has.
#[test]
fn a_process_that_ends_with_its_guard_in_a_runtime_leaves_no_lock() {
    if let Ok(url) = std::env::var(CHILD) {
        let [_, runtime] = runtimes();
        return runtime.block_on(async {
            let session = open(&url, PATIENCE).await;
            let guard = mutex(&session, "left").lock().await.unwrap();
            assert!(guard.is_held());
        });
    }
    let server = server(&[]);
    for _ in 0..5 {
        let name = "dropped::a_process_that_ends_with_its_guard_in_a_runtime_leaves_no_lock";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", name]).env(CHILD, server.url()).output().unwrap();
        assert!(child.status.success(), "{child:?}");
        assert_eq!(leftovers(&server).unwrap(), [""; 0]);
    }
}

#[test]
fn a_lock_that_was_dropped_is_free_for_the_next_try_of_the_same_task() {
    for runtime in runtimes() {
        let server = server(&[]);
        runtime.block_on(async {
            let session = open(&server.url(), PATIENCE).await;
            let lock = mutex(&session, "again");
            // The server knows the scripts.
            lock.lock().await.unwrap().release().await;
            for round in 0..200 {
                let guard = lock.try_lock().await.unwrap();
                assert!(guard.is_some(), "busy in round {round}");
            }
            close_all([session], &[&server]).await;
        });
    }
}

/// A process that lets go of very many locks at once needs the memory of a bounded number of requests.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_locks_that_are_dropped_at_once_a_limited_number_is_on_the_way() {
    const LOCKS: usize = 2500;
    /// What the engine allows.
    const ABREAST: usize = 1024;
    let server = server(&[]);
    let proxy = Proxy::to(&server.address()).unwrap();
    let session = open(&format!("redis://{}?timeout=1m", proxy.address()), ms(600_000)).await;
    // A server that knows the script does not have to be told it, which would need an answer.
    mutex(&session, "first").lock().await.unwrap().release().await;
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        guards.push(mutex(&session, &format!("many/{number}")).lock().await.unwrap());
    }
    // The server releases each, and we do not hear of it.
    proxy.replies(Fault::Hold);
    drop(guards);
    let released = || -> std::result::Result<usize, String> {
        Ok(LOCKS - leftovers(&server)?.iter().filter(|key| key.contains("many")).count())
    };
    eventually("as many as are let out at once", PATIENCE, || match released()? {
        count if count >= ABREAST => Ok(()),
        count => Err(format!("{count} were released")),
    })
    .await;
    for _ in 0..20 {
        assert_eq!(released(), Ok(ABREAST));
        nap(ms(10)).await;
    }
    proxy.replies(Fault::Pass);
    close_all([session], &[&server]).await;
}
