use super::*;

fn parse(line: &str) -> Result<Args, clap::Error> {
    Args::read(line.split(' ').map(Into::into))
}

fn run(line: &str) -> Run {
    match parse(line).unwrap().verb {
        Verb::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_holds_together() {
    Args::command().debug_assert();
}

#[test]
fn flags_before_the_command_are_ours_and_those_after_it_are_its_own() {
    for line in ["bramah run a -n -- ls -n --json", "bramah run -n a ls -n --json"] {
        let run = run(line);
        assert!(run.busy.try_only && !run.talk.json);
        assert_eq!(run.command, ["ls", "-n", "--json"]);
    }
    let args = parse("bramah run a --engine memory: -- b").unwrap();
    assert_eq!(args.place.engine.as_deref(), Some("memory:"));
}

#[test]
fn flocks_flags_mean_what_they_mean_there() {
    for (line, check) in [
        ("-n", (|run| run.busy.try_only) as fn(&Run) -> bool),
        ("--nb", |run| run.busy.try_only),
        ("--nonblock", |run| run.busy.try_only),
        ("--nonblocking", |run| run.busy.try_only),
        ("-w 5", |run| run.busy.wait == Some(Duration::from_secs(5))),
        ("--wait 5", |run| run.busy.wait == Some(Duration::from_secs(5))),
        ("--timeout 0.5", |run| run.busy.wait == Some(Duration::from_millis(500))),
        ("-E 3", |run| run.busy.busy_code == Some(3)),
        ("--conflict-exit-code 3", |run| run.busy.busy_code == Some(3)),
        ("-s", |run| run.mode.shared),
        ("--shared", |run| run.mode.shared),
        ("-x", |run| run.mode.exclusive),
        ("-e", |run| run.mode.exclusive),
        ("--exclusive", |run| run.mode.exclusive),
        ("-o", |run| run.mode.close),
        ("--close", |run| run.mode.close),
        ("--verbose", |run| run.talk.verbose),
    ] {
        assert!(check(&run(&format!("bramah run {line} a -- b"))), "{line}");
    }
    assert_eq!(run("bramah run a -c b").shell.text, run("bramah run a --command b").shell.text);
    assert!(parse("bramah run a -e -s -- b").is_err(), "as -x");
}

#[test]
fn what_flock_does_to_a_descriptor_or_a_file_is_refused_with_the_reason() {
    for (flag, why) in [
        ("-F", "renew"),
        ("--no-fork", "renew"),
        ("-u", "bramah unlock"),
        ("--unlock", "bramah unlock"),
        ("--fcntl", "no file"),
    ] {
        for line in [format!("bramah run {flag} a -- b"), format!("bramah lock {flag} a")] {
            let said = parse(&line).unwrap_err().to_string();
            assert!(said.contains(flag.trim_start_matches('-')) && said.contains(why), "{line}: {said}");
        }
    }
}

#[test]
fn with_l_every_name_is_given_by_l_and_the_rest_is_the_command() {
    let run = run("bramah run -l a -n -l b -- c d -- e");
    assert_eq!((run.name, run.locks), (None, vec!["a".into(), "b".into()]));
    assert_eq!(run.command, ["c", "d", "--", "e"]);
    for line in ["bramah run -l a b c", "bramah run b -l a -- c", "bramah run -l a b -- c"] {
        let said = refusal(&parse(line).unwrap_err()).unwrap_err();
        assert!(format!("{said:?}").contains("-l"), "{said:?}");
    }
}

#[test]
fn refusals_are_one_line_without_secrets() {
    for line in [
        "bramah",
        "bramah run",
        "bramah rum a",
        "bramah run a -w soon -- b",
        "bramah run a -n -w 3 -- b",
        "bramah run a --frob -- b",
        "bramah run a -s --slots 2 -- b",
        "bramah run a --slots 0 -- b",
        "bramah run a -E 256 -- b",
        "bramah run a --on-lost shrug -- b",
        "bramah run a --on-lost signal:NOPE -- b",
        "bramah run a --label x -- b",
        "bramah run a -c b -- c",
        "bramah elect a -n -- b",
        "bramah break a --id h1",
        "bramah redis://u:hush@h",
        "bramah ls a redis://u:hush@h",
    ] {
        let failure = refusal(&parse(line).unwrap_err()).unwrap_err();
        let said = format!("{failure:?}");
        assert_eq!(failure.exit.code(), 64);
        assert!(!said.contains("\\n") && !said.contains("hush"), "{said}");
    }
    assert!(refusal(&parse("bramah run --help").unwrap_err()).unwrap().contains("BRAMAH_FENCE"));
}
