//! Columns of text.

/// Between two columns.
const GAP: usize = 2;

/// A column that may be cut where there is not enough room, by its heading, and how narrow it may get; 0 leaves it out. Those
/// that matter least come first, and one may come again.
pub(crate) type Cut = (&'static str, usize);

/// `rows` under `heads`, aligned. In `room` columns, if that is given, as far as `cuts` allow it; what is cut ends with `…`.
/// Cells are clean already.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>], cuts: &[Cut], room: Option<usize>) -> String {
    let mut widths: Vec<usize> = heads.iter().map(|head| width(head)).collect();
    for row in rows {
        for (most, cell) in widths.iter_mut().zip(row) {
            *most = (*most).max(width(cell));
        }
    }
    if let Some(room) = room {
        fit(heads, &mut widths, cuts, room);
    }
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&heads).chain(rows) {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths).filter(|(_, width)| **width > 0) {
            let cell = cut(cell, width);
            let missing = width.saturating_sub(self::width(&cell)) + GAP;
            // Not by a width in a format: that has a limit, and texts of others have none.
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', missing));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Narrows columns, the first of `cuts` first, until all of them fit. A width of 0 is of a column that is left out.
fn fit(heads: &[&str], widths: &mut [usize], cuts: &[Cut], room: usize) {
    for (head, least) in cuts {
        let shown = widths.iter().filter(|width| **width > 0);
        let excess = shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP + room);
        if excess == 0 {
            return;
        }
        let columns = heads.iter().zip(widths.iter_mut());
        for (_, most) in columns.filter(|(known, most)| *known == head && **most > 0) {
            *most = match least {
                0 => 0,
                least => (*most).min((*least).max(width(head)).max(most.saturating_sub(excess))),
            };
        }
    }
}

fn cut(cell: &str, most: usize) -> String {
    if width(cell) <= most {
        return cell.to_owned();
    }
    cell.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// `-` for nothing.
pub(crate) fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: [&str; 3] = ["NAME", "WHO", "WHY"];
    const CUTS: [Cut; 4] = [("WHY", 6), ("WHO", 4), ("NONE", 1), ("WHY", 0)];

    fn printed(room: Option<usize>) -> String {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        table(&HEADS, &[row(["a", "ana@ci-7", "because"]), row(["bb", "eve", "-"])], &CUTS, room)
    }

    #[test]
    fn what_matters_least_is_cut_first() {
        let whole = "NAME  WHO       WHY\na     ana@ci-7  because\nbb    eve       -\n";
        assert_eq!(printed(None), whole);
        assert_eq!(printed(Some(23)), whole);
        assert_eq!(printed(Some(22)), whole.replace("because", "becau…"));
        assert_eq!(printed(Some(19)), "NAME  WHO    WHY\na     ana@…  becau…\nbb    eve    -\n");
        assert_eq!(printed(Some(17)), "NAME  WHO\na     ana…\nbb    eve\n");
        // Narrower than it can be.
        assert_eq!(printed(Some(1)), printed(Some(17)));
    }
}
