//! MySQL or MariaDB, for all tests of this program.

use bramah_lab::Proxy;
use sqlx::{AssertSqlSafe, MySqlPool, mysql::MySqlPoolOptions};

use crate::server::server;

pub(crate) type Db = sqlx::MySql;
pub(crate) type Pool = MySqlPool;

pub(crate) fn url() -> String {
    server().url()
}

/// Runs statements apart from what is tested, and gives what they print.
pub(crate) fn admin(text: &str) -> String {
    server().sql(text).unwrap()
}

pub(crate) async fn pool() -> Pool {
    pool_at(&url()).await
}

async fn pool_at(url: &str) -> Pool {
    MySqlPoolOptions::new().max_connections(4).connect(url).await.unwrap()
}

/// A pool whose answers can be lost. What passes must be readable, and MySQL has TLS where sqlx has.
pub(crate) async fn pool_behind_a_proxy() -> (Pool, Proxy) {
    let proxy = Proxy::to(&server().address()).unwrap();
    let url = format!("{}?ssl-mode=DISABLED", server().url_at(&proxy.address()));
    (pool_at(&url).await, proxy)
}

/// Parameters are written as `$1`, in their order, and each once.
pub(crate) fn q(text: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe((1..10).fold(text.to_owned(), |text, n| text.replace(&format!("${n}"), "?")))
}
