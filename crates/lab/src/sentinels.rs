//! A master with replicas, watched by sentinels.

use std::time::Duration;

use crate::{
    patience::{PATIENCE, until},
    redis::{Redis, Role},
    replicated::{Replicated, field, in_sync},
    servers::Flavor,
};

const SERVICE: &str = "lab";
const SENTINELS: usize = 3;

/// Three sentinels, of which two must agree, over a master with replicas. They call a server down after a second, and
/// look at the servers every tenth of one, not every ten.
#[derive(Debug)]
pub struct Sentinels {
    sentinels: Vec<Redis>,
    servers: Replicated,
}

impl Sentinels {
    /// Starts a master with `replicas` and three sentinels, and waits until all know each other.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or a server does not start.
    pub fn start(flavor: Flavor, replicas: usize) -> Result<Self, String> {
        let servers = Replicated::start(flavor, replicas)?;
        let monitor = format!("monitor {SERVICE} 127.0.0.1 {} 2", servers.master().port());
        let down_after = format!("down-after-milliseconds {SERVICE} 1000");
        let failover_timeout = format!("failover-timeout {SERVICE} 5000");
        let options =
            [&monitor, &down_after, &failover_timeout].map(|setting| ("sentinel", setting.as_str()));
        let sentinels = (0..SENTINELS)
            .map(|_| Redis::launch(flavor, Role::Sentinel, &options, Vec::new()))
            .collect::<Result<_, _>>()?;
        let made = Self { sentinels, servers };
        for sentinel in &made.sentinels {
            sentinel.call(&["SENTINEL", "DEBUG", "INFO-PERIOD", "100", "PUBLISH-PERIOD", "100"])?;
        }
        made.await_acquaintance()?;
        for sentinel in &made.sentinels {
            // As usual again: after four periods without a word of it, a new master is made a replica by the others.
            sentinel.call(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", "2000"])?;
        }
        Ok(made)
    }

    fn await_acquaintance(&self) -> Result<(), String> {
        let replicas = self.servers.replicas().len().to_string();
        let others = (SENTINELS - 1).to_string();
        for sentinel in &self.sentinels {
            until(&format!("the sentinel on port {}", sentinel.port()), PATIENCE, || {
                let told = sentinel.call(&["SENTINEL", "MASTER", SERVICE])?.many();
                let of = |key: &str| {
                    let pairs = told.chunks_exact(2);
                    pairs.filter(|pair| pair[0].text() == key).map(|pair| pair[1].text()).next()
                };
                let known = (of("num-slaves"), of("num-other-sentinels"));
                if known == (Some(replicas.clone()), Some(others.clone())) {
                    Ok(())
                } else {
                    Err(format!("replicas and other sentinels: {known:?}"))
                }
            })?;
        }
        Ok(())
    }

    /// The name under which the sentinels know the master.
    #[must_use]
    pub fn service(&self) -> &'static str {
        SERVICE
    }

    /// The addresses of the sentinels: `127.0.0.1:port`.
    #[must_use]
    pub fn url_list(&self) -> Vec<String> {
        self.sentinels.iter().map(Redis::address).collect()
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// All servers but the sentinels, first the one that was the master at first.
    pub fn servers(&self) -> impl Iterator<Item = &Redis> {
        [self.servers.master()].into_iter().chain(self.servers.replicas())
    }

    /// The master on which all sentinels that answer agree.
    ///
    /// # Errors
    ///
    /// When they do not, or none answers.
    pub fn master(&self) -> Result<&Redis, String> {
        let mut ports: Vec<String> = Vec::new();
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.pid().is_some()) {
            let told = sentinel.call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE])?.many();
            ports.extend(told.last().map(|port| port.text()));
        }
        ports.dedup();
        match ports.as_slice() {
            [port] => self
                .servers()
                .find(|server| server.port().to_string() == *port)
                .ok_or_else(|| format!("the sentinels name a master that is not ours, on port {port}")),
            _ => Err(format!("the sentinels do not agree on a master: {ports:?}")),
        }
    }

    /// Lets the sentinels make a replica the master, as if the master were down, and waits until all agree and the old
    /// master is a replica in sync.
    ///
    /// # Errors
    ///
    /// When it does not come about in time.
    pub fn failover(&self) -> Result<(), String> {
        let old = self.master()?;
        let first = self.sentinels.first().ok_or("no sentinels")?;
        // Right after a start or a failover no replica may be good enough yet; and on a busy machine one that was may be
        // found wanting in the middle, so that the failover is given up.
        until("a failover", PATIENCE, || {
            let told = first.call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE])?.many();
            if told.last().is_some_and(|port| port.text() != old.port().to_string()) {
                return Ok(());
            }
            first.call(&["SENTINEL", "FAILOVER", SERVICE])?;
            Err("it has begun".into())
        })?;
        let new = self.await_other_master(old)?;
        in_sync(new, old)?;
        // The next failover is refused while this one is on.
        until("the end of the failover", PATIENCE, || {
            let told = first.call(&["SENTINEL", "MASTER", SERVICE])?.many();
            let busy = told.iter().any(|word| word.text().contains("failover_in_progress"));
            if busy { Err("it is on".into()) } else { Ok(()) }
        })
    }

    /// Waits until all sentinels agree on another master than `old`, and it knows that it is one.
    ///
    /// # Errors
    ///
    /// When it does not come about in time.
    pub fn await_other_master(&self, old: &Redis) -> Result<&Redis, String> {
        until("another master", PATIENCE + Duration::from_secs(10), || {
            let new = self.master()?;
            if new.port() == old.port() {
                return Err(format!("it is still the one on port {}", old.port()));
            }
            let info = new.call(&["INFO", "replication"])?.text();
            if field(&info, "role") == Some("master") { Ok(new) } else { Err("it is a replica".into()) }
        })
    }
}
