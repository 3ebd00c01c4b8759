//! The lines with users' rights in docs/engines/redis.md are what the engine needs: all of it, and nothing more.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bramah_core::{Name, Scope, Session};
use bramah_lab::{Cluster, Redis as Server, Sentinels, servers::Flavor};
use bramah_redis::{
    Redis,
    checkup::{self, Proof},
};

const PAGE: &str = include_str!("../../../../docs/engines/redis.md");
const WITHIN: Duration = Duration::from_secs(20);

/// The words of the line for a user, as redis-cli gets them from a shell.
fn line(user: &str) -> Vec<String> {
    let start = format!("redis-cli ACL SETUSER {user} ");
    let text = PAGE.split_once(&start).map(|(_, rest)| rest).expect("the page has a line for this user");
    let text = text.split("```").next().unwrap().replace("\\\n", " ");
    let words =
        text.split_whitespace().map(|word| word.replace(['\'', '\\'], "").replace("PASSWORD", "hush"));
    ["ACL".to_owned(), "SETUSER".to_owned(), user.to_owned()].into_iter().chain(words).collect()
}

fn permit(server: &Server, words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    server.cli(&words).unwrap();
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn open(url: &str) -> Session {
    let engine = Redis::from_url(url).unwrap();
    Session::builder(engine).ttl(Duration::from_secs(4)).open().await.unwrap()
}

/// Everything that is done with locks, by the user in the URL.
async fn work_out(url: &str, has_line: bool) {
    let (here, there) = (open(url).await, open(url).await);
    let name = Name::new("acl/a").unwrap();
    let (mine, theirs) = (here.mutex(&name).unwrap(), there.mutex(&name).unwrap());
    for _ in 0..2 {
        let guard = mine.lock_within(WITHIN).await.unwrap();
        // Renewed a few times, with somebody in line.
        let hold = async {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            assert!(guard.is_held());
            let line = here.inspect(&name).await.unwrap().unwrap();
            assert_eq!(line.waiters().count(), usize::from(has_line));
            guard.release().await;
        };
        let (next, ()) = tokio::join!(theirs.lock_within(WITHIN), hold);
        let next = next.unwrap();
        if !url.contains("layout=redisson") {
            assert!(here.ask(&name, next.tag()).await.unwrap());
            tokio::time::timeout(WITHIN, next.asked()).await.unwrap();
        }
        let listed = here.survey(&Scope::All).await.unwrap();
        assert!(listed.iter().any(|line| line.name == name), "{listed:?}");
        assert!(here.break_hold(&name, next.tag(), "a test").await.unwrap());
        tokio::time::timeout(WITHIN, next.lost()).await.unwrap();
    }
    let watched = here.watch(&Scope::Under(Name::new("acl").unwrap())).await.unwrap();
    let guard = mine.lock().await.unwrap();
    tokio::time::timeout(WITHIN, watched.wake).await.unwrap();
    guard.release().await;
    if !url.contains("layout=plain") && !url.contains("fair=true") {
        let shared = here.rwlock("acl/c").unwrap();
        shared.read().lock().await.unwrap().release().await;
        shared.write().lock().await.unwrap().release().await;
        let permits = here.semaphore("acl/b", 3).unwrap();
        let (one, two) = (permits.permits(1).lock().await.unwrap(), permits.permits(1).lock().await.unwrap());
        one.release().await;
        two.release().await;
    }
    for session in [here, there] {
        let _ = session.close(WITHIN).await;
    }
    let facts = checkup::examine(url).await.unwrap();
    for node in &facts.nodes {
        assert_eq!((node.rights.proof, &*node.rights.missing), (Proof::Tried, &[][..]), "{}", node.address);
    }
}

/// Without any one of its commands, keys or channels the doctor says which one is missing.
fn is_minimal(servers: &[Server], user: &str, url: &str) {
    let whole = line(user);
    let may_ask = ["+acl|whoami", "+acl|dryrun"].map(str::to_owned);
    let missing = |words: &[String]| {
        for server in servers {
            server.cli(&["ACL", "SETUSER", user, "reset"]).unwrap();
            permit(server, &[words, &may_ask].concat());
        }
        let facts = run(checkup::examine(url)).unwrap();
        let rights = facts.nodes.into_iter().next().unwrap().rights;
        assert_eq!(rights.proof, Proof::Asked);
        rights.missing.into_iter().map(|missing| missing.rule).collect::<Vec<_>>()
    };
    assert_eq!(missing(&whole), [""; 0]);
    for at in 3..whole.len() {
        let rule = whole[at].clone();
        // How a cluster is found, and how a node lets us in, is not for a right to be asked about.
        if ["on", ">hush", "+cluster|slots", "+asking"].contains(&rule.as_str()) {
            continue;
        }
        let mut rest = whole.clone();
        rest.remove(at);
        assert_eq!(missing(&rest), [rule]);
    }
}

#[test]
fn the_line_for_the_native_layout_is_enough_and_not_too_much() {
    let server = [Server::start(Flavor::Redis7).unwrap()];
    permit(&server[0], &line("native"));
    let url = format!("redis://native:hush@{}", server[0].address());
    run(work_out(&url, true));
    is_minimal(&server, "native", &url);
}

#[test]
fn the_line_for_the_plain_layout_is_enough_and_not_too_much() {
    let server = [Server::start(Flavor::Redis7).unwrap()];
    permit(&server[0], &line("plain"));
    let url = format!("redis://plain:hush@{}?layout=plain&prefix=locks:", server[0].address());
    run(work_out(&url, false));
    is_minimal(&server, "plain", &url);
}

#[test]
fn the_line_for_redissons_layout_is_enough_and_not_too_much() {
    let server = [Server::start(Flavor::Redis7).unwrap()];
    permit(&server[0], &line("redisson"));
    let url = format!("redis://redisson:hush@{}?layout=redisson&prefix=locks:", server[0].address());
    run(work_out(&url, false));
    run(work_out(&format!("{url}&fair=true"), true));
    is_minimal(&server, "redisson", &url);
}

#[test]
fn the_lines_for_a_cluster_are_enough_and_not_too_much() {
    let cluster = Cluster::start(Flavor::Redis7).unwrap();
    for (user, query, has_line) in
        [("native-cluster", "", true), ("plain-cluster", "?layout=plain&prefix=locks:", false)]
    {
        for server in cluster.nodes() {
            permit(server, &line(user));
        }
        let url = format!("redis+cluster://{user}:hush@{}{query}", cluster.addresses().join(","));
        run(work_out(&url, has_line));
        is_minimal(cluster.nodes(), user, &url);
    }
}

#[test]
fn the_line_for_the_native_layout_is_enough_behind_sentinels() {
    let sentinels = Sentinels::start(Flavor::Redis7, 1).unwrap();
    for server in sentinels.servers() {
        permit(server, &line("native"));
    }
    let url =
        format!("redis+sentinel://native:hush@{}/{}", sentinels.url_list().join(","), sentinels.service());
    run(work_out(&url, true));
}

#[test]
fn a_line_that_lacks_a_right_is_noticed() {
    let server = Server::start(Flavor::Redis7).unwrap();
    let lacking: Vec<String> = line("native").into_iter().filter(|word| word != "+zadd").collect();
    permit(&server, &lacking);
    let url = format!("redis://native:hush@{}", server.address());
    let done = std::panic::catch_unwind(|| run(work_out(&url, true)));
    assert!(done.is_err());
}
