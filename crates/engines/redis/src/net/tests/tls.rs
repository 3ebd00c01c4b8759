//! TLS.

use bramah_core::ErrorKind;

use super::*;

fn short(words: &[&str]) -> Request {
    Request { patience: Duration::from_millis(800), ..request(words) }
}

#[tokio::test]
async fn a_server_of_our_authority_is_talked_to() {
    let server = Redis::with_tls(Flavor::Redis7).unwrap();
    let ca = server.certificates().authority();
    let (network, notes) = connect(&format!("rediss://{}?ca={}", server.address(), ca.display()));
    assert_eq!(get(&network, &["SET", "a", "1"]).await, "OK");
    network.listen(0, "channel".into(), Duration::from_secs(5)).await.unwrap();
    server.cli(&["PUBLISH", "channel", "hello"]).unwrap();
    assert_eq!(notes.at_least(1).await, ["channel: hello"]);
}

#[tokio::test]
async fn a_server_of_another_authority_is_not() {
    let server = Redis::with_tls(Flavor::Redis7).unwrap();
    let other = bramah_lab::Certificates::new().unwrap();
    for ca in [format!("?ca={}", other.authority().display()), String::new()] {
        let (network, _) = connect(&format!("rediss://{}{ca}", server.address()));
        let error = network.send(short(&["PING"])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("ca="), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_ours() {
    let server = Redis::with_mutual_tls(Flavor::Redis7).unwrap();
    let files = server.certificates();
    let base = format!("rediss://{}?ca={}", server.address(), files.authority().display());
    let (network, _) =
        connect(&format!("{base}&cert={}&key={}", files.client().display(), files.client_key().display()));
    assert_eq!(get(&network, &["SET", "a", "1"]).await, "OK");
    let (network, _) = connect(&base);
    let error = network.send(short(&["PING"])).await.unwrap_err();
    assert!(error.to_string().contains("cert"), "{error}");
}

#[tokio::test]
async fn tls_to_a_plain_port_and_plain_to_a_tls_port_say_so() {
    let plain = server();
    let secure = Redis::with_tls(Flavor::Redis7).unwrap();
    let ca = secure.certificates().authority();
    let (network, _) =
        connect(&format!("rediss://{}?connect_timeout=300ms&ca={}", plain.address(), ca.display()));
    let error = network.send(short(&["PING"])).await.unwrap_err();
    assert!(error.to_string().contains("tls"), "{error}");
    let (network, _) = connect(&format!("redis://{}", secure.address()));
    let error = network.send(short(&["PING"])).await.unwrap_err();
    assert!(error.to_string().contains("tls"), "{error}");
}
