//! The generated protocol against every etcd that the lab has.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bramah_etcd::proto::{
    etcdserverpb::{
        AuthenticateRequest, Compare, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest,
        LeaseTimeToLiveRequest, MemberListRequest, PutRequest, RangeRequest, RequestOp, StatusRequest,
        TxnRequest, WatchCreateRequest, WatchRequest, WatchResponse,
        auth_client::AuthClient,
        cluster_client::ClusterClient,
        compare::{CompareResult, CompareTarget, TargetUnion},
        kv_client::KvClient,
        lease_client::LeaseClient,
        maintenance_client::MaintenanceClient,
        request_op,
        watch_client::WatchClient,
        watch_request::RequestUnion,
    },
    mvccpb::event::EventType,
};
use bramah_lab::{
    Etcd,
    servers::{self, Flavor},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Streaming, transport::Channel};

const SOON: Duration = Duration::from_secs(10);

/// The flavors that this machine has; the others are reported.
fn flavors() -> impl Iterator<Item = Flavor> {
    Flavor::ETCD.into_iter().filter(|flavor| {
        let got = servers::get(*flavor);
        if let Err(why) = &got {
            servers::missing(*flavor, why);
        }
        got.is_ok()
    })
}

async fn dial(etcd: &Etcd) -> Channel {
    Channel::from_shared(etcd.endpoints().remove(0)).unwrap().connect().await.unwrap()
}

/// Puts a key with a lease, if there is none: one transaction, as an engine will do it.
fn claim(key: &str, lease: i64) -> TxnRequest {
    let absent = Compare {
        key: key.into(),
        target: CompareTarget::Create.into(),
        result: CompareResult::Equal.into(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let put = PutRequest { key: key.into(), value: b"mine".into(), lease, ..PutRequest::default() };
    let put = RequestOp { request: Some(request_op::Request::RequestPut(put)) };
    TxnRequest { compare: vec![absent], success: vec![put], failure: Vec::new() }
}

async fn grant(channel: &Channel, ttl: i64) -> i64 {
    let granted = LeaseClient::new(channel.clone()).lease_grant(LeaseGrantRequest { ttl, id: 0 }).await;
    let granted = granted.unwrap().into_inner();
    assert_eq!((granted.ttl, granted.error), (ttl, String::new()));
    granted.id
}

/// Watches one key from a revision on. The sender has to be kept: without it the stream of requests has ended.
async fn watch(
    channel: &Channel,
    key: &str,
    start_revision: i64,
) -> (mpsc::Sender<WatchRequest>, Streaming<WatchResponse>) {
    let (ask, asked) = mpsc::channel(1);
    let create = WatchCreateRequest { key: key.into(), start_revision, ..WatchCreateRequest::default() };
    ask.send(WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }).await.unwrap();
    let stream = timeout(SOON, WatchClient::new(channel.clone()).watch(ReceiverStream::new(asked))).await;
    let mut stream = stream.unwrap().unwrap().into_inner();
    assert!(timeout(SOON, stream.message()).await.unwrap().unwrap().unwrap().created);
    (ask, stream)
}

async fn next(stream: &mut Streaming<WatchResponse>) -> (EventType, String, i64) {
    let response = timeout(SOON, stream.message()).await.unwrap().unwrap().unwrap();
    let [event] = response.events.as_slice() else { panic!("{response:?}") };
    let kv = event.kv.as_ref().unwrap();
    (event.r#type(), String::from_utf8_lossy(&kv.key).into_owned(), kv.mod_revision)
}

#[tokio::test]
async fn a_key_with_a_lease_goes_when_the_lease_is_revoked_and_a_watch_tells() {
    for flavor in flavors() {
        let etcd = Etcd::start(flavor, 1).unwrap();
        let channel = dial(&etcd).await;
        let (mut kv, mut leases) = (KvClient::new(channel.clone()), LeaseClient::new(channel.clone()));
        let lease = grant(&channel, 60).await;
        let put = kv.txn(claim("a/lock", lease)).await.unwrap().into_inner();
        let revision = put.header.unwrap().revision;
        assert!(put.succeeded);
        // Repeated, it does nothing.
        assert!(!kv.txn(claim("a/lock", lease)).await.unwrap().into_inner().succeeded);
        let (_ask, mut watched) = watch(&channel, "a/lock", revision).await;
        assert_eq!(next(&mut watched).await, (EventType::Put, "a/lock".into(), revision));

        let lives = LeaseTimeToLiveRequest { id: lease, keys: true };
        let told = leases.lease_time_to_live(lives).await.unwrap().into_inner();
        assert!(told.ttl > 0 && told.granted_ttl == 60 && told.keys == [b"a/lock"], "{told:?}");
        leases.lease_revoke(LeaseRevokeRequest { id: lease }).await.unwrap();
        assert_eq!(next(&mut watched).await, (EventType::Delete, "a/lock".into(), revision + 1));
        let range = RangeRequest { key: b"a/lock".into(), ..RangeRequest::default() };
        assert_eq!(kv.range(range).await.unwrap().into_inner().count, 0);
        let again = leases.lease_revoke(LeaseRevokeRequest { id: lease }).await.unwrap_err();
        assert_eq!(again.code(), Code::NotFound, "{again:?}");
    }
}

#[tokio::test]
async fn a_lease_is_kept_alive_on_a_stream_and_one_that_has_gone_is_told_by_a_ttl_of_zero() {
    for flavor in flavors() {
        let etcd = Etcd::start(flavor, 1).unwrap();
        let channel = dial(&etcd).await;
        let (kept, gone) = (grant(&channel, 60).await, grant(&channel, 60).await);
        let mut leases = LeaseClient::new(channel);
        leases.lease_revoke(LeaseRevokeRequest { id: gone }).await.unwrap();
        // All leases of a process share a stream, and answers come in the order of the questions. The call itself is
        // answered with the first of them: to wait for it without a question would be forever.
        let (ask, asked) = mpsc::channel(4);
        for id in [kept, gone, kept] {
            ask.send(LeaseKeepAliveRequest { id }).await.unwrap();
        }
        let told = timeout(SOON, leases.lease_keep_alive(ReceiverStream::new(asked))).await;
        let mut told = told.unwrap().unwrap().into_inner();
        for expected in [(kept, 60), (gone, 0), (kept, 60)] {
            let answer = timeout(SOON, told.message()).await.unwrap().unwrap().unwrap();
            assert_eq!((answer.id, answer.ttl), expected);
        }
    }
}

#[tokio::test]
async fn members_and_versions_are_told() {
    for flavor in flavors() {
        let etcd = Etcd::start(flavor, 3).unwrap();
        let channel = dial(&etcd).await;
        let members = ClusterClient::new(channel.clone()).member_list(MemberListRequest::default()).await;
        assert_eq!(members.unwrap().into_inner().members.len(), 3);
        let status = MaintenanceClient::new(channel).status(StatusRequest {}).await.unwrap().into_inner();
        assert_eq!(status.version, etcd.version());
        assert_ne!(status.leader, 0);
    }
}

#[tokio::test]
async fn a_token_lets_in_whom_a_password_lets_in() {
    for flavor in flavors() {
        let etcd = Etcd::start(flavor, 1).unwrap();
        let password = etcd.enable_auth().unwrap();
        let channel = dial(&etcd).await;
        let mut kv = KvClient::new(channel.clone());
        let put = PutRequest { key: b"key".into(), ..PutRequest::default() };
        let why = kv.put(put.clone()).await.unwrap_err();
        assert_eq!(why.message(), "etcdserver: user name is empty");
        let ask = |password| AuthenticateRequest { name: "root".into(), password };
        let mut auth = AuthClient::new(channel);
        assert_eq!(auth.authenticate(ask("wrong".into())).await.unwrap_err().code(), Code::InvalidArgument);
        let token = auth.authenticate(ask(password)).await.unwrap().into_inner().token;
        let mut request = Request::new(put);
        request.metadata_mut().insert("token", token.parse().unwrap());
        kv.put(request).await.unwrap();
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn by_tls_the_same_is_said() {
    use tonic::transport::{Certificate, ClientTlsConfig, Identity};

    for flavor in flavors() {
        let etcd = Etcd::with_mutual_tls(flavor, 1).unwrap();
        let certificates = etcd.certificates();
        let read = |path| std::fs::read(path).unwrap();
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(read(certificates.authority())))
            .identity(Identity::from_pem(read(certificates.client()), read(certificates.client_key())))
            .domain_name("localhost");
        let endpoint = Channel::from_shared(etcd.endpoints().remove(0)).unwrap();
        let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
        grant(&channel, 60).await;
        let stranger = Channel::from_shared(etcd.endpoints().remove(0)).unwrap();
        let stranger = stranger.tls_config(ClientTlsConfig::new().domain_name("localhost")).unwrap();
        assert!(stranger.connect().await.is_err());
    }
}
