//! Servers that speak TLS.

use std::time::Duration;

use bramah_lab::{Certificates, Redis, Wire, servers::Flavor};

use crate::flavors;

#[test]
fn every_flavor_shakes_hands_and_speaks_nothing_plain() {
    for flavor in flavors() {
        let redis = Redis::with_tls(flavor).unwrap();
        assert_eq!(redis.cli(&["PING"]).unwrap(), "PONG");
        assert_eq!(redis.url(), format!("rediss://127.0.0.1:{}", redis.port()));
        let mut plain = Wire::connect(&redis.address(), Duration::from_secs(5)).unwrap();
        assert!(plain.call(&["PING"]).is_err());
    }
}

#[test]
fn a_client_that_trusts_another_authority_does_not_talk() {
    let redis = Redis::with_tls(Flavor::Redis7).unwrap();
    let stranger = Certificates::new().unwrap();
    let authority = stranger.authority();
    let why = redis.cli(&["--cacert", authority.to_str().unwrap(), "PING"]).unwrap_err();
    assert!(why.contains("certificate verify failed"), "{why}");
}

#[test]
fn a_client_may_have_to_show_a_certificate_of_the_same_authority() {
    let redis = Redis::with_mutual_tls(Flavor::Redis7).unwrap();
    assert_eq!(redis.cli(&["PING"]).unwrap(), "PONG");
    let stranger = Certificates::new().unwrap();
    let (certificate, key) = (stranger.client(), stranger.client_key());
    let words = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap(), "PING"];
    redis.cli(&words).unwrap_err();
}
