//! A PostgreSQL for all tests of this program.

use std::sync::OnceLock;

use bramah_lab::{Postgres, Proxy};
use sqlx::{AssertSqlSafe, PgPool, postgres::PgPoolOptions};

pub(crate) type Db = sqlx::Postgres;
pub(crate) type Pool = PgPool;

/// It ends with this process.
pub(crate) fn server() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::start().unwrap())
}

pub(crate) fn url() -> String {
    server().url()
}

/// Runs statements apart from what is tested, and gives what they print.
pub(crate) fn admin(text: &str) -> String {
    // Its tables are the user's.
    server().sql(&format!("set role bramah; set client_min_messages = error; {text}")).unwrap()
}

pub(crate) async fn pool() -> Pool {
    pool_at(&url()).await
}

async fn pool_at(url: &str) -> Pool {
    PgPoolOptions::new().max_connections(4).connect(url).await.unwrap()
}

/// A pool whose answers can be lost.
pub(crate) async fn pool_behind_a_proxy() -> (Pool, Proxy) {
    let proxy = Proxy::to(&server().address()).unwrap();
    (pool_at(&server().url_at(&proxy.address())).await, proxy)
}

/// Parameters are written as `$1`, in their order, and each once.
pub(crate) fn q(text: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(text.to_owned())
}
