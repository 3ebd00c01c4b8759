//! Print what happens.

use bramah::Scope;

use crate::{
    exit::{Exit, Failure},
    store::Store,
};

pub(crate) async fn watch(store: &Store, scope: &Scope) -> Result<Exit, Failure> {
    Err(Failure::usage("not here yet"))
}
