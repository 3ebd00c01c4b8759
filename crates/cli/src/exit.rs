//! What the exit code says.

use bramah::{Error, ErrorKind};

use crate::say::say;

/// Why the process ends. [`code`](Exit::code) is the number that a script sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for was done.
    Done,
    /// A question was answered with no: nobody holds it.
    No,
    /// The command ended with its own code.
    Command(u8),
    /// The request is wrong, unsupported, or conflicts with how the name is used.
    Usage,
    /// What the store holds is damaged or foreign.
    Corrupt,
    /// The store cannot be reached.
    Unreachable,
    /// The answer could not be written.
    Output,
    /// Somebody else has the lock, and the time to wait is up. 75 unless another code was asked for.
    Busy(u8),
    /// The store does not allow it.
    Denied,
    /// The lock was lost while the command ran, and the command was stopped.
    Lost,
    /// The command had to end, for its lock was lost or its time was up, and could not be ended: this user may not
    /// signal it. It may still run.
    Outlived,
    /// The command ran for as long as it may, and was ended.
    OverTime,
    /// The command is there but cannot be executed.
    NotExecutable,
    /// There is no such command.
    NotFound,
    /// The command, or we while waiting, ended by this signal.
    Signal(i32),
}

impl Exit {
    /// The code of a lock that is busy, unless -E says another.
    pub(crate) const BUSY: u8 = 75;

    /// 64 to 80 are those of sysexits and the first after them; 126 and up are the shell's.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Command(code) => code,
            Self::Usage => 64,
            Self::Corrupt => 65,
            Self::Unreachable => 69,
            Self::Output => 74,
            Self::Busy(code) => code,
            Self::Denied => 77,
            Self::Lost => 79,
            Self::Outlived => 80,
            Self::OverTime => 124,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(255),
        }
    }

    /// The same in one word, for JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Done | Self::No | Self::Command(_) => "ran",
            Self::Usage => "refused",
            Self::Corrupt => "corrupt",
            Self::Unreachable | Self::Output => "unreachable",
            Self::Busy(_) => "busy",
            Self::Denied => "denied",
            Self::Lost => "lost",
            Self::Outlived => "outlived",
            Self::OverTime => "over_time",
            Self::NotExecutable | Self::NotFound => "not_started",
            Self::Signal(_) => "interrupted",
        }
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Timeout => Self::Busy(Self::BUSY),
            ErrorKind::Lost => Self::Lost,
            ErrorKind::Unsupported | ErrorKind::Conflict | ErrorKind::Invalid => Self::Usage,
            ErrorKind::Denied => Self::Denied,
            ErrorKind::Corrupt => Self::Corrupt,
            // A kind that this version does not know: the store is there, and we cannot work with it.
            _ => Self::Unreachable,
        }
    }
}

/// The end of a command that did not do what was asked, with one line for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    line: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, line: impl Into<String>) -> Self {
        Self { exit, line: Some(line.into()) }
    }

    pub(crate) fn usage(line: impl Into<String>) -> Self {
        Self::new(Exit::Usage, line)
    }

    /// The code says it all.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self { exit, line: None }
    }

    /// The line; empty if the code says it all.
    pub(crate) fn line(&self) -> &str {
        self.line.as_deref().unwrap_or_default()
    }

    /// Says the line and gives the exit.
    pub(crate) fn tell(self) -> Exit {
        if let Some(line) = &self.line {
            say(line);
        }
        self.exit
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.kind().into(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_code() {
        for (kind, code) in [
            (ErrorKind::Timeout, 75),
            (ErrorKind::Lost, 79),
            (ErrorKind::Unavailable, 69),
            (ErrorKind::Unsupported, 64),
            (ErrorKind::Conflict, 64),
            (ErrorKind::Invalid, 64),
            (ErrorKind::Denied, 77),
            (ErrorKind::Corrupt, 65),
        ] {
            assert_eq!(Exit::from(kind).code(), code, "{kind:?}");
        }
        assert_eq!(Exit::Signal(15).code(), 143);
        assert_eq!(Exit::Command(7).code(), 7);
    }
}
