//! Clients as they are easily written. What becomes of them shows that a test would see it if ours did the same.

use bramah_etcd::proto::{
    etcdserverpb::{
        LeaseGrantRequest, PutRequest, RangeRequest, WatchCreateRequest, WatchRequest, WatchResponse,
        kv_client::KvClient, lease_client::LeaseClient, watch_client::WatchClient,
        watch_request::RequestUnion,
    },
    mvccpb::{KeyValue, event::EventType},
};
use bramah_lab::Etcd as Server;
use tokio_stream::StreamExt;
use tonic::{Streaming, transport::Channel};

/// A connection to one member.
pub(crate) async fn channel(server: &Server, member: usize) -> Channel {
    let endpoint = server.endpoints().remove(member);
    Channel::from_shared(endpoint).unwrap().connect().await.unwrap()
}

/// The keys below a name, by creation, and the revision at which they were read.
pub(crate) async fn line(channel: &Channel, name: &str) -> (Vec<KeyValue>, i64) {
    let (key, range_end) = (format!("{name}/").into_bytes(), format!("{name}0").into_bytes());
    let range = RangeRequest { key, range_end, ..RangeRequest::default() };
    let told = KvClient::new(channel.clone()).range(range).await.unwrap().into_inner();
    let mut kvs = told.kvs;
    kvs.sort_by_key(|kv| kv.create_revision);
    (kvs, told.header.unwrap().revision)
}

/// Writes a key, on a lease or for ever.
pub(crate) async fn put(channel: &Channel, key: &str, lease: i64) {
    let put = PutRequest { key: key.into(), value: b"naive".into(), lease, ..PutRequest::default() };
    KvClient::new(channel.clone()).put(put).await.unwrap();
}

/// One that waits for the end of a key, and for nothing else.
pub(crate) struct Watcher(Streaming<WatchResponse>);

impl Watcher {
    /// Goes on from this revision.
    pub(crate) async fn from(channel: &Channel, key: &[u8], start_revision: i64) -> Self {
        let create =
            WatchCreateRequest { key: key.to_vec(), start_revision, ..WatchCreateRequest::default() };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        // A stream that ended would end the watch with it.
        let requests = tokio_stream::once(create).chain(tokio_stream::pending());
        Self(WatchClient::new(channel.clone()).watch(requests).await.unwrap().into_inner())
    }

    /// Ends when the key has.
    pub(crate) async fn ended(&mut self) {
        while let Some(told) = self.0.message().await.unwrap() {
            if told.events.iter().any(|event| event.r#type() == EventType::Delete) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}

/// A waiter that takes the lock for its own as soon as the one before it has gone. Nobody keeps its lease.
pub(crate) struct Waiter {
    pub(crate) key: String,
    ahead: Watcher,
}

impl Waiter {
    /// Enters a line in which somebody is, on a lease of so many seconds.
    pub(crate) async fn enter(channel: &Channel, name: &str, seconds: i64) -> Self {
        let grant = LeaseGrantRequest { ttl: seconds, id: 0 };
        let lease = LeaseClient::new(channel.clone()).lease_grant(grant).await.unwrap().into_inner().id;
        let key = format!("{name}/{lease:x}");
        put(channel, &key, lease).await;
        let (kvs, revision) = line(channel, name).await;
        let own = kvs.iter().position(|kv| kv.key == key.as_bytes()).unwrap();
        Self { key, ahead: Watcher::from(channel, &kvs[own - 1].key, revision + 1).await }
    }

    /// Ends when it believes to hold the lock.
    pub(crate) async fn granted(&mut self) {
        self.ahead.ended().await;
    }
}
