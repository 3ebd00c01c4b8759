//! The conformance suite on a quorum of 1, 3, 4 and 5 stores in memory, and on all of two.

use std::{process::ExitCode, sync::Arc};

use bramah_conformance::{Later, Suite, Target};
use bramah_core::{
    Engine, Memory, Result,
    quorum::{Member, Quorum, Share},
};

fn main() -> ExitCode {
    let mut failed = false;
    for (stores, share) in [
        (1, Share::Majority),
        (3, Share::Majority),
        (4, Share::Majority),
        (5, Share::Majority),
        (2, Share::All),
    ] {
        let setup = move || -> Later<Result<Target>> {
            let stores: Vec<Memory> = (0..stores).map(|_| Memory::new()).collect();
            let target = Target::new(move || {
                let members = stores.iter().enumerate();
                let members = members.map(|(at, store)| Member::new(at.to_string(), store.clone()));
                let quorum = Quorum::builder(members).share(share).build();
                Box::pin(async {
                    let engine: Arc<dyn Engine> = Arc::new(quorum?);
                    Ok(engine)
                })
            })
            .paced(3);
            Box::pin(async { Ok(target) })
        };
        let name = format!("quorum of {stores}, {share:?}");
        failed |= Suite::new(&name, setup).abreast(24).main() != ExitCode::SUCCESS;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
