//! One thread at the most. Alone in its file, so that no other engine is in the process.

mod rig;

use std::fs;

use rig::{Client, Dir, until};

fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let name = |task: std::io::Result<fs::DirEntry>| fs::read_to_string(task.ok()?.path().join("comm")).ok();
    tasks.filter_map(name).filter(|name| name.trim() == "bramah-file").count()
}

#[tokio::test]
async fn the_thread_starts_with_the_first_lock_and_ends_with_the_engine() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let closed = Client::on(a.engine.clone());
    bramah_core::Engine::close(&closed.engine, closed.session).await.unwrap();
    assert_eq!(threads(), 0);
    a.lock("x").await;
    let waiters: Vec<Client> = (0..5).map(|_| Client::on(a.engine.clone())).collect();
    let mut wakes = Vec::new();
    for waiter in &waiters {
        wakes.push(waiter.queue("x").await);
    }
    until("it has its name", || threads() == 1);
    drop((a, closed, waiters));
    until("it is gone", || threads() == 0);
    for (_, wake) in wakes {
        assert_eq!(
            wake.await,
            bramah_core::Woken::Ask,
            "nobody is left waiting for a bell without an engine"
        );
    }
}
