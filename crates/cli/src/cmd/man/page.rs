//! One page of the manual. What stands below the flags in a help text is taken apart and set as sections.

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

const WHOLE: &str = "\
bramah takes a lock in a store, runs a command while it is held, and releases it when the command has ended. Others wait \
for it in line, and see who holds it, since when and why. A lock is a name such as deploy/prod; it need not be made \
before. If the lock is lost while the command runs, the command is ended before another can have the lock.

What a store promises is said by bramah doctor.";

const FILES: [(&str, &str); 4] = [
    ("./bramah.toml", "The config file, if it is there and neither --config nor BRAMAH_CONFIG is given."),
    ("~/.config/bramah/config.toml", "Else this one; XDG_CONFIG_HOME stands for ~/.config if it is set."),
    ("/etc/bramah/config.toml", "Else this one."),
    (
        "~/.local/state/bramah",
        "The store, if none is named: files for the processes of one machine. XDG_STATE_HOME stands for ~/.local/state if \
         it is set.",
    ),
];

/// The page of all verbs together.
pub(super) fn whole(root: &Command) -> String {
    let root = root.clone().subcommand_help_heading("COMMANDS");
    let mut page = Page::new(&root);
    page.heading("DESCRIPTION");
    page.help_text(WHOLE.lines());
    page.clap(Man::render_options_section);
    page.clap(Man::render_subcommands_section);
    let help = Help::of(&root);
    page.sections(&help, |title| title != "EXAMPLES");
    page.heading("FILES");
    for (path, text) in FILES {
        page.entry(path, text);
    }
    page.sections(&help, |title| title == "EXAMPLES");
    page.finish()
}

/// The page of one verb.
pub(super) fn verb(verb: &Command) -> String {
    // Those of its own first: else they stand among those that all verbs have.
    let apart = |arg: clap::Arg| if arg.is_global_set() { arg.help_heading("Global options") } else { arg };
    let verb = verb.clone().mut_args(apart);
    let mut page = Page::new(&verb);
    let help = Help::of(&verb);
    page.heading("DESCRIPTION");
    page.body.text([roman(verb.get_about().map(|about| format!("{about}.")).unwrap_or_default())]);
    if !help.prose.is_empty() {
        page.body.control("PP", []);
        page.help_text(help.prose.iter().map(String::as_str));
    }
    page.clap(Man::render_options_section);
    page.sections(&help, |_| true);
    page.heading("SEE ALSO");
    page.body.text([roman("bramah(1) for the environment, the exit codes and the files")]);
    page.finish()
}

/// What stands below the flags.
#[derive(Debug, PartialEq, Eq)]
struct Help {
    prose: Vec<String>,
    /// What stands under a heading, which is a line that ends with a colon and is followed by indented ones.
    sections: Vec<(String, Vec<String>)>,
}

impl Help {
    fn of(command: &Command) -> Self {
        Self::read(&command.get_after_help().map(ToString::to_string).unwrap_or_default())
    }

    fn read(text: &str) -> Self {
        let mut help = Self { prose: Vec::new(), sections: Vec::new() };
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let is_heading = !is_indented(line) && lines.peek().is_some_and(|next| is_indented(next));
            match line.strip_suffix(':').filter(|_| is_heading) {
                Some(heading) => help.sections.push((title(heading), Vec::new())),
                None => {
                    let part = help.sections.last_mut().map_or(&mut help.prose, |(_, lines)| lines);
                    part.push(line.to_owned());
                }
            }
        }
        for part in help.sections.iter_mut().map(|(_, lines)| lines).chain([&mut help.prose]) {
            while part.pop_if(|line| line.is_empty()).is_some() {}
        }
        help
    }
}

/// As sections of manuals are called.
fn title(heading: &str) -> String {
    match heading {
        "Example" | "Examples" => "EXAMPLES".to_owned(),
        "Exit codes" => "EXIT STATUS".to_owned(),
        other => other.to_uppercase(),
    }
}

fn is_indented(line: &str) -> bool {
    line.starts_with("  ")
}

/// What two spaces or more part.
fn columns(line: &str) -> Vec<&str> {
    line.trim().split("  ").map(str::trim).filter(|column| !column.is_empty()).collect()
}

struct Page {
    man: Man,
    /// What is done.
    head: String,
    /// What is at work.
    body: Roff,
}

impl Page {
    /// Up to the synopsis.
    fn new(command: &Command) -> Self {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        let mut page = Self { man: Man::new(command.clone()), head: Roff::new().render(), body: Roff::new() };
        // An empty argument has to be seen; clap_mangen leaves it out, and the date would become what follows it.
        let source = concat!("bramah ", env!("CARGO_PKG_VERSION"));
        page.body.control("TH", [&*name, "1", "\"\"", source, "Bramah Manual"]);
        // Names and flags must not be hyphenated, nor lines be stretched around them.
        page.body.control("nh", []).control("ad", ["l"]);
        page.clap(Man::render_name_section);
        page.heading("SYNOPSIS");
        let usage = command.clone().render_usage().to_string();
        for (index, form) in usage.trim_start_matches("Usage:").lines().map(str::trim).enumerate() {
            if index > 0 {
                page.body.control("br", []);
            }
            let words = command.get_bin_name().unwrap_or(&name);
            page.body.text([bold(words), roman(form.strip_prefix(words).unwrap_or(form))]);
        }
        page
    }

    fn heading(&mut self, title: &str) {
        self.body.control("SH", [title]);
    }

    /// A section as clap_mangen sets it.
    fn clap(&mut self, render: fn(&Man, &mut dyn std::io::Write) -> std::io::Result<()>) {
        self.flush();
        let mut section = Vec::new();
        // Writing to memory does not fail.
        let _ = render(&self.man, &mut section);
        self.append(&String::from_utf8_lossy(&section));
    }

    fn sections(&mut self, help: &Help, wanted: impl Fn(&str) -> bool) {
        for (title, lines) in help.sections.iter().filter(|(title, _)| wanted(title)) {
            self.heading(title);
            if title == "EXAMPLES" {
                self.examples(lines);
            } else {
                self.help_text(lines.iter().map(String::as_str));
            }
        }
    }

    /// Lines as a help text has them: prose is filled, what is indented is a list if it reads like one.
    fn help_text<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        let mut listed = false;
        for line in lines {
            let columns = columns(line);
            if line.is_empty() {
                self.body.control("PP", []);
                listed = false;
            } else if !is_indented(line) {
                if listed {
                    self.body.control("PP", []);
                }
                listed = false;
                self.body.text([roman(line)]);
            } else if columns.len().is_multiple_of(2)
                && columns.iter().step_by(2).all(|key| key.starts_with("BRAMAH_"))
            {
                columns.chunks(2).for_each(|pair| self.entry(pair[0], pair[1]));
                listed = true;
            } else {
                for column in columns {
                    match column.split_once(' ') {
                        Some((code, text)) if code.starts_with(|c: char| c.is_ascii_digit()) => {
                            self.entry(code, text);
                        }
                        _ => {
                            self.body.control("PP", []);
                            self.body.text([roman(column)]);
                        }
                    }
                }
                listed = true;
            }
        }
    }

    fn entry(&mut self, key: &str, text: &str) {
        self.body.control("TP", []).text([bold(key)]).text([roman(text)]);
    }

    /// Commands as they are typed. What one does stands beside it in a help text, and above it here: lines that are
    /// not filled should be short.
    fn examples(&mut self, lines: &[String]) {
        self.body.control("nf", []);
        let explained = |line: &String| matches!(columns(line)[..], [_, text] if !text.starts_with('#'));
        let apart = lines.iter().any(explained);
        for (index, line) in lines.iter().enumerate() {
            if apart && index > 0 {
                self.body.control("sp", []);
            }
            match columns(line)[..] {
                [command, text] if explained(line) => {
                    self.body.text([roman(format!("# {text}"))]).text([roman(command)]);
                }
                _ => {
                    self.body.text([roman(line.trim())]);
                }
            }
        }
        self.body.control("fi", []);
    }

    fn flush(&mut self) {
        let body = std::mem::take(&mut self.body).render();
        self.append(&body);
    }

    /// Every piece that is rendered starts with the same preamble; once is enough.
    fn append(&mut self, piece: &str) {
        self.head.push_str(piece.strip_prefix(&Roff::new().render()).unwrap_or(piece));
    }

    fn finish(mut self) -> String {
        self.flush();
        // A terminal would show typographic ones, which no shell takes.
        let plain = self.head.replace('`', "\\(ga").replace('~', "\\(ti").replace('^', "\\(ha");
        // Text that goes on in the next line leaves its space behind.
        plain.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_taken_apart_by_its_headings() {
        let help = Help::read(
            "Prose has\n  BRAMAH_A  a\nand more: so\n\nExamples:\n  x\n  y\n\nExit codes:\n  1 no",
        );
        assert_eq!(help.prose, ["Prose has", "  BRAMAH_A  a", "and more: so"]);
        let section = |title: &str, lines: &[&str]| {
            (title.to_owned(), lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            help.sections,
            [section("EXAMPLES", &["  x", "  y"]), section("EXIT STATUS", &["  1 no"])]
        );
    }

    #[test]
    fn lists_are_set_as_lists_and_examples_as_they_are_typed() {
        let after = "\
Has
  BRAMAH_A  the a   BRAMAH_B  the b
and more.

Exit codes:
  64 usage, wrong   128+n signal n
  else its own.

Examples:
  x run a -- ./b    run `b`
  x run ~/a";
        let mut command = Command::new("x").about("Do x").after_help(after).disable_help_flag(true);
        command.build();
        let page = verb(&command);
        let from = page.find(".SH DESCRIPTION").unwrap();
        let to = page.find(".SH \"SEE ALSO\"").unwrap();
        let expected = "\
.SH DESCRIPTION
Do x.
.PP
Has
.TP
\\fBBRAMAH_A\\fR
the a
.TP
\\fBBRAMAH_B\\fR
the b
.PP
and more.
.SH \"EXIT STATUS\"
.TP
\\fB64\\fR
usage, wrong
.TP
\\fB128+n\\fR
signal n
.PP
else its own.
.SH EXAMPLES
.nf
# run \\(gab\\(ga
x run a \\-\\- ./b
.sp
x run \\(ti/a
.fi
";
        assert_eq!(&page[from..to], expected);
    }
}
