//! `bramah break`: end somebody else's hold, or put somebody out of the line.

use bramah::{Fencing, LineView, Name, PlaceView, Session, Tag};

use crate::{
    cmd,
    exit::{Exit, Failure},
    holder, json,
    plan::Form,
    say::{emit, say},
    span,
    store::Store,
};

pub(crate) async fn break_hold(
    store: &Store,
    name: &Name,
    tag: Tag,
    reason: &str,
    owner: Option<String>,
    form: Form,
) -> Result<Exit, Failure> {
    let mut builder = cmd::session(store).await?;
    if let Some(owner) = owner {
        builder = builder.owner(owner);
    }
    let session = builder.open().await?;
    let done = attempt(&session, name, tag, reason, form).await;
    cmd::close(&session).await;
    done
}

async fn attempt(
    session: &Session,
    name: &Name,
    tag: Tag,
    reason: &str,
    form: Form,
) -> Result<Exit, Failure> {
    let before = session.inspect(name).await?;
    let broken = session.break_hold(name, tag, reason).await?;
    let after = session.inspect(name).await;
    let was = before.as_ref().filter(|_| broken).and_then(|line| {
        let place = line.places.iter().find(|place| place.claim.id.tag() == tag)?;
        Some((line, place))
    });
    match (form, was) {
        (Form::Json, was) => {
            let was = was.map(|(line, place)| (line.capacity, place));
            let now = after.as_ref().ok().and_then(Option::as_ref);
            let told = json::Breaking::new(name, tag, broken, was, now, session.store());
            emit(&(json::to_line(&told) + "\n"))?;
        }
        (Form::Human, Some((line, place))) if place.is_held() => {
            // A counter rises with the next grant only.
            let fenced = !matches!(session.profile().fence, Fencing::None | Fencing::Volatile);
            say(&format!("{name}: {}", ended(line, place, &after, fenced)));
        }
        (Form::Human, Some((_, place))) => {
            let waited = place.age.map(|age| format!(", where it had waited for {}", span::write(age)));
            say(&format!(
                "{name}: {} ({tag}) is put out of the line{}; if it still wants the lock, it stands at the end",
                holder::owner(place),
                waited.unwrap_or_default()
            ));
        }
        (Form::Human, None) if broken => say(&format!("{name}: {tag} is broken")),
        (Form::Human, None) => say(&absent(name, tag, after?.as_ref())),
    }
    Ok(if broken { Exit::Done } else { Exit::No })
}

/// `the hold of ana@ci-7:812 (h3f09a4c2b1d7) is broken after 12m04s; …`
fn ended(
    before: &LineView,
    place: &PlaceView,
    after: &bramah::Result<Option<LineView>>,
    fenced: bool,
) -> String {
    let then = match after {
        // What is done is done, also when the store does not tell any more how things stand.
        Err(_) => "who has it now is not known".to_owned(),
        Ok(after) => then(before, after.as_ref()),
    };
    let fence = if fenced { ", and the fence has risen" } else { "" };
    let learns = match place.about {
        Some(_) => "who held it learns at once, or with its next renewal",
        None => "who held it is not told, unless it was one of bramah's",
    };
    format!(
        "the hold of {} ({}) is broken{}; {then}{fence}; {learns}",
        holder::owner(place),
        place.claim.id.tag(),
        place.held_for().map_or_else(String::new, |held| format!(" after {}", span::write(held)))
    )
}

/// Who has it now that did not have it before.
fn then(before: &LineView, after: Option<&LineView>) -> String {
    let held_before = |place: &PlaceView| before.holders().any(|other| other.claim.id == place.claim.id);
    let mut holders = after.into_iter().flat_map(LineView::holders).peekable();
    let others = holders.peek().is_some();
    match holders.find(|place| !held_before(place)) {
        Some(next) => format!("{} has it now", holder::owner(next)),
        None if others => "others still hold it".to_owned(),
        None => "it is free now".to_owned(),
    }
}

fn absent(name: &Name, tag: Tag, line: Option<&LineView>) -> String {
    let now = match line.and_then(holder::holder) {
        Some(held) => format!("it is {held}; see bramah show {name}"),
        None => "nobody holds it".to_owned(),
    };
    format!("{name} has no hold or place in line with the id {tag}; {now}")
}
