//! What a script of ours creates.

/// The names that follow these words in a script, such as `CREATE PROCEDURE `.
pub fn created<'s>(script: &'s str, words: &str) -> Vec<&'s str> {
    let name = |rest: &'s str| rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next();
    script.split(words).skip(1).filter_map(name).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_where_they_end() {
        let script = "CREATE TABLE a_1 (b int);\nCREATE TABLE c(d int);\nDROP TABLE e; CREATE TABLE ";
        assert_eq!(created(script, "CREATE TABLE "), ["a_1", "c"]);
        assert!(created(script, "CREATE VIEW ").is_empty());
    }
}
