//! Locks that outlive this process.

use bramah::Name;

use crate::{
    exit::{Exit, Failure},
    plan::{Form, Handle, Lock},
    store::Store,
};

pub(crate) async fn lock(store: &Store, plan: &Lock) -> Result<Exit, Failure> {
    Err(Failure::usage("not here yet"))
}

pub(crate) async fn renew(store: &Store, name: Name, handle: Handle, form: Form) -> Result<Exit, Failure> {
    Err(Failure::usage("not here yet"))
}

pub(crate) async fn unlock(store: &Store, name: Name, handle: Handle, form: Form) -> Result<Exit, Failure> {
    Err(Failure::usage("not here yet"))
}
