//! `bramah doctor`: what the store promises here, and what was found when it was tried.

use std::{collections::BTreeMap, time::Duration};

use bramah::doctor::{Checkup, Finding, Latest, Promise, Times, examine};
use serde::Serialize;

use crate::{
    exit::{Exit, Failure},
    json,
    plan::Form,
    say::{clean, emit},
    span,
    store::Store,
};

pub(crate) async fn doctor(store: &Store, form: Form) -> Result<Exit, Failure> {
    let checkup = examine(store.url()).await?;
    match form {
        Form::Json => emit(&(json::to_line(&Report::of(&checkup)) + "\n"))?,
        Form::Human => emit(&page(&checkup))?,
    }
    Ok(match checkup.failure {
        Some(kind) => kind.into(),
        None if checkup.is_healthy() => Exit::Done,
        None => Exit::No,
    })
}

fn page(checkup: &Checkup) -> String {
    let mut out = format!("store  {}\n\nWhat it promises\n", clean(&checkup.store));
    for Promise { topic, text, .. } in &checkup.promises {
        out.push_str(&format!("  {topic:9} {text}\n"));
    }
    out.push_str("\nWhat was found\n");
    for Finding { severity, code, text } in &checkup.findings {
        out.push_str(&format!("  {:8} {} [{code}]\n", severity.word(), clean(text)));
    }
    if let Some(Times { open, round, hand_over }) = &checkup.times {
        out.push_str(&format!(
            "\nHow long it takes (medians)\n  open a session    {}\n  lock and release  {}\n  hand over         {}\n",
            short(*open),
            short(*round),
            short(*hand_over)
        ));
    }
    out
}

/// Finer than elsewhere: here it is the times that are asked for.
fn short(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..1_000 => format!("{us}us"),
        us @ 1_000..1_000_000 => format!("{}.{}ms", us / 1_000, us % 1_000 / 100),
        _ => span::write(time),
    }
}

/// The stable form.
#[derive(Debug, Serialize)]
struct Report<'a> {
    v: u32,
    store: &'a str,
    healthy: bool,
    promises: BTreeMap<&'static str, Told<'a>>,
    findings: Vec<Found<'a>>,
    times: Option<Medians>,
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    is: &'static str,
    text: &'a str,
    latest: Option<Bound>,
}

/// So much of the ttl, and so much more.
#[derive(Debug, Serialize)]
struct Bound {
    ttl_percent: u32,
    more_ms: u64,
}

#[derive(Debug, Serialize)]
struct Found<'a> {
    severity: &'static str,
    code: &'static str,
    text: &'a str,
}

#[derive(Debug, Serialize)]
struct Medians {
    open_us: u64,
    round_us: u64,
    hand_over_us: u64,
}

impl<'a> Report<'a> {
    fn of(checkup: &'a Checkup) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let bound = |latest: Latest| Bound { ttl_percent: latest.ttl_percent, more_ms: ms(latest.more) };
        let told = |promise: &'a Promise| {
            let latest = promise.latest.map(bound);
            (promise.topic, Told { is: promise.word, text: &promise.text, latest })
        };
        let found = |finding: &'a Finding| Found {
            severity: finding.severity.word(),
            code: finding.code,
            text: &finding.text,
        };
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            v: json::VERSION,
            store: &checkup.store,
            healthy: checkup.is_healthy(),
            promises: checkup.promises.iter().map(told).collect(),
            findings: checkup.findings.iter().map(found).collect(),
            times: checkup.times.map(|times| Medians {
                open_us: us(times.open),
                round_us: us(times.round),
                hand_over_us: us(times.hand_over),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use bramah::doctor::Severity;

    use super::*;

    fn sample() -> Checkup {
        let finding = |severity, text: &str| Finding { severity, code: "file.x", text: text.into() };
        let latest = Some(Latest { ttl_percent: 150, more: Duration::from_secs(2) });
        Checkup {
            store: "file:///x".into(),
            failure: None,
            promises: vec![
                Promise { topic: "order", word: "fifo", text: "in order".into(), latest: None },
                Promise { topic: "crash", word: "after_ttl", text: "later".into(), latest },
            ],
            findings: vec![finding(Severity::Ok, "fine"), finding(Severity::Problem, "bad\u{1b}")],
            times: Some(Times {
                open: Duration::from_micros(1_260),
                round: Duration::from_micros(52),
                hand_over: Duration::from_secs(2),
            }),
        }
    }

    #[test]
    fn a_page_has_promises_findings_and_times() {
        let expected = "\
store  file:///x

What it promises
  order     in order
  crash     later

What was found
  ok       fine [file.x]
  problem  bad\\u{1b} [file.x]

How long it takes (medians)
  open a session    1.2ms
  lock and release  52us
  hand over         2.0s
";
        assert_eq!(page(&sample()), expected);
        assert!(!page(&Checkup { times: None, ..sample() }).contains("How long"));
    }

    #[test]
    fn json_is_version_two() {
        let expected = r#"{"v":2,"store":"file:///x","healthy":false,"promises":{"crash":{"is":"after_ttl","text":"later","latest":{"ttl_percent":150,"more_ms":2000}},"order":{"is":"fifo","text":"in order","latest":null}},"findings":[{"severity":"ok","code":"file.x","text":"fine"},{"severity":"problem","code":"file.x","text":"bad\u001b"}],"times":{"open_us":1260,"round_us":52,"hand_over_us":2000000}}"#;
        assert_eq!(json::to_line(&Report::of(&sample())), expected);
    }
}
