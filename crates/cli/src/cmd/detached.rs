//! `bramah lock`, `renew` and `unlock`: locks that outlive the process that took them.

use std::io::{BufRead, stdin};

use bramah::{ClaimId, Detached, Fence, Keep, Name, Session};

use crate::{
    args::IfDown,
    cmd,
    exit::{Exit, Failure},
    json,
    plan::{Form, Handle, Lock, Talk, Want, bad_handle},
    say::{emit, refuse_closed_stdout, say},
    signals::Signals,
    span,
    store::Store,
    take,
    wait::Wait,
};

/// More than any handle has.
const MAX_HANDLE_BYTES: u64 = 1024;

pub(crate) async fn lock(store: &Store, plan: &Lock) -> Result<Exit, Failure> {
    refuse_memory(store)?;
    refuse_closed_stdout()?;
    let mut signals = Signals::heed()?;
    // While it waits nobody needs it for long: so a process that is killed leaves no place for hours.
    let waiting = Want { ttl: plan.want.ttl.min(Session::DEFAULT_TTL), ..plan.want.clone() };
    let wait = Wait::new(plan.patience, IfDown::Wait);
    let session = signals.unless_told(take::open(store, &waiting, Keep::Nobody, &wait, plan.talk)).await?;
    // What cannot be left for so long is refused before anybody waits for it.
    if let Err(error) = session.check_ttl(plan.want.ttl) {
        cmd::close(&session).await;
        return Err(error.into());
    }
    match signals.unless_told(take_and_leave(&session, plan, store, &wait)).await {
        Ok(Some((left, fence))) => tell(store, plan, &left, fence).await,
        // Nobody keeps this session, so it does not end with us: what it has is given up in so many words.
        Ok(None) => {
            if plan.talk > Talk::Little && plan.busy_code != 0 {
                take::tell_busy(&session, &plan.want).await;
            }
            cmd::close(&session).await;
            Ok(Exit::Command(plan.busy_code))
        }
        Err(failure) => {
            cmd::close_after(session, Some(&failure), &wait).await;
            Err(failure)
        }
    }
}

/// `None` is busy. Dropped at any point it leaves nothing behind, once the session is closed.
async fn take_and_leave(
    session: &Session,
    plan: &Lock,
    store: &Store,
    wait: &Wait,
) -> Result<Option<(Detached, Option<Fence>)>, Failure> {
    take::refuse_own(session, &plan.want, &plan.inside, store, wait, plan.talk).await?;
    let Some(guards) = take::take(session, &plan.want, wait, plan.talk).await? else {
        return Ok(None);
    };
    let Some(guard) = guards.into_vec().pop() else { return Ok(None) };
    let fence = guard.fence();
    Ok(Some((guard.leave_for(plan.want.ttl).await?, fence)))
}

/// Hands out the handle. A lock whose handle reached nobody could only run out, so it is released instead.
async fn tell(store: &Store, plan: &Lock, left: &Detached, fence: Option<Fence>) -> Result<Exit, Failure> {
    let (name, ttl) = (left.name(), plan.want.ttl);
    let text = match plan.form {
        Form::Human => left.id().to_string(),
        Form::Json => json::to_line(&json::Left {
            v: json::VERSION,
            name: name.as_str(),
            handle: left.id().to_string(),
            id: left.id().tag().to_string(),
            fence: fence.map(Fence::get),
            ttl_ms: span::ms(ttl),
            store: &store.shown(),
        }),
    };
    if let Err(failure) = emit(&(text + "\n")) {
        if let Err(error) = left.release().await {
            say(&format!(
                "{name} could not be released either; it is free after {}: {error}",
                span::write(ttl)
            ));
        }
        return Err(failure);
    }
    if plan.talk > Talk::Little {
        say(&format!(
            "{name} is held for {}; release it with bramah unlock {name} --handle and the handle that was printed",
            span::write(ttl)
        ));
    }
    Ok(Exit::Done)
}

pub(crate) async fn renew(store: &Store, name: Name, handle: Handle, form: Form) -> Result<Exit, Failure> {
    let left = find(store, name, handle).await?;
    let ttl = left.renew().await?;
    match form {
        Form::Human => {
            say(&format!("{} is held for {} from now on", left.name(), span::write(ttl)));
            if left.is_asked() {
                say(&format!("{}: somebody has asked for it (bramah revoke)", left.name()));
            }
        }
        Form::Json => emit_line(&json::Renewed {
            v: json::VERSION,
            name: left.name().as_str(),
            id: left.id().tag().to_string(),
            ttl_ms: span::ms(ttl),
        })?,
    }
    Ok(Exit::Done)
}

pub(crate) async fn unlock(store: &Store, name: Name, handle: Handle, form: Form) -> Result<Exit, Failure> {
    let left = find(store, name, handle).await?;
    let (name, released) = (left.name(), left.release().await?);
    match form {
        Form::Human if released => say(&format!("{name} is released")),
        Form::Human => {
            say(&format!("{name} is not held by this handle: it ran out, or was released or broken"))
        }
        Form::Json => emit_line(&json::Unlocked {
            v: json::VERSION,
            name: name.as_str(),
            id: left.id().tag().to_string(),
            released,
        })?,
    }
    Ok(if released { Exit::Done } else { Exit::No })
}

async fn find(store: &Store, name: Name, handle: Handle) -> Result<Detached, Failure> {
    refuse_memory(store)?;
    let id = match handle {
        Handle::Given(id) => id,
        Handle::Stdin => read_handle(stdin().lock())?,
    };
    Ok(Detached::new(bramah::engine(store.url()).await?, name, id))
}

/// The first line. It is a key: what is wrong with it is not repeated.
fn read_handle(from: impl BufRead) -> Result<ClaimId, Failure> {
    let mut line = String::new();
    from.take(MAX_HANDLE_BYTES).read_line(&mut line).map_err(|_| bad_handle())?;
    line.trim().parse().map_err(|_| bad_handle())
}

fn refuse_memory(store: &Store) -> Result<(), Failure> {
    if store.is_memory() {
        return Err(Failure::usage(
            "a lock in memory ends with this process; use another store, such as file:///dir",
        ));
    }
    Ok(())
}

fn emit_line(value: &impl serde::Serialize) -> Result<(), Failure> {
    emit(&(json::to_line(value) + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_the_first_line_and_nothing_else_is_repeated() {
        let handle = "000102030405060708090a0b0c0d0e0f:7";
        for text in [handle.to_owned(), format!("{handle}\n"), format!("  {handle}\r\nmore\n")] {
            assert_eq!(read_handle(text.as_bytes()).unwrap().to_string(), handle);
        }
        let long = "7".repeat(2000);
        for text in ["", "\n", "hush", "\u{1b}[2J", &long] {
            let refused = read_handle(text.as_bytes()).unwrap_err();
            assert_eq!((refused.exit, refused.clone()), (Exit::Usage, bad_handle()));
        }
        assert_eq!(read_handle(&b"\xff\xfe\n"[..]).unwrap_err(), bad_handle());
    }
}
