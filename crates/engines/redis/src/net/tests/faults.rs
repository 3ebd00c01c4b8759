//! A network that loses, delays and refuses.

use bramah_core::ErrorKind;
use bramah_lab::{Fault, Loss, Proxy};

use super::*;

fn setup() -> (Redis, Proxy, Arc<Network>, Arc<Notes>) {
    let server = server();
    let proxy = Proxy::to(&server.address()).unwrap();
    let (network, notes) = connect(&format!("redis://{}", proxy.address()));
    (server, proxy, network, notes)
}

fn hasty(words: &[&str]) -> Request {
    Request { patience: Duration::from_millis(500), ..request(words) }
}

fn with(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_answer_is_lost_is_never_sent_again() {
    let (server, proxy, network, _) = setup();
    let count = Arc::new(Script::new("count", "return redis.call('INCR', KEYS[1])".to_owned()));
    network.send(eval(&count, "n")).await.unwrap();
    let mut expected = 1;
    for loss in [Loss::Kill, Loss::Stall] {
        for shape in 0..3 {
            proxy.lose_replies_matching(loss, |bytes| with(bytes, "EVALSHA"));
            let one = || Request { patience: Duration::from_millis(500), ..eval(&count, "n") };
            let errors: Vec<_> = match shape {
                0 => vec![network.send(one()).await.unwrap_err()],
                1 => {
                    let answers = network.send_all(vec![one(), one()]).await;
                    answers.into_iter().map(Result::unwrap_err).collect()
                }
                _ => vec![network.send(Request { track: true, ..one() }).await.unwrap_err()],
            };
            proxy.lose_nothing();
            expected += errors.len();
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            }
            assert_eq!(server.cli(&["GET", "n"]).unwrap(), expected.to_string(), "{loss:?} {shape}");
        }
    }
    // And it all works again.
    network.send(eval(&count, "n")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_loaded_on_the_way_runs_once_even_if_that_answer_is_lost() {
    let (server, proxy, network, _) = setup();
    let count = Arc::new(Script::new("count", "return redis.call('INCR', KEYS[1])".to_owned()));
    network.send(request(&["PING"])).await.unwrap();
    proxy.lose_replies_matching(Loss::Kill, |bytes| with(bytes, "LOAD"));
    let error = network.send(eval(&count, "n")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    proxy.lose_nothing();
    assert_eq!(server.cli(&["GET", "n"]).unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn severed_connections_are_heard_of_and_replaced() {
    let (_server, proxy, network, notes) = setup();
    for _ in 0..5 {
        network.listen(3, "channel".into(), Duration::from_secs(5)).await.unwrap();
        proxy.sever();
        assert_eq!(notes.at_least(1).await, ["broken"]);
        assert!(!network.is_listening(3, "channel"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_up_at_once_is_not_hammered_and_used_as_soon_as_it_does_not() {
    let (_server, proxy, network, _) = setup();
    proxy.refuse(true);
    let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(network.send(hasty(&["PING"])))).collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }
    let waiting = tokio::spawn(network.send(request(&["PING"])));
    tokio::time::sleep(Duration::from_millis(200)).await;
    proxy.refuse(false);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_does_not_come_up_is_an_error() {
    let (_server, proxy, network, notes) = setup();
    network.send(request(&["PING"])).await.unwrap();
    proxy.replies(Fault::Hold);
    let error = network.listen(0, "channel".into(), Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!network.is_listening(0, "channel"));
    proxy.replies(Fault::Pass);
    network.listen(0, "channel".into(), Duration::from_secs(5)).await.unwrap();
    assert!(notes.take().is_empty());
}

/// Every future may be dropped at any time; none may take another's answer with it.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_requests_do_not_shift_the_answers_of_others() {
    let (_server, _proxy, network, _) = setup();
    for round in 0..300u64 {
        let dropped = network.send(request(&["ECHO", "dropped"]));
        let _ = tokio::time::timeout(Duration::from_micros(round % 200), dropped).await;
        let word = round.to_string();
        assert_eq!(get(&network, &["ECHO", &word]).await, word);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_out_of_patience_does_not_end_the_connection_of_the_others() {
    let (_server, proxy, network, notes) = setup();
    network.listen(0, "channel".into(), Duration::from_secs(5)).await.unwrap();
    let wire = network.send_named(request(&["SET", "a", "1"])).await.unwrap().1;
    for _ in 0..3 {
        proxy.replies(Fault::Hold);
        let sent = proxy.counts().requested;
        let patient = tokio::spawn(network.send_named(request(&["GET", "a"])));
        bramah_lab::until("the request", Duration::from_secs(5), || {
            if proxy.counts().requested > sent { Ok(()) } else { Err("not sent".into()) }
        })
        .unwrap();
        let hasty = Request { patience: Duration::from_millis(10), ..request(&["GET", "a"]) };
        assert_eq!(network.send(hasty).await.unwrap_err().kind(), ErrorKind::Unavailable);
        proxy.replies(Fault::Pass);
        let (value, over) = patient.await.unwrap().unwrap();
        assert_eq!((text(&value).as_str(), over), ("1", wire));
    }
    assert!(network.is_listening(0, "channel"));
    assert!(notes.take().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_answers_nobody_is_given_up_also_by_those_with_little_patience() {
    let (_server, proxy, network, notes) = setup();
    network.listen(0, "channel".into(), Duration::from_secs(5)).await.unwrap();
    proxy.replies(Fault::Drop);
    let hasty = Request { patience: Duration::from_millis(10), ..request(&["PING"]) };
    assert_eq!(network.send(hasty).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(notes.at_least(1).await, ["broken"]);
    assert!(!network.is_listening(0, "channel"));
    proxy.replies(Fault::Pass);
    network.send(request(&["PING"])).await.unwrap();
}

/// The other end may be gone without a word: whoever only listens has to ask.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_and_a_watch_whose_other_end_is_gone_without_a_word_are_noticed() {
    let (_server, proxy, network, notes) = setup();
    network.listen(0, "channel".into(), Duration::from_secs(5)).await.unwrap();
    let watch = network.watch(b"locks:".to_vec(), Duration::from_secs(5)).await.unwrap();
    proxy.requests(Fault::Drop);
    proxy.replies(Fault::Drop);
    // Twice the time that a server may be quiet, and what a connection may take.
    let woken = tokio::time::timeout(Duration::from_secs(30), watch).await;
    assert_eq!(woken.expect("a watch that nobody tells anything"), bramah_core::Woken::Ask);
    for _ in 0..10 {
        if !network.is_listening(0, "channel") {
            break;
        }
        notes.at_least(1).await;
    }
    assert!(!network.is_listening(0, "channel"), "nobody tells us anything");
}

/// A quiet connection is not a dead one.
#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_connection_is_kept() {
    let (server, _proxy, network, notes) = setup();
    network.listen(0, "channel".into(), Duration::from_secs(5)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(13)).await;
    assert!(network.is_listening(0, "channel"));
    server.cli(&["PUBLISH", "channel", "hello"]).unwrap();
    assert_eq!(notes.at_least(1).await, ["channel: hello"]);
}
