//! Servers that say why they do not want a connection and close it before they were asked anything.

use std::{
    io::Write,
    net::{Shutdown, TcpListener},
};

use bramah_core::{Error, ErrorKind};
use bramah_lab::{
    Redis as Server, own_address,
    servers::{self, Flavor},
};

use crate::rig::*;

const DENIED: &[u8] =
    b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is \
    set for the default user. In this mode connections are only accepted from the loopback interface.\r\n";

async fn refusal(url: &str) -> Error {
    let began = now();
    let error = try_open(url, ms(30_000)).await.expect_err("it was turned away");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    assert!(now().since(began) < ms(10_000), "{text}: {:?}", now().since(began));
    error
}

/// What, which, why, what next.
fn is_about_protected_mode(error: &Error, address: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
    for part in [&format!("redis at {address} "), "protected mode", "no password", "set a password"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_in_protected_mode_is_denied_and_told_what_to_do() {
    let host = match own_address() {
        Ok(host) => host,
        Err(why) => return servers::missing(Flavor::Redis7, &why),
    };
    for flavor in Flavor::REDIS {
        let server = match Server::with(flavor, &[("bind", "0.0.0.0")]) {
            Ok(server) => server,
            Err(why) => {
                servers::missing(flavor, &why);
                continue;
            }
        };
        let address = format!("{host}:{}", server.port());
        for url in [
            format!("redis://{address}"),
            format!("redis://:secret@{address}"),
            format!("redis+sentinel://{address}/locks"),
            format!("redis+cluster://{address}"),
        ] {
            // Not by chance: which of the two notices the end of the connection first is a race.
            for _ in 0..5 {
                is_about_protected_mode(&refusal(&url).await, &address);
            }
        }
        // The negative control: from its own host it is a server like any other.
        drop(open(&server.url(), ms(30_000)).await);
    }
}

/// A server that turns everybody away with these words, and reads nothing.
fn gatekeeper(words: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(words).and_then(|()| stream.shutdown(Shutdown::Write));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_words_that_are_known_are_believed_and_the_rest_is_a_connection_that_ended() {
    for _ in 0..20 {
        let address = gatekeeper(DENIED);
        is_about_protected_mode(&refusal(&format!("redis://{address}?timeout=500ms")).await, &address);
    }
    // An endless line, no line, another protocol, nothing.
    let flood: &'static [u8] = Box::leak(vec![b'-'; 1 << 20].into_boxed_slice());
    for words in [flood, b"-DENIED" as &[u8], b"SSH-2.0-OpenSSH_9.2\r\n", b""] {
        let address = gatekeeper(words);
        let error = refusal(&format!("redis://{address}?timeout=500ms")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(!error.to_string().contains("protected mode"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_without_a_connection_left_says_so() {
    let server = server(&[("maxclients", "2")]);
    let taken = [server.wire().unwrap(), server.wire().unwrap()];
    for _ in 0..5 {
        let error = refusal(&format!("{}?timeout=500ms", server.url())).await;
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
        assert!(text.contains("no connection left") && text.contains("maxclients"), "{text}");
    }
    drop(taken);
}
