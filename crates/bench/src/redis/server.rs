//! The server, and what it says about itself.

use bramah_lab::{Redis, servers::Flavor};

use super::Result;

/// A server without persistence.
pub(super) struct Server(Redis);

impl Server {
    pub(super) fn start() -> Result<Self> {
        Redis::start(Flavor::Redis7).map(Self)
    }

    pub(super) fn url(&self) -> String {
        self.0.url()
    }

    pub(super) fn call(&self, words: &[&str]) -> Result<bramah_lab::Reply> {
        self.0.call(words)
    }

    /// Nothing of a former run is left.
    pub(super) fn flush(&self) -> Result<()> {
        self.0.call(&["FLUSHALL"]).map(drop)
    }

    fn info(&self, section: &str) -> Result<String> {
        Ok(self.0.call(&["INFO", section])?.text())
    }

    /// Seconds of CPU that it has used, in the kernel and outside: parsing, sockets, expiry, everything.
    pub(super) fn cpu(&self) -> Result<f64> {
        let info = self.info("cpu")?;
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
            value.ok_or_else(|| format!("INFO cpu has no {name}"))
        };
        Ok(field("used_cpu_sys:")? + field("used_cpu_user:")?)
    }

    /// How many commands clients have sent, and how many microseconds they took to carry out.
    ///
    /// Both `commandstats` and `total_commands_processed` count what scripts call as well. But what a script calls and
    /// what our contenders send while they contend are different words: they send scripts and subscribe, and neither
    /// can be done from inside of a script. So these words are counted and no others. What that leaves out, a session's
    /// record, is one SET in 20 seconds. Whoever sends others, and has them in none of its scripts, says which: `beside`.
    pub(super) fn sent(&self, beside: &[&str]) -> Result<(u64, u64)> {
        const SENT: [&str; 8] = [
            "eval",
            "evalsha",
            "fcall",
            "subscribe",
            "unsubscribe",
            "ssubscribe",
            "sunsubscribe",
            "script|load",
        ];
        let stats = self.stats()?;
        let words = |word: &str| SENT.contains(&word) || beside.contains(&word);
        let sent = stats.iter().filter(|stat| words(&stat.command));
        Ok(sent.fold((0, 0), |(calls, us), stat| (calls + stat.calls, us + stat.us)))
    }

    /// Of `evalsha`: calls, and microseconds in all of them.
    pub(super) fn scripts(&self) -> Result<(u64, u64)> {
        let stats = self.stats()?;
        let found = stats.iter().find(|stat| stat.command == "evalsha");
        Ok(found.map_or((0, 0), |stat| (stat.calls, stat.us)))
    }

    fn stats(&self) -> Result<Vec<Stat>> {
        let info = self.info("commandstats")?;
        Ok(info.lines().filter_map(Stat::read).collect())
    }
}

struct Stat {
    command: String,
    calls: u64,
    us: u64,
}

impl Stat {
    /// `cmdstat_evalsha:calls=1,usec=20,usec_per_call=20.00,…`
    fn read(line: &str) -> Option<Self> {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let field =
            |name: &str| rest.split(',').find_map(|part| part.strip_prefix(name)?.parse::<u64>().ok());
        Some(Self { command: command.to_owned(), calls: field("calls=")?, us: field("usec=")? })
    }
}
