//! Wait until nobody holds a lock.

use bramah::Name;

use crate::{
    exit::{Exit, Failure},
    plan::{Patience, Talk},
    store::Store,
};

pub(crate) async fn wait(
    store: &Store,
    name: &Name,
    patience: Patience,
    busy_code: u8,
    talk: Talk,
) -> Result<Exit, Failure> {
    Err(Failure::usage("not here yet"))
}
