//! Servers that speak TLS.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use bramah_lab::{Certificates, Etcd, Redis, Wire, ZooKeeper, servers::Flavor};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::{flavors, has};

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

/// What is answered to a word by TLS. The client trusts one authority and may show a certificate of another.
fn ask(address: &str, trusted: &Certificates, shown: Option<&Certificates>) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted.authority()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some(shown) => {
            let certificate = CertificateDer::from_pem_file(shown.client()).unwrap();
            let key = PrivateKeyDer::from_pem_file(shown.client_key()).unwrap();
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut tls = StreamOwned::new(client, stream);
    tls.write_all(b"ruok")?;
    let mut said = [0; 4];
    tls.read_exact(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn zookeeper_answers_by_tls_those_whom_it_should() {
    if !has(Flavor::ZooKeeper) {
        return;
    }
    let stranger = Certificates::new().unwrap();
    let zookeeper = ZooKeeper::with_tls(1).unwrap();
    let address = &zookeeper.secure_addresses()[0];
    assert_eq!(ask(address, zookeeper.certificates(), None).unwrap(), "imok");
    assert!(ask(address, &stranger, None).unwrap_err().to_string().contains("invalid peer certificate"));

    let zookeeper = ZooKeeper::with_mutual_tls(3).unwrap();
    let ours = zookeeper.certificates();
    for address in zookeeper.secure_addresses() {
        assert_eq!(ask(&address, ours, Some(ours)).unwrap(), "imok");
        assert!(ask(&address, ours, None).is_err());
        assert!(ask(&address, ours, Some(&stranger)).is_err());
    }
}

#[test]
fn etcd_answers_by_tls_those_whom_it_should() {
    for flavor in Flavor::ETCD.into_iter().filter(|flavor| has(*flavor)) {
        let stranger = Certificates::new().unwrap();
        let etcd = Etcd::with_tls(flavor, 1).unwrap();
        assert!(etcd.endpoints()[0].starts_with("https://"));
        etcd.ctl(&["put", "key", "value"]).unwrap();
        let authority = stranger.authority();
        let other = ["--dial-timeout=1s", "--cacert", authority.to_str().unwrap(), "get", "key"];
        etcd.ctl(&other).unwrap_err();

        let etcd = Etcd::with_mutual_tls(flavor, 1).unwrap();
        etcd.ctl(&["put", "key", "value"]).unwrap();
        let (certificate, key) = (stranger.client(), stranger.client_key());
        let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let other = ["--dial-timeout=1s", "--command-timeout=2s", "--cert", certificate, "--key", key];
        etcd.ctl(&[&other[..], &["get", "key"]].concat()).unwrap_err();
    }
}
