//! Servers with tables, and sessions on them in session mode.
#![allow(dead_code, reason = "each target has its own")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use bramah_core::{Engine, Error, Guard, Session};
use bramah_lab::{
    MariaDb as Server,
    servers::{self, Flavor},
};
use bramah_mysql::MySql;

pub(crate) const SOON: Duration = Duration::from_secs(30);
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// The locks that are had, of those whose names are known, and the connections that wait for one.
pub(crate) const HAD: &str = "SELECT COUNT(*) FROM bramah_keys WHERE IS_USED_LOCK(lock_name) IS NOT NULL";
pub(crate) const WAITING: &str = "SELECT COUNT(*) FROM /*!50700 performance_schema.*/ /*M! information_schema.*/ processlist \
    WHERE state = 'User lock'";

/// The servers that can be had, each with tables.
pub(crate) async fn ready() -> Vec<Arc<Server>> {
    let mut servers = Vec::new();
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        match servers::get(flavor) {
            Err(why) => servers::missing(flavor, &why),
            Ok(_) => {
                let settings = [("innodb_flush_log_at_trx_commit", "2"), ("sync_binlog", "0")];
                let server = Server::of(flavor, &settings).unwrap();
                MySql::from_url(&server.url()).unwrap().init().await.unwrap();
                servers.push(Arc::new(server));
            }
        }
    }
    servers
}

pub(crate) async fn opened(url: &str, ttl: Duration) -> Result<Session, Error> {
    let engine: Arc<dyn Engine> = MySql::from_url(url)?.into();
    Session::builder(engine).ttl(ttl).open().await
}

pub(crate) async fn session(server: &Server, options: &str) -> Session {
    opened(&format!("{}?mode=session{options}", server.url()), LONG).await.unwrap()
}

pub(crate) async fn lock(session: &Session, name: &str) -> Guard {
    let mutex = session.mutex(name).unwrap();
    tokio::time::timeout(SOON, mutex.lock()).await.expect("no grant").unwrap()
}

/// Locks however often the store is away.
pub(crate) async fn lock_anyhow(session: &Session, name: &str) -> Guard {
    let mutex = session.mutex(name).unwrap();
    let patient = async {
        loop {
            match mutex.lock().await {
                Ok(guard) => return guard,
                Err(error) if error.kind().is_transient() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(SOON, patient).await.expect("no grant")
}

pub(crate) async fn lost(guard: &Guard) {
    tokio::time::timeout(SOON, guard.lost()).await.expect("it is not known that it is lost");
}

/// Waits until a question is answered so.
pub(crate) fn until(server: &Server, question: &str, want: &str) {
    let ask = || match server.sql(question)? {
        answer if answer == want => Ok(()),
        answer => Err(format!("{question}: {answer}, and not {want}")),
    };
    bramah_lab::until(question, SOON, ask).unwrap();
}
