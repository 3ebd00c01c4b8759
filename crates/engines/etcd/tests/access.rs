//! Who may come in, and what is said to who may not.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Release, Scope, Session};
use bramah_lab::{Etcd as Server, servers::Flavor};
use lab::{engine, flavors, session_at, settled};

const TTL: Duration = Duration::from_secs(5);

async fn opened(url: &str) -> Result<Session, Error> {
    Session::builder(engine(url)).ttl(TTL).open().await
}

async fn refused(url: &str, said: &str) {
    // A lease is granted to everybody.
    let error = match opened(url).await {
        Ok(session) => session.mutex("x").unwrap().try_lock().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains(said) && !error.to_string().contains("secret"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_lets_in_and_a_wrong_one_is_told() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let password = server.enable_auth().unwrap();
        let address = server.addresses().remove(0);
        let session = opened(&format!("etcd://root:{password}@{address}")).await.unwrap();
        let guard = session.mutex("x").unwrap().lock().await.unwrap();
        tokio::time::sleep(TTL + TTL / 2).await;
        assert!(guard.is_held());
        guard.release().await;
        assert_eq!(session.close(TTL).await.left, []);
        refused(&format!("etcd://root:secret@{address}"), "check the user and the password").await;
        refused(&format!("etcd://{address}"), "it asks who you are").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_run_out_is_renewed() {
    let server = Server::with(Flavor::Etcd35, 1, &[("auth-token-ttl", "1")]).unwrap();
    let password = server.enable_auth().unwrap();
    let address = server.addresses().remove(0);
    let url = format!("etcd://root:{password}@{address}");
    // Its renewals are so far apart that every token has run out by then.
    let session = Session::builder(engine(&url)).ttl(TTL * 6).open().await.unwrap();
    for _ in 0..2 {
        let guard = session.mutex("x").unwrap().lock().await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(guard.confirm().await.unwrap());
        guard.release().await;
    }
    // After a restart nobody knows the old ones.
    let guard = session.mutex("x").unwrap().lock().await.unwrap();
    server.kill(0).unwrap();
    server.start_again(0).unwrap();
    server.await_leader(&[0]).unwrap();
    assert!(guard.confirm().await.unwrap());
    guard.release().await;
    assert_eq!(session.close(TTL).await.left, []);
}

/// The rights as the documents have them.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_rights_of_the_documents_can_do_everything_and_nothing_else() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        server.enable_auth().unwrap();
        server.ctl(&["role", "add", "locks"]).unwrap();
        server.ctl(&["role", "grant-permission", "locks", "readwrite", "locks/", "--prefix=true"]).unwrap();
        server.ctl(&["user", "add", "ana:secret"]).unwrap();
        server.ctl(&["user", "grant-role", "ana", "locks"]).unwrap();
        let address = server.addresses().remove(0);
        let url = format!("etcd://ana:secret@{address}/locks");
        let (a, b) = (opened(&url).await.unwrap(), opened(&url).await.unwrap());
        let guard = a.mutex("x").unwrap().lock().await.unwrap();
        let mutex = b.mutex("x").unwrap();
        let next = tokio::spawn(async move { mutex.lock().await.unwrap() });
        lab::waiting(&a, "x", 1).await;
        assert_eq!(a.survey(&Scope::All).await.unwrap().len(), 1);
        assert!(b.ask(&guard.name(), guard.tag()).await.unwrap());
        guard.asked().await;
        assert!(b.break_hold(&guard.name(), guard.tag(), "a test").await.unwrap());
        guard.lost().await;
        next.await.unwrap().release().await;
        assert!(a.inspect(&guard.name()).await.unwrap().is_none_or(|line| line.places.is_empty()));
        // Without the prefix they are other keys.
        let outside = opened(&format!("etcd://ana:secret@{address}")).await.unwrap();
        let error = outside.mutex("x").unwrap().try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("readwrite"), "{error}");
        for session in [a, b, outside] {
            assert_eq!(session.close(TTL).await.left, []);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_full_says_so() {
    let server = Server::with(Flavor::Etcd35, 1, &[("quota-backend-bytes", "65536")]).unwrap();
    let session = session_at(&server, &[0], TTL).await;
    let guard = session.mutex("held").unwrap().lock().await.unwrap();
    let fill = "x".repeat(8192);
    let full = || match server.ctl(&["put", "/fill", &fill]) {
        Ok(_) => Err("there is room".to_owned()),
        Err(why) => Ok(why),
    };
    let why = bramah_lab::until("a full store", TTL * 4, full).unwrap();
    assert!(why.contains("space exceeded"), "{why}");
    let error = session.mutex("x").unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("NOSPACE"), "{error}");
    // What is there is kept, and can be given back.
    tokio::time::sleep(TTL * 2).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await, Release::Released);
    assert!(!server.ctl(&["get", "held/", "--prefix", "--keys-only"]).unwrap().contains("held/"));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_is_that_is_said_in_time() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let address = server.addresses().remove(0);
    server.kill(0).unwrap();
    let error = opened(&format!("etcd://root:secret@{address}?timeout=300ms")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&address) && !error.to_string().contains("secret"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_leader_that_is_said() {
    let server = Server::start(Flavor::Etcd35, 3).unwrap();
    let session = session_at(&server, &[0, 1, 2], TTL * 6).await;
    let leader = server.leader().unwrap();
    let left = (leader + 1) % 3;
    server.kill(leader).unwrap();
    server.kill((leader + 2) % 3).unwrap();
    let url = lab::url(&server, &[left]);
    // At first it believes to have one still.
    let told = async {
        loop {
            let error = opened(&url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            if error.to_string().contains("no leader") {
                return error.to_string();
            }
        }
    };
    let said = tokio::time::timeout(TTL * 6, told).await.expect("it is not said");
    assert!(said.contains("majority"), "{said}");
    drop(session);
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn by_tls_with_a_certificate_of_ours() {
    for flavor in flavors() {
        let server = Server::with_mutual_tls(flavor, 1).unwrap();
        let files = server.certificates();
        let address = server.addresses().remove(0);
        let authority = files.authority();
        let trusted = format!("etcds://{address}?cacert={}", authority.display());
        let url = format!("{trusted}&cert={}&key={}", files.client().display(), files.client_key().display());
        let session = opened(&url).await.unwrap();
        let guard = session.mutex("x").unwrap().lock().await.unwrap();
        assert!(session.mutex("y").unwrap().try_lock().await.unwrap().is_some());
        guard.release().await;
        settled(&server, [session]).await;
        // Without our certificate, and without theirs.
        for url in [trusted, format!("etcds://{address}"), format!("etcd://{address}")] {
            let joint = if url.contains('?') { '&' } else { '?' };
            let error = opened(&format!("{url}{joint}timeout=500ms")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{url}: {error}");
        }
        let wrong = format!("etcds://{address}?cacert={}", files.client_key().display());
        let error = bramah_etcd::Etcd::from_url(&wrong).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

/// A server of another kind: it answers whatever it is told with this.
fn other(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move |mut stream: TcpStream| {
        let mut told = [0; 4096];
        while stream.read(&mut told).is_ok_and(|count| count > 0) && stream.write_all(answer).is_ok() {}
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_without_etcd_is_told_with_what_to_do_next() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let redis = other(b"-ERR unknown command 'PRI', with args beginning with: '*' 'HTTP/2.0' \r\n");
    let web = other(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    for (address, why, next) in [
        (free, "connection refused", "is etcd running, and is the port right"),
        (redis, "does not look like etcd", "check host and port"),
        (web, "does not look like etcd", "whether it wants TLS (etcds://)"),
        ("no-such-host.invalid:2379".to_owned(), "address", "check the host in the url"),
    ] {
        let error = opened(&format!("etcd://{address}?timeout=500ms")).await.unwrap_err();
        let said = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{said}");
        assert!(said.starts_with(&format!("etcd at {address}: ")), "{said}");
        assert!(said.contains(why) && said.contains(next) && !said.contains('\n'), "{said}");
    }
}
