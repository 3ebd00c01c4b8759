//! The tables and procedures in the database.

use std::{sync::Arc, time::Duration};

use bramah_core::{Error, ErrorKind, Result};
use bramah_relational::Pool;
use sqlx::{MySqlConnection, Row};

use crate::{
    base::{Database, MANNERS},
    state::State,
};

/// What table mode needs.
pub(crate) const TABLE: &str = include_str!("../sql/schema.sql");

/// What session mode needs beside some of that.
pub(crate) const SESSION: &str = include_str!("../sql/session.sql");

/// What `bramah init` runs: statements, and a line of four dashes between each two.
const SCHEMA: &str = concat!(include_str!("../sql/schema.sql"), include_str!("../sql/session.sql"));

/// What `bramah init` runs the first time, as a script for the server's own client.
pub fn script() -> String {
    format!("DELIMITER ----\n{SCHEMA}\n----\n")
}

/// The version that this build speaks.
pub(crate) const VERSION: i64 = 3;

/// How long one statement may take: others may be using what is there.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long another one that writes is waited for, in seconds.
const TURN: u64 = 20;

const PROCEDURE: &str = "CREATE PROCEDURE ";

impl Database {
    pub(crate) async fn init(&self) -> Result<()> {
        // One connection for all of it: the lock that keeps another one away is the connection's.
        let terms = &self.config.terms;
        let pool = Pool::<MySqlConnection>::new(
            self.config.options.clone(),
            1,
            PATIENCE,
            terms.connect_timeout,
            MANNERS,
        );
        let pool = Arc::new(pool);
        let run = async |text: String| self.desk.over(&pool, text, PATIENCE).await;
        let state = self.state(run(State::QUESTION.to_owned()).await?)?;
        state.check(self.desk.server(), self.config.single_writer)?;
        let rows =
            run(format!("SELECT GET_LOCK(CONCAT('bramah_init_', LEFT(SHA2(DATABASE(), 256), 32)), {TURN})"))
                .await?;
        if self.desk.read_first(&rows, |row| row.try_get::<Option<i64>, _>(0))? != Some(1) {
            let text = format!(
                "{}: another bramah init has been at work for {TURN} s; try again later",
                self.desk.server()
            );
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        for (at, statement) in SCHEMA.split("\n----\n").enumerate() {
            match statement.split_once(PROCEDURE) {
                // MariaDB can do it at one stroke, so that nobody finds it missing.
                Some((comment, rest)) if state.is_mariadb => {
                    run(format!("{comment}CREATE OR REPLACE PROCEDURE {rest}")).await?;
                }
                Some((_, rest)) => {
                    let name = rest.split('(').next().unwrap_or_default();
                    run(format!("DROP PROCEDURE IF EXISTS {name}")).await?;
                    run(statement.to_owned()).await?;
                }
                None => drop(run(statement.to_owned()).await?),
            }
            if at == 0 {
                let rows = run("SELECT COALESCE(MAX(version), 0) FROM bramah_schema".to_owned()).await?;
                let version: i64 = self.desk.read_first(&rows, |row| row.try_get(0))?;
                if version > VERSION {
                    return Err(self.other_version(version));
                }
            }
        }
        run("SELECT RELEASE_LOCK(CONCAT('bramah_init_', LEFT(SHA2(DATABASE(), 256), 32)))".to_owned())
            .await
            .map(drop)
    }
}
