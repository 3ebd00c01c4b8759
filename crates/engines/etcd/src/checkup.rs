//! What there is to know of a cluster before one trusts locks to it: plain facts, for a doctor to judge.

use std::{sync::Arc, time::Duration};

use bramah_core::{Clock, Error, ErrorKind, Name, Result, SessionId};
use bramah_remote::Office;
use tonic::{Code, Request};

use crate::{
    Etcd,
    config::Config,
    engine::Inner,
    error::Trouble,
    layout::{self, Span},
    net::{Net, Way},
    ops,
    proto::etcdserverpb::{
        MemberListRequest, RequestOp, StatusRequest, StatusResponse, TxnRequest,
        cluster_client::ClusterClient, maintenance_client::MaintenanceClient,
    },
};

/// How often a member is asked; the first time it is connected to.
const ROUNDS: usize = 6;

/// A cluster as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The members that the url names, in its order.
    pub members: Vec<Member>,
    /// How many members of the cluster vote, named in the url or not; `None` if nobody said so.
    pub voters: Option<usize>,
    /// What it grants; why nothing, if it grants nothing.
    pub service: std::result::Result<Service, String>,
    /// What every key begins with: empty, or with a slash at its end.
    pub prefix: String,
    /// The user of the url.
    pub user: Option<String>,
    /// Whether TLS is spoken.
    pub is_private: bool,
    /// How much longer than the ttl a lease is.
    pub margin: Duration,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it is.
    pub address: String,
    /// What it says of itself, or why it says nothing.
    pub word: std::result::Result<Status, String>,
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `3.5.16`.
    pub version: String,
    /// The cluster that it belongs to.
    pub cluster: u64,
    /// What it does there.
    pub role: Role,
    /// Its alarms, such as `NOSPACE` and `CORRUPT`.
    pub alarms: Vec<String>,
    /// How long a question takes; the median of some.
    pub round_trip: Duration,
}

/// What a member does in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It follows a leader.
    Follower,
    /// It follows a leader and does not vote yet.
    Learner,
    /// It knows no leader.
    Leaderless,
}

/// What a cluster grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The lease that was granted when one of a second was asked for.
    pub least_lease: Duration,
    /// What we may do there.
    pub rights: Rights,
}

/// What a user may do below the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Whether it may read and write in lines, as far as one below `bramah/doctor` tells.
    pub lock: bool,
    /// Whether it may read and write what is below `/bramah/`: floors of fences, and breaks.
    pub records: bool,
    /// Whether it may read everything, as listings do.
    pub list: bool,
}

/// Looks at the cluster of a URL. Nothing is written to it but a lease, which is ended at once.
///
/// # Errors
/// Of a cluster of which no member answers, and of one that does not take our user.
pub async fn examine(url: &str) -> Result<Facts> {
    let (etcd, office) = (Etcd::from_url(url)?, Office::open("etcd")?);
    let there = office.clone();
    office.run(async move { look(&etcd.0, &there).await }).await
}

async fn look(inner: &Arc<Inner>, office: &Office) -> Result<Facts> {
    let config = inner.net.config();
    let ask = |address: &String| tokio::spawn(ask(config.clone(), address.clone(), office.clone()));
    let asked: Vec<_> = config.members.iter().map(ask).collect();
    let (mut members, mut voters, mut trouble) = (Vec::new(), None, None);
    for (address, asked) in config.members.iter().zip(asked) {
        let over = || Error::new(ErrorKind::Unavailable, "the question was given up; is the process ending?");
        let word = match asked.await.unwrap_or_else(|_| Err(over())) {
            Ok((status, told)) => {
                voters = voters.or(told);
                Ok(status)
            }
            Err(error) => {
                let why = error.to_string();
                trouble = Some(error);
                Err(why)
            }
        };
        members.push(Member { address: address.clone(), word });
    }
    let service = service(inner).await;
    if let Some(error) = trouble.filter(|_| members.iter().all(|member| member.word.is_err())) {
        // What is said of all of them, if there is something to say.
        return Err(service.err().unwrap_or(error));
    }
    let service = match service {
        Ok(service) => Ok(service),
        Err(error) if error.kind() == ErrorKind::Unavailable => Err(error.to_string()),
        Err(error) => return Err(error),
    };
    Ok(Facts {
        members,
        voters,
        service,
        prefix: config.prefix.clone(),
        user: config.login.as_ref().map(|(user, _)| user.clone()),
        is_private: config.tls.is_some(),
        margin: config.margin,
    })
}

/// What one member says of itself, and how many vote.
async fn ask(config: Config, address: String, office: Office) -> Result<(Status, Option<usize>)> {
    let one = Config { members: vec![address], ..config };
    let told = ask_as(&one, &office).await;
    // A login needs a leader, and most versions tell this to everybody.
    if told.is_err() && one.login.is_some() {
        return ask_as(&Config { login: None, ..one }, &office).await.or(told);
    }
    told
}

async fn ask_as(config: &Config, office: &Office) -> Result<(Status, Option<usize>)> {
    let (net, clock, patience) = (Net::new(config.clone(), office)?, Clock::boot(), config.timeout);
    let (mut trips, mut last) = (Vec::new(), None);
    for _ in 0..ROUNDS {
        let sent = clock.now();
        let status = |way: Way| {
            let request = to_anybody(&way, StatusRequest {});
            async move { MaintenanceClient::new(way.channel).status(request).await }
        };
        last = Some(net.call(patience, status).await.map_err(|trouble| net.explain(&trouble))?);
        trips.push(clock.now().since(sent));
    }
    let list = |way: Way| {
        let request = to_anybody(&way, MemberListRequest { linearizable: false });
        async move { ClusterClient::new(way.channel).member_list(request).await }
    };
    let listed = net.call(patience, list).await.ok();
    let voters = listed.map(|list| list.members.iter().filter(|member| !member.is_learner).count());
    let status = last.and_then(|status| read(status, trips));
    let odd = || net.explain(&Trouble::Odd("its status is no answer to what was asked"));
    Ok((status.ok_or_else(odd)?, voters))
}

/// A member that knows no leader is to answer, too.
fn to_anybody<T>(way: &Way, message: T) -> Request<T> {
    let mut request = way.request(message);
    request.metadata_mut().remove("hasleader");
    request
}

fn read(status: StatusResponse, mut trips: Vec<Duration>) -> Option<Status> {
    let header = status.header?;
    let role = match status.leader {
        0 => Role::Leaderless,
        _ if status.is_learner => Role::Learner,
        leader if leader == header.member_id => Role::Leader,
        _ => Role::Follower,
    };
    // `memberID:10276657743932975437 alarm:NOSPACE `; what else is said there the role tells.
    let alarm = |said: &String| said.split("alarm:").nth(1).map(|alarm| alarm.trim().to_owned());
    let mut alarms: Vec<String> = status.errors.iter().filter_map(alarm).collect();
    alarms.sort();
    alarms.dedup();
    trips.sort();
    let round_trip = trips.get(trips.len() / 2).copied().unwrap_or_default();
    Some(Status { version: status.version, cluster: header.cluster_id, role, alarms, round_trip })
}

async fn service(inner: &Inner) -> Result<Service> {
    let explain = |trouble: Trouble| inner.net.explain(&trouble);
    let (net, patience) = (&inner.net, inner.net.config().timeout);
    let (session, other) = (SessionId::random()?, SessionId::random()?);
    let lease = layout::lease(session);
    let seconds = net.grant(lease, 1, patience).await.map_err(explain)?;
    // One that cannot be ended runs out.
    let _ = net.revoke(lease, patience).await;
    let name = Name::new(format!("bramah/doctor/{session}"))?;
    let layout = &inner.layout;
    let put = |key: &[u8]| ops::put(key, Vec::new(), 0);
    let (claim, broken, all) = (layout.mutex(&name, session), layout.broken(&name), layout.all());
    let lock = vec![put(&claim), ops::delete(&layout.mutex(&name, other)), ops::read(&layout.line(&name))];
    let records = vec![put(&broken), put(&layout.floor(&name)), ops::read(&layout.breaks(None))];
    let rights = Rights {
        lock: may(net, &claim, lock).await.map_err(explain)?,
        records: may(net, &broken, records).await.map_err(explain)?,
        list: may(net, &claim, vec![ops::read(&all)]).await.map_err(explain)?,
    };
    Ok(Service { least_lease: Duration::from_secs(seconds.unsigned_abs()), rights })
}

/// Whether this may be done, which is not done: the condition is never true, and rights are asked for before it is.
async fn may(net: &Net, key: &[u8], success: Vec<RequestOp>) -> Result<bool, Trouble> {
    let compare = vec![ops::created(&Span::one(key), -1)];
    match net.txn(TxnRequest { compare, success, ..TxnRequest::default() }, net.config().timeout).await {
        Ok(_) => Ok(true),
        Err(Trouble::Said(status)) if status.code() == Code::PermissionDenied => Ok(false),
        Err(trouble) => Err(trouble),
    }
}
