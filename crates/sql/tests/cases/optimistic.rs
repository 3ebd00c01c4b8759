use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use bramah_lab::Loss;
use bramah_sql::{Class, Error, Result, Tx, cas, classify, for_update, optimistic};
use tokio::sync::{Barrier, mpsc};

use crate::on::{Db, Pool, admin, pool, pool_behind_a_proxy, q};

async fn table(name: &str) -> Pool {
    admin(&format!("create table {name} (id int primary key, n int not null, version bigint not null)"));
    admin(&format!("insert into {name} values (1, 10, 0), (2, 20, 0)"));
    pool().await
}

/// Adds to row 1 by compare and set. `between` happens after the read.
async fn add(tx: &mut Tx<Db>, table: &str, between: impl FnOnce()) -> Result<i32> {
    let read = q(&format!("select n, version from {table} where id = 1"));
    let (n, version): (i32, i64) = sqlx::query_as(read).fetch_one(&mut **tx).await?;
    between();
    cas(tx, q(&format!("update {table} set n = $1, version = version + 1 where id = 1 and version = $2")))
        .bind(n + 1)
        .version(version)
        .probe(q(&format!("select version from {table} where id = 1")))
        .execute()
        .await?;
    Ok(n + 1)
}

fn disturb(table: &str) {
    admin(&format!("update {table} set n = n + 100, version = version + 1 where id = 1"));
}

#[tokio::test]
async fn a_conflict_is_run_again_from_the_start_with_a_fresh_read() {
    let pool = table("opt_again").await;
    let mut runs = 0;
    let n = optimistic(&pool)
        .run(|mut tx| {
            runs += 1;
            let faster = move || {
                if runs <= 2 {
                    disturb("opt_again")
                }
            };
            async move { add(&mut tx, "opt_again", faster).await }
        })
        .await;
    assert_eq!((n.unwrap(), runs), (211, 3));
    assert_eq!(admin("select n from opt_again where id = 1"), "211");
}

#[tokio::test]
async fn tries_end_with_the_last_conflict() {
    let pool = table("opt_exhausted").await;
    let mut runs = 0;
    let done = optimistic(&pool)
        .tries(3)
        .backoff(Duration::from_millis(1), Duration::from_millis(2))
        .run(|mut tx| {
            runs += 1;
            async move { add(&mut tx, "opt_exhausted", || disturb("opt_exhausted")).await }
        })
        .await;
    let Err(Error::Exhausted { tries: 3, last }) = done else { panic!("{done:?}") };
    assert!(matches!(*last, Error::Conflict { expected: 2, actual: 3 }), "{last:?}");
    assert_eq!(runs, 3);
    assert_eq!(admin("select n from opt_exhausted where id = 1"), "310");
}

#[tokio::test]
async fn an_error_of_the_caller_rolls_back_and_is_not_tried_again() {
    let pool = table("opt_other").await;
    let mut runs = 0;
    let done: Result<()> = optimistic(&pool)
        .run(|mut tx| {
            runs += 1;
            async move {
                add(&mut tx, "opt_other", || ()).await?;
                Err(Error::other("none left"))
            }
        })
        .await;
    assert_eq!(done.unwrap_err().to_string(), "none left");
    assert_eq!(runs, 1);
    assert_eq!(admin("select n from opt_other where id = 1"), "10");
}

#[tokio::test]
async fn it_can_be_spawned() {
    let pool = table("opt_spawn").await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let often = optimistic(&pool).tries(1000);
                often.run(async |mut tx| add(&mut tx, "opt_spawn", || ()).await).await.unwrap()
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(admin("select n from opt_spawn where id = 1"), "30");
}

/// Locks two rows, and waits between the two until the other one has its first too, the first time.
async fn cross(pool: &Pool, barrier: &Barrier, order: [i32; 2], runs: &AtomicU32) -> Result<()> {
    let first_time = AtomicBool::new(true);
    let work = async |mut tx: Tx<Db>| {
        runs.fetch_add(1, Relaxed);
        let select = "select n from opt_deadlock where id = $1";
        for_update(&mut tx, q(select)).bind(order[0]).fetch_one::<(i32,)>().await?;
        if first_time.swap(false, Relaxed) {
            barrier.wait().await;
        }
        for_update(&mut tx, q(select)).bind(order[1]).fetch_one::<(i32,)>().await?;
        sqlx::query(q("update opt_deadlock set n = n + 1")).execute(&mut *tx).await?;
        Ok(())
    };
    optimistic(pool).run(work).await
}

#[tokio::test]
async fn of_two_in_a_deadlock_one_is_run_again() {
    let pool = table("opt_deadlock").await;
    let (barrier, runs) = (Barrier::new(2), AtomicU32::new(0));
    let (one, other) =
        tokio::join!(cross(&pool, &barrier, [1, 2], &runs), cross(&pool, &barrier, [2, 1], &runs));
    one.unwrap();
    other.unwrap();
    assert_eq!(runs.into_inner(), 3);
    assert_eq!(admin("select sum(n) from opt_deadlock"), "34");
}

/// As above, but an error is kept by the closure.
#[tokio::test]
async fn a_deadlock_that_the_closure_keeps_to_itself_is_told() {
    let pool = table("opt_kept").await;
    let barrier = Barrier::new(2);
    let cross = async |order: [i32; 2]| {
        optimistic(&pool)
            .run(async |mut tx| {
                let select = "select n from opt_kept where id = $1";
                for_update(&mut tx, q(select)).bind(order[0]).fetch_one::<(i32,)>().await?;
                barrier.wait().await;
                let second = for_update(&mut tx, q(select)).bind(order[1]).fetch_one::<(i32,)>().await;
                if let Err(Error::Sql(why)) = &second {
                    assert_eq!(classify(why), Class::Deadlock);
                }
                Ok(second.is_ok())
            })
            .await
    };
    let (one, other) = tokio::join!(cross([1, 2]), cross([2, 1]));
    assert!(
        matches!((&one, &other), (Ok(true), Err(Error::Ended(_))) | (Err(Error::Ended(_)), Ok(true))),
        "{one:?} {other:?}"
    );
}

#[tokio::test]
async fn a_closure_that_ends_the_transaction_itself_is_told() {
    let pool = table("opt_ended").await;
    for ends in [&["rollback"][..], &["commit"], &["rollback", "begin"], &["commit", "begin"]] {
        let done = optimistic(&pool)
            .run(async |mut tx| {
                add(&mut tx, "opt_ended", || ()).await?;
                for end in ends {
                    sqlx::raw_sql(*end).execute(&mut *tx).await?;
                }
                Ok(())
            })
            .await;
        assert!(matches!(done, Err(Error::Ended(_))), "{ends:?}: {done:?}");
    }
    // What the closure committed itself is there, and nothing of it is left open.
    let n = optimistic(&pool).run(async |mut tx| add(&mut tx, "opt_ended", || ()).await).await;
    assert_eq!(n.unwrap(), 13);
}

#[tokio::test]
async fn dropped_in_the_middle_it_is_rolled_back_and_its_rows_are_free() {
    let pool = table("opt_dropped").await;
    let (written, mut is_written) = mpsc::channel(1);
    let other = pool.clone();
    let task = tokio::spawn(async move {
        let work = async |mut tx| {
            add(&mut tx, "opt_dropped", || ()).await?;
            written.send(()).await.unwrap();
            std::future::pending::<Result<()>>().await
        };
        optimistic(&other).run(work).await
    });
    is_written.recv().await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    // It is free as soon as the connection is back in its pool, and this one waits for it.
    let n = optimistic(&pool).run(async |mut tx| add(&mut tx, "opt_dropped", || ()).await).await;
    assert_eq!(n.unwrap(), 11);
}

#[tokio::test]
async fn an_answer_to_commit_that_was_lost_leaves_doubt_and_is_not_tried_again() {
    let pool = table("opt_doubt").await;
    let (doubtful, proxy) = pool_behind_a_proxy().await;
    proxy.lose_replies_matching(Loss::Kill, |request| request.windows(6).any(|word| word == b"COMMIT"));
    let mut runs = 0;
    let done = optimistic(&doubtful)
        .run(|mut tx| {
            runs += 1;
            async move { add(&mut tx, "opt_doubt", || ()).await }
        })
        .await;
    assert!(matches!(done, Err(Error::InDoubt(_))), "{done:?}");
    assert_eq!(runs, 1);
    // Here it took effect.
    let n: i32 =
        sqlx::query_scalar(q("select n from opt_doubt where id = 1")).fetch_one(&pool).await.unwrap();
    assert_eq!(n, 11);
}

#[tokio::test]
async fn a_closure_that_does_not_give_the_transaction_back_is_told_and_nothing_is_committed() {
    let pool = table("opt_thief").await;
    let (away, mut taken) = mpsc::channel(1);
    let done = optimistic(&pool)
        .run(async |mut tx| {
            add(&mut tx, "opt_thief", || ()).await?;
            away.send(tx).await.unwrap();
            Ok(())
        })
        .await;
    assert!(matches!(done, Err(Error::Misuse(_))), "{done:?}");
    drop(taken.recv().await.unwrap());
    let n = optimistic(&pool).run(async |mut tx| add(&mut tx, "opt_thief", || ()).await).await;
    assert_eq!(n.unwrap(), 11);
}
