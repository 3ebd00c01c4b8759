//! Who takes over when a server is gone, and whether they could now.

use bramah_redis::checkup::{Facts, Failover, Sentinel, Server};

use super::{Finding, Severity};

const SLOTS: u64 = 16384;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    match &facts.failover {
        Failover::Nobody => Vec::new(),
        Failover::Sentinels(all) => sentinels(all, facts),
        Failover::Cluster => cluster(&facts.nodes),
        Failover::Masters { need, .. } => masters(*need, facts),
    }
}

/// How many masters may be gone.
fn masters(need: usize, facts: &Facts) -> Vec<Finding> {
    const CODE: &str = "redlock.masters";
    let (there, all) = (facts.nodes.len(), facts.nodes.len() + facts.silent.len());
    let severity = if there < need { Severity::Problem } else { Severity::Ok };
    let text = format!("{there} of {all} masters answer, and {need} must grant a lock");
    let mut findings = vec![Finding::new(severity, CODE, text)];
    if need <= all / 2 + 1 && all % 2 == 0 {
        let text =
            format!("of {all} masters no more may be gone than of {}; an odd number is better", all - 1);
        findings.push(Finding::new(Severity::Note, CODE, text));
    }
    findings
}

fn sentinels(all: &[Sentinel], facts: &Facts) -> Vec<Finding> {
    const CODE: &str = "redis.sentinels";
    let mut findings = Vec::new();
    for Sentinel { address, word } in all {
        if let Err(why) = word {
            let text = format!("the sentinel at {address} cannot be asked: {why}");
            findings.push(Finding::new(Severity::Warning, CODE, text));
        }
    }
    let words: Vec<_> = all.iter().filter_map(|sentinel| sentinel.word.as_ref().ok()).collect();
    let Some(first) = words.first() else { return findings };
    if let Some(other) = words.iter().find(|word| word.master != first.master) {
        let text = format!(
            "the sentinels name different masters, {} and {}: two may be written to, and two may hold one lock; wait \
             until a failover is over, or look at their logs",
            first.master, other.master
        );
        findings.push(Finding::new(Severity::Problem, CODE, text));
    }
    if words.iter().any(|word| word.can_agree == Some(false)) {
        let text = "too few sentinels can be reached to agree on a failover: when the master is gone nothing can be \
                    locked; look at the sentinels (SENTINEL CKQUORUM)";
        findings.push(Finding::new(Severity::Problem, CODE, text));
    }
    let (known, quorum) = (first.sentinels, first.quorum);
    if known < 3 {
        let text = format!(
            "there are {known} sentinels: when one is gone nobody can agree on a failover; run three on machines of \
             their own"
        );
        findings.push(Finding::new(Severity::Warning, CODE, text));
    }
    if facts.nodes.iter().any(|node| node.followers == Some(0)) {
        let text = "the master has no replica: when it is gone nobody can take over";
        findings.push(Finding::new(Severity::Warning, CODE, text));
    }
    if findings.is_empty() {
        let text = format!(
            "the sentinels agree that {} is the master; there are {known}, and {quorum} must find it down",
            first.master
        );
        findings.push(Finding::new(Severity::Ok, CODE, text));
    }
    findings
}

fn cluster(nodes: &[Server]) -> Vec<Finding> {
    const CODE: &str = "redis.cluster";
    let mut findings = Vec::new();
    for (server, cluster) in nodes.iter().filter_map(|server| Some((server, server.cluster?))) {
        let address = &server.address;
        if !cluster.is_ok {
            let text = format!(
                "{address}: the cluster is down as this node sees it: locks of its slots cannot be had; look at \
                 CLUSTER INFO and its log"
            );
            findings.push(Finding::new(Severity::Problem, CODE, text));
        }
        if cluster.slots < SLOTS {
            let text = format!(
                "{address}: only {} of {SLOTS} slots are served: locks of the others cannot be had; assign them",
                cluster.slots
            );
            findings.push(Finding::new(Severity::Problem, CODE, text));
        }
    }
    let alone: Vec<&str> = nodes
        .iter()
        .filter(|server| server.followers == Some(0))
        .map(|server| server.address.as_str())
        .collect();
    if !alone.is_empty() {
        let text = format!(
            "without a replica: {}; when such a master is gone the locks of its slots cannot be had until it is back",
            alone.join(", ")
        );
        findings.push(Finding::new(Severity::Warning, CODE, text));
    }
    if findings.is_empty() {
        let text = format!("the cluster serves all {SLOTS} slots by {} masters", nodes.len());
        findings.push(Finding::new(Severity::Ok, CODE, text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use bramah_redis::checkup::{Cluster, Verdict};

    use super::*;
    use crate::doctor::redis::samples::{facts, server, told};

    fn said(master: &str, can_agree: Option<bool>) -> Sentinel {
        let word = Verdict { master: master.into(), quorum: 2, sentinels: 3, can_agree };
        Sentinel { address: "s:1".into(), word: Ok(word) }
    }

    fn with(all: Vec<Sentinel>) -> Vec<(Severity, &'static str)> {
        let replicas = bramah_redis::Replicas::Any;
        let server = Server { followers: Some(1), ..server() };
        told(&Facts { failover: Failover::Sentinels(all), replicas, ..facts(server) })
    }

    #[test]
    fn sentinels_that_agree_are_fine_and_those_that_do_not_are_a_problem() {
        let yes = Some(true);
        assert_eq!(with(vec![said("a:1", yes), said("a:1", None)]), []);
        let problem = [(Severity::Problem, "redis.sentinels")];
        assert_eq!(with(vec![said("a:1", yes), said("b:1", yes)]), problem);
        assert_eq!(with(vec![said("a:1", Some(false))]), problem);
        let silent = Sentinel { address: "s:2".into(), word: Err("gone".into()) };
        assert_eq!(with(vec![said("a:1", yes), silent]), [(Severity::Warning, "redis.sentinels")]);
    }

    #[test]
    fn a_cluster_serves_every_slot_or_has_a_problem() {
        let with = |is_ok, slots, followers| {
            let cluster = Some(Cluster { is_ok, slots });
            let server = Server { cluster, followers: Some(followers), ..server() };
            let replicas = bramah_redis::Replicas::Any;
            let found = judge(&Facts { failover: Failover::Cluster, replicas, ..facts(server) });
            found.iter().map(|finding| finding.severity).collect::<Vec<_>>()
        };
        assert_eq!(with(true, SLOTS, 1), [Severity::Ok]);
        assert_eq!(with(true, SLOTS, 0), [Severity::Warning]);
        assert_eq!(with(false, SLOTS, 1), [Severity::Problem]);
        assert_eq!(with(true, SLOTS - 1, 1), [Severity::Problem]);
    }
}
