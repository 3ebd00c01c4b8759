//! ZooKeeper: against the creation and deletion of an ephemeral sequential node, and the recipe in its documentation.

use std::{process::ExitCode, sync::Arc, time::Duration};

use bramah::{Engine, Keeper, Session};
use bramah_lab::ZooKeeper as Server;
use bramah_zookeeper::ZooKeeper;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

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

const TTL: Duration = Duration::from_secs(20);

/// What the bare calls write, as long as what ours say of a claim.
const DATA: &[u8] = &[b'x'; 150];

/// How many sessions have the crowd between them.
const SESSIONS: usize = 8;

pub(crate) fn run() -> ExitCode {
    report(|scores| {
        let (rounds, runtime) = (rounds()?, runtime()?);
        for members in [1, 3] {
            let server = Server::start(members)?;
            let name = format!("ZooKeeper {}, {members} member(s)", server.version());
            runtime.block_on(measure(scores, &name, &server, rounds))?;
        }
        Ok(())
    })
}

impl Counts for Server {
    fn requests(&self) -> Result<f64> {
        (0..self.count()).map(|member| self.received(member)).sum()
    }
}

trait Received {
    fn received(&self, member: usize) -> Result<f64>;
}

impl Received for Server {
    fn received(&self, member: usize) -> Result<f64> {
        let told = self.ask(member, "mntr")?;
        let count = told.lines().find_map(|line| line.strip_prefix("zk_packets_received"));
        count.and_then(|count| count.trim().parse().ok()).ok_or_else(|| "no count of packets".to_owned())
    }
}

async fn measure(scores: &mut Scores, name: &str, server: &Server, rounds: usize) -> Result<()> {
    // Both ask the same member: it makes a difference whether that is the leader.
    let address = server.addresses().first().cloned().unwrap_or_default();
    let engine = ZooKeeper::from_url(&format!("zookeeper://{address}/ours")).map_err(text)?;
    let spy = Spy::on(Arc::<dyn Engine>::from(engine.clone()));
    let keeper = Keeper::spawn().map_err(text)?;
    let session = Session::builder(engine).ttl(TTL).keeper(keeper.clone()).open().await.map_err(text)?;
    let client = Client::connector().with_session_timeout(TTL).connect(&address).await;
    let client = client.map_err(text)?;
    let folder = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for n in 0..TASKS {
        client.mkdir(&format!("/bare/{n}"), &folder).await.map_err(text)?;
    }
    client.mkdir("/recipe", &folder).await.map_err(text)?;
    if Part::Pairs.is_wanted() {
        let bare =
            || (0..TASKS).map(|n| Bare { client: client.clone(), prefix: format!("/bare/{n}/_c_-lock-") });
        pairs(scores, name, server, &session, rounds, || bare().collect()).await?;
    }
    if Part::HandOff.is_wanted() {
        for tasks in [16, TASKS] {
            let recipe =
                async |count| Ok((0..count).map(|_| Recipe { client: client.clone(), node: None }).collect());
            let alone = || Bare { client: client.clone(), prefix: "/bare/0/_c_-lock-".to_owned() };
            let sessions = std::slice::from_ref(&session);
            handoff::run(scores, name, sessions, tasks, rounds, recipe, alone).await?;
        }
    }
    if Part::Crowd.is_wanted() {
        for (count, shape) in [(1, "one session"), (SESSIONS, "8 sessions")] {
            let sessions = crowd::open(&spy, &keeper, count, TTL).await?;
            let crowd =
                Crowd { server: name, shape, sessions: &sessions, holder: &session, counts: &spy.counts };
            let listing = async |name: &str| {
                client.list_children(&format!("/ours/{name}")).await.map(drop).map_err(text)
            };
            crowd::run(scores, &crowd, rounds, listing).await?;
        }
    }
    Ok(())
}

fn ephemeral() -> CreateOptions<'static> {
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all())
}

/// Two requests, both writes: the least that a lock and its release can be.
struct Bare {
    client: Client,
    prefix: String,
}

impl Pairs for Bare {
    async fn pair(&mut self) -> Result<()> {
        let (_, number) = self.client.create(&self.prefix, DATA, &ephemeral()).await.map_err(text)?;
        self.client.delete(&format!("{}{number}", self.prefix), None).await.map_err(text)
    }
}

/// Create, list, watch the one before, list again; delete.
struct Recipe {
    client: Client,
    node: Option<String>,
}

impl Contender for Recipe {
    async fn take(&mut self) -> Result<u64> {
        let options = ephemeral();
        let created = self.client.create("/recipe/lock-", DATA, &options);
        let mut listed = self.client.list_children("/recipe").await.map_err(text)?;
        let (stat, number) = created.await.map_err(text)?;
        let node = format!("lock-{number}");
        loop {
            listed.sort_unstable();
            let before = listed.iter().take_while(|other| **other < node).last();
            let Some(before) = before.map(|before| format!("/recipe/{before}")) else { break };
            let (there, left) = self.client.check_and_watch_stat(&before).await.map_err(text)?;
            if there.is_some() {
                left.changed().await;
            }
            listed = self.client.list_children("/recipe").await.map_err(text)?;
        }
        self.node = Some(format!("/recipe/{node}"));
        u64::try_from(stat.czxid).map_err(text)
    }

    async fn give(&mut self) -> Result<()> {
        match self.node.take() {
            Some(node) => self.client.delete(&node, None).await.map_err(text),
            None => Ok(()),
        }
    }
}
