//! Reading a file that may be a pipe, which nobody may ever write to.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
    time::Duration,
};

use bramah::Clock;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
    io::Errno,
};

/// How long the writer of a pipe may take.
const PIPE: Duration = Duration::from_secs(5);

/// Opens it without waiting for a writer.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Reads it to its end, `most` bytes of it at the most.
pub(super) fn read(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let kind = file.metadata()?.file_type();
    // Anything else may have nothing to read yet: a pipe, a terminal.
    if kind.is_file() {
        file.take(most).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    let clock = Clock::boot();
    let until = clock.now() + PIPE;
    let mut part = [0; 4096];
    while (bytes.len() as u64) < most {
        let left = until.since(clock.now());
        let left = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or_default(),
            tv_nsec: left.subsec_nanos().into(),
        };
        // Without a writer there is an end at once, before anything was written; but no event.
        match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&left)) {
            Ok(0) => {
                let what = if kind.is_fifo() { "a pipe" } else { "no regular file" };
                let why = format!("it is {what}, and nobody has written to it to the end");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match (&file).read(&mut part) {
            Ok(0) => break,
            Ok(len) => bytes.extend_from_slice(&part[..len]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, thread};

    use super::*;

    #[test]
    fn what_is_written_to_a_pipe_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let file = open(Path::new(&path)).unwrap();
        drop(reader);
        let writing = thread::spawn(move || {
            for _ in 0..3 {
                writer.write_all(&[b'x'; 5000]).unwrap();
                thread::yield_now();
            }
        });
        assert_eq!(read(file, 1 << 20).unwrap().len(), 15_000);
        writing.join().unwrap();
    }
}
