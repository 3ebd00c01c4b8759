//! A server that is as it should be, for tests to spoil.

use std::time::Duration;

use bramah_redis::{
    Eviction, Layout, Replicas,
    checkup::{Access, Facts, Failover, Offset, Proof, Rights, Server},
};

use super::{Severity, judge};

pub(super) fn server() -> Server {
    Server {
        address: "h:6379".into(),
        product: Some("Redis 7.0.15".into()),
        is_master: Some(true),
        uptime: Some(Duration::from_secs(86_400)),
        followers: Some(0),
        least_followers: Some(0),
        log: Some(true),
        log_sync: Some("always".into()),
        snapshots: Some(false),
        saves_well: Some(true),
        most_memory: Some(0),
        used_memory: Some(1 << 20),
        when_full: Some("noeviction".into()),
        clock: Some(Offset { server_us: 1_800_000_000_000_000, ahead_us: -40, within_us: 100 }),
        round_trip: Some(Duration::from_micros(90)),
        cluster: None,
        access: Access { open: Some(false), bind: Some("127.0.0.1".into()), protected: Some(true) },
        rights: Rights {
            user: Some("default".into()),
            proof: Proof::Asked,
            missing: Vec::new(),
            untried: Vec::new(),
        },
    }
}

pub(super) fn facts(server: Server) -> Facts {
    Facts {
        layout: Layout::Native,
        replicas: Replicas::None,
        eviction: Eviction::Refused,
        nodes: vec![server],
        silent: Vec::new(),
        failover: Failover::Nobody,
    }
}

/// What is not as it should be.
pub(super) fn told(facts: &Facts) -> Vec<(Severity, &'static str)> {
    let findings = judge(facts);
    let bad = findings.iter().filter(|finding| finding.severity > Severity::Ok);
    bad.map(|finding| (finding.severity, finding.code)).collect()
}
