//! Stores whose members agree by majority.

use super::{Finding, Severity};

/// What the number of members means. `voters` have a vote, `named` of them are in the url; `None` if nobody said how many.
pub(super) fn judge(code: &'static str, voters: Option<usize>, named: usize) -> Vec<Finding> {
    let Some(voters) = voters else {
        let text = "how many members there are nobody said; a majority of them has to be there";
        return vec![Finding::new(Severity::Note, code, text)];
    };
    if voters < 2 {
        let text = "it is one member, and nobody takes over: while it is gone nothing can be locked, and what is held \
                    is lost after its ttl; of three, one may be gone";
        return vec![Finding::new(Severity::Note, code, text)];
    }
    let need = voters / 2 + 1;
    let text = format!("{need} of {voters} voting members have to be there, {} may be gone", voters - need);
    let (severity, text) = match voters % 2 {
        0 => (
            Severity::Note,
            format!("{text}, as of {}: an even number bears no more than one less", voters - 1),
        ),
        _ => (Severity::Ok, text),
    };
    let mut findings = vec![Finding::new(severity, code, text)];
    if named < voters {
        let text = format!(
            "the url names {named} of {voters} voting members, and the others are not found by themselves: name all of them"
        );
        findings.push(Finding::new(Severity::Note, code, text));
    }
    findings
}

/// What it means that a member is silent, while others serve or do not.
pub(super) fn silent(code: &'static str, serves: bool, why: &str) -> Finding {
    let (severity, means) = match serves {
        true => (Severity::Warning, "the others are enough"),
        false => (Severity::Problem, "the others are not enough"),
    };
    Finding::new(severity, code, format!("{why}; {means}"))
}

/// `3.9.3` as numbers; what is not said is 0.
pub(super) fn version(text: &str) -> (u32, u32, u32) {
    let mut parts = text.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_members_is_judged() {
        let told = |voters, named| {
            let findings = judge("x.members", voters, named);
            let texts: Vec<String> = findings.iter().map(|finding| finding.text.clone()).collect();
            (findings.iter().map(|finding| finding.severity).collect::<Vec<_>>(), texts.join("; "))
        };
        assert_eq!(told(Some(3), 3).0, [Severity::Ok]);
        assert!(told(Some(5), 5).1.contains("3 of 5 voting members have to be there, 2 may be gone"));
        assert_eq!(told(Some(3), 1).0, [Severity::Ok, Severity::Note]);
        let (severity, text) = told(Some(4), 4);
        assert!(severity == [Severity::Note] && text.contains("1 may be gone, as of 3"), "{text}");
        assert_eq!((told(Some(1), 1).0, told(None, 3).0), (vec![Severity::Note], vec![Severity::Note]));
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version("3.4.23"), (3, 4, 23));
        assert_eq!(version("3.6.0-alpha.0"), (3, 6, 0));
        assert_eq!(version("3.10"), (3, 10, 0));
        assert_eq!(version("none"), (0, 0, 0));
    }
}
