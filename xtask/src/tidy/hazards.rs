//! The table of hazards names tests: each of them exists.

use super::Source;

const PAGE: &str = "docs/concepts/security.md";
const HEADING: &str = "## Hazards, promises and their tests";

/// What is wrong with the table, if this is its page.
pub fn check(page: &Source, sources: &[Source]) -> Vec<String> {
    if page.path != PAGE {
        return Vec::new();
    }
    let Some((_, section)) = page.text.split_once(HEADING) else {
        return vec![format!("{PAGE}: has no table of hazards under `{HEADING}`")];
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut complaints = Vec::new();
    for row in rows {
        let named: Vec<&str> = row.trim_end_matches(" |").rsplit(" | ").next().map(names).unwrap_or_default();
        if named.is_empty() {
            complaints.push(format!("{PAGE}: a hazard without a test: {row}"));
        }
        for name in named {
            let test = format!("fn {name}(");
            if !sources.iter().any(|source| source.text.contains(&test)) {
                complaints.push(format!("{PAGE}: there is no test `{name}`"));
            }
        }
    }
    complaints
}

/// What stands in backticks.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    //! What is complained about.

    use super::*;

    fn complaints(rows: &str) -> Vec<String> {
        let text = format!(
            "# x\n\n{HEADING}\n\n| hazard | promise | guard | tests |\n|---|---|---|---|\n{rows}\n## y\n"
        );
        let page = Source { path: PAGE.into(), text };
        let source = Source { path: "a.rs".into(), text: "fn it_is_tested() {}".into() };
        check(&page, &[source])
    }

    #[test]
    fn every_hazard_names_a_test_that_exists() {
        assert_eq!(complaints("| a | b | `c` | `it_is_tested` |\n"), [""; 0]);
        assert_eq!(complaints("| a | b | `c` | `it_is_tested`, `it_is_not` |\n").len(), 1);
        assert_eq!(complaints("| a | b | `c` | by hand |\n").len(), 1);
    }
}
