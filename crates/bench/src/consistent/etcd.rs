//! etcd: against a transaction that creates a key and the deletion of it, and the recipe of its own clients.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use bramah::{Engine, Keeper, Session};
use bramah_etcd::{
    Etcd,
    proto::etcdserverpb::{
        Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
        WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse,
        compare::{CompareResult, CompareTarget, TargetUnion},
        kv_client::KvClient,
        lease_client::LeaseClient,
        range_request::{SortOrder, SortTarget},
        request_op::Request,
        watch_client::WatchClient,
        watch_create_request::FilterType,
        watch_request::RequestUnion,
    },
};
use bramah_lab::{Etcd as Server, servers::Flavor};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

use super::{
    Counts, Part, TASKS,
    crowd::{self, Crowd},
    handoff::{self, Contender},
    pairs,
    spy::Spy,
};
use crate::{
    drive::{Pairs, Result, runtime, text},
    scores::{Scores, report, rounds},
};

const TTL: Duration = Duration::from_secs(30);
const CROWD: usize = 2_000;

/// What the bare calls write, as long as what ours say of a claim.
const DATA: &[u8] = &[b'x'; 190];

pub(crate) fn run() -> ExitCode {
    report(|scores| {
        let (rounds, runtime) = (rounds()?, runtime()?);
        for members in [1, 3] {
            let server = Server::start(Flavor::Etcd35, members)?;
            let name = format!("etcd {}, {members} member(s)", server.version());
            runtime.block_on(measure(scores, &name, &server, rounds))?;
        }
        Ok(())
    })
}

impl Counts for Server {
    /// Calls, and messages of streams: a watch that is asked for is one.
    fn requests(&self) -> Result<f64> {
        let mut sum = 0.0;
        for address in self.addresses() {
            let mut stream = TcpStream::connect(&address).map_err(text)?;
            write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").map_err(text)?;
            let mut told = String::new();
            stream.read_to_string(&mut told).map_err(text)?;
            let counted = told.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
            sum += counted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>();
        }
        Ok(sum)
    }
}

async fn measure(scores: &mut Scores, name: &str, server: &Server, rounds: usize) -> Result<()> {
    // Both ask the same member: it makes a difference whether that is the leader.
    let address = server.addresses().first().cloned().unwrap_or_default();
    let engine = Etcd::from_url(&format!("etcd://{address}/ours/")).map_err(text)?;
    let spy = Spy::on(Arc::<dyn Engine>::from(engine));
    let keeper = Keeper::spawn().map_err(text)?;
    let sessions = crowd::open(&spy, &keeper, 1, TTL).await?;
    let [session] = sessions.as_slice() else { return Err("no session".to_owned()) };
    let bare = Bare::connect(&address).await?;
    if Part::Pairs.is_wanted() {
        let workers = || (0..TASKS).map(|n| Pair { bare: bare.clone(), key: format!("bare/{n}/") });
        pairs(scores, name, server, session, rounds, || workers().collect()).await?;
    }
    if Part::HandOff.is_wanted() {
        let sessions = crowd::open(&spy, &keeper, TASKS, TTL).await?;
        for tasks in [16, TASKS] {
            let recipe = async |count| {
                let mut all = Vec::with_capacity(count);
                for n in 0..count {
                    all.push(Recipe::new(&bare, n).await?);
                }
                Ok(all)
            };
            let alone = || Pair { bare: bare.clone(), key: "bare/alone/".to_owned() };
            handoff::run(scores, name, &sessions, tasks, rounds, recipe, alone).await?;
        }
        close(sessions).await;
    }
    if Part::Crowd.is_wanted() {
        let began = bramah::Clock::boot().now();
        let sessions = crowd::open(&spy, &keeper, CROWD, TTL).await?;
        let took = bramah::Clock::boot().now().since(began);
        println!("\n{CROWD} sessions were opened in {took:.1?}");
        let shape = "a session each";
        let crowd = Crowd { server: name, shape, sessions: &sessions, holder: session, counts: &spy.counts };
        crowd::run(scores, &crowd, rounds, async |name: &str| bare.list(&format!("ours/{name}/")).await)
            .await?;
        close(sessions).await;
    }
    Ok(())
}

async fn close(sessions: Vec<Session>) {
    let mut closing = tokio::task::JoinSet::new();
    for session in sessions {
        closing.spawn(async move { session.close(Duration::from_secs(30)).await });
    }
    while closing.join_next().await.is_some() {}
}

/// One channel to one member, as ours has, and a lease.
#[derive(Clone)]
struct Bare {
    channel: Channel,
    lease: i64,
}

impl Bare {
    async fn connect(address: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(text)?;
        let channel = endpoint.tcp_nodelay(true).connect().await.map_err(text)?;
        let grant = LeaseGrantRequest { ttl: 600, id: 0 };
        let granted = LeaseClient::new(channel.clone()).lease_grant(grant).await.map_err(text)?;
        Ok(Self { channel, lease: granted.into_inner().id })
    }

    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(64 << 20)
    }

    /// Creates a key that is not there. The revision.
    async fn create(&self, key: &str) -> Result<i64> {
        let absent = Compare {
            key: key.into(),
            target: CompareTarget::Create.into(),
            result: CompareResult::Equal.into(),
            target_union: Some(TargetUnion::CreateRevision(0)),
            ..Compare::default()
        };
        let put =
            PutRequest { key: key.into(), value: DATA.into(), lease: self.lease, ..PutRequest::default() };
        let success = vec![RequestOp { request: Some(Request::RequestPut(put)) }];
        let txn = TxnRequest { compare: vec![absent], success, failure: Vec::new() };
        let done = self.kv().txn(txn).await.map_err(text)?.into_inner();
        match done.header {
            Some(header) if done.succeeded => Ok(header.revision),
            _ => Err(format!("{key} is there")),
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let request = DeleteRangeRequest { key: key.into(), ..DeleteRangeRequest::default() };
        self.kv().delete_range(request).await.map(drop).map_err(text)
    }

    async fn list(&self, start: &str) -> Result<()> {
        self.kv().range(below(start)).await.map(drop).map_err(text)
    }
}

/// Everything that starts with this.
fn below(start: &str) -> RangeRequest {
    let mut range_end = start.as_bytes().to_vec();
    if let Some(last) = range_end.last_mut() {
        *last += 1;
    }
    RangeRequest { key: start.into(), range_end, ..RangeRequest::default() }
}

/// Two requests, both writes: the least that a lock and its release can be.
struct Pair {
    bare: Bare,
    key: String,
}

impl Pairs for Pair {
    async fn pair(&mut self) -> Result<()> {
        self.bare.create(&self.key).await?;
        self.bare.delete(&self.key).await
    }
}

/// Create, find the last one before, watch it, look again; delete.
struct Recipe {
    bare: Bare,
    key: String,
    requests: mpsc::UnboundedSender<WatchRequest>,
    told: Streaming<WatchResponse>,
    watches: i64,
}

impl Recipe {
    async fn new(bare: &Bare, n: usize) -> Result<Self> {
        let (requests, asked) = mpsc::unbounded_channel();
        let key = format!("recipe/{n}");
        // The call is answered with the answer to the first request.
        requests.send(watch("none", 0)).map_err(text)?;
        let mut client = WatchClient::new(bare.channel.clone());
        let told = client.watch(UnboundedReceiverStream::new(asked)).await.map_err(text)?.into_inner();
        Ok(Self { bare: bare.clone(), key, requests, told, watches: 0 })
    }

    /// The last one before this revision.
    async fn before(&self, created: i64) -> Result<Option<String>> {
        let range = RangeRequest {
            limit: 1,
            sort_order: SortOrder::Descend.into(),
            sort_target: SortTarget::Create.into(),
            max_create_revision: created - 1,
            ..below("recipe/")
        };
        let mut found = self.bare.kv().range(range).await.map_err(text)?.into_inner().kvs;
        found.pop().map(|kv| String::from_utf8(kv.key).map_err(text)).transpose()
    }

    /// Waits until a key is gone that was there before this revision: whoever it was may be back, behind us.
    async fn gone(&mut self, key: &str, created: i64) -> Result<()> {
        self.watches += 1;
        let id = self.watches;
        self.requests.send(watch(key, id)).map_err(text)?;
        loop {
            let told = self.told.message().await.map_err(text)?.ok_or("a stream of watches ended")?;
            if told.watch_id != id {
                continue;
            }
            if told.created {
                // What was done before it began is not told at once.
                let max_create_revision = created - 1;
                let range = RangeRequest { key: key.into(), max_create_revision, ..RangeRequest::default() };
                if self.bare.kv().range(range).await.map_err(text)?.into_inner().kvs.is_empty() {
                    break;
                }
            }
            if !told.events.is_empty() {
                break;
            }
        }
        let cancel = RequestUnion::CancelRequest(WatchCancelRequest { watch_id: id });
        self.requests.send(WatchRequest { request_union: Some(cancel) }).map_err(text)
    }
}

impl Contender for Recipe {
    async fn take(&mut self) -> Result<u64> {
        let created = self.bare.create(&self.key).await?;
        while let Some(before) = self.before(created).await? {
            self.gone(&before, created).await?;
        }
        u64::try_from(created).map_err(text)
    }

    async fn give(&mut self) -> Result<()> {
        self.bare.delete(&self.key).await
    }
}

fn watch(key: &str, watch_id: i64) -> WatchRequest {
    let create = WatchCreateRequest {
        key: key.into(),
        filters: vec![FilterType::Noput.into()],
        watch_id,
        ..WatchCreateRequest::default()
    };
    WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}
