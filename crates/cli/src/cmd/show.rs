//! `bramah show`: one lock and everybody in its line.

use std::time::Duration;

use bramah::{LineView, Name, Scope};

use crate::{
    cmd::{self, ls::state},
    exit::{Exit, Failure},
    holder, json,
    plan::Form,
    say::{clean, emit, say},
    span,
    store::Store,
    table::{Cut, or_dash, table},
    terminal,
};

pub(crate) async fn show(store: &Store, name: &Name, form: Form) -> Result<Exit, Failure> {
    let line = cmd::look(store, &Scope::Exact(name.clone())).await?.lines.pop();
    let shown = store.shown();
    match (form, &line) {
        (Form::Json, Some(line)) => emit(&(json::to_line(&json::Lock::of(line, &shown)) + "\n"))?,
        (Form::Json, None) => emit(&(json::to_line(&json::Lock::free(name, &shown)) + "\n"))?,
        (Form::Human, Some(line)) => emit(&page(line, &shown, terminal::columns()))?,
        (Form::Human, None) => say(&format!("nobody holds {name} or waits for it")),
    }
    Ok(if line.is_some_and(|line| !line.places.is_empty()) { Exit::Done } else { Exit::No })
}

/// How a table is cut where there is no room. An id is never: it is what `break` wants.
const CUTS: [Cut; 5] = [("REASON", 24), ("OWNER", 24), ("REASON", 12), ("OWNER", 14), ("REASON", 0)];

fn page(line: &LineView, store: &str, room: Option<usize>) -> String {
    let mut out = format!("name   {}\nstate  {}\n", clean(line.name.as_str()), state(line));
    if let Some(place) = line.places.first() {
        out.push_str(&format!("mode   {}\n", holder::mode(line.capacity, place)));
    }
    if let Some(fence) = line.holders().find_map(json::fence) {
        out.push_str(&format!("fence  {fence}\n"));
    }
    out.push_str(&format!("store  {}\n", clean(store)));
    if let Some(broken) = &line.broken {
        out.push_str(&format!(
            "last broken {} ago: {}, by {} (\"{}\")\n",
            span::write(broken.ago),
            broken.id.tag(),
            clean(&broken.cause.by),
            clean(&broken.cause.reason)
        ));
    }
    let holders: Vec<_> = line
        .holders()
        .map(|place| {
            let [id, owner, health, reason] = common(place);
            let renewed = or_dash(place.renewed.map_or_else(String::new, holder::ago));
            vec![id, owner, time(place.held_for()), time(place.left), renewed, health, reason]
        })
        .collect();
    if !holders.is_empty() {
        out.push('\n');
        let heads = ["HOLDER", "OWNER", "HELD", "LEFT", "RENEWED", "HEALTH", "REASON"];
        out.push_str(&table(&heads, &holders, &CUTS, room));
    }
    let waiters: Vec<_> = line
        .waiters()
        .enumerate()
        .map(|(index, place)| {
            let [id, owner, health, reason] = common(place);
            vec![(index + 1).to_string(), id, owner, time(place.age), health, reason]
        })
        .collect();
    if !waiters.is_empty() {
        out.push('\n');
        let heads = ["PLACE", "WAITER", "OWNER", "AGE", "HEALTH", "REASON"];
        out.push_str(&table(&heads, &waiters, &CUTS, room));
    }
    out
}

fn time(time: Option<Duration>) -> String {
    or_dash(time.map_or_else(String::new, span::write))
}

fn common(place: &bramah::PlaceView) -> [String; 4] {
    [
        place.claim.id.tag().to_string(),
        holder::owner(place),
        holder::health(place).to_owned(),
        or_dash(reason(place)),
    ]
}

/// `hotfix 1.4.2 [job=8812 team=shop]`
fn reason(place: &bramah::PlaceView) -> String {
    let note = clean(&place.claim.note);
    let labels = place.about.iter().flat_map(|about| &about.labels);
    let labels: Vec<String> = labels.map(|(key, value)| format!("{}={}", clean(key), clean(value))).collect();
    match (note.is_empty(), labels.is_empty()) {
        (_, true) => note,
        (true, false) => format!("[{}]", labels.join(" ")),
        (false, false) => format!("{note} [{}]", labels.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bramah::{Break, Broken};

    use super::*;
    use crate::sample::{line, place};

    #[test]
    fn a_page_has_the_lock_its_holder_its_line_and_the_last_break() {
        let mut line = line(1, [place(1, 1).held(724).note("hotfix"), place(2, 1), place(11, 1)]);
        let cause = Arc::new(Break { by: "eve".into(), reason: "hung\r".into() });
        line.broken = Some(Broken { id: line.places[0].claim.id, cause, ago: Duration::from_secs(3600) });
        let tags: Vec<_> = line.places.iter().map(|place| place.claim.id.tag().to_string()).collect();
        let expected = format!(
            "\
name   deploy/prod
state  held
mode   mutex
fence  4127
store  memory:
last broken 1h00m ago: {0}, by eve (\"hung\\r\")

HOLDER         OWNER       HELD    LEFT   RENEWED   HEALTH   REASON
{0}  ana@ci-7:1  12m04s  21.4s  8.6s ago  running  hotfix [job=8812]

PLACE  WAITER         OWNER        AGE    HEALTH   REASON
1      {1}  ana@ci-7:2   2.0s   running  [job=8812]
2      {2}  ana@ci-7:11  11.0s  running  [job=8812]
",
            tags[0], tags[1], tags[2]
        );
        assert_eq!(page(&line, "memory:", None), expected);
    }
}
