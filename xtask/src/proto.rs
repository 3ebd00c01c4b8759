//! The code that is generated from the protocols of servers.

use crate::Verdict;

#[cfg(feature = "proto")]
mod generate;

/// Generates it and writes it to where it is checked in.
#[cfg(feature = "proto")]
pub(crate) fn run() -> Result<Verdict, String> {
    generate::write()?;
    Ok(Verdict::Passed)
}

/// Builds this once more with what that takes.
#[cfg(not(feature = "proto"))]
pub(crate) fn run() -> Result<Verdict, String> {
    let mut again =
        crate::cargo::cargo(["run", "--quiet", "--package", "xtask", "--features", "proto", "--", "proto"]);
    crate::cargo::run(&mut again)?;
    Ok(Verdict::Passed)
}
