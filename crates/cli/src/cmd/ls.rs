//! `bramah ls`: who holds what.

use bramah::{Health, LineView, PlaceView, Scope, line::WHOLE};

use crate::{
    cmd,
    exit::{Exit, Failure},
    holder, json,
    plan::Form,
    say::{clean, emit, say},
    span,
    store::Store,
    table::{Cut, or_dash, table},
    terminal,
};

const HEADS: [&str; 9] = ["NAME", "STATE", "MODE", "HOLDER", "SINCE", "LEFT", "RENEWED", "WAITING", "REASON"];

/// Which of them is there only if somebody is late.
const RENEWED: usize = 6;

/// How the table is cut where there is no room.
const CUTS: [Cut; 10] = [
    ("REASON", 24),
    ("HOLDER", 24),
    ("MODE", 0),
    ("REASON", 12),
    ("HOLDER", 14),
    ("REASON", 8),
    ("NAME", 20),
    ("WAITING", 0),
    ("REASON", 0),
    ("NAME", 10),
];

pub(crate) async fn ls(store: &Store, scope: &Scope, form: Form) -> Result<Exit, Failure> {
    let survey = cmd::look(store, scope).await?;
    let lines: Vec<_> = survey.lines.iter().filter(|line| !line.places.is_empty()).collect();
    match form {
        Form::Json => {
            let locks = lines.iter().map(|line| json::to_line(&json::Lock::of(line, &store.shown())) + "\n");
            emit(&locks.collect::<String>())?;
        }
        Form::Human if lines.is_empty() => say("no locks"),
        Form::Human => emit(&page(&lines, terminal::columns()))?,
    }
    // What could be read is shown all the same.
    let mut exit = Exit::Done;
    for error in survey.unreadable {
        exit = Failure::from(error).tell();
    }
    Ok(exit)
}

fn page(lines: &[&LineView], room: Option<usize>) -> String {
    let mut heads = HEADS.to_vec();
    let mut rows: Vec<Vec<String>> = lines.iter().map(|line| row(line)).collect();
    // Of those who are well it says nothing that LEFT does not.
    if !lines.iter().flat_map(|line| line.holders()).any(holder::is_late) {
        heads.remove(RENEWED);
        rows.iter_mut().for_each(|row| drop(row.remove(RENEWED)));
    }
    table(&heads, &rows, &CUTS, room)
}

fn row(line: &LineView) -> Vec<String> {
    let first = line.holders().next();
    let others = line.holders().count().saturating_sub(1);
    let owner = first.map_or_else(String::new, holder::owner);
    let left = line.holders().filter_map(|holder| holder.left).min();
    let renewed = line.holders().filter_map(|holder| holder.renewed).max();
    vec![
        clean(line.name.as_str()),
        state(line),
        line.places.first().map_or("", |place| holder::mode(line.capacity, place)).to_owned(),
        or_dash(if others == 0 { owner } else { format!("{owner} +{others}") }),
        or_dash(first.and_then(PlaceView::held_for).map_or_else(String::new, span::write)),
        or_dash(left.map_or_else(String::new, span::write)),
        or_dash(renewed.map_or_else(String::new, holder::ago)),
        line.waiters().count().to_string(),
        or_dash(first.map_or_else(String::new, |first| clean(&first.claim.note))),
    ]
}

/// `held`, `held by 3 of 5` permits, `held by 3` readers, or `waiting`; ` (stopped)` if a holder is known to be.
pub(crate) fn state(line: &LineView) -> String {
    let is_stopped = line.holders().any(|place| place.health == Health::Stopped);
    use_of(line) + if is_stopped { " (stopped)" } else { "" }
}

fn use_of(line: &LineView) -> String {
    let weight = |place: &PlaceView| u64::from(place.claim.weight);
    let used: u64 = line.holders().map(weight).sum();
    match (used, line.capacity) {
        (0, _) if line.places.is_empty() => "free".to_owned(),
        (0, _) => "waiting".to_owned(),
        (used, WHOLE) if used < u64::from(WHOLE) => format!("held by {used}"),
        (_, 1 | WHOLE) => "held".to_owned(),
        (used, capacity) => format!("held by {used} of {capacity}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{line, place};

    #[test]
    fn rows_are_aligned_and_say_what_is_known() {
        let lines = [
            line(1, [place(1, 1).held(724).note("hotfix\t1.4.2"), place(2, 1), place(3, 1)]),
            line(5, [place(4, 2).held(61), place(5, 1).held(3)]),
            line(WHOLE, [place(6, 1).held(2)]),
            line(WHOLE, [place(7, WHOLE)]),
        ];
        let expected = "\
NAME         STATE           MODE     HOLDER         SINCE   LEFT   WAITING  REASON
deploy/prod  held            mutex    ana@ci-7:1     12m04s  21.4s  2        hotfix\\t1.4.2
deploy/prod  held by 3 of 5  permits  ana@ci-7:4 +1  1m01s   21.4s  0        -
deploy/prod  held by 1       read     ana@ci-7:6     2.0s    21.4s  0        -
deploy/prod  waiting         write    -              -       -      1        -
";
        assert_eq!(page(&lines.each_ref(), None), expected);
    }

    #[test]
    fn who_is_late_or_stopped_is_told() {
        let mut stopped = place(9, 1).held(2);
        stopped.0.health = Health::Stopped;
        let lines = [
            line(1, [place(1, 1).held(724).silent(21)]),
            line(5, [place(4, 2).held(61), stopped]),
            line(1, [place(7, 1)]),
        ];
        let expected = "\
NAME         STATE                     MODE     HOLDER         SINCE   LEFT   RENEWED    WAITING  REASON
deploy/prod  held                      mutex    ana@ci-7:1     12m04s  9.0s   21.0s ago  0        -
deploy/prod  held by 3 of 5 (stopped)  permits  ana@ci-7:4 +1  1m01s   21.4s  8.6s ago   0        -
deploy/prod  waiting                   mutex    -              -       -      -          1        -
";
        assert_eq!(page(&lines.each_ref(), None), expected);
    }

    #[test]
    fn in_80_columns_a_reason_is_cut_before_the_holder_and_the_name_stays() {
        let mut late =
            place(1, 1).held(724).silent(21).note("hotfix 1.4.2: roll back the payment gateway, ask ana");
        let about = late.0.about.as_mut().map(std::sync::Arc::make_mut).unwrap();
        about.owner = "deploy-bot@ci-runner-07.eu-west.example.com:81234".into();
        let line = line(1, [late]);
        let expected = "\
NAME         STATE  HOLDER          SINCE   LEFT  RENEWED    WAITING  REASON
deploy/prod  held   deploy-bot@ci…  12m04s  9.0s  21.0s ago  0        hotfix 1.…
";
        assert_eq!(page(&[&line], Some(80)), expected);
    }
}
