//! A master with replicas.

use crate::{
    patience::{PATIENCE, until},
    redis::Redis,
    servers::Flavor,
};

/// A master and replicas that were in sync with it when this was made.
#[derive(Debug)]
pub struct Replicated {
    master: Redis,
    replicas: Vec<Redis>,
}

impl Replicated {
    /// Starts a master with `replicas`, and waits until they are in sync.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or a server does not start.
    pub fn start(flavor: Flavor, replicas: usize) -> Result<Self, String> {
        Self::with(flavor, replicas, &[])
    }

    /// The same with lines of the configuration for all of them.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or a server does not start.
    pub fn with(flavor: Flavor, replicas: usize, options: &[(&str, &str)]) -> Result<Self, String> {
        let master = Redis::with(flavor, options)?;
        let of = format!("127.0.0.1 {}", master.port());
        let options: Vec<_> = options.iter().copied().chain([("replicaof", of.as_str())]).collect();
        let replicas = (0..replicas).map(|_| Redis::with(flavor, &options)).collect::<Result<_, _>>()?;
        let made = Self { master, replicas };
        made.await_sync()?;
        Ok(made)
    }

    /// The master.
    #[must_use]
    pub fn master(&self) -> &Redis {
        &self.master
    }

    /// The replicas.
    #[must_use]
    pub fn replicas(&self) -> &[Redis] {
        &self.replicas
    }

    /// Waits until every replica is connected and has been told everything.
    ///
    /// # Errors
    ///
    /// When that does not happen in time.
    pub fn await_sync(&self) -> Result<(), String> {
        self.replicas.iter().try_for_each(|replica| in_sync(&self.master, replica))
    }
}

/// Waits until a replica has got everything that its master was told. To see that it really does get things, and is not
/// only listed as one that will, the master tells it something that leaves no trace.
pub(crate) fn in_sync(master: &Redis, replica: &Redis) -> Result<(), String> {
    let what = format!("the replica on port {}", replica.port());
    let info = |of: &Redis| Ok::<_, String>(of.call(&["INFO", "replication"])?.text());
    let told = |info: &str| info.lines().collect::<Vec<_>>().join(" ");
    until(&what, PATIENCE, || {
        let info = info(replica)?;
        let up = field(&info, "master_link_status") == Some("up");
        let ours = field(&info, "master_port") == Some(&master.port().to_string());
        if up && ours { Ok(()) } else { Err(told(&info)) }
    })?;
    master.call(&["PUBLISH", "bramah-lab", "sync"])?;
    let everything = offset(&info(master)?, "master_repl_offset");
    until(&what, PATIENCE, || {
        let info = info(replica)?;
        if offset(&info, "slave_repl_offset") >= everything { Ok(()) } else { Err(told(&info)) }
    })
}

fn offset(info: &str, key: &str) -> Option<u64> {
    field(info, key)?.parse().ok()
}

/// A field of INFO, or of another answer of lines like `key:value`.
pub(crate) fn field<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(key)?.strip_prefix(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = "# Replication\r\nrole_of:x\r\nrole:master\r\n";
        assert_eq!(field(info, "role"), Some("master"));
        assert_eq!(field(info, "slaves"), None);
    }
}
