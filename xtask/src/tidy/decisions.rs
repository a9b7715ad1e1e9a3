//! Every decision record is in the index, with the status that the record itself has.

use super::Source;

const DIR: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";
/// What a record may say of itself. All but the first name what took its place.
const STATUSES: [&str; 3] = ["Accepted", "Partly superseded", "Superseded"];

/// What is wrong with the records among the pages.
pub fn check(pages: &[Source]) -> Vec<String> {
    let index = pages.iter().find(|page| page.path == INDEX).map_or("", |page| &page.text);
    let records = pages.iter().filter(|page| page.path.starts_with(DIR) && page.path != INDEX);
    records.filter_map(|record| wrong(record, index).map(|why| format!("{}: {why}", record.path))).collect()
}

fn wrong(record: &Source, index: &str) -> Option<String> {
    let said = record.text.lines().find_map(|line| line.strip_prefix("**Status.** "));
    let of = |status: &&&str| said.is_some_and(|said| said.starts_with(&format!("{status}.")));
    let Some(status) = STATUSES.iter().find(of) else {
        return Some(format!("its status is none of {}", STATUSES.join(", ")));
    };
    let link = format!("({})", record.path.trim_start_matches(DIR));
    let Some(row) = index.lines().find(|line| line.starts_with("| [") && line.contains(&link)) else {
        return Some(format!("is not in {INDEX}"));
    };
    let listed = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
    let status = status.to_lowercase();
    let right = match listed.strip_prefix(&status) {
        Some("") => status == "accepted",
        Some(by) => by.starts_with(" by [") && status != "accepted",
        None => false,
    };
    (!right).then(|| format!("{INDEX} says `{listed}`, the record `{status}`"))
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn complaints(status: &str, row: &str) -> Vec<String> {
        let record = source("docs/decisions/0007-x.md", &format!("# 0007: x\n\n**Status.** {status}\n"));
        check(&[source(INDEX, &format!("| record | status |\n|---|---|\n{row}\n")), record])
    }

    #[test]
    fn a_record_is_in_the_index_with_its_status() {
        assert_eq!(complaints("Accepted.", "| [0007](0007-x.md) x | accepted |"), [""; 0]);
        let by = "| [0007](0007-x.md) x | partly superseded by [0008](0008-y.md) |";
        assert_eq!(complaints("Partly superseded. The rest stands.", by), [""; 0]);
    }

    #[test]
    fn a_record_that_is_missing_or_has_another_status_is_told() {
        for (status, row) in [
            ("Accepted.", "| [0008](0008-y.md) y | accepted |"),
            ("Accepted.", "| [0007](0007-x.md) x | in force |"),
            ("In force.", "| [0007](0007-x.md) x | in force |"),
            ("Superseded.", "| [0007](0007-x.md) x | accepted |"),
            ("Superseded.", "| [0007](0007-x.md) x | superseded |"),
            ("Accepted.", "| [0007](0007-x.md) x | superseded by [0008](0008-y.md) |"),
        ] {
            assert_eq!(complaints(status, row).len(), 1, "{status} {row}");
        }
    }
}
