//! What MySQL alone has.

use std::time::Duration;

use bramah_sql::{Error, Wait, for_update};

use crate::on::{admin, pool};

/// It has no time-out in the statement.
#[tokio::test]
async fn the_time_out_of_the_session_is_put_back() {
    admin("create table my_time_out (id int primary key); insert into my_time_out values (1)");
    let pool = pool().await;
    let select = "select id from my_time_out";
    let (mut tx, mut other) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    for session in [&mut tx, &mut other] {
        sqlx::query("set session innodb_lock_wait_timeout = 17").execute(&mut **session).await.unwrap();
    }
    let wait = Wait::AtMost(Duration::from_millis(20));
    for_update(&mut tx, select).wait(wait).fetch_one::<(i32,)>().await.unwrap();
    let busy = for_update(&mut other, select).wait(wait).fetch_one::<(i32,)>().await;
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    for session in [&mut tx, &mut other] {
        let patience = sqlx::query_scalar::<_, u64>("select @@session.innodb_lock_wait_timeout");
        assert_eq!(patience.fetch_one(&mut **session).await.unwrap(), 17);
    }
}
