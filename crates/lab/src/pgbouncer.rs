//! PgBouncer.

use std::ffi::OsString;

use rustix::process::Signal;

use crate::{
    daemon::Daemon,
    postgres::{self, Postgres},
    servers::Flavor,
};

/// For how long a client has a connection to the server for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// For a transaction.
    Transaction,
    /// As long as it is connected.
    Session,
}

/// A PgBouncer before a PostgreSQL, for the same user and database. Apart from the pool mode its settings are the defaults, so that
/// it refuses what a PgBouncer as it is installed refuses.
#[derive(Debug)]
pub struct PgBouncer {
    daemon: Daemon,
    password: String,
}

impl PgBouncer {
    /// Starts one before a server.
    ///
    /// # Errors
    ///
    /// When PgBouncer cannot be had or does not start, or the server does not answer through it.
    pub fn before(postgres: &Postgres, pooling: Pooling) -> Result<Self, String> {
        Daemon::retry(|| Self::prepare(postgres, pooling), Self::run, |bouncer| &bouncer.daemon)
    }

    fn prepare(postgres: &Postgres, pooling: Pooling) -> Result<Self, String> {
        let daemon = Daemon::new(Flavor::PgBouncer, Signal::KILL)?;
        let mode = match pooling {
            Pooling::Transaction => "transaction",
            Pooling::Session => "session",
        };
        let users = daemon.file("users");
        let settings = format!(
            "[databases]\nbramah = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\npool_mode = {mode}\n",
            postgres.port(),
            daemon.port(),
            users.display()
        );
        daemon.write("pgbouncer.ini", &settings)?;
        daemon.write("users", &format!("\"bramah\" \"{}\"\n", postgres.password()))?;
        Ok(Self { daemon, password: postgres.password().into() })
    }

    fn run(&self) -> Result<(), String> {
        let arguments: [OsString; 1] = [self.daemon.file("pgbouncer.ini").into()];
        self.daemon.run(&arguments, |_| self.sql("SELECT 1").map(drop))
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.daemon.port()
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.daemon.address()
    }

    /// `postgres://bramah:password@127.0.0.1:port/bramah`.
    #[must_use]
    pub fn url(&self) -> String {
        postgres::url(&self.password, &self.address())
    }

    /// The version that it told: `1.24.1`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.daemon.server.version
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.daemon.pid()
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    /// Runs statements through it, as the user `bramah`.
    ///
    /// # Errors
    ///
    /// With what psql, PgBouncer or the server complained about.
    pub fn sql(&self, text: &str) -> Result<String, String> {
        postgres::sql(&self.password, &self.address(), text)
    }
}
