//! The version.

use crate::{
    exit::{Exit, Failure},
    plan::Form,
};

pub(crate) fn version(form: Form) -> Result<Exit, Failure> {
    Err(Failure::usage("not here yet"))
}
