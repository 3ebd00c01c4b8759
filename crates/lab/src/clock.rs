//! A time of the day that a test moves.

use std::{ffi::OsString, fs, path::PathBuf, process::Command, time::Duration};

use crate::scratch::Scratch;

const SOURCE: &str = include_str!("clock.c");

/// The clock of the servers that are [started with it](crate::Redis::on_clock), and of programs that it is
/// [shown to](Self::show_to): the machine's, and as much ahead of it or behind as it was told. It is a library that is preloaded
/// into them, so a C compiler has to be there.
#[derive(Debug)]
pub struct ShiftedClock {
    scratch: Scratch,
}

impl ShiftedClock {
    /// One that agrees with the machine's.
    ///
    /// # Errors
    ///
    /// When there is no C compiler, or it cannot compile the library.
    pub fn new() -> Result<Self, String> {
        let clock = Self { scratch: Scratch::new()? };
        clock.forward(Duration::ZERO)?;
        let source = clock.scratch.path().join("clock.c");
        fs::write(&source, SOURCE).map_err(|why| format!("cannot write {}: {why}", source.display()))?;
        let compiled = Command::new("cc")
            // What it needs is in the C library of whoever loads it, which need not be ours.
            .args(["-shared", "-fPIC", "-O1", "-nostdlib", "-fno-builtin", "-fno-stack-protector", "-o"])
            .arg(clock.library())
            .arg(format!("-DSHIFT_FILE=\"{}\"", clock.file().display()))
            .arg(&source)
            .output()
            .map_err(|why| format!("cc could not be started: {why}; install a C compiler"))?;
        if compiled.status.success() {
            return Ok(clock);
        }
        let said = String::from_utf8_lossy(&compiled.stderr);
        Err(format!("cc: {}", said.lines().next().unwrap_or("it failed and said nothing")))
    }

    /// So much ahead of the machine's from now on.
    ///
    /// # Errors
    ///
    /// When it cannot be written down.
    pub fn forward(&self, by: Duration) -> Result<(), String> {
        self.shift(i64::try_from(by.as_millis()).map_err(|_| format!("{by:?} is too far ahead"))?)
    }

    /// So much behind the machine's from now on.
    ///
    /// # Errors
    ///
    /// When it cannot be written down.
    pub fn back(&self, by: Duration) -> Result<(), String> {
        self.shift(-i64::try_from(by.as_millis()).map_err(|_| format!("{by:?} is too far behind"))?)
    }

    /// The program that this command starts goes by it.
    pub fn show_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library());
    }

    fn shift(&self, shift: i64) -> Result<(), String> {
        // Renamed, so that nobody reads a half of it.
        let new = self.scratch.path().join("new");
        fs::write(&new, shift.to_ne_bytes())
            .and_then(|()| fs::rename(&new, self.file()))
            .map_err(|why| format!("cannot write {}: {why}", self.file().display()))
    }

    /// What stands before the command of a server.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut preload = OsString::from("LD_PRELOAD=");
        preload.push(self.library());
        vec!["env".into(), preload]
    }

    fn library(&self) -> PathBuf {
        self.scratch.path().join("clock.so")
    }

    fn file(&self) -> PathBuf {
        self.scratch.path().join("shift")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Redis, interop, servers::Flavor, until};

    #[test]
    fn a_program_sees_it_ahead_and_behind() {
        let clock = match ShiftedClock::new() {
            Ok(clock) => clock,
            Err(why) => return interop::missing("a C compiler", &why),
        };
        let date = |is_shown: bool| -> i64 {
            let mut date = Command::new("date");
            if is_shown {
                clock.show_to(&mut date);
            }
            String::from_utf8(date.arg("+%s").output().unwrap().stdout).unwrap().trim().parse().unwrap()
        };
        let hour = Duration::from_secs(3600);
        clock.forward(hour).unwrap();
        assert!((3600..3660).contains(&(date(true) - date(false) + 1)));
        clock.back(hour).unwrap();
        assert!((3600..3660).contains(&(date(false) - date(true) + 1)));
    }

    #[test]
    fn a_servers_clock_moves_and_its_keys_expire() {
        let clock = match ShiftedClock::new() {
            Ok(clock) => clock,
            Err(why) => return interop::missing("a C compiler", &why),
        };
        let redis = Redis::on_clock(Flavor::Redis7, &clock, &[]).unwrap();
        let time = || -> i64 { redis.call(&["TIME"]).unwrap().many()[0].text().parse().unwrap() };
        let before = time();
        redis.cli(&["SET", "key", "value", "EX", "60"]).unwrap();
        clock.forward(Duration::from_secs(61)).unwrap();
        assert!(time() >= before + 61);
        until("the end of the key", Duration::from_secs(30), || {
            match redis.cli(&["EXISTS", "key"])?.as_str() {
                "0" => Ok(()),
                there => Err(there.to_owned()),
            }
        })
        .unwrap();
    }
}
