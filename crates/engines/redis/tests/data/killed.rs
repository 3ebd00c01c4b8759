//! A client that is killed at any moment leaves nothing that should end and does not.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use bramah_redis::{
    Redis,
    data::{Data, End},
};

use crate::rig::*;

const URL: &str = "BRAMAH_DATA_WRITE_AT";
const ROUND: &str = "BRAMAH_DATA_ROUND";
const ROUNDS: usize = 10;
/// So many writers of each kind, for a kill to find some of them between any two steps.
const WRITERS: usize = 4;

#[tokio::test]
async fn a_client_that_is_killed_leaves_no_key_without_its_ttl() {
    on_each(|on, _| async move {
        tokio::task::spawn_blocking(move || {
            for round in 0..ROUNDS {
                write_and_die(&on.url(), round);
            }
            let mut kinds = [0; 4];
            for server in on.servers() {
                let mut wire = server.wire().unwrap();
                for key in wire.call(&["KEYS", "killed:*"]).unwrap().many() {
                    let key = key.text();
                    let left: i64 = wire.call(&["PTTL", &key]).unwrap().text().parse().unwrap();
                    assert!(left > 0, "{on:?}: {key} has no ttl ({left})");
                    let kind = key.split(':').nth(1).unwrap();
                    kinds[["value", "map", "set", "list"].iter().position(|one| *one == kind).unwrap()] += 1;
                }
            }
            assert!(kinds.iter().all(|written| *written >= ROUNDS), "{on:?}: {kinds:?}");
        })
        .await
        .unwrap();
    })
    .await;
}

/// Lets this test program write as a process of its own, and kills it while it does.
fn write_and_die(url: &str, round: usize) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::a_process_that_writes", "--nocapture"])
        .env(URL, url)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut written = lines.map_while(Result::ok).filter(|line| line.contains("written"));
    // After some of them, and then at a random moment of the next.
    let enough = fastrand::usize(20..200);
    assert_eq!(written.by_ref().take(enough).count(), enough, "the process ended by itself");
    std::thread::sleep(Duration::from_micros(fastrand::u64(0..1000)));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
}

/// Another test starts this one as a process of its own; here it has nothing to do.
#[tokio::test]
async fn a_process_that_writes() {
    let (Ok(url), Ok(round)) = (std::env::var(URL), std::env::var(ROUND)) else { return };
    let data = Redis::from_url(&url).unwrap().data();
    let writers: Vec<_> = (0..4 * WRITERS)
        .map(|writer| {
            let (data, round) = (data.clone(), format!("{round}-{writer}"));
            tokio::spawn(async move {
                for n in 0_u64.. {
                    write(&data, writer % 4, &format!("{round}-{n}")).await;
                    println!("written");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Writes one of the four kinds under a fresh key, to last for an hour.
async fn write(data: &Data, kind: usize, fresh: &str) {
    let hour = Duration::from_secs(3600);
    let order = order("apple", 3);
    match kind {
        0 => data.value::<Order>(&format!("killed:value:{fresh}")).set_with_ttl(&order, hour).await.unwrap(),
        1 => {
            let map = data.map::<Order>(&format!("killed:map:{fresh}"));
            map.set_many_with_ttl([("a", &order), ("b", &order)], hour).await.unwrap();
        }
        2 => {
            data.set::<Order>(&format!("killed:set:{fresh}")).add_with_ttl(&order, hour).await.unwrap();
        }
        _ => {
            let list = data.list::<Order>(&format!("killed:list:{fresh}"));
            list.push_with_ttl(End::Back, &order, hour).await.unwrap();
        }
    }
}
