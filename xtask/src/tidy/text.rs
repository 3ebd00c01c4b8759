//! Rules about the text of a file. Patterns are put together from pieces, or this file would break its own rules.

use super::{Finding, tree::File};

/// Words that stand alone and promise something for later.
const LATER: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Beginnings of code, or of an example, that is not done, not meant to stay, or not run.
const UNDONE: [&str; 6] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("#[", "ignore"),
    concat!("```", "ignore"),
    concat!("```rust,", "ignore"),
];

/// Folders that only one machine has.
const MACHINE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Folders that hold the users' folders of a machine.
const USERS: [&str; 2] = [concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Hosts of package registries: which one serves a build is the builder's business.
const HOSTS: [&str; 6] = [
    concat!("crates", ".io"),
    concat!("sparse", "+http"),
    concat!("registry.npmjs", ".org"),
    concat!("pypi", ".org"),
    concat!("files.pythonhosted", ".org"),
    concat!("proxy.golang", ".org"),
];

/// What a lock file says of everything from the default registry, wherever it was fetched from.
const DEFAULT_SOURCE: &str =
    concat!("source = \"registry+https://github.com/rust-lang/", "crates", ".io-index\"");

const UNSAFE: &str = concat!("un", "safe");

/// Files that may hold such code. Each needs a decision that says why.
const UNSAFE_ALLOWED: &[&str] = &["crates/cli/src/inherited.rs"];

pub(super) fn left_overs(file: &File) -> Vec<Finding> {
    if file.is_lock_file() {
        return Vec::new();
    }
    let left = |line: &str| {
        let later = LATER.into_iter().find(|word| words(line, word).next().is_some());
        later.or_else(|| UNDONE.into_iter().find(|start| line.contains(start)))
    };
    each_line(file, |line| left(line).map(|what| format!("`{what}` is left over: do it, or open an issue")))
}

pub(super) fn machine_paths(file: &File) -> Vec<Finding> {
    each_line(file, |line| machine_path(line).map(|path| format!("`{path}` is a path of one machine")))
}

fn machine_path(line: &str) -> Option<&str> {
    let absolute = |at: usize| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '*'))
    };
    let fixed = MACHINE
        .into_iter()
        .flat_map(|path| line.match_indices(path))
        .find_map(|(at, path)| absolute(at).then_some(path));
    fixed.or_else(|| {
        USERS.into_iter().flat_map(|path| line.match_indices(path)).find_map(|(at, path)| {
            let rest = &line[at + path.len()..];
            let user = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))?;
            (absolute(at) && user > 0 && rest[user..].starts_with('/'))
                .then(|| &line[at..at + path.len() + user + 1])
        })
    })
}

pub(super) fn registry_hosts(file: &File) -> Vec<Finding> {
    each_line(file, |line| {
        if file.is_lock_file() {
            let foreign = line.starts_with("source = ") && line != DEFAULT_SOURCE;
            return foreign.then(|| "a dependency that is not from the default registry".to_owned());
        }
        let host = HOSTS.into_iter().find(|host| line.contains(host))?;
        Some(format!("`{host}` names the host of a package registry"))
    })
}

pub(super) fn unsafe_code(file: &File) -> Vec<Finding> {
    if !file.is_rust() || UNSAFE_ALLOWED.contains(&file.path.as_str()) {
        return Vec::new();
    }
    each_line(file, |line| {
        let code = line.split_once("//").map_or(line, |(code, _)| code);
        let found = words(code, UNSAFE).any(|at| {
            let next = code[at + UNSAFE.len()..].trim_start();
            next.is_empty()
                || next.starts_with(['{', '('])
                || ["fn", "impl", "extern", "trait"].iter().any(|word| words(next, word).next() == Some(0))
        });
        found.then(|| format!("`{UNSAFE}` code outside of the files that may hold it"))
    })
}

pub(super) fn white_space(file: &File) -> Vec<Finding> {
    // Not each_line: its lines come without the carriage return that is to be found.
    let mut findings: Vec<_> = (1..)
        .zip(file.text.split('\n'))
        .filter(|(_, line)| line.ends_with(char::is_whitespace))
        .map(|(n, _)| Finding::new(file, n, "white space at the end of the line"))
        .collect();
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(file, file.lines().count(), "no newline at the end of the file"));
    }
    findings
}

fn each_line(file: &File, rule: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    file.lines().filter_map(|(n, line)| Some(Finding::new(file, n, rule(line)?))).collect()
}

/// Where `word` stands in the line, not as a part of a longer one.
fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let inner = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .filter(move |(at, _)| !line[..*at].ends_with(inner) && !line[at + word.len()..].starts_with(inner))
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::over, *};

    #[test]
    fn what_is_left_over_is_found() {
        for pattern in LATER.into_iter().chain(UNDONE) {
            let found = over(left_overs, "a.rs", &format!("fine\n// {pattern} x\n"));
            assert_eq!(found.len(), 1, "{pattern}: {found:?}");
            assert!(found[0].starts_with("a.rs:2: "), "{found:?}");
        }
        let longer = format!("mktemp a.{}{}\n#[should_panic]\nmastodon\n", LATER[2], LATER[2]);
        assert!(over(left_overs, "a.sh", &longer).is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for path in [MACHINE[0], MACHINE[1], &format!("{}ann/", USERS[0]), &format!("{}ann/", USERS[1])] {
            assert_eq!(over(machine_paths, "a.md", &format!("see {path}x\n")).len(), 1, "{path}");
            assert_eq!(over(machine_paths, "a.md", &format!("`{path}x`\n")).len(), 1, "{path}");
            let url = format!("https://example.org{path}x\n");
            assert!(over(machine_paths, "a.md", &url).is_empty(), "{url}");
        }
        assert!(
            over(machine_paths, "a.md", &format!("the folder {}<user>/ of a user\n", USERS[0])).is_empty()
        );
    }

    #[test]
    fn hosts_of_registries_are_found() {
        for host in HOSTS {
            assert_eq!(over(registry_hosts, "a.toml", &format!("x = \"{host}\"\n")).len(), 1, "{host}");
        }
        assert!(over(registry_hosts, "a.md", "https://docs.rs/bramah\n").is_empty());
    }

    #[test]
    fn a_lock_file_knows_one_registry() {
        assert!(over(registry_hosts, "Cargo.lock", &format!("{DEFAULT_SOURCE}\n")).is_empty());
        let mirror = "name = \"a\"\nsource = \"registry+https://mirror.example.org/index\"\n";
        assert_eq!(over(registry_hosts, "Cargo.lock", mirror).len(), 1);
        assert_eq!(over(registry_hosts, "Cargo.lock", "source = \"git+https://example.org/a#1\"\n").len(), 1);
    }

    #[test]
    fn unsafe_code_is_found() {
        for code in ["{ x() }", " { x() }", " fn x() {}", " impl Send for X {}", "(no_mangle)", ""] {
            let found = over(unsafe_code, "a.rs", &format!("    {UNSAFE}{code}\n"));
            assert_eq!(found.len(), 1, "{code}");
        }
        for fine in
            [format!("// {UNSAFE} {{"), format!("allow({UNSAFE}_code)"), format!("\"{UNSAFE} is a word\"")]
        {
            assert!(over(unsafe_code, "a.rs", &fine).is_empty(), "{fine}");
        }
        assert!(over(unsafe_code, "a.md", &format!("{UNSAFE} {{\n")).is_empty());
    }

    #[test]
    fn white_space_at_the_end_is_found() {
        assert_eq!(
            over(white_space, "a", "x \ny\t\n"),
            ["a:1: white space at the end of the line", "a:2: white space at the end of the line"]
        );
        assert_eq!(over(white_space, "a", "x\r\n").len(), 1);
        assert_eq!(over(white_space, "a", "x\ny"), ["a:2: no newline at the end of the file"]);
        assert!(over(white_space, "a", "x\n\n y\n").is_empty());
        assert!(over(white_space, "a", "").is_empty());
    }
}
