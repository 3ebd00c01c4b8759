//! Descriptors that this process was started with, by their numbers.
//!
//! The one place of this workspace with unsafe code: there is no other way to get from a number that was agreed on
//! with whoever started us to the descriptor behind it.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd, RawFd},
};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

/// A copy of descriptor `number`, which is not passed on to commands from here on, and neither is the original.
///
/// To be called before this process has opened anything of its own: so what is open is inherited.
///
/// # Errors
/// When it is not open.
#[expect(unsafe_code, reason = "a descriptor is known by its number only")]
pub(crate) fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: The number is not -1. It is used for two calls that fail without any effect if nothing is open there,
    // and nobody else in this process owns or closes it: it was open when the process started.
    let original = unsafe { BorrowedFd::borrow_raw(number) };
    let copy = fcntl_dupfd_cloexec(original, 3)?;
    // The standard streams are for the command as well.
    if number > 2 {
        fcntl_setfd(original, FdFlags::CLOEXEC)?;
    }
    Ok(copy)
}

/// Lets the processes that we start have this one.
///
/// # Errors
/// What the system says.
pub(crate) fn pass(descriptor: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::fd::AsRawFd,
    };

    use super::*;

    #[test]
    fn what_is_open_is_copied_and_what_is_not_is_an_error() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut copy = io::PipeWriter::from(take(writer.as_raw_fd()).unwrap());
        drop(writer);
        copy.write_all(b"x").unwrap();
        drop(copy);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert!(take(60_000).is_err() && take(-1).is_err());
    }
}
