//! The conformance suite on one server, which is restarted in between.

use std::{process::ExitCode, sync::Arc};

use bramah_conformance::{Later, Suite, Target};
use bramah_core::{Engine, Result};
use bramah_postgres::Postgres;

fn connect(url: String) -> Later<Result<Arc<dyn Engine>>> {
    Box::pin(async move { Ok(Postgres::from_url(&url)?.into()) })
}

fn main() -> ExitCode {
    let url = std::env::var("PGURL").unwrap();
    let setup = move || -> Later<Result<Target>> {
        let address = url.clone();
        let target = Target::new(move || connect(address.clone())).reachable_at(&url);
        Box::pin(async { Ok(target) })
    };
    Suite::new("postgres", setup).children(connect).abreast(6).main()
}
