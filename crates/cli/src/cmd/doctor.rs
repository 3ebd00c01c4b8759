//! Say what the store promises.

use crate::{
    exit::{Exit, Failure},
    plan::Form,
    store::Store,
};

pub(crate) async fn doctor(store: &Store, form: Form) -> Result<Exit, Failure> {
    Err(Failure::usage("not here yet"))
}
