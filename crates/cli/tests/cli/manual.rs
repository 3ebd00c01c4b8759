//! Help, man pages and completions: that they are as they were, that they agree, and that they are complete.

mod bad_input;
mod doctor;
mod json;
mod json_page;
mod refusals;
mod snapshot;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{Lab, bramah, text};
use snapshot::{Kept, names};

fn ask(args: &[&str]) -> String {
    // As wide as a help text gets, should it look at the terminal.
    let out = bramah(args).env("COLUMNS", "100").output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()), "{args:?}");
    text(&out.stdout)
}

fn verbs() -> Vec<String> {
    let help = ask(&["--help"]);
    let list = help.split_once("Commands:\n").unwrap().1.lines().take_while(|line| !line.is_empty());
    // What is indented further goes on from the line before.
    let list = list.filter(|line| !line.starts_with("   "));
    let verbs: Vec<_> = list.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    assert!(verbs.len() > 10 && verbs.contains(&"run".to_owned()), "{verbs:?}");
    verbs
}

/// All pages by their names, with the escapes of dashes taken out.
fn pages() -> BTreeMap<String, String> {
    let lab = Lab::new();
    let dir = lab.dir.join("not/there/yet");
    ask(&["man", dir.to_str().unwrap()]);
    let files = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let page = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(&path).unwrap().replace("\\-", "-"))
    };
    files.map(page).collect()
}

#[test]
fn the_help_is_as_it_was() {
    let verbs = verbs();
    let of = |verb: &String| (format!("help-{verb}.txt"), ask(&[verb, "--help"]));
    let texts = verbs.iter().map(of).chain([("help.txt".to_owned(), ask(&["--help"]))]);
    Kept::all(texts).or_fail();
    assert_eq!(names("help").len(), verbs.len() + 1, "help of a verb that is no more: {:?}", names("help"));
    assert_eq!(ask(&["run", "-h"]), ask(&["run", "--help"]));
}

#[test]
fn the_manual_is_as_it_was() {
    let lab = Lab::new();
    ask(&["man", lab.dir.to_str().unwrap()]);
    let read = |name: &str| fs::read_to_string(lab.dir.join(name)).unwrap();
    assert_eq!(ask(&["man"]), read("bramah.1"));
    Kept::all(["bramah.1", "bramah-run.1"].map(|name| (name.to_owned(), read(name)))).or_fail();
}

#[test]
fn every_verb_has_a_page_with_its_flags_and_no_others() {
    let (verbs, pages) = (verbs(), pages());
    assert_eq!(pages.len(), verbs.len() + 1, "{:?}", pages.keys());
    for verb in &verbs {
        let (help, page) = (ask(&[verb, "--help"]), &pages[&format!("bramah-{verb}.1")]);
        let listed = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        let words = listed.flat_map(|line| line.split("  ").next().unwrap().split([' ', ',']));
        let in_help: BTreeSet<_> = words.filter(|word| word.starts_with('-')).collect();
        let entries = page.split(".TP\n").skip(1).filter_map(|entry| entry.lines().next());
        let bold = entries.flat_map(|entry| entry.split("\\fB").skip(1));
        let words = bold.filter_map(|word| word.split("\\fR").next());
        let in_page: BTreeSet<_> = words.filter(|word| word.starts_with('-')).collect();
        assert_eq!(in_help, in_page, "{verb}");
        assert!(in_help.contains("--help") && in_help.contains("--engine"), "{verb}: {in_help:?}");
    }
}

#[test]
fn a_manual_that_cannot_be_written_is_refused_by_its_path() {
    let lab = Lab::new();
    fs::write(lab.dir.join("plain"), "").unwrap();
    fs::create_dir_all(lab.dir.join("taken/bramah.1")).unwrap();
    for (dir, path) in [("plain", "plain"), ("plain/below", "plain/below"), ("taken", "taken/bramah.1")] {
        let out = bramah(&["man", lab.dir.join(dir).to_str().unwrap()]).output().unwrap();
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(64), "{said}");
        assert!(said.lines().count() == 1 && said.contains(path), "{said}");
    }
    let left: Vec<_> =
        fs::read_dir(lab.dir.join("taken")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [lab.dir.join("taken/bramah.1")], "no half of a page");
}

#[test]
fn bash_completes_a_verb() {
    let script = ask(&["completions", "bash"]);
    let try_it =
        "COMP_WORDS=(bramah ru); COMP_CWORD=1; _bramah bramah ru bramah; echo \"got ${COMPREPLY[*]}\"";
    let bash = |args: &[&str]| match Command::new("bash").args(args).output() {
        Ok(out) => Some((out.status.success(), text(&out.stdout), text(&out.stderr))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{error}"),
    };
    let lab = Lab::new();
    let file = lab.dir.join("bramah.bash");
    fs::write(&file, format!("{script}\n{try_it}\n")).unwrap();
    let file = file.to_str().unwrap();
    if let (Some(read), Some(done)) = (bash(&["-n", file]), bash(&["--norc", file])) {
        assert_eq!(read, (true, String::new(), String::new()));
        assert_eq!(done.1, "got run\n", "{}", done.2);
    }
}

#[test]
fn version_says_which_and_what_it_can_open() {
    let version = env!("CARGO_PKG_VERSION");
    let stores = [
        "memory:",
        "file:///dir",
        "redis://host",
        "redis+sentinel://host,host/service",
        "redis+cluster://host,host",
        "redlock://host,host,host",
        "postgres://host/database",
        "mysql://host/database",
        "etcd://host,host,host",
        "zookeeper://host,host,host/chroot",
    ];
    assert_eq!(ask(&["version"]), format!("bramah {version}\nstores: {}\n", stores.join(", ")));
    let listed = stores.map(|store| format!("\"{store}\"")).join(",");
    assert_eq!(
        ask(&["version", "--json"]),
        format!("{{\"v\":2,\"name\":\"bramah\",\"version\":\"{version}\",\"stores\":[{listed}]}}\n")
    );
}

/// By their schemes: `redis` of `redis://host`.
#[test]
fn the_help_of_engine_has_every_store_of_this_build() {
    let (help, version) = (ask(&["run", "--help"]), ask(&["version"]));
    let engine = help.split_once("--engine").unwrap().1.split("--profile").next().unwrap();
    let stores: Vec<_> = version.split_once("stores: ").unwrap().1.trim().split(", ").collect();
    assert!(stores.len() > 8, "{stores:?}");
    for store in stores {
        let scheme = store.split_inclusive(':').next().unwrap();
        let words = engine.split_whitespace().filter(|word| word.starts_with(scheme)).count();
        assert!(words > 0, "no {scheme} in {engine}");
    }
}

fn variables(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.len() > "BRAMAH_".len());
    words.filter(|word| word.starts_with("BRAMAH_")).map(str::to_owned).collect()
}

/// The code of the command, without comments, tests, and what is itself documentation.
fn sources(dir: &Path) -> String {
    let mut code = String::new();
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap();
        if name == "args" || name == "man" {
            continue;
        }
        if path.is_dir() {
            code.push_str(&sources(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            code.extend(lines.map(|line| format!("{line}\n")));
        }
    }
    code
}

fn source_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn documented_variables() -> BTreeSet<String> {
    variables(&(ask(&["--help"]) + &ask(&["run", "--help"])))
}

#[test]
fn the_manual_has_the_variables_of_the_help() {
    let in_pages = variables(&pages().into_values().collect::<String>().replace("\\fB", ""));
    assert_eq!(documented_variables(), in_pages);
}

#[test]
fn every_variable_is_documented_and_no_other() {
    let in_code = variables(&sources(&source_dir()));
    assert_eq!(in_code, documented_variables());
}

/// Numbers, and `128+n`. 0 and 1 are answers.
fn documented_codes() -> BTreeSet<String> {
    let help = ask(&["--help"]);
    let section = help.split_once("Exit codes:\n").unwrap().1;
    let columns =
        section.split("  ").map(str::trim).filter(|column| column.starts_with(|c: char| c.is_ascii_digit()));
    columns.map(|column| column.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn the_manual_has_the_exit_codes_of_the_help() {
    let pages = pages();
    let section =
        pages["bramah.1"].split_once(".SH \"EXIT STATUS\"\n").unwrap().1.split(".SH").next().unwrap();
    let bold = section.split("\\fB").skip(1).filter_map(|word| word.split("\\fR").next());
    assert_eq!(documented_codes(), bold.map(str::to_owned).collect());
}

#[test]
fn every_exit_code_is_documented_and_no_other() {
    let source = fs::read_to_string(source_dir().join("exit.rs")).unwrap();
    let body = source.split_once("fn code(self)").unwrap().1.split("\n    }\n").next().unwrap();
    let arms =
        body.lines().filter_map(|line| line.split_once("=> ")).map(|(_, value)| value.trim_end_matches(','));
    let busy = source.split_once("const BUSY: u8 = ").unwrap().1.split(';').next().unwrap();
    let in_code: BTreeSet<_> = arms
        .chain([busy])
        .filter(|value| !matches!(*value, "0" | "1" | "code"))
        .map(|value| if value.contains("128 + ") { "128+n".to_owned() } else { value.to_owned() })
        .collect();
    assert_eq!(in_code, documented_codes());
}
