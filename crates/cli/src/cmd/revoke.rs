//! `bramah revoke`: ask those who hold a lock to let go.

use bramah::{LineView, Name, PlaceView, Session, Tag};

use crate::{
    cmd,
    exit::{Exit, Failure},
    holder, json,
    plan::Form,
    say::{emit, say},
    span,
    store::Store,
};

pub(crate) async fn revoke(
    store: &Store,
    name: &Name,
    tag: Option<Tag>,
    form: Form,
) -> Result<Exit, Failure> {
    let session = cmd::session(store).await?.open().await?;
    let done = attempt(&session, name, tag, form).await;
    cmd::close(&session).await;
    done
}

async fn attempt(session: &Session, name: &Name, tag: Option<Tag>, form: Form) -> Result<Exit, Failure> {
    let line = session.inspect(name).await?;
    let is_meant = |place: &&PlaceView| tag.is_none_or(|tag| place.claim.id.tag() == tag);
    let meant: Vec<&PlaceView> = line.iter().flat_map(LineView::holders).filter(is_meant).collect();
    let mut asked = Vec::new();
    for place in meant {
        if session.ask(name, place.claim.id.tag()).await? {
            asked.push(place);
        }
    }
    match form {
        Form::Json => {
            let ids = asked.iter().map(|place| place.claim.id.tag().to_string()).collect();
            let told =
                json::Revoking { v: json::VERSION, name: name.as_str(), asked: ids, store: session.store() };
            emit(&(json::to_line(&told) + "\n"))?;
        }
        Form::Human if asked.is_empty() => say(&nobody(name, tag)),
        Form::Human => {
            for place in &asked {
                let held =
                    place.held_for().map(|held| format!(", who has held it for {},", span::write(held)));
                say(&format!(
                    "{name}: {} ({}){} is asked to let go; whether it does is its own affair",
                    holder::owner(place),
                    place.claim.id.tag(),
                    held.unwrap_or_default()
                ));
            }
        }
    }
    Ok(if asked.is_empty() { Exit::No } else { Exit::Done })
}

fn nobody(name: &Name, tag: Option<Tag>) -> String {
    match tag {
        Some(tag) => format!("{name} is not held with the id {tag}; see bramah show {name}"),
        None => format!("{name} is held by nobody"),
    }
}
