//! Aligned columns for people. Cells are escaped here, so that no caller can forget it.

use unicode_width::UnicodeWidthStr as _;

use super::escape;

/// Which side of its column a cell leans to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a heading.
#[derive(Debug)]
pub struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: &[(&str, Side)]) -> Self {
        let heading = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self { sides: columns.iter().map(|(_, side)| *side).collect(), rows: vec![heading] }
    }

    /// A table of names and values, without a heading.
    pub fn facts() -> Self {
        Self { sides: vec![Side::Left, Side::Left], rows: Vec::new() }
    }

    /// Adds a row of words from anywhere.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| escape::text(&cell)).to_vec());
    }

    /// Adds a name and its value.
    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.row([format!("{name}:"), value.into()]);
    }

    /// The lines of the table.
    pub fn lines(&self) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.sides.len()).map(width).collect();
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, side), width) in row.iter().zip(&self.sides).zip(widths) {
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            match side {
                Side::Left => line.push_str(&format!("{cell}{padding}  ")),
                Side::Right => line.push_str(&format!("{padding}{cell}  ")),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }

    /// The table as text.
    pub fn text(&self) -> String {
        self.lines().into_iter().map(|line| line + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    //! What columns look like.

    use super::*;

    #[test]
    fn columns_line_up_by_what_is_seen() {
        let mut table = Table::new(&[("NAME", Side::Left), ("SIZE", Side::Right), ("X", Side::Left)]);
        table.row(["日本".into(), "5".into(), String::new()]);
        table.row(["long name".into(), "12345".into(), "y".into()]);
        assert_eq!(
            table.text(),
            "NAME        SIZE  X\n\
             日本           5\n\
             long name  12345  y\n"
        );
    }

    #[test]
    fn a_cell_stays_on_its_line() {
        let mut table = Table::new(&[("NAME", Side::Left)]);
        table.row(["a\nb\u{1b}[31m".into()]);
        assert_eq!(table.lines(), ["NAME", "a\\nb\\u{1b}[31m"]);
    }

    #[test]
    fn facts_have_no_heading() {
        let mut table = Table::facts();
        table.fact("id", "x");
        table.fact("template", "y");
        assert_eq!(table.text(), "id:        x\ntemplate:  y\n");
    }
}
