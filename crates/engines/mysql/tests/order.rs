//! A sweep gets on.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::fmt::Write;

use crate::stage::{SOON, flavors, ready, session};

/// In more lines than one sweep takes somebody died behind one who lives and waits.
#[tokio::test(flavor = "multi_thread")]
async fn the_dead_behind_living_waiters_do_not_starve_the_sweep() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let mut text = String::new();
        for n in 1..=60 {
            for who in 1..=3 {
                write!(
                    text,
                    "CALL bramah_enter('early/{n}', UNHEX('{who:032x}'), {n}, 1, 1, 600000, 600000, NULL, '', 'l');"
                )
                .unwrap();
            }
        }
        text +=
            "CALL bramah_enter('late', UNHEX(LPAD('3', 32, '0')), 100, 1, 1, 600000, 600000, NULL, '', 'l');";
        text += "UPDATE bramah_claims SET expires = 1 WHERE session = UNHEX(LPAD('3', 32, '0'));";
        server.sql(&text).unwrap();
        let dead = || server.sql("SELECT COUNT(*) FROM bramah_claims WHERE expires = 1").unwrap();
        assert_eq!(dead(), "61");
        let opened = [session(&server.url(), SOON).await, session(&server.url(), SOON).await];
        assert_eq!(dead(), "0", "two sessions that opened have not cleared away 61 lines");
        assert_eq!(server.sql("SELECT COUNT(*) FROM bramah_claims").unwrap(), "120", "those who live");
        drop(opened);
    }
}
