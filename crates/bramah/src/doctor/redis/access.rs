//! Who is let in, and what our user may do.

use std::net::{IpAddr, SocketAddr};

use bramah_redis::checkup::{Access, Missing, Proof, Purpose, Server};

use super::{Finding, Severity};

/// Who is let in.
pub(super) fn judge(server: &Server) -> Option<Finding> {
    const CODE: &str = "redis.password";
    let Access { open, protected, .. } = &server.access;
    if !(*open)? {
        return Some(Finding::new(Severity::Ok, CODE, "nobody is let in without a password"));
    }
    match (is_exposed(server), *protected) {
        (Some(false), _) => {
            Some(Finding::new(Severity::Ok, CODE, "no password, but it listens on its own machine alone"))
        }
        (_, Some(true)) => {
            Some(Finding::new(Severity::Ok, CODE, "no password, but protected mode keeps other machines out"))
        }
        (Some(true), _) => Some(Finding::new(
            Severity::Warning,
            CODE,
            "it is open to everybody: it asks for no password and listens on more than its own machine, so whoever reaches \
             it may take and break every lock; set requirepass, or users with passwords (ACL SETUSER)",
        )),
        // Not for this user to ask.
        (None, _) => None,
    }
}

/// Whether it listens on more than the loopback interface; `None` if that is not known.
fn is_exposed(server: &Server) -> Option<bool> {
    let is_loopback = |address: &str| {
        let address = address.trim_start_matches('-');
        address == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    match &server.access.bind {
        // Without an address it listens on all of them.
        Some(bind) => Some(bind.trim().is_empty() || !bind.split_whitespace().all(is_loopback)),
        // We have come in by its address.
        None => {
            let ip = server.address.parse::<SocketAddr>().ok()?.ip();
            (!ip.is_loopback()).then_some(true)
        }
    }
}

pub(super) fn rights(server: &Server) -> Vec<Finding> {
    const CODE: &str = "redis.rights";
    let user = server.rights.user.as_deref().map_or("our user".to_owned(), |user| format!("the user {user}"));
    let lacking = |purposes: &[Purpose]| {
        let missing = server.rights.missing.iter().filter(|missing| purposes.contains(&missing.purpose));
        let rules: Vec<&str> = missing.map(|Missing { rule, .. }| rule.as_str()).collect();
        (!rules.is_empty()).then(|| rules.join(" "))
    };
    let mut findings = Vec::new();
    for (purposes, severity, means) in [
        (&[Purpose::Lock][..], Severity::Problem, "locks cannot be taken, renewed or released"),
        (&[Purpose::Wait], Severity::Problem, "nobody can wait for a lock that is taken"),
        (&[Purpose::Replicas], Severity::Problem, "the policy replicas= cannot be met"),
        (&[Purpose::List], Severity::Warning, "ls and doctor cannot list locks"),
        (&[Purpose::Watch], Severity::Warning, "watch and wait cannot be told of changes"),
    ] {
        if let Some(rules) = lacking(purposes) {
            let text = format!("{user} lacks {rules}: {means}; ACL SETUSER it with these rules");
            findings.push(Finding::new(severity, CODE, text));
        }
    }
    let untried = server.rights.untried.join(" ");
    if findings.is_empty() {
        let how = match (server.rights.proof, &*untried) {
            (Proof::Asked, _) => String::new(),
            (Proof::Tried, "") => " (it was tried)".to_owned(),
            (Proof::Tried, untried) => format!(" (it was tried, except for {untried})"),
        };
        findings.push(Finding::new(Severity::Ok, CODE, format!("{user} may do what locks need{how}")));
    } else if !untried.is_empty() {
        findings.push(Finding::new(
            Severity::Note,
            CODE,
            format!("{user} may lack more: {untried} was not tried"),
        ));
    }
    findings
}
