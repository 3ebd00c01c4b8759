//! docs/guide/from-redisson.md is what these tests say.

use std::collections::BTreeSet;

use bramah_redis::Config;

const PAGE: &str = include_str!("../../../../../docs/guide/from-redisson.md");
const TESTS: [&str; 4] = [
    include_str!("lock.rs"),
    include_str!("questions.rs"),
    include_str!("others.rs"),
    include_str!("differences.rs"),
];

/// What comes under a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).expect("the page has this heading");
    rest.split("\n## ").next().unwrap()
}

/// The last cell of each row of the tables, without its quotes.
fn last_cells(text: &str) -> Vec<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.map(|row| row.rsplit(" | ").next().unwrap().trim_matches('`').to_owned());
    cells.filter(|cell| cell != "test").collect()
}

/// The rows that say no test of ours, and the tests that no row says.
fn unpaired(page: &str) -> (Vec<String>, Vec<String>) {
    let source = TESTS.concat();
    let after_attribute = source.split("#[tokio::test(flavor").skip(1);
    let names = after_attribute.filter_map(|text| text.split_once("async fn ")?.1.split_once('('));
    let tests: BTreeSet<&str> = names.map(|(name, _)| name).collect();
    let rows = ["Every call, and its line here", "What differs on purpose"]
        .into_iter()
        .flat_map(|heading| last_cells(section(page, heading)))
        .collect::<BTreeSet<String>>();
    let untested = rows.iter().filter(|row| !tests.contains(row.as_str())).cloned().collect();
    let unsaid = tests.iter().filter(|name| !rows.contains(**name)).map(|name| (*name).to_owned()).collect();
    (untested, unsaid)
}

#[test]
fn every_row_has_its_test_and_every_test_its_row() {
    assert_eq!(unpaired(PAGE), (Vec::new(), Vec::new()));
}

#[test]
fn a_row_without_a_test_and_a_test_without_a_row_are_noticed() {
    let page = PAGE.replace("| `try_lock` |", "| `try_luck` |");
    assert_eq!(unpaired(&page), (vec!["try_luck".to_owned()], vec!["try_lock".to_owned()]));
}

/// Everything on the page that begins as a URL of ours, up to what cannot be in one.
fn urls() -> BTreeSet<&'static str> {
    let starts = PAGE.match_indices("redis").filter(|(at, _)| {
        let (before, rest) = PAGE.split_at(*at);
        !before.ends_with(char::is_alphanumeric) && rest.find("://").is_some_and(|end| end <= 15)
    });
    let urls = starts
        .map(|(at, _)| PAGE[at..].split(|c: char| c.is_whitespace() || "`\"')|".contains(c)).next().unwrap());
    urls.filter(|url| url.split_once("://").is_some_and(|(_, rest)| !rest.is_empty())).collect()
}

#[test]
fn every_url_is_understood() {
    let urls = urls();
    assert!(urls.len() > 5, "{urls:?}");
    for url in urls {
        Config::from_url(url).unwrap_or_else(|why| panic!("{url}: {why}"));
    }
}

#[test]
fn every_option_of_the_configuration_is_read() {
    let table = section(PAGE, "Watchdog and configuration");
    let options: BTreeSet<&str> = table
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            word.split_once('=').is_some_and(|(key, value)| {
                key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') && !value.is_empty()
            })
        })
        .collect();
    assert!(options.len() > 8, "{options:?}");
    for option in options {
        let url = format!("redis+sentinel://127.0.0.1/locks?layout=redisson&{option}");
        let url = if option.starts_with("layout=") { url.replace("layout=redisson&", "") } else { url };
        Config::from_url(&url).unwrap_or_else(|why| panic!("{option}: {why}"));
    }
}
