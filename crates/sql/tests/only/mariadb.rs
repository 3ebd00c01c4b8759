//! What MariaDB alone has.

use std::sync::Mutex;

use bramah_sql::{Class, classify, optimistic};

use crate::on::{admin, pool};

/// MariaDB tells of a write over a row that changed since the snapshot, where it is set to.
#[tokio::test]
async fn a_row_that_changed_since_the_snapshot_is_run_again() {
    admin(
        "create table my_snapshot (id int primary key, n int not null); insert into my_snapshot values (1, 10)",
    );
    let pool = pool().await;
    let seen = Mutex::new(Vec::new());
    let n = optimistic(&pool).run(async |mut tx| {
        sqlx::query("set session innodb_snapshot_isolation = on").execute(&mut *tx).await?;
        let n: i32 = sqlx::query_scalar("select n from my_snapshot where id = 1").fetch_one(&mut *tx).await?;
        seen.lock().unwrap().push(n);
        if n == 10 {
            admin("update my_snapshot set n = 20 where id = 1");
        }
        let written =
            sqlx::query("update my_snapshot set n = ? where id = 1").bind(n + 1).execute(&mut *tx).await;
        if let Err(why) = &written {
            assert_eq!(classify(why), Class::Serialization);
        }
        written?;
        Ok(n + 1)
    });
    assert_eq!(n.await.unwrap(), 21);
    assert_eq!(seen.into_inner().unwrap(), [10, 20]);
}
