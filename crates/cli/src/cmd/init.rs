//! `bramah init`: what a database needs before the first lock.

use crate::{
    exit::{Exit, Failure},
    say::{clean, emit},
    store::Store,
};

pub(crate) async fn init(store: &Store, dry_run: bool) -> Result<Exit, Failure> {
    let schema = bramah::schema(store.url())?;
    if dry_run {
        emit(&schema)?;
        return Ok(Exit::Done);
    }
    bramah::init(store.url()).await?;
    emit(&format!("{} is ready\n", clean(&store.shown())))?;
    Ok(Exit::Done)
}
