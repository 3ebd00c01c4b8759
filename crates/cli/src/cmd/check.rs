//! `bramah check`: inside of a command, is its lock still held?

use std::io;

use crate::{
    check::{self, Answer},
    exit::{Exit, Failure},
    json,
    plan::{Form, Talk},
    say::{emit, say},
};

pub(crate) async fn check(form: Form, talk: Talk) -> Result<Exit, Failure> {
    let text = |key: &str| std::env::var(key).ok().filter(|value| !value.is_empty());
    let (Some(socket), Some(name)) = (text("BRAMAH_SOCKET"), text("BRAMAH_LOCK")) else {
        return Err(Failure::usage(
            "there is no lock to check: this is not inside of a command run by bramah run or bramah elect",
        ));
    };
    let answer = match check::ask(&socket).await {
        Ok(answer) => answer,
        // Nobody answers any more, or nobody whose word counts: whoever held it is gone.
        Err(error) => {
            if error.kind() == io::ErrorKind::PermissionDenied {
                say(&format!("{error}, and is not believed"));
            }
            Answer { held: false, left_ms: Some(0) }
        }
    };
    match form {
        Form::Json => {
            let id = text("BRAMAH_ID");
            let check = json::Check {
                v: json::VERSION,
                name: &name,
                id: id.as_deref(),
                held: answer.held,
                left_ms: answer.left_ms,
            };
            emit(&(json::to_line(&check) + "\n"))?;
        }
        Form::Human if talk == Talk::Little => {}
        Form::Human => match answer {
            Answer { held: true, left_ms: Some(left) } => emit(&format!("{left}\n"))?,
            Answer { held: true, left_ms: None } => emit("held\n")?,
            Answer { held: false, .. } => say(&format!("{name} is not held any more")),
        },
    }
    Ok(if answer.held { Exit::Done } else { Exit::No })
}
