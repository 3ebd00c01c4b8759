//! The proxy, before a server that echoes and before one that executes.

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use bramah_lab::{Counts, Fault, Loss, Proxy, Redis, Reply, Wire, servers::Flavor, until};

const PATIENCE: Duration = Duration::from_secs(30);

/// Long enough for what would come to have come.
const SHORT: Duration = Duration::from_millis(50);

/// A server that sends back what it gets, and tells here what that was. It ends with the test.
fn echo() -> (Proxy, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.unwrap(), tell.clone());
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    let _ = tell.send(buffer[..n].to_vec());
                    let _ = stream.write_all(&buffer[..n]);
                }
                let _ = tell.send(Vec::new());
            });
        }
    });
    (Proxy::to(&address).unwrap(), told)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn send(mut stream: &TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

fn receive(mut stream: &TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// What a read of a few bytes ends with.
fn read(mut stream: &TcpStream) -> Result<usize, ErrorKind> {
    stream.read(&mut [0; 16]).map_err(|why| why.kind())
}

fn silent(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(SHORT)).unwrap();
    let read = read(stream);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    matches!(read, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

fn await_counts(proxy: &Proxy, are: impl Fn(Counts) -> bool) {
    let ask = || if are(proxy.counts()) { Ok(()) } else { Err(format!("{:?}", proxy.counts())) };
    until("the counts", PATIENCE, ask).unwrap();
}

#[test]
fn bytes_pass_both_ways_and_are_counted() {
    let (proxy, told) = echo();
    let stream = connect(&proxy);
    send(&stream, "hello");
    assert_eq!(receive(&stream, 5), "hello");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b"hello");
    await_counts(&proxy, |counts| (counts.requested, counts.replied, counts.live) == (5, 5, 1));
    drop(stream);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b"", "the end of the connection passes as well");
    await_counts(&proxy, |counts| {
        counts == Counts { connections: 1, requested: 5, replied: 5, ..Counts::default() }
    });
}

#[test]
fn what_is_more_than_any_buffer_passes_unchanged() {
    let (proxy, _told) = echo();
    let stream = connect(&proxy);
    let text = "0123456789abcdef".repeat(500_000);
    thread::scope(|scope| {
        scope.spawn(|| send(&stream, &text));
        assert!(receive(&stream, text.len()) == text);
    });
}

#[test]
fn held_requests_arrive_in_order_when_they_pass_again() {
    let (proxy, told) = echo();
    let stream = connect(&proxy);
    proxy.requests(Fault::Hold);
    send(&stream, "one");
    send(&stream, "two");
    assert!(told.recv_timeout(SHORT).is_err());
    proxy.requests(Fault::Pass);
    assert_eq!(receive(&stream, 6), "onetwo");
}

#[test]
fn held_replies_are_of_requests_that_arrived() {
    let (proxy, told) = echo();
    let stream = connect(&proxy);
    proxy.replies(Fault::Hold);
    send(&stream, "one");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b"one");
    assert!(silent(&stream));
    proxy.replies(Fault::Pass);
    assert_eq!(receive(&stream, 3), "one");
}

#[test]
fn dropped_bytes_never_arrive_and_later_ones_do() {
    let (proxy, told) = echo();
    let stream = connect(&proxy);
    proxy.requests(Fault::Drop);
    send(&stream, "one");
    await_counts(&proxy, |counts| counts.swallowed == 3);
    proxy.requests(Fault::Pass);
    proxy.replies(Fault::Drop);
    send(&stream, "two");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b"two");
    await_counts(&proxy, |counts| counts.swallowed == 6);
    proxy.replies(Fault::Pass);
    send(&stream, "six");
    assert_eq!(receive(&stream, 3), "six");
}

#[test]
fn a_delay_is_one_delay_however_much_is_on_its_way() {
    let (proxy, _told) = echo();
    let stream = connect(&proxy);
    let delay = Duration::from_millis(150);
    proxy.replies(Fault::Delay(delay));
    let began = Instant::now();
    for _ in 0..20 {
        send(&stream, "one");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(receive(&stream, 60).len(), 60);
    let took = began.elapsed();
    assert!(took >= delay && took < delay * 10, "{took:?}");
}

#[test]
fn severed_connections_are_reset_and_new_ones_work() {
    let (proxy, told) = echo();
    let streams = [connect(&proxy), connect(&proxy)];
    for stream in &streams {
        send(stream, "x");
        assert_eq!(receive(stream, 1), "x");
    }
    proxy.replies(Fault::Hold);
    send(&streams[0], "held");
    proxy.sever();
    assert_eq!(proxy.counts().live, 0);
    for stream in &streams {
        assert_eq!(read(stream), Err(ErrorKind::ConnectionReset));
    }
    proxy.replies(Fault::Pass);
    let stream = connect(&proxy);
    send(&stream, "again");
    assert_eq!(receive(&stream, 5), "again");
    drop(told);
}

#[test]
fn refused_connections_end_at_once_and_live_ones_stay() {
    let (proxy, _told) = echo();
    let stream = connect(&proxy);
    send(&stream, "x");
    assert_eq!(receive(&stream, 1), "x");
    proxy.refuse(true);
    assert_eq!(read(&connect(&proxy)), Ok(0));
    send(&stream, "y");
    assert_eq!(receive(&stream, 1), "y");
    proxy.refuse(false);
    let stream = connect(&proxy);
    send(&stream, "z");
    assert_eq!(receive(&stream, 1), "z");
    assert_eq!((proxy.counts().connections, proxy.counts().refused), (2, 1));
}

#[test]
fn nobody_behind_the_proxy_is_an_end_and_no_hang() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let proxy = Proxy::to(&address).unwrap();
    assert_eq!(read(&connect(&proxy)), Ok(0));
}

#[test]
fn a_killed_request_has_been_executed_when_the_client_sees_the_reset() {
    let redis = Redis::start(Flavor::Redis7).unwrap();
    let proxy = Proxy::to(&redis.address()).unwrap();
    for n in 1..=20 {
        let mut wire = Wire::connect(&proxy.address(), PATIENCE).unwrap();
        assert_eq!(wire.call(&["PING"]), Ok(Reply::Text("PONG".into())));
        proxy.execute_and_lose(1, Loss::Kill);
        assert!(wire.call(&["INCR", "n"]).unwrap_err().contains("reset"));
        assert_eq!(redis.call(&["GET", "n"]), Ok(Reply::Text(n.to_string())));
        assert_eq!(proxy.counts().lost, n);
    }
}

#[test]
fn a_stalled_connection_stays_silent_and_others_do_not() {
    let redis = Redis::start(Flavor::Redis7).unwrap();
    let proxy = Proxy::to(&redis.address()).unwrap();
    proxy.execute_and_lose(1, Loss::Stall);
    let mut stalled = Wire::connect(&proxy.address(), SHORT).unwrap();
    assert!(stalled.call(&["INCR", "n"]).is_err());
    await_counts(&proxy, |counts| counts.lost == 1);
    let mut other = Wire::connect(&proxy.address(), PATIENCE).unwrap();
    assert_eq!(other.call(&["GET", "n"]), Ok(Reply::Text("1".into())));
    assert!(stalled.call(&["INCR", "n"]).is_err());
    let twice = || match other.call(&["GET", "n"])?.text().as_str() {
        "2" => Ok(()),
        n => Err(n.to_owned()),
    };
    until("the later request to arrive", PATIENCE, twice).unwrap();
    assert_eq!(proxy.counts().live, 2);
}

#[test]
fn only_requests_that_match_are_lost_until_nothing_is() {
    let redis = Redis::start(Flavor::Redis7).unwrap();
    let proxy = Proxy::to(&redis.address()).unwrap();
    proxy.lose_replies_matching(Loss::Kill, |request| request.windows(4).any(|word| word == b"INCR"));
    let mut wire = Wire::connect(&proxy.address(), PATIENCE).unwrap();
    assert_eq!(wire.call(&["SET", "n", "5"]), Ok(Reply::Text("OK".into())));
    assert!(wire.call(&["INCR", "n"]).is_err());
    let mut wire = Wire::connect(&proxy.address(), PATIENCE).unwrap();
    assert!(wire.call(&["INCR", "n"]).is_err());
    proxy.lose_nothing();
    let mut wire = Wire::connect(&proxy.address(), PATIENCE).unwrap();
    assert_eq!(wire.call(&["INCR", "n"]), Ok(Reply::Int(8)));
}

#[test]
fn a_dropped_proxy_leaves_no_connection() {
    let (proxy, told) = echo();
    let stream = connect(&proxy);
    send(&stream, "x");
    assert_eq!(receive(&stream, 1), "x");
    let address = proxy.address();
    drop(proxy);
    assert_eq!(read(&stream), Err(ErrorKind::ConnectionReset));
    assert!(TcpStream::connect(address).is_err());
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b"x");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b"");
}
