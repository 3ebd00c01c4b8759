//! `bramah ls`: who holds what.

use bramah::{LineView, PlaceView, Scope, line::WHOLE};

use crate::{
    cmd,
    exit::{Exit, Failure},
    holder, json,
    plan::Form,
    say::{clean, emit, say},
    span,
    store::Store,
    table::{or_dash, table},
};

const HEADS: [&str; 8] = ["NAME", "STATE", "MODE", "HOLDER", "SINCE", "LEFT", "WAITING", "REASON"];

pub(crate) async fn ls(store: &Store, scope: &Scope, form: Form) -> Result<Exit, Failure> {
    let survey = cmd::look(store, scope).await?;
    let lines: Vec<_> = survey.lines.iter().filter(|line| !line.places.is_empty()).collect();
    match form {
        Form::Json => {
            let locks = lines.iter().map(|line| json::to_line(&json::Lock::of(line, &store.shown())) + "\n");
            emit(&locks.collect::<String>())?;
        }
        Form::Human if lines.is_empty() => say("no locks"),
        Form::Human => emit(&table(HEADS, &lines.into_iter().map(row).collect::<Vec<_>>()))?,
    }
    // What could be read is shown all the same.
    let mut exit = Exit::Done;
    for error in survey.unreadable {
        exit = Failure::from(error).tell();
    }
    Ok(exit)
}

fn row(line: &LineView) -> [String; 8] {
    let first = line.holders().next();
    let others = line.holders().count().saturating_sub(1);
    let owner = first.map_or_else(String::new, holder::owner);
    let left = line.holders().filter_map(|holder| holder.left).min();
    [
        clean(line.name.as_str()),
        state(line),
        line.places.first().map_or("", |place| holder::mode(line.capacity, place)).to_owned(),
        or_dash(if others == 0 { owner } else { format!("{owner} +{others}") }),
        or_dash(first.map_or_else(String::new, |first| span::write(holder::held(first)))),
        or_dash(left.map_or_else(String::new, span::write)),
        line.waiters().count().to_string(),
        or_dash(first.map_or_else(String::new, |first| clean(&first.claim.note))),
    ]
}

/// `held`, `held by 3 of 5` permits, `held by 3` readers, or `waiting`.
pub(crate) fn state(line: &LineView) -> String {
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
        let rows: Vec<_> = lines.iter().map(row).collect();
        let expected = "\
NAME         STATE           MODE     HOLDER         SINCE   LEFT   WAITING  REASON
deploy/prod  held            mutex    ana@ci-7:1     12m04s  21.4s  2        hotfix\\t1.4.2
deploy/prod  held by 3 of 5  permits  ana@ci-7:4 +1  1m01s   21.4s  0        -
deploy/prod  held by 1       read     ana@ci-7:6     2.0s    21.4s  0        -
deploy/prod  waiting         write    -              -       -      1        -
";
        assert_eq!(table(HEADS, &rows), expected);
    }
}
