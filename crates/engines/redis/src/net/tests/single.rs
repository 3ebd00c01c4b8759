//! One node.

use bramah_core::{ErrorKind, Woken};
use bramah_lab::Signal;

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_request_is_answered_and_the_connection_has_our_name() {
    let server = server();
    let (network, _) = connect(&server.url());
    assert_eq!(get(&network, &["SET", "a", "1"]).await, "OK");
    assert_eq!(get(&network, &["GET", "a"]).await, "1");
    let keep = Request { lane: Lane::Keep, ..request(&["GET", "a"]) };
    assert_eq!(text(&network.send(keep).await.unwrap()), "1");
    let clients = server.cli(&["CLIENT", "LIST"]).unwrap();
    assert_eq!(clients.matches(" name=bramah ").count(), 2, "{clients}");
    let nodes = network.nodes(PATIENCE).await.unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!(text(&network.ask(&nodes[0], cmd(&["DBSIZE"]), PATIENCE).await.unwrap()), "1");
}

#[tokio::test]
async fn the_database_of_the_url_is_used() {
    let server = server();
    let (network, _) = connect(&format!("{}/3", server.url()));
    get(&network, &["SET", "a", "1"]).await;
    assert_eq!(server.cli(&["-n", "3", "DBSIZE"]).unwrap(), "1");
}

#[tokio::test]
async fn a_killed_connection_is_replaced_at_the_next_request_and_heard_of_once() {
    let server = server();
    let (network, notes) = connect(&server.url());
    network.listen(0, "channel".into(), PATIENCE).await.unwrap();
    assert!(network.is_listening(0, "channel"));
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    assert_eq!(notes.at_least(1).await, ["broken"]);
    assert!(!network.is_listening(0, "channel"));
    assert_eq!(get(&network, &["SET", "a", "1"]).await, "OK");
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(get(&network, &["GET", "a"]).await, "1");
    // Nothing was listened on any more.
    assert!(notes.take().is_empty());
}

/// Connections live on no caller's runtime.
#[test]
fn the_end_of_a_connection_is_noticed_while_nobody_drives_the_runtime_that_asked_for_it() {
    let server = server();
    let (network, notes) = connect(&server.url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for round in 1..20 {
        runtime.block_on(async {
            assert_eq!(get(&network, &["INCR", "n"]).await, round.to_string());
            network.listen(0, "channel".into(), PATIENCE).await.unwrap();
        });
        server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
        bramah_lab::until("the end", PATIENCE, || match notes.take().len() {
            0 => Err("nothing was heard".into()),
            _ => Ok(()),
        })
        .unwrap();
    }
}

#[tokio::test]
async fn a_restarted_server_is_waited_for() {
    let server = server();
    let (network, _) = connect(&server.url());
    get(&network, &["SET", "a", "1"]).await;
    server.kill();
    let waiting = tokio::spawn({
        let network = Arc::clone(&network);
        async move { network.send(request(&["PING"])).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.restart().unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_when_patience_ends() {
    let server = server();
    let url = server.url();
    drop(server);
    let (network, _) = connect(&url);
    let error = network
        .send(Request { patience: Duration::from_millis(300), ..request(&["PING"]) })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_frozen_server_is_unavailable_and_answers_on_a_new_connection_later() {
    let server = server();
    let (network, notes) = connect(&server.url());
    network.listen(0, "channel".into(), PATIENCE).await.unwrap();
    server.signal(Signal::STOP).unwrap();
    let hasty = Request { patience: Duration::from_millis(300), ..request(&["INCR", "n"]) };
    let error = network.send(hasty).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(notes.at_least(1).await, ["broken"]);
    server.signal(Signal::CONT).unwrap();
    // The first was carried out all the same, and not twice.
    assert_eq!(get(&network, &["INCR", "n"]).await, "2");
}

#[tokio::test]
async fn a_forgotten_script_is_loaded_again_and_its_neighbours_run_once() {
    let server = server();
    let (network, _) = connect(&server.url());
    let count = Arc::new(Script::new("count", "return redis.call('INCR', KEYS[1])".to_owned()));
    let echo = Arc::new(Script::new("echo", "return KEYS[1]".to_owned()));
    assert_eq!(text(&network.send(eval(&count, "n")).await.unwrap()), "1");
    server.cli(&["SCRIPT", "FLUSH"]).unwrap();
    // Only one of the two is known.
    assert_eq!(text(&network.send(eval(&count, "n")).await.unwrap()), "2");
    let batch =
        vec![eval(&count, "n"), eval(&echo, "n"), request(&["WRONG"]), eval(&count, "n"), eval(&echo, "x")];
    let answers: Vec<_> = network.send_all(batch).await.into_iter().map(|a| a.map(|v| text(&v))).collect();
    assert_eq!(answers[0].as_deref().unwrap(), "3");
    assert_eq!(answers[1].as_deref().unwrap(), "n");
    assert_eq!(answers[2].as_ref().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(answers[3].as_deref().unwrap(), "4");
    assert_eq!(answers[4].as_deref().unwrap(), "x");
}

#[tokio::test]
async fn what_a_script_reads_is_tracked_once() {
    let server = server();
    let (network, notes) = connect(&server.url());
    let read = Arc::new(Script::new("read", "return redis.call('GET', KEYS[1])".to_owned()));
    for round in 1..4 {
        network.send(Request { track: true, ..eval(&read, "k") }).await.unwrap();
        network.send(eval(&read, "other")).await.unwrap();
        server.cli(&["SET", "other", "1"]).unwrap();
        server.cli(&["SET", "k", &round.to_string()]).unwrap();
        server.cli(&["SET", "k", "again"]).unwrap();
        assert_eq!(notes.at_least(1).await, ["changed k"]);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(notes.take().is_empty());
    // Expiry is a change too.
    server.cli(&["SET", "k", "short", "PX", "200"]).unwrap();
    network.send(Request { track: true, ..eval(&read, "k") }).await.unwrap();
    assert_eq!(notes.at_least(1).await, ["changed k"]);
    network.send(Request { track: true, ..eval(&read, "k") }).await.unwrap();
    server.cli(&["FLUSHALL"]).unwrap();
    assert_eq!(notes.at_least(1).await, ["broken"]);
}

#[tokio::test]
async fn messages_arrive_until_the_channel_is_forgotten() {
    let server = server();
    let (network, notes) = connect(&server.url());
    for channel in ["a:one", "a:two", "b:one"] {
        network.listen(7, channel.into(), PATIENCE).await.unwrap();
    }
    server.cli(&["PUBLISH", "a:one", "hello"]).unwrap();
    assert_eq!(notes.at_least(1).await, ["a:one: hello"]);
    network.forget("one").await;
    assert!(!network.is_listening(7, "a:one") && !network.is_listening(7, "b:one"));
    assert!(network.is_listening(7, "a:two"));
    assert_eq!(server.cli(&["PUBLISH", "a:one", "hello"]).unwrap(), "0");
    server.cli(&["PUBLISH", "a:two", "there"]).unwrap();
    assert_eq!(notes.at_least(1).await, ["a:two: there"]);
    assert_eq!(get(&network, &["SET", "a", "1"]).await, "OK");
}

#[test]
fn a_connection_outlives_the_runtime_that_asked_for_it_and_what_was_asked_there() {
    let server = server();
    let (network, notes) = connect(&server.url());
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for round in 1..4 {
        let first = runtime();
        first.block_on(async {
            get(&network, &["SET", "a", "1"]).await;
            network.listen(0, "channel".into(), PATIENCE).await.unwrap();
        });
        let waiting = first.spawn(network.send(request(&["BLPOP", "nothing", "0.2"])));
        drop(first);
        drop(waiting);
        assert!(notes.take().is_empty());
        assert!(network.is_listening(0, "channel"));
        let clients = server.cli(&["CLIENT", "LIST"]).unwrap();
        assert_eq!(clients.matches(" name=bramah ").count(), 1, "{round}: {clients}");
    }
    runtime().block_on(async { assert_eq!(get(&network, &["GET", "a"]).await, "1") });
}

/// While one thread blocks the only runtime that has asked for anything, another is answered.
#[test]
fn a_blocked_runtime_holds_up_nobody_else() {
    let server = server();
    let (network, _) = connect(&server.url());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(async {
        get(&network, &["SET", "a", "1"]).await;
        let other = std::thread::spawn({
            let network = Arc::clone(&network);
            move || runtime().block_on(get(&network, &["GET", "a"]))
        });
        assert_eq!(other.join().unwrap(), "1");
    });
}

#[tokio::test]
async fn a_watch_fires_on_a_change_and_on_the_end_of_its_connection() {
    let server = server();
    let (network, _) = connect(&server.url());
    let wake = network.watch(b"locks:".to_vec(), PATIENCE).await.unwrap();
    server.cli(&["SET", "other", "1"]).unwrap();
    tokio::pin!(wake);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut wake).await.is_err());
    server.cli(&["SET", "locks:a", "1"]).unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, wake).await.unwrap(), Woken::Ask);

    let wake = network.watch(b"locks:".to_vec(), PATIENCE).await.unwrap();
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, wake).await.unwrap(), Woken::Ask);

    drop(network.watch(b"locks:".to_vec(), PATIENCE).await.unwrap());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let clients = server.cli(&["CLIENT", "LIST"]).unwrap();
    assert!(!clients.contains(" name=bramah "), "{clients}");
}

#[tokio::test]
async fn what_the_acl_forbids_is_denied_and_named() {
    let server = server();
    server
        .cli(&["ACL", "SETUSER", "bob", "on", ">hunter2", "~locks:*", "&*", "+@all", "-client|tracking"])
        .unwrap();
    let address = server.address();
    let (network, _) = connect(&format!("redis://bob:hunter2@{address}"));
    assert_eq!(get(&network, &["SET", "locks:a", "1"]).await, "OK");
    let error = network.send(request(&["SET", "other", "1"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let error = network.send(Request { track: true, ..request(&["GET", "locks:a"]) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("tracking"), "{error}");
    let (network, _) = connect(&format!("redis://bob:hunter3@{address}"));
    let error = network.send(request(&["PING"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(!error.to_string().contains("hunter"), "{error}");
}

#[tokio::test]
async fn a_replica_is_not_used() {
    let replicated = bramah_lab::Replicated::start(Flavor::Redis7, 1).unwrap();
    let (network, _) = connect(&replicated.replicas()[0].url());
    let request = Request { patience: Duration::from_millis(500), ..request(&["GET", "a"]) };
    let error = network.send(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("replica"), "{error}");
}

#[tokio::test]
async fn many_requests_at_once_share_one_connection_and_keep_their_order() {
    let server = server();
    let (network, _) = connect(&server.url());
    let all_at_once = async |requests: Vec<_>| {
        let tasks: Vec<_> = requests.into_iter().map(|one| tokio::spawn(network.send(one))).collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    };
    // The first ones find no connection, and wait for the same.
    all_at_once((0..200).map(|_| request(&["PING"])).collect()).await;
    all_at_once((0..200).map(|i| request(&["APPEND", "log", &format!("{i},")])).collect()).await;
    let log = get(&network, &["GET", "log"]).await;
    assert_eq!(log, (0..200).map(|i| format!("{i},")).collect::<String>());
    let clients = server.cli(&["CLIENT", "LIST"]).unwrap();
    assert_eq!(clients.matches(" name=bramah ").count(), 1, "{clients}");
}
