//! A user who lacks a right is refused, and nothing of the attempt is left.

use bramah_core::{ErrorKind, Lock, Session};

use crate::rig::*;

/// What the layouts need of a server, each for something else.
const COMMANDS: &str = "set get mget del incr incrby decrby exists type time pttl pexpire zadd zincrby zrem zrange zscore \
                        zcount zcard publish hset hget hexists hlen hkeys hgetall hdel lindex llen lpos lrange lrem rpush \
                        subscribe unsubscribe scan evalsha script";

/// Everything that is somewhere in a store, but for what is there for good.
fn left(server: &bramah_lab::Redis) -> Vec<String> {
    leftovers(server).unwrap().into_iter().filter(|key| !key.starts_with("bramah:session:")).collect()
}

/// The ways to lock that a layout has.
fn locks(session: &Session, layout: &str) -> Vec<Lock> {
    let mut locks = vec![mutex(session, "refused")];
    if layout == "native" || layout == "redisson" {
        locks.push(session.rwlock("refused-rw").unwrap().read());
        locks.push(session.rwlock("refused-rw").unwrap().write());
        locks.push(session.semaphore("refused-permits", 3).unwrap().permits(2));
    }
    locks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_attempt_that_is_refused_half_way_leaves_nothing() {
    let server = server(&[]);
    let mut refused = 0;
    for (number, (layout, options)) in
        [("native", ""), ("plain", ""), ("redisson", ""), ("redisson-fair", "&fair=true")]
            .into_iter()
            .enumerate()
    {
        let layout_word = layout.split('-').next().unwrap();
        for command in COMMANDS.split(' ') {
            let user = format!("u{number}{command}");
            let right = format!("-{command}");
            server.cli(&["ACL", "SETUSER", &user, "on", ">hush", "~*", "&*", "+@all", &right]).unwrap();
            let url = format!(
                "redis://{user}:hush@{}?layout={layout_word}&eviction=allow{options}",
                server.address()
            );
            // A user who may not even open a session writes nothing either.
            let Ok(session) = try_open(&url, ms(60_000)).await else {
                assert!(left(&server).is_empty(), "{layout} without {command}: {:?}", left(&server));
                continue;
            };
            for lock in locks(&session, layout) {
                match lock.try_lock().await {
                    // What it may not do is not needed to take it. It may be needed to give it back.
                    Ok(Some(guard)) => {
                        guard.release().await;
                        for key in left(&server) {
                            server.cli(&["DEL", &key]).unwrap();
                        }
                    }
                    Ok(None) => panic!("{layout} without {command}: somebody has {}", lock.name()),
                    Err(why) => {
                        let told = format!("{layout} without {command}, {}: {why}", lock.name());
                        // A millisecond may pass before a claim that is taken back has expired.
                        eventually(&told, ms(1000), || match left(&server) {
                            keys if keys.is_empty() => Ok(()),
                            keys => Err(format!("{keys:?}")),
                        })
                        .await;
                        refused += 1;
                    }
                }
            }
            let _ = session.close(ms(200)).await;
        }
    }
    assert!(refused > 30, "hardly anything was refused: {refused}");
}

/// In a line that others stand in.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_that_is_refused_half_way_leaves_no_place_in_line() {
    let server = server(&[]);
    let holder = open(&server.url(), ms(60_000)).await;
    let held = [mutex(&holder, "line").lock().await.unwrap(), {
        let permits = holder.semaphore("permits", 3).unwrap();
        permits.permits(2).lock().await.unwrap()
    }];
    // Somebody waits already: it is a line.
    let others = open(&server.url(), ms(60_000)).await;
    let waiting = [mutex(&others, "line"), others.semaphore("permits", 3).unwrap().permits(2)]
        .map(|lock| tokio::spawn(async move { lock.lock().await.unwrap().release().await }));
    for key in ["bramah:{line}", "bramah:{permits}"] {
        eventually("a line", PATIENCE, || match server.call(&["TYPE", key])?.text().as_str() {
            "zset" => Ok(()),
            kind => Err(kind.to_owned()),
        })
        .await;
    }
    for command in [
        "zadd", "zcount", "pttl", "pexpire", "zrange", "zscore", "incr", "publish", "exists", "zincrby",
        "zrem",
    ] {
        let (user, right) = (format!("line{command}"), format!("-{command}"));
        server.cli(&["ACL", "SETUSER", &user, "on", ">hush", "~*", "&*", "+@all", &right]).unwrap();
        let session = open(&format!("redis://{user}:hush@{}", server.address()), ms(60_000)).await;
        for lock in [mutex(&session, "line"), session.semaphore("permits", 3).unwrap().permits(2)] {
            let Err(why) = lock.lock_within(ms(100)).await else { panic!("it is held by another one") };
            if why.kind() == ErrorKind::Timeout {
                continue;
            }
            assert_eq!(why.kind(), ErrorKind::Denied, "{command}: {why}");
            let key = format!("bramah:{{{}}}", lock.name());
            let found = match server.cli(&["TYPE", &key]).unwrap().as_str() {
                "zset" => server.cli(&["ZRANGE", &key, "0", "-1"]).unwrap(),
                _ => server.cli(&["GET", &key]).unwrap(),
            };
            let ours = session.id().to_string();
            assert!(!found.contains(&ours), "without {command}: {found}");
        }
        let _ = session.close(ms(200)).await;
    }
    for guard in held {
        guard.release().await;
    }
    for waiting in waiting {
        tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    }
}
