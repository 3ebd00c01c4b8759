//! A bonus of which a hundred are left, and many more who want one, from several processes at once.
//!
//! ```sql
//! create table t_bonus (id int primary key, left_count int not null, version bigint not null);
//! insert into t_bonus values (1, 100, 0);
//! ```
//!
//! Start it in several terminals, and then press return in each:
//!
//! ```sh
//! DATABASE_URL=postgres://… WAY=optimistic CLAIMS=250 cargo run -p bramah-sql --example bonus
//! ```
//!
//! `WAY` is `optimistic`, `pessimistic` or `naive`. The naive way sells more than there are, every time.

mod mysql;
mod postgres;

use std::{env, error::Error, io, sync::Arc};

use tokio::{sync::Barrier, task::JoinSet};

/// How a claim keeps out of the way of others.
#[derive(Debug, Clone, Copy)]
enum Way {
    Optimistic,
    Pessimistic,
    Naive,
}

/// Connects by the URL, and makes as many claims as it is told, all at once.
#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = env::var("DATABASE_URL")?;
    let claims: usize = env::var("CLAIMS")?.parse()?;
    let way = match env::var("WAY")?.as_str() {
        "optimistic" => Way::Optimistic,
        "pessimistic" => Way::Pessimistic,
        "naive" => Way::Naive,
        other => return Err(format!("WAY is optimistic, pessimistic or naive, and not {other}").into()),
    };
    let winners = if url.starts_with("postgres") {
        postgres::run(&url, way, claims).await?
    } else {
        mysql::run(&url, way, claims).await?
    };
    println!("winners: {winners}");
    Ok(())
}

/// Waits for return, so that several processes can begin together.
async fn start() -> io::Result<()> {
    println!("ready: press return");
    tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new())).await??;
    Ok(())
}

/// Makes all claims at once and counts those who got one.
async fn count<F>(claims: usize, claim: impl Fn(Arc<Barrier>) -> F) -> bramah_sql::Result<usize>
where
    F: Future<Output = bramah_sql::Result<bool>> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(claims));
    let mut tasks: JoinSet<_> = (0..claims).map(|_| claim(barrier.clone())).collect();
    let mut winners = 0;
    while let Some(claim) = tasks.join_next().await {
        winners += usize::from(claim.map_err(bramah_sql::Error::other)??);
    }
    Ok(winners)
}
