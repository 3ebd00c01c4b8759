//! Readers beside each other, writers alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bramah_core::{ErrorKind, Lock};

use crate::{
    bench::{Bench, SLOW, got},
    case::{Outcome, cases, ensure, ensure_eq},
};

cases! { "shared":
    readers_hold_together [Shared],
    a_writer_is_alone [Shared],
    a_waiting_writer_holds_back_later_readers [Shared, Fifo],
    readers_behind_a_writer_come_in_together [Shared, Fifo],
    a_writer_that_gives_up_lets_readers_in [Shared, Fifo],
    readers_and_writers_never_mix [Shared],
}

async fn readers_hold_together(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let one = a.rwlock(&name)?.read().lock().await?;
    let two = got(b.rwlock(&name)?.read().try_lock().await)?;
    ensure!(one.is_held() && two.is_held(), "two readers do not hold together");
    ensure_eq!(bench.standing(&name).await?, (2, 0), "holders and waiters");
    Ok(())
}

async fn a_writer_is_alone(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let (one, two) = (a.rwlock(&name)?, b.rwlock(&name)?);
    let reader = one.read().lock().await?;
    ensure!(two.write().try_lock().await?.is_none(), "a writer beside a reader");
    reader.release().await;
    let writer = got(two.write().try_lock().await)?;
    ensure!(one.read().try_lock().await?.is_none(), "a reader beside a writer");
    ensure!(one.write().try_lock().await?.is_none(), "two writers");
    writer.release().await;
    drop(got(one.read().try_lock().await)?);
    Ok(())
}

async fn a_waiting_writer_holds_back_later_readers(bench: Bench) -> Outcome {
    let (a, b, c) = (bench.session().await?, bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let reader = a.rwlock(&name)?.read().lock().await?;
    let write = b.rwlock(&name)?.write();
    let writer = tokio::spawn(async move { write.lock().await });
    bench.waiting(&name, 1).await?;
    let late = c.rwlock(&name)?.read();
    ensure!(late.try_lock().await?.is_none(), "a later reader passed a waiting writer");
    let waited = late.lock_within(Duration::from_millis(50)).await;
    ensure_eq!(waited.err().map(|error| error.kind()), Some(ErrorKind::Timeout), "a later reader");
    reader.release().await;
    let writer = bench.soon("the writer's turn", writer).await???;
    writer.release().await;
    drop(got(late.try_lock().await)?);
    Ok(())
}

async fn readers_behind_a_writer_come_in_together(bench: Bench) -> Outcome {
    let sessions = bench.sessions(4).await?;
    let name = bench.name("x");
    let writer = sessions[0].rwlock(&name)?.write().lock().await?;
    let mut readers = Vec::new();
    for session in &sessions[1..] {
        let read = session.rwlock(&name)?.read();
        readers.push(tokio::spawn(async move { read.lock().await }));
    }
    bench.waiting(&name, 3).await?;
    writer.release().await;
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(bench.soon("a reader's turn beside the others", reader).await???);
    }
    ensure!(guards.iter().all(bramah_core::Guard::is_held), "a reader lost it");
    Ok(())
}

async fn a_writer_that_gives_up_lets_readers_in(bench: Bench) -> Outcome {
    let sessions = bench.sessions(3).await?;
    let name = bench.name("x");
    let _first = sessions[0].rwlock(&name)?.read().lock().await?;
    let write = sessions[1].rwlock(&name)?.write();
    let writer = tokio::spawn(async move { write.lock().await });
    bench.waiting(&name, 1).await?;
    let read = sessions[2].rwlock(&name)?.read();
    let reader = tokio::spawn(async move { read.lock().await });
    bench.waiting(&name, 2).await?;
    writer.abort();
    let _ = bench.soon("the reader's turn after the writer gave up", reader).await???;
    Ok(())
}

/// Below zero while written, above it while read.
async fn visit(lock: Lock, inside: Arc<AtomicI64>, weight: i64) -> Outcome {
    for _ in 0..12 {
        let guard = lock.lock().await?;
        let before = inside.fetch_add(weight, Ordering::SeqCst);
        let fits = if weight < 0 { before == 0 } else { before >= 0 };
        tokio::task::yield_now().await;
        inside.fetch_sub(weight, Ordering::SeqCst);
        ensure!(fits, "{before} inside when {weight} came in");
        guard.release().await;
    }
    Ok(())
}

async fn readers_and_writers_never_mix(bench: Bench) -> Outcome {
    let name = bench.name("x");
    let inside = Arc::new(AtomicI64::new(0));
    let mut tasks = Vec::new();
    for session in bench.sessions(3).await? {
        let lock = session.rwlock(&name)?;
        for _ in 0..3 {
            tasks.push(tokio::spawn(visit(lock.read(), inside.clone(), 1)));
        }
        tasks.push(tokio::spawn(visit(lock.write(), inside.clone(), -1_000)));
    }
    for task in tasks {
        bench.within(SLOW, "a task's last turn", task).await???;
    }
    Ok(())
}
