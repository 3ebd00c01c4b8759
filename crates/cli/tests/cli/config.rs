//! The config file: where it is found, what it says, and what is never said of it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::support::{Lab, bramah, text};

/// Prints the store that was reached.
const STORE: [&str; 6] = ["run", "a", "--", "sh", "-c", "echo $BRAMAH_STORE"];
/// Prints the ttl that was taken.
const TTL: [&str; 6] = ["run", "a", "--", "sh", "-c", "echo $BRAMAH_TTL_MS"];

/// Writes a file that nobody else can read.
fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

impl Lab {
    /// Writes a file of this lab, and tells where.
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.join(name);
        write(&path, content);
        path
    }

    /// `bramah` in the lab's directory with a home in it, and no word of a store.
    fn bare(&self, args: &[&str]) -> Command {
        let mut command = bramah(args);
        command.current_dir(&self.dir).env("HOME", self.dir.join("home"));
        command
    }

    fn store(&self, name: &str) -> String {
        format!("file://{}/{name}", self.dir.display())
    }
}

/// A file whose default profile is the store `name` beside it.
fn profile(name: &str) -> String {
    format!("default = 'it'\n[profile.it]\nengine = 'file:{name}'\n")
}

/// What it prints; it has to go well without a word.
#[track_caller]
fn printed(command: &mut Command) -> String {
    let out = command.output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    text(&out.stdout).trim_end().to_owned()
}

#[track_caller]
fn refused(command: &mut Command, words: &[&str]) -> String {
    let out = command.output().unwrap();
    let said = text(&out.stderr);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(64), String::new()), "{said}");
    assert!(said.starts_with("bramah: ") && said.lines().count() == 1, "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    said
}

#[test]
fn the_first_file_of_the_search_counts_and_the_one_that_is_named_before_all() {
    let lab = Lab::new();
    assert_eq!(printed(&mut lab.bare(&STORE)), lab.store("home/.local/state/bramah"));

    lab.file("home/.config/bramah/config.toml", &profile("at-home"));
    assert_eq!(printed(&mut lab.bare(&STORE)), lab.store("home/.config/bramah/at-home"));

    lab.file("xdg/bramah/config.toml", &profile("at-xdg"));
    let xdg = lab.dir.join("xdg");
    assert_eq!(printed(lab.bare(&STORE).env("XDG_CONFIG_HOME", &xdg)), lab.store("xdg/bramah/at-xdg"));

    lab.file("bramah.toml", &profile("here"));
    assert_eq!(printed(lab.bare(&STORE).env("XDG_CONFIG_HOME", &xdg)), lab.store("here"));

    lab.file("named.toml", &profile("by-env"));
    lab.file("sub/named.toml", &profile("by-flag"));
    // Named relative to where we are.
    assert_eq!(printed(lab.bare(&STORE).env("BRAMAH_CONFIG", "named.toml")), lab.store("by-env"));
    let flag = [&["--config", "sub/named.toml"][..], &STORE].concat();
    assert_eq!(printed(lab.bare(&flag).env("BRAMAH_CONFIG", "gone.toml")), lab.store("sub/by-flag"));
    let none = [&["--config", "/dev/null"][..], &STORE].concat();
    assert_eq!(printed(&mut lab.bare(&none)), lab.store("home/.local/state/bramah"));
}

#[test]
fn a_file_that_is_named_has_to_be_there() {
    let lab = Lab::new();
    lab.file("bramah.toml", &profile("here"));
    let gone = lab.dir.join("gone.toml");
    let gone = gone.to_str().unwrap();
    refused(&mut lab.bare(&["ls", "--config", "gone.toml"]), &["--config", gone]);
    refused(lab.bare(&["ls"]).env("BRAMAH_CONFIG", gone), &["BRAMAH_CONFIG", gone]);
    let dir = lab.dir.to_str().unwrap();
    refused(&mut lab.bare(&["ls", "--config", dir]), &[dir, "cannot be read"]);
    fs::write(lab.dir.join("latin.toml"), b"namespace = '\xe9'").unwrap();
    refused(&mut lab.bare(&["ls", "--config", "latin.toml"]), &["latin.toml", "UTF-8"]);
    let long = "#".repeat((1 << 20) + 1);
    lab.file("long.toml", &long);
    refused(&mut lab.bare(&["ls", "--config", "long.toml"]), &["long.toml", "1 MB"]);
}

#[test]
fn a_file_that_was_found_is_not_passed_over_for_being_wrong() {
    let lab = Lab::new();
    lab.file("home/.config/bramah/config.toml", &profile("at-home"));
    for (content, words) in [
        ("frob = 1", &["line 1", "frob"][..]),
        ("[profile.a]\nengine = 'memory:'\nurl = 'x'", &["line 3", "profile.a.url", "engine"]),
        ("[lock.a]\nttl = 'soon'", &["line 2", "lock.a.ttl", "30s"]),
        ("[lock.a]\nwait = '5x'", &["line 2", "lock.a.wait", "unit"]),
        ("[lock.a", &["line 1"]),
        ("default = 'prod'", &["line 1", "profile prod"]),
    ] {
        let path = lab.file("bramah.toml", content);
        let words = [&[path.to_str().unwrap()], words].concat();
        // Also when it would not matter: a file is whole, or it is refused.
        refused(&mut lab.bare(&["ls", "--engine", "memory:"]), &words);
        refused(lab.bare(&["ls"]).env("BRAMAH_ENGINE", "memory:"), &words);
    }
    let out = lab.bare(&["version"]).output().unwrap();
    assert!(!text(&out.stderr).contains("bramah.toml"), "what needs no store needs no config");
}

#[test]
fn stores_are_named_by_flags_then_the_environment_then_the_file() {
    let lab = Lab::new();
    lab.file(
        "bramah.toml",
        "default = 'c'\n[profile.a]\nengine = 'file:a'\n[profile.b]\nengine = 'file:b'\n\
         [profile.c]\nengine = 'file:c'\n",
    );
    let engine = [&["--engine", "file:flag"][..], &STORE].concat();
    let profile = [&["--profile", "a"][..], &STORE].concat();
    let all = |args: &[&str]| {
        let mut command = lab.bare(args);
        command.env("BRAMAH_ENGINE", lab.store("env")).env("BRAMAH_PROFILE", "b");
        command
    };
    assert_eq!(printed(&mut all(&engine)), lab.store("flag"));
    assert_eq!(printed(&mut all(&profile)), lab.store("a"));
    assert_eq!(printed(&mut all(&STORE)), lab.store("env"));
    assert_eq!(printed(all(&STORE).env_remove("BRAMAH_ENGINE")), lab.store("b"));
    assert_eq!(printed(&mut lab.bare(&STORE)), lab.store("c"));
    let file = lab.dir.join("bramah.toml");
    let file = file.to_str().unwrap();
    refused(&mut lab.bare(&["ls", "--profile", "x"]), &["--profile", "profile x", "a, b, c", file]);
    refused(lab.bare(&["ls"]).env("BRAMAH_PROFILE", "x"), &["BRAMAH_PROFILE", "profile x", "a, b, c", file]);
}

#[test]
fn a_profile_without_a_file_is_refused_with_the_places_that_were_looked_at() {
    let lab = Lab::new();
    let places = ["/bramah.toml", "home/.config/bramah/config.toml", "/etc/bramah/config.toml"];
    refused(&mut lab.bare(&["ls", "--profile", "prod"]), &[&["prod"][..], &places].concat());
}

#[test]
fn a_ttl_is_the_flags_the_environments_the_locks_or_the_profiles() {
    let lab = Lab::new();
    let in_profile = profile("store") + "ttl = '11s'\n";
    lab.file("bramah.toml", &in_profile);
    assert_eq!(printed(&mut lab.bare(&TTL)), "11000");
    lab.file("bramah.toml", &(in_profile + "[lock.'*']\nttl = 12\n[lock.b]\nttl = 13\n"));
    assert_eq!(printed(&mut lab.bare(&TTL)), "12000");
    assert_eq!(printed(lab.bare(&TTL).env("BRAMAH_TTL", "14")), "14000");
    let flag = [&TTL[..2], &["--ttl", "15s"], &TTL[2..]].concat();
    assert_eq!(printed(lab.bare(&flag).env("BRAMAH_TTL", "14")), "15000");
    // Another store is another profile's business; locks are called the same everywhere.
    lab.file("bramah.toml", &(profile("store") + "ttl = '11s'\n"));
    assert_eq!(printed(&mut lab.bramah(&TTL)), "30000");
}

#[test]
fn a_wait_is_the_flags_the_environments_the_locks_or_the_profiles() {
    let lab = Lab::new();
    let mut holder = lab.hold("a", &[]);
    let busy = |command: &mut Command| {
        let out = command.output().unwrap();
        assert_eq!(out.status.code(), Some(75), "{}", text(&out.stderr));
        let json = text(&out.stderr).lines().last().unwrap().to_owned();
        let outcome: serde_json::Value = serde_json::from_str(&json).unwrap();
        outcome["waited_ms"].as_u64().unwrap()
    };
    let run = ["run", "a", "--json", "--", "true"];
    let long = "1h";
    let file = |profile: &str, lock: &str| {
        let content = "default = 'it'\n[profile.it]\nengine = 'file:store'\nwait = '";
        lab.file("bramah.toml", &format!("{content}{profile}'\n{lock}"));
    };
    file("60ms", "");
    assert!(busy(&mut lab.bare(&run)) >= 60);
    file(long, "[lock.a]\nwait = '70ms'\n");
    assert!(busy(&mut lab.bare(&run)) >= 70);
    file(long, "[lock.a]\nwait = '1h'\n");
    assert!(busy(lab.bare(&run).env("BRAMAH_WAIT", "80ms")) >= 80);
    let flag = ["run", "a", "--json", "-w", "90ms", "--", "true"];
    assert!(busy(lab.bare(&flag).env("BRAMAH_WAIT", long)) >= 90);
    let at_once = ["run", "a", "--json", "-n", "--", "true"];
    busy(lab.bare(&at_once).env("BRAMAH_WAIT", long));
    holder.let_go();
    assert_eq!(holder.code(), 0);
}

#[test]
fn the_most_specific_name_has_the_last_word_on_each_key() {
    let lab = Lab::new();
    lab.file(
        "bramah.toml",
        "[lock.'*']\nttl = 11\nrequire_reason = true\n[lock.'deploy/*']\nttl = 12\n\
         [lock.'deploy/test']\nrequire_reason = false\n",
    );
    let print = |name: &'static str| ["run", name, "--", "sh", "-c", "echo $BRAMAH_TTL_MS"];
    refused(&mut lab.bramah(&print("a")), &["a ", "reason"]);
    refused(&mut lab.bramah(&print("deploy/prod")), &["deploy/prod", "--reason"]);
    assert_eq!(printed(&mut lab.bramah(&print("deploy/test"))), "12000");
    let with_reason = ["run", "a", "--reason", "hotfix", "--", "sh", "-c", "echo $BRAMAH_TTL_MS"];
    assert_eq!(printed(&mut lab.bramah(&with_reason)), "11000");
}

#[test]
fn slots_of_the_file_are_taken() {
    let lab = Lab::new();
    lab.file("bramah.toml", "[lock.a]\nslots = 2\n");
    let mut holders = [lab.hold("a", &[]), lab.hold("a", &[])];
    assert_eq!(lab.lock("a")["slots"], 2);
    assert_eq!(lab.output(&["run", "a", "-n", "--", "true"]).status.code(), Some(75));
    for holder in &mut holders {
        holder.let_go();
        assert_eq!(holder.code(), 0);
    }
}

#[test]
fn a_namespace_is_put_before_names_and_patterns_fit_with_and_without_it() {
    let lab = Lab::new();
    let content = "namespace = 'shop'\n[lock.'deploy/*']\nttl = 11\n[lock.'shop/mail']\nttl = 12\n";
    lab.file("bramah.toml", content);
    let ttl = |name: &'static str| {
        printed(&mut lab.bramah(&["run", name, "--", "sh", "-c", "echo $BRAMAH_TTL_MS"]))
    };
    assert_eq!(
        (ttl("deploy/a"), ttl("shop/deploy/a"), ttl("mail")),
        ("11000".into(), "11000".into(), "12000".into())
    );

    let names = |out: &Output| -> Vec<String> {
        let lock = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        text(&out.stdout).lines().map(|line| lock(line)["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut inside = lab.hold("deploy", &[]);
    let mut flagged = lab.hold("deploy", &["--namespace", "bank"]);
    // The bare store: no config, no namespace.
    let bare = |args: &[&str]| lab.bramah(args).current_dir("/").output().unwrap();
    assert_eq!(names(&bare(&["ls", "--json"])), ["bank/deploy", "shop/deploy"]);
    assert_eq!(names(&lab.output(&["ls", "--json"])), ["shop/deploy"]);
    assert_eq!(names(&lab.output(&["ls", "--json", "deploy/"])), ["shop/deploy"]);
    let by_env = lab.bramah(&["ls", "--json"]).env("BRAMAH_NAMESPACE", "bank").output().unwrap();
    assert_eq!(names(&by_env), ["bank/deploy"]);
    assert_eq!(lab.lock("shop/deploy")["name"], "shop/deploy");
    for holder in [&mut inside, &mut flagged] {
        holder.let_go();
        assert_eq!(holder.code(), 0);
    }
}

#[test]
fn a_profile_has_a_namespace_of_its_own() {
    let lab = Lab::new();
    lab.file("bramah.toml", &format!("namespace = 'shop'\n{}namespace = 'eu'\n", profile("store")));
    let print = ["run", "a", "--", "sh", "-c", "echo $BRAMAH_LOCK"];
    assert_eq!(printed(&mut lab.bare(&print)), "eu/a");
    assert_eq!(printed(&mut lab.bramah(&print)), "shop/a");
}

const SECRET: &str = "hush/4@2,%";

/// Everything that could carry a piece of the secret out, also encoded.
#[track_caller]
fn clean(out: &Output) {
    let all = format!("{}{}", text(&out.stdout), text(&out.stderr));
    for piece in ["hush", "4@2", "4%402", "password_file ="] {
        assert!(!all.contains(piece), "{all}");
    }
}

#[test]
fn a_password_is_read_from_its_file_and_never_said() {
    let lab = Lab::new();
    lab.file("secrets/redis", &format!("{SECRET}\n"));
    lab.file(
        "bramah.toml",
        "default = 'p'\n[profile.p]\nengine = 'redis+cluster://ana@127.0.0.1:1,127.0.0.1:2?timeout=200ms'\n\
         password_file = 'secrets/redis'\n",
    );
    for log in ["", "trace"] {
        let mut command = lab.bare(&["run", "a", "-n", "--", "env"]);
        let out = command.env("BRAMAH_LOG", log).output().unwrap();
        clean(&out);
        // Nobody is there: it came as far as looking for them.
        assert!(text(&out.stderr).contains("cannot be reached"), "{}", text(&out.stderr));
        assert_eq!(out.status.code(), Some(69));
    }
    let file = lab.dir.join("secrets/redis");
    let path = file.to_str().unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let out = lab.bare(&["ls"]).output().unwrap();
    clean(&out);
    let said = text(&out.stderr);
    let warning = said.lines().next().unwrap();
    assert!(warning.contains(path) && warning.contains("0640"), "{said}");
    assert!(said.lines().count() == 2 && said.contains("cannot be reached"), "{said}");
}

#[test]
fn a_password_file_that_is_none_is_refused_by_its_path() {
    let lab = Lab::new();
    let file = lab.dir.join("secret");
    let path = file.to_str().unwrap();
    lab.file("bramah.toml", "default = 'p'\n[profile.p]\nengine = 'redis://h'\npassword_file = 'secret'\n");
    refused(&mut lab.bare(&["ls"]), &[path, "cannot be read"]);
    for (content, word) in [
        (String::new(), "empty"),
        ("\n".to_owned(), "empty"),
        (format!("{SECRET}\n{SECRET}\n"), "more than one line"),
        (SECRET.repeat(6554), "64 KB"),
    ] {
        write(&file, &content);
        for log in ["", "trace"] {
            let mut command = lab.bare(&["ls"]);
            refused(command.env("BRAMAH_LOG", log), &[path, word]);
            clean(&command.output().unwrap());
        }
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    refused(&mut lab.bare(&["ls"]), &[path, "cannot be read"]);
    // A profile that is not used needs no password.
    assert_eq!(printed(&mut lab.bramah(&["run", "a", "--", "echo", "in"])), "in");
}

#[test]
fn a_password_file_where_it_makes_no_sense_is_refused() {
    let lab = Lab::new();
    lab.file("secret", SECRET);
    for (engine, word) in
        [("memory:", "no password"), ("file:x", "no password"), ("redis://u:hush@h", "already")]
    {
        let content = format!("[profile.p]\nengine = '{engine}'\npassword_file = 'secret'\n");
        lab.file("bramah.toml", &content);
        let mut command = lab.bare(&["ls", "--profile", "p"]);
        refused(&mut command, &["bramah.toml, line 3", "profile.p.password_file", word]);
        clean(&command.output().unwrap());
    }
}

#[test]
fn a_config_with_a_password_that_others_can_read_is_told() {
    let lab = Lab::new();
    let secret = "[profile.p]\nengine = 'redis://ana:hush@h'\n";
    let file = lab.file("bramah.toml", secret);
    let run = ["run", "a", "-n", "--", "env"];
    assert!(!printed(&mut lab.bramah(&run)).contains("hush"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let out = lab.output(&run);
    clean(&out);
    let said = text(&out.stderr);
    assert_eq!((out.status.code(), said.lines().count()), (Some(0), 1), "{said}");
    assert!(said.contains(file.to_str().unwrap()) && said.contains("0644"), "{said}");
    // Without a secret it is nobody's business.
    fs::write(&file, "[profile.p]\nengine = 'redis://ana@h'\n").unwrap();
    printed(&mut lab.bramah(&run));
}

#[test]
fn toml_that_cannot_be_read_is_told_by_its_line_and_not_repeated() {
    let lab = Lab::new();
    for content in [
        "[profile.p]\nengine = redis://ana:hush@h\n",
        "[profile.p]\nengine = 'redis://ana:hush@h\n",
        "[profile]\np = 'redis://ana:hush@h'\n",
        "[profile.p]\nengine = ['redis://ana:hush@h']\n",
        "[profile.p]\npassword = 'hush'\n",
        "[profile.p]\n'redis://ana:hush@h' = 1\n",
    ] {
        let path = lab.file("bramah.toml", content);
        for log in ["", "trace"] {
            let mut command = lab.bare(&["ls"]);
            refused(command.env("BRAMAH_LOG", log), &[path.to_str().unwrap(), "line 2"]);
            clean(&command.output().unwrap());
        }
    }
}

#[test]
fn a_password_on_the_command_line_is_refused_with_the_other_ways() {
    let said = refused(
        &mut bramah(&["ls", "--engine", "redis://ana:hush@h"]),
        &["BRAMAH_ENGINE", "password_file", "config file"],
    );
    assert!(!said.contains("hush"), "{said}");
}

/// Runs `bramah run` inside of a run, in another directory, and prints its lock and store.
fn nested(flags: &[&'static str]) -> Vec<&'static str> {
    let inner =
        "mkdir -p elsewhere && cd elsewhere && exec \"$0\" run b -- sh -c 'echo $BRAMAH_LOCK $BRAMAH_STORE'";
    let run = ["run", "a", "--", "sh", "-c", inner, env!("CARGO_BIN_EXE_bramah")];
    [flags, &run].concat()
}

#[test]
fn a_command_finds_the_locks_of_the_run_around_it_from_everywhere() {
    let lab = Lab::new();
    let at = |name: &str, store: &str| format!("{name} {}", lab.store(store));
    assert_eq!(printed(&mut lab.bare(&nested(&[]))), at("b", "home/.local/state/bramah"));
    let by_env = printed(lab.bare(&nested(&[])).env("BRAMAH_ENGINE", "file:env"));
    assert_eq!(by_env, at("b", "env"));
    let by_flag = printed(lab.bare(&nested(&["--engine", "file:flag"])).env("BRAMAH_PROFILE", "gone"));
    assert_eq!(by_flag, at("b", "flag"));
    lab.file(
        "named.toml",
        &format!("namespace = 'shop'\n{}[profile.b]\nengine = 'file:other'\n", profile("it")),
    );
    let named = ["--config", "named.toml"];
    assert_eq!(printed(&mut lab.bare(&nested(&named))), at("shop/b", "it"));
    let other = ["--config", "named.toml", "--profile", "b", "--namespace", "bank"];
    let other = printed(lab.bare(&nested(&other)).env("BRAMAH_ENGINE", "memory:"));
    assert_eq!(other, at("bank/b", "other"));
    let by_env = ["--config", "named.toml"];
    let by_env = printed(lab.bare(&nested(&by_env)).env("BRAMAH_ENGINE", lab.store("env")));
    assert_eq!(by_env, at("shop/b", "env"));
}

#[test]
fn a_command_under_a_profile_has_no_secret_that_it_did_not_inherit() {
    let lab = Lab::new();
    let content = profile("store") + "[profile.other]\nengine = 'redis://ana:hush@h'\n";
    lab.file("bramah.toml", &content);
    let seen = printed(&mut lab.bare(&["run", "a", "-n", "--", "env"]));
    assert!(!seen.contains("hush") && seen.contains(&lab.store("store")), "{seen}");
}

#[test]
fn a_secret_that_was_inherited_and_is_not_used_is_taken_out() {
    let lab = Lab::new();
    lab.file("bramah.toml", &profile("store"));
    let mut command = lab.bare(&["--profile", "it", "run", "a", "-n", "--", "env"]);
    let seen = printed(command.env("BRAMAH_ENGINE", "redis://ana:hush@h"));
    assert!(!seen.contains("hush") && seen.contains("BRAMAH_PROFILE=it"), "{seen}");
}

#[test]
fn a_file_that_everybody_can_write_is_not_taken_just_because_it_is_there() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    let file = lab.dir.join("bramah.toml");
    std::fs::write(&file, "[profile.a]\nengine = 'memory:'\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let out = lab.output(&["ls"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(64), "{said}");
    assert!(said.contains("bramah.toml can be written by everybody") && said.contains("--config"), "{said}");
    assert_eq!(lab.output(&["ls", "--config", "bramah.toml"]).status.code(), Some(0));
}
