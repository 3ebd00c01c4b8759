//! Man pages.

use std::path::Path;

use crate::exit::{Exit, Failure};

pub(crate) fn man(dir: Option<&Path>) -> Result<Exit, Failure> {
    Err(Failure::usage("not here yet"))
}
