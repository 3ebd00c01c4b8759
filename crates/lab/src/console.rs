//! A database's own program, with a session that lasts.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A program that reads statements and prints rows, such as psql. It is killed when this is dropped.
#[derive(Debug)]
pub struct Console {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Console {
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let failed = |why: std::io::Error| format!("cannot start a console: {why}");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a console without input or output".to_owned());
        };
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Has statements carried out, and does not wait for them.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn say(&mut self, text: &str) -> Result<(), String> {
        let said = writeln!(self.input, "{text}").and_then(|()| self.input.flush());
        said.map_err(|why| format!("the console does not listen: {why}"))
    }

    /// The next row that it prints, waited for however long.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn row(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("the console has ended".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(why) => Err(format!("the console does not speak: {why}")),
        }
    }

    /// Says something, and gives the first row of the answer.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn ask(&mut self, text: &str) -> Result<String, String> {
        self.say(text)?;
        self.row()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
