//! Whatever a lock is called, it is itself and no other.

use bramah_core::{ErrorKind, Name};

use crate::{
    bench::{Bench, got},
    case::{Outcome, cases, ensure, ensure_eq},
};

cases! { "names":
    awkward_names_exclude_themselves_and_no_other,
    injection_payloads_are_names_like_any_other,
    case_and_look_alikes_are_kept_apart,
    long_names_are_kept_apart_to_the_last_byte,
    a_name_and_those_below_it_do_not_disturb_each_other,
    names_that_mean_something_to_a_store_stand_alone,
    broken_names_are_refused,
}

/// Takes all of them at once: if two were one to the store, the second would be busy. Then each is busy for somebody
/// else, and is shown by its own name.
async fn are_distinct(bench: &Bench, names: &[Name]) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let mut guards = Vec::new();
    for name in names {
        let Some(guard) = a.mutex(name)?.try_lock().await? else {
            ensure!(false, "{name:?} is taken for another of {names:?}");
            continue;
        };
        guards.push(guard);
    }
    for name in names {
        ensure!(b.mutex(name)?.try_lock().await?.is_none(), "{name:?} does not exclude itself");
        let line = b.inspect(name).await?;
        ensure_eq!(line.as_ref().map(|line| &line.name), Some(name), "the name in a survey");
        ensure_eq!(line.map(|line| line.places.len()), Some(1), "places in the line of {name:?}");
    }
    for guard in guards {
        let name = guard.name();
        guard.release().await;
        got(b.mutex(&name)?.try_lock().await)?.release().await;
    }
    Ok(())
}

fn below(bench: &Bench, leaves: &[&str]) -> Vec<Name> {
    leaves.iter().map(|leaf| bench.name(leaf)).collect()
}

async fn awkward_names_exclude_themselves_and_no_other(bench: Bench) -> Outcome {
    let leaves = [
        "a b",
        " ",
        "  ",
        "a ",
        " a",
        ".",
        "..",
        "...",
        "./x",
        "../x",
        "-",
        "--help",
        "~",
        "#",
        "?",
        "a?b",
        "a&b",
        "a=b",
        "a:b",
        "a;b",
        "a,b",
        "a|b",
        "a\\b",
        "\"",
        "'",
        "`",
        "<a>",
        "(a)",
        "[a]",
        "{a}",
        "*",
        "a*",
        "%",
        "%2F",
        "%2f",
        "a%2Fb",
        "a/b",
        "a.lock",
        "a.tmp",
        "0",
        "-1",
        "null",
        "ключ",
        "锁",
        "🔒",
        "\u{200b}",
        "\u{202e}a",
    ];
    are_distinct(&bench, &below(&bench, &leaves)).await
}

async fn injection_payloads_are_names_like_any_other(bench: Bench) -> Outcome {
    let leaves = [
        "'; DROP TABLE claims; --",
        "' OR '1'='1",
        "\" OR 1=1 --",
        "$(touch x)",
        "`touch x`",
        "${HOME}",
        "| cat",
        "../../../../etc/passwd",
        "..\\..\\x",
        "]] redis.call('FLUSHALL') --[[",
        "%s%s%n",
        "{{7*7}}",
        "\\u0000",
        "%00",
        "\\n",
        "&lt;",
    ];
    are_distinct(&bench, &below(&bench, &leaves)).await
}

async fn case_and_look_alikes_are_kept_apart(bench: Bench) -> Outcome {
    // The last three look the same: composed, decomposed, and with a Cyrillic letter.
    let leaves = [
        "lock",
        "Lock",
        "LOCK",
        "lOCK",
        "straße",
        "strasse",
        "STRASSE",
        "ı",
        "i",
        "İ",
        "é",
        "e\u{301}",
        "\u{435}\u{301}",
    ];
    are_distinct(&bench, &below(&bench, &leaves)).await
}

async fn long_names_are_kept_apart_to_the_last_byte(bench: Bench) -> Outcome {
    let root = bench.root();
    let fill = |unit: &str, last: &str| {
        let mut text = format!("{root}/");
        while text.len() + unit.len() + last.len() <= Name::MAX_BYTES {
            text.push_str(unit);
        }
        while text.len() + last.len() < Name::MAX_BYTES {
            text.push('x');
        }
        text.push_str(last);
        Name::new(text)
    };
    let names = [
        fill("x", "a")?,
        fill("x", "b")?,
        fill("/", "a").or_else(|_| fill("y/", "a"))?,
        fill("y/", "b")?,
        fill("%", "a")?,
        fill("%", "b")?,
        fill("🔒", "a")?,
        fill("🔒", "b")?,
    ];
    ensure!(names.iter().all(|name| name.as_str().len() == Name::MAX_BYTES), "{names:?}");
    are_distinct(&bench, &names).await
}

async fn a_name_and_those_below_it_do_not_disturb_each_other(bench: Bench) -> Outcome {
    let mut names = below(&bench, &["a", "a/b", "a/b/c", "ab", "a/bc", "a/b.c"]);
    names.push(bench.root());
    are_distinct(&bench, &names).await
}

async fn names_that_mean_something_to_a_store_stand_alone(bench: Bench) -> Outcome {
    // Not below the case's own name: the first segment is what a store may trip over. Only this case uses them.
    let names =
        [".", "..", "../x", "*", "{x}", "%2F", "~", "CON", "-rf", "zookeeper", "sessions", "locks", "tmp"];
    let names: Vec<Name> = names.iter().map(Name::new).collect::<Result<_, _>>()?;
    are_distinct(&bench, &names).await
}

async fn broken_names_are_refused(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let long = "x".repeat(Name::MAX_BYTES + 1);
    for text in ["", "/", "/a", "a/", "a//b", "a\nb", "a\0b", "\u{7f}", &long] {
        let kind = session.mutex(text).err().map(|error| error.kind());
        ensure_eq!(kind, Some(ErrorKind::Invalid), "the name {text:?}");
    }
    Ok(())
}
