//! `bramah version`: which one this is, and which stores it knows.

use serde::Serialize;

use crate::{
    exit::{Exit, Failure},
    json,
    plan::Form,
    say::emit,
};

#[derive(Debug, Serialize)]
struct Version {
    v: u32,
    name: &'static str,
    version: &'static str,
    stores: &'static [&'static str],
}

pub(crate) fn version(form: Form) -> Result<Exit, Failure> {
    let version = Version {
        v: json::VERSION,
        name: "bramah",
        version: env!("CARGO_PKG_VERSION"),
        stores: bramah::schemes(),
    };
    let text = match form {
        Form::Json => json::to_line(&version),
        Form::Human => {
            format!("{} {}\nstores: {}", version.name, version.version, version.stores.join(", "))
        }
    };
    emit(&(text + "\n"))?;
    Ok(Exit::Done)
}
