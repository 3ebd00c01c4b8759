//! End somebody's hold.

use bramah::{Name, Tag};

use crate::{
    exit::{Exit, Failure},
    plan::Form,
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
    Err(Failure::usage("not here yet"))
}
