//! Rule: nothing unfinished, nothing left over from debugging, no test switched off.

use super::{Source, code};

/// What must not be in the code, and what to do instead. Split, so as not to find itself.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("to", "do!("), "finish it, or return an error that says what is missing"),
    (concat!("unimple", "mented!("), "finish it, or return an error that says what is missing"),
    (concat!("d", "bg!("), "use tracing"),
    (concat!("#[ig", "nore"), "report a skip with its reason instead"),
];

/// Complains about forbidden words, with their line.
pub fn check(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        for (word, instead) in FORBIDDEN {
            if code(line).contains(word) {
                complaints.push(format!("{}:{}: has `{word}`: {instead}", source.path, index + 1));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn each_word_is_found_in_code_and_allowed_in_comments() {
        for (word, _) in FORBIDDEN {
            assert_eq!(check(&source("a.rs", &format!("    {word}\n"))).len(), 1, "{word}");
            assert_eq!(check(&source("a.rs", &format!("    // {word}\n"))).len(), 0, "{word}");
        }
    }
}
