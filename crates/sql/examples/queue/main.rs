//! A queue in a table: several workers, each job done once, and a worker that is killed loses nothing.
//!
//! ```sql
//! create table t_job (id int primary key, done_by varchar(20));
//! create table t_result (job int not null, worker varchar(20) not null);
//! insert into t_job (id) values (1), (2), (3);
//! ```
//!
//! Start it in several terminals, and kill one of them in the middle:
//!
//! ```sh
//! DATABASE_URL=postgres://… WORKER=ann WORK_MS=100 cargo run -p bramah-sql --example queue
//! ```
//!
//! The job, its result and that it is done are one transaction. A worker that dies has its connection closed, the server rolls
//! back, and the job is there for the next one. A job that acts outside of the database may be begun twice.

mod mysql;
mod postgres;

use std::{env, error::Error, time::Duration};

/// Who works, and how long a job takes.
struct Worker {
    name: String,
    work: Duration,
}

impl Worker {
    fn ready(&self) {
        println!("{} is ready", self.name);
    }

    /// Takes its time, as work does.
    async fn work(&self, job: i32) {
        println!("{} took job {job}", self.name);
        tokio::time::sleep(self.work).await;
    }

    /// There is no free job, but others have some that they may not finish.
    async fn idle(&self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Works until all jobs are done.
#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = env::var("DATABASE_URL")?;
    let work = Duration::from_millis(env::var("WORK_MS")?.parse()?);
    let worker = Worker { name: env::var("WORKER")?, work };
    let jobs = if url.starts_with("postgres") {
        postgres::run(&url, &worker).await?
    } else {
        mysql::run(&url, &worker).await?
    };
    println!("{} did {jobs} jobs", worker.name);
    Ok(())
}
