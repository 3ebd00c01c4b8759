//! Lock and release against two bare transactions of one row, over as many connections: `cargo run --release -p bramah-mysql
//! --example pairs`.

use std::{error::Error, sync::Arc, time::Duration};

use bramah_core::{Clock, Engine, Session};
use bramah_lab::{
    MariaDb,
    servers::{self, Flavor},
};
use bramah_mysql::MySql;
use bramah_relational::{Manners, Pool, Trouble};
use sqlx::{MySqlConnection, mysql::MySqlConnectOptions};

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SPAN: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(10);
/// As many as ours has if nobody says.
const CONNECTIONS: usize = 8;

#[tokio::main]
async fn main() -> Result {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        match servers::get(flavor) {
            Ok(_) => measure(flavor).await?,
            Err(why) => println!("{flavor}: {why}"),
        }
    }
    Ok(())
}

async fn measure(flavor: Flavor) -> Result {
    let server = MariaDb::of(flavor, &[])?;
    let mysql = MySql::from_url(&server.url())?;
    mysql.init().await?;
    let engine: Arc<dyn Engine> = mysql.into();
    let session = Session::builder(engine).open().await?;
    let options: MySqlConnectOptions = server.url().parse()?;
    let rest = Duration::from_secs(60);
    let pool = Arc::new(Pool::<MySqlConnection>::new(options, CONNECTIONS, rest, PATIENCE, Manners::NONE));
    let table = "CREATE TABLE bare (id BIGINT PRIMARY KEY) ENGINE=InnoDB";
    pool.query(table.to_owned(), PATIENCE).await.map_err(told)?;
    for tasks in [1, 32, 1, 32] {
        let session = session.clone();
        let ours = rate(tasks, move |n| {
            let session = session.clone();
            async move {
                session.mutex(format!("pair/{n}"))?.lock().await?.release().await;
                Ok(())
            }
        });
        let ours = ours.await?;
        let pool = pool.clone();
        let bare = rate(tasks, move |n| {
            let pool = pool.clone();
            async move {
                for text in
                    [format!("INSERT INTO bare VALUES ({n})"), format!("DELETE FROM bare WHERE id = {n}")]
                {
                    pool.query(text, PATIENCE).await.map_err(told)?;
                }
                Ok(())
            }
        });
        let bare = bare.await?;
        println!(
            "{flavor} {}, {tasks} tasks: {ours:.0} pairs/s, a pair {:.2} ms; two bare transactions {bare:.0}/s, {:.2} ms; {:.2} of them",
            server.version(),
            1e3 * tasks as f64 / ours,
            1e3 * tasks as f64 / bare,
            ours / bare
        );
    }
    Ok(())
}

fn told(trouble: Trouble) -> String {
    format!("{trouble:?}")
}

/// How many a second so many tasks do.
async fn rate<F>(tasks: usize, pair: impl Fn(usize) -> F + Clone + Send + 'static) -> Result<f64>
where
    F: Future<Output = Result> + Send,
{
    let clock = Clock::boot();
    let began = clock.now();
    let mut running = tokio::task::JoinSet::new();
    for n in 0..tasks {
        let (pair, clock) = (pair.clone(), clock.clone());
        running.spawn(async move {
            let mut count = 0_u32;
            while clock.now().since(began) < SPAN {
                pair(n).await?;
                count += 1;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(count)
        });
    }
    let mut count = 0;
    while let Some(done) = running.join_next().await {
        count += done??;
    }
    Ok(f64::from(count) / clock.now().since(began).as_secs_f64())
}
