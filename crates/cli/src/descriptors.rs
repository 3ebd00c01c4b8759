//! Whether there are file descriptors enough: without them a runtime panics instead of failing.

use rustix::io::fcntl_dupfd_cloexec;

use crate::exit::{Exit, Failure};

/// What a lock takes at the most before its command runs, on the store that takes most.
pub(crate) const FOR_A_STORE: usize = 64;
/// What a runtime takes.
pub(crate) const FOR_A_RUNTIME: usize = 8;

/// Refuses to start when fewer than `needed` are left of the limit.
pub(crate) fn ensure(needed: usize) -> Result<(), Failure> {
    let mut taken = Vec::with_capacity(needed);
    while taken.len() < needed {
        match fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3) {
            Ok(descriptor) => taken.push(descriptor),
            Err(error) => {
                return Err(Failure::new(
                    Exit::Unreachable,
                    format!(
                        "cannot start: {} file descriptors are free, and {needed} are needed ({error}); raise the \
                         limit of open files, such as ulimit -n 256",
                        taken.len()
                    ),
                ));
            }
        }
    }
    Ok(())
}
