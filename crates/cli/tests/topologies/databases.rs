//! PostgreSQL with a standby.

use std::{cell::RefCell, thread, time::Duration};

use bramah_lab::{How, Postgres, Proxy, until};

use crate::{
    counting::{Fault, Promise, count},
    support::{bramah, text},
};

const SOON: Duration = Duration::from_secs(30);
const FROZEN: Duration = Duration::from_secs(3);

/// Has every commit wait for a standby, and waits for one that follows.
fn follow(primary: &Postgres) -> Result<Postgres, String> {
    let standby = primary.standby()?;
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
    primary.sql("SELECT pg_reload_conf()")?;
    until("a synchronous standby", SOON, || {
        match primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")?.as_str() {
            "1" => Ok(()),
            _ => Err("it does not follow yet".to_owned()),
        }
    })?;
    Ok(standby)
}

#[test]
fn postgres_with_a_synchronous_standby_keeps_the_count() {
    let primary = Postgres::start().unwrap();
    let proxy = Proxy::to(&primary.address()).unwrap();
    let url = primary.url_at(&proxy.address());
    let init = bramah(&["init"]).env("BRAMAH_ENGINE", &url).output().unwrap();
    assert!(init.status.success(), "{}", text(&init.stderr));
    let standby = follow(&primary).unwrap();
    let pair = RefCell::new((primary, standby));
    let failover = || {
        let mut pair = pair.borrow_mut();
        pair.0.stop(How::Immediate)?;
        // Where it was is nobody, until the way leads to the next.
        proxy.refuse(true);
        proxy.sever();
        pair.1.promote()?;
        proxy.redirect(&pair.1.address())?;
        proxy.refuse(false);
        let next = follow(&pair.1)?;
        let old = std::mem::replace(&mut pair.1, next);
        pair.0 = old;
        Ok(())
    };
    let kill = || {
        let pair = pair.borrow();
        pair.0.stop(How::Immediate)?;
        pair.0.start_again()
    };
    let freeze = || {
        let pair = pair.borrow();
        pair.0.freeze()?;
        thread::sleep(FROZEN);
        pair.0.thaw()
    };
    let faults: Vec<Fault<'_>> =
        vec![("failover", Box::new(failover)), ("kill", Box::new(kill)), ("freeze", Box::new(freeze))];
    count("PostgreSQL, synchronous standby", &url, Promise::Kept, faults);
}
