//! Formats tables for display.

use crate::escape::one_line;
use crate::paint::{Meaning, paint};

/// Maximum number of characters in a cell that is not the last one of its row.
const WIDEST: usize = 64;
/// Maximum number of characters in the last cell of a row.
const LONGEST: usize = 4096;

/// Rows of cells, with or without a header. The cells of a column are aligned.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    headed: bool,
}

impl Table {
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { rows: vec![header.map(str::to_owned).to_vec()], headed: true }
    }

    /// Creates a table without a header.
    pub(crate) fn plain() -> Self {
        Self { rows: Vec::new(), headed: false }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Formats the table, with `indent` before each line. Each cell becomes one line without control characters. Long
    /// cells are truncated.
    pub(crate) fn text(&self, indent: &str) -> String {
        self.painted(indent, |_, _| None)
    }

    /// Formats the table as [`Table::text`] does, with some cells in color. `meaning` receives the column and the text
    /// of each cell. The header is never colored.
    pub(crate) fn painted(&self, indent: &str, meaning: impl Fn(usize, &str) -> Option<Meaning>) -> String {
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| shown(row)).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            // The last cell of a row needs no padding.
            let cells =
                rows.iter().filter(|row| column + 1 < row.len() || column == 0).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).min(WIDEST)).collect();
        let mut text = String::new();
        for (index, row) in rows.iter().enumerate() {
            let last = row.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
            text.push_str(if last == 0 { "" } else { indent });
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate().take(last) {
                let painted = meaning(column, cell).filter(|_| index > 0 || !self.headed);
                text.push_str(&painted.map_or_else(|| cell.clone(), |meaning| paint(meaning, cell)));
                if column + 1 < last {
                    text.push_str(&" ".repeat(width.saturating_sub(cell.chars().count()) + 2));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Returns the cells of a row for display. Each cell is one line without control characters, truncated to its maximum
/// length.
fn shown(row: &[String]) -> Vec<String> {
    let last = row.len().saturating_sub(1);
    let most = |column| if column == last { LONGEST } else { WIDEST };
    row.iter().enumerate().map(|(column, cell)| cut(&one_line(cell), most(column))).collect()
}

/// Truncates a text to the given number of characters. An ellipsis marks the truncation.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cells_are_cut() {
        let mut table = Table::new(["NAME", "X", "PATH"]);
        table.row(["a".repeat(100_000), "b".repeat(70_000), "c".repeat(70_000)]);
        let text = table.text("");
        let line = text.lines().nth(1).unwrap();
        assert_eq!(line.chars().count(), WIDEST + 2 + WIDEST + 2 + LONGEST);
        assert_eq!(line.matches('…').count(), 3);
    }

    #[test]
    fn cell_is_one_clean_line() {
        let mut table = Table::plain();
        table.row(["a\nb\u{1b}[2J".to_owned(), "c\0".to_owned()]);
        assert_eq!(table.text(""), "a\\nb\\u{1b}[2J  c\\u{0}\n");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(["NAME", "X"]);
        table.row(["é".to_owned(), "1".to_owned()]);
        table.row(["longer".to_owned(), String::new()]);
        assert_eq!(table.text(" "), " NAME    X\n é       1\n longer\n");
        let painted = table.painted(" ", |column, cell| (column == 0 && cell != "longer").then_some(Meaning::Good));
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), table.text(" "));
        assert_eq!(painted.matches('\u{1b}').count(), 2, "{painted:?}");
    }
}
