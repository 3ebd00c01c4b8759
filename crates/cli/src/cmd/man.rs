//! `bramah man`: the manual, from the same definition as the help.

mod page;

use std::{fs, io, path::Path};

use clap::CommandFactory;

use crate::{
    args::Args,
    exit::{Exit, Failure},
    say::emit,
};

/// The page of the whole to stdout, or all pages to a directory.
pub(crate) fn man(dir: Option<&Path>) -> Result<Exit, Failure> {
    let mut root = Args::command();
    root.build();
    let Some(dir) = dir else {
        emit(&page::whole(&root))?;
        return Ok(Exit::Done);
    };
    fs::create_dir_all(dir).map_err(|error| refused("make", dir, &error))?;
    write(dir, "bramah.1", &page::whole(&root))?;
    for verb in root.get_subcommands() {
        write(dir, &format!("bramah-{}.1", verb.get_name()), &page::verb(verb))?;
    }
    Ok(Exit::Done)
}

/// Beside it and then over it, so that nobody reads half a page.
fn write(dir: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let (path, part) = (dir.join(name), dir.join(format!(".{name}.{}", std::process::id())));
    fs::write(&part, text).and_then(|()| fs::rename(&part, &path)).map_err(|error| {
        // There may be none, or no way to remove it; what is to be told is the failure before.
        let _ = fs::remove_file(&part);
        refused("write", &path, &error)
    })
}

fn refused(doing: &str, path: &Path, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory => {
            Exit::Usage
        }
        _ => Exit::Output,
    };
    Failure::new(exit, format!("cannot {doing} {}: {error}", path.display()))
}
