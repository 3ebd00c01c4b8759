//! What an operator is told of a server that cannot be used as it is.

use std::time::{Duration, Instant};

use bramah_lab::{
    own_address,
    servers::{self, Flavor},
};

use super::{Shop, ends};
use crate::support::bramah;

#[test]
fn protected_mode_is_denied_in_one_line_that_says_what_to_do() {
    let host = match own_address() {
        Ok(host) => host,
        Err(why) => return servers::missing(Flavor::Redis7, &why),
    };
    let shop = Shop::with(&[("bind", "0.0.0.0")], "");
    let address = format!("{host}:{}", shop.redis.port());
    let verbs: [&[&str]; 5] = [
        &["run", "a", "--", "true"],
        &["run", "a", "-w", "1s", "--", "true"],
        &["ls"],
        &["show", "a"],
        &["lock", "a"],
    ];
    for verb in verbs {
        let out = bramah(verb).env("BRAMAH_ENGINE", format!("redis://{address}")).output().unwrap();
        assert_eq!(
            ends(&out, 77),
            format!(
                "bramah: redis at {address} is in protected mode: its default user has no password, so it serves its own host \
                 only; set a password there (requirepass) and give it here, or connect from that host\n"
            ),
            "{verb:?}"
        );
    }
    let out =
        bramah(&["run", "a", "--", "true"]).env("BRAMAH_ENGINE", format!("redlock://{address}")).output();
    assert!(ends(&out.unwrap(), 77).contains("protected mode"));
    // The negative control: with a password it is served.
    shop.redis.cli(&["CONFIG", "SET", "requirepass", "hush"]).unwrap();
    let url = format!("redis://:hush@{address}");
    ends(&bramah(&["run", "a", "--", "true"]).env("BRAMAH_ENGINE", url).output().unwrap(), 0);
}

#[test]
fn a_server_without_the_replicas_that_are_asked_for_is_unavailable_and_not_busy() {
    let shop = Shop::with(&[], "?replicas=majority");
    for (wait, limit) in [("-n", 2), ("-w1s", 3), ("-w3s", 5)] {
        let began = Instant::now();
        let said = ends(&shop.output(&["run", "a", wait, "--", "echo", "never"]), 69);
        let took = began.elapsed();
        assert_eq!(
            said,
            format!(
                "bramah: a: redis at {} has 0 replicas, and replicas=majority asks for 1 at least, so it does not count; look \
                 at the replicas, or ask for fewer\n",
                shop.redis.address()
            ),
            "{wait}"
        );
        assert!(took < Duration::from_secs(limit), "{wait}: {took:?}");
    }
    assert_eq!(shop.redis.cli(&["KEYS", "bramah:{*"]).unwrap(), "");
}
