//! A cluster.

mod slot;

use self::slot::SLOTS;
pub use self::slot::slot_of;
use crate::{
    patience::{PATIENCE, until},
    redis::{Redis, Role},
    replicated::field,
    servers::Flavor,
    wire::Reply,
};

/// A cluster of masters, each with as many replicas. The slots are spread evenly over the masters.
#[derive(Debug)]
pub struct Cluster {
    /// The masters first, then the first replica of each, then the second.
    nodes: Vec<Redis>,
    ids: Vec<String>,
}

impl Cluster {
    /// Starts three masters without replicas, and waits until the cluster is whole.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or a server does not start.
    pub fn start(flavor: Flavor) -> Result<Self, String> {
        Self::with(flavor, 3, 0)
    }

    /// Starts `masters`, each with `replicas`, and waits until the cluster is whole.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or a server does not start.
    pub fn with(flavor: Flavor, masters: u16, replicas: u16) -> Result<Self, String> {
        let options = [("cluster-node-timeout", "2000"), ("cluster-replica-validity-factor", "0")];
        let nodes = (0..masters * (1 + replicas))
            .map(|_| Redis::launch(flavor, Role::ClusterNode, &options, Vec::new()))
            .collect::<Result<Vec<_>, _>>()?;
        let ids = nodes
            .iter()
            .map(|node| Ok(node.call(&["CLUSTER", "MYID"])?.text()))
            .collect::<Result<_, String>>()?;
        let cluster = Self { nodes, ids };
        cluster.join(masters)?;
        Ok(cluster)
    }

    fn join(&self, masters: u16) -> Result<(), String> {
        for (n, node) in (1..).zip(&self.nodes) {
            // Epochs of their own, or the nodes would have to quarrel them out.
            node.call(&["CLUSTER", "SET-CONFIG-EPOCH", &n.to_string()])?;
        }
        for (n, node) in (0..masters).zip(&self.nodes) {
            let bound = |n: u16| u32::from(n) * u32::from(SLOTS) / u32::from(masters);
            let (first, last) = (bound(n).to_string(), (bound(n + 1) - 1).to_string());
            node.call(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        let (first, rest) = self.nodes.split_first().ok_or("a cluster of no nodes")?;
        for node in rest {
            let (port, bus) = (node.port().to_string(), node.bus().to_string());
            first.call(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
        }
        let masters = usize::from(masters);
        for (n, replica) in self.nodes.iter().enumerate().skip(masters) {
            let id = self.ids.get(n % masters).ok_or("a cluster of no masters")?;
            // It can only follow whom it has heard of.
            until("a replica's master", PATIENCE, || replica.call(&["CLUSTER", "REPLICATE", id]))?;
        }
        self.await_whole()
    }

    /// Waits until every node that runs finds the cluster in order, and knows all other nodes.
    ///
    /// # Errors
    ///
    /// When it does not come about in time.
    pub fn await_whole(&self) -> Result<(), String> {
        let all = self.nodes.len().to_string();
        for node in self.nodes.iter().filter(|node| node.pid().is_some()) {
            until(&format!("the cluster, seen from port {}", node.port()), PATIENCE, || {
                let info = node.call(&["CLUSTER", "INFO"])?.text();
                let whole = field(&info, "cluster_state") == Some("ok")
                    && field(&info, "cluster_known_nodes") == Some(&all);
                let link = node.call(&["INFO", "replication"])?.text();
                let synced = field(&link, "role") == Some("master")
                    || field(&link, "master_link_status") == Some("up");
                if whole && synced { Ok(()) } else { Err(info.lines().take(7).collect::<Vec<_>>().join(" ")) }
            })?;
        }
        Ok(())
    }

    /// The nodes: the masters first, then the replicas.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The addresses of the nodes: `127.0.0.1:port`.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::address).collect()
    }

    /// The slot of a key, or of the part of it between braces.
    #[must_use]
    pub fn slot_of(key: &str) -> u16 {
        slot_of(key.as_bytes())
    }

    /// The index of the master that has the slot, as the first node that runs knows it.
    ///
    /// # Errors
    ///
    /// When no node runs, or nobody has the slot.
    pub fn node_of(&self, slot: u16) -> Result<usize, String> {
        let asked =
            self.nodes.iter().find(|node| node.pid().is_some()).ok_or("no node of the cluster runs")?;
        self.owner(asked, slot)
    }

    /// The index of the master that has the slot in the eyes of one node.
    fn owner(&self, asked: &Redis, slot: u16) -> Result<usize, String> {
        let told = asked.call(&["CLUSTER", "SLOTS"])?.many();
        let range = told.into_iter().map(Reply::many).find(|range| match range.as_slice() {
            [Reply::Int(first), Reply::Int(last), ..] => (*first..=*last).contains(&i64::from(slot)),
            _ => false,
        });
        let master = range.and_then(|range| range.into_iter().nth(2)).map(Reply::many).unwrap_or_default();
        let id = master.get(2).map(Reply::text).unwrap_or_default();
        self.ids.iter().position(|known| *known == id).ok_or_else(|| format!("nobody has slot {slot}"))
    }

    /// Moves a slot with its keys from one node to another, both as indices of [`nodes`](Self::nodes), and waits until
    /// all nodes know.
    ///
    /// # Errors
    ///
    /// When one of the steps fails.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) -> Result<(), String> {
        self.begin_move(slot, from, to)?;
        self.move_keys(slot, from, to)?;
        self.end_move(slot, from, to)
    }

    /// The first step: from now on the old node answers `ASK` for keys that it does not have.
    ///
    /// # Errors
    ///
    /// When a node refuses.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) -> Result<(), String> {
        let ((old, old_id), (new, new_id)) = (self.node(from)?, self.node(to)?);
        let slot = slot.to_string();
        new.call(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", old_id])?;
        old.call(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", new_id])?;
        Ok(())
    }

    /// The second step: moves all keys that the slot has now, and tells how many.
    ///
    /// # Errors
    ///
    /// When a node refuses.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) -> Result<usize, String> {
        let mut moved = 0;
        loop {
            let keys = self.keys_in(slot, from)?;
            if keys.is_empty() {
                return Ok(moved);
            }
            for key in &keys {
                self.move_key(key, from, to)?;
            }
            moved += keys.len();
        }
    }

    /// Some of the keys that a node has of a slot.
    ///
    /// # Errors
    ///
    /// When the node refuses.
    pub fn keys_in(&self, slot: u16, at: usize) -> Result<Vec<String>, String> {
        let keys = self.node(at)?.0.call(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"])?;
        Ok(keys.many().iter().map(crate::Reply::text).collect())
    }

    /// Moves one key, or nothing if it is not there any more.
    ///
    /// # Errors
    ///
    /// When a node refuses.
    pub fn move_key(&self, key: &str, from: usize, to: usize) -> Result<(), String> {
        let ((old, _), (new, _)) = (self.node(from)?, self.node(to)?);
        old.call(&["MIGRATE", "127.0.0.1", &new.port().to_string(), key, "0", "5000"]).map(drop)
    }

    /// The last step: the slot is the new node's, and all nodes know.
    ///
    /// # Errors
    ///
    /// When a node refuses, or does not hear of it in time.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) -> Result<(), String> {
        let ((old, _), (new, new_id)) = (self.node(from)?, self.node(to)?);
        let number = slot.to_string();
        // The new one first: if it were to die in between, the slot would belong to nobody.
        for node in [new, old] {
            node.call(&["CLUSTER", "SETSLOT", &number, "NODE", new_id])?;
        }
        for node in self.nodes.iter().filter(|node| node.pid().is_some()) {
            until(&format!("slot {slot}, seen from port {}", node.port()), PATIENCE, || {
                let owner = self.owner(node, slot)?;
                if owner == to { Ok(()) } else { Err(format!("node {owner} has it")) }
            })?;
        }
        Ok(())
    }

    fn node(&self, index: usize) -> Result<(&Redis, &str), String> {
        let found = self.nodes.get(index).zip(self.ids.get(index).map(String::as_str));
        found.ok_or_else(|| format!("no node {index}: there are {}", self.nodes.len()))
    }
}
