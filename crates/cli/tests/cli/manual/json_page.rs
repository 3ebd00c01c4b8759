//! `docs/json.md` against what is printed: every field is on the page with its type, and nothing else is.
//!
//! A section with a table of fields describes one kind of object. Its heading names the commands that print such an object; a
//! type that links to another section says of what kind the objects inside are.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use super::{ask, verbs};

/// One kind of object.
#[derive(Debug, Default)]
struct Kind {
    commands: Vec<String>,
    /// The types of its fields.
    fields: BTreeMap<String, String>,
}

/// The kinds of a page, by the anchors of their headings.
type Page = BTreeMap<String, Kind>;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn anchor(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-');
    heading.to_lowercase().chars().filter(is_kept).collect::<String>().replace(' ', "-")
}

fn kinds(text: &str) -> Page {
    let mut page = Page::new();
    for section in text.split("\n## ").skip(1) {
        let (heading, body) = section.split_once('\n').unwrap();
        let Some((_, table)) = body.split_once("| field | type | meaning |\n|---|---|---|\n") else {
            continue;
        };
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let mut kind = Kind { commands: quoted(heading), fields: BTreeMap::new() };
        for row in rows {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 3, "{heading}: {row}");
            let name = cells[0].trim_matches('`').to_owned();
            assert!(cells.iter().all(|cell| !cell.is_empty()), "{heading}: {row}");
            assert!(
                kind.fields.insert(name, cells[1].to_owned()).is_none(),
                "{heading}: {row} is there twice"
            );
        }
        page.insert(anchor(heading), kind);
    }
    page
}

/// What the snapshot has printed, by command.
fn printed(snapshot: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for block in snapshot.split("$ bramah ").skip(1) {
        let (line, objects) = block.split_once('\n').unwrap();
        let command = line.split(' ').next().unwrap();
        for object in serde_json::Deserializer::from_str(objects).into_iter::<Value>() {
            all.push((command.to_owned(), object.unwrap()));
        }
    }
    all
}

/// What a type has to say for this value.
fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(text) if text == "a number" => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// Compares a page with what was printed. What is wrong, a line each.
fn differences(page: &Page, printed: &[(String, Value)]) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for (command, object) in printed {
        let kinds: Vec<_> = page.iter().filter(|(_, kind)| kind.commands.contains(command)).collect();
        match kinds[..] {
            [(anchor, _)] => compare(page, anchor, object, &mut seen, &mut wrong),
            _ => wrong.extend([format!("{} sections are about {command}", kinds.len())]),
        }
    }
    for (anchor, kind) in page {
        let unseen = kind.fields.keys().filter(|field| !seen.contains(&(anchor.clone(), (*field).clone())));
        wrong.extend(unseen.map(|field| format!("{anchor}: {field} is never printed")));
    }
    wrong
}

fn compare(
    page: &Page,
    anchor: &str,
    object: &Value,
    seen: &mut BTreeSet<(String, String)>,
    wrong: &mut BTreeSet<String>,
) {
    let (Some(kind), Some(fields)) = (page.get(anchor), object.as_object()) else {
        wrong.insert(format!("{anchor}: no such section, or no object: {object}"));
        return;
    };
    wrong.extend(
        kind.fields
            .keys()
            .filter(|field| !fields.contains_key(*field))
            .map(|field| format!("{anchor}: without {field}")),
    );
    for (field, value) in fields {
        let Some(described) = kind.fields.get(field) else {
            wrong.insert(format!("{anchor}: {field} is not on the page"));
            continue;
        };
        seen.insert((anchor.to_owned(), field.clone()));
        if !described.contains(word(value)) {
            wrong.insert(format!("{anchor}: {field} is {} and not {described}", word(value)));
        }
        let Some((_, link)) = described.split_once("(#") else { continue };
        let inner = link.split(')').next().unwrap();
        match value {
            Value::Array(all) => all.iter().for_each(|one| compare(page, inner, one, seen, wrong)),
            Value::Object(all) if described.contains(" by ") => {
                all.values().for_each(|one| compare(page, inner, one, seen, wrong));
            }
            Value::Object(_) => compare(page, inner, value, seen, wrong),
            _ => {}
        }
    }
}

#[test]
fn the_page_has_every_field_that_is_printed_and_no_other() {
    let (page, printed) = (kinds(&read("../../docs/json.md")), printed(&read("tests/snapshots/json.txt")));
    assert!(page.len() > 10 && printed.len() > 20, "{} kinds, {} objects", page.len(), printed.len());
    let wrong: Vec<_> = differences(&page, &printed).into_iter().collect();
    assert!(wrong.is_empty(), "docs/json.md:\n{}", wrong.join("\n"));
    // And the snapshot has every command that can print JSON.
    let commands: BTreeSet<_> = printed.into_iter().map(|(command, _)| command).collect();
    let with_json = verbs().into_iter().filter(|verb| ask(&[verb, "--help"]).contains("--json"));
    assert_eq!(commands, with_json.collect());
}

/// The comparison finds what it is there to find.
#[test]
fn a_field_too_few_too_many_or_of_another_type_is_found() {
    let text = "\n## A lock: `show`\n\n| field | type | meaning |\n|---|---|---|\n| `v` | number | x |\n\
                | `holders` | list of [places](#a-place) | x |\n| `owner` | text or null | x |\n\n\
                ## A place\n\n| field | type | meaning |\n|---|---|---|\n| `age_ms` | number or null | x |\n";
    let page = kinds(text);
    let look = |object: &str| {
        let told = printed(&format!("$ bramah show a --json\n{object}\n"));
        differences(&page, &told).into_iter().collect::<Vec<_>>().join("; ")
    };
    assert_eq!(look(r#"{"v":2,"holders":[{"age_ms":null}],"owner":null}"#), "");
    for (object, found) in [
        (
            r#"{"v":2,"holders":[{"age_ms":"a number"}],"owner":"x","more":1}"#,
            "a-lock-show: more is not on the page",
        ),
        (
            r#"{"v":2,"holders":[{"age_ms":1,"held_ms":1}],"owner":"x"}"#,
            "a-place: held_ms is not on the page",
        ),
        (r#"{"v":2,"holders":[],"owner":"x"}"#, "a-place: age_ms is never printed"),
        (r#"{"v":null,"holders":[{"age_ms":1}],"owner":"x"}"#, "a-lock-show: v is null and not number"),
        (
            r#"{"v":2,"holders":[{"age_ms":1}]}"#,
            "a-lock-show: owner is never printed; a-lock-show: without owner",
        ),
    ] {
        assert_eq!(look(object), found);
    }
    assert_eq!(
        differences(&page, &printed("$ bramah ls --json\n{\"v\":2}\n")).first().unwrap(),
        "0 sections are about ls"
    );
}
