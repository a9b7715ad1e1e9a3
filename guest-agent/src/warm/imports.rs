//! What a Python program says it imports, as far as its text tells.
//!
//! Read to choose an interpreter, never to decide what a program can do: one that imports what its interpreter
//! has not imported beforehand only waits for it.

/// Whether every import in `source` is of one of `modules`. In doubt it is not.
pub fn only(source: &[u8], modules: &[String]) -> bool {
    const WORD: &[u8] = b"import";
    // Most short programs import nothing.
    if !source.windows(WORD.len()).any(|part| part == WORD) {
        return true;
    }
    let Ok(source) = std::str::from_utf8(source) else { return false };
    let known = |name: &str| modules.iter().any(|module| top(module) == top(name));
    let statements = source.split(['\n', ';']).filter(|statement| statement.contains("import"));
    statements.map(str::trim_start).all(|statement| match statement.split_once(char::is_whitespace) {
        Some(("import", names)) => names.split(',').all(known),
        Some(("from", module)) => known(module),
        // Such as `if x: import y`, `__import__(z)`, or the middle of a text.
        _ => false,
    })
}

/// The first name of one with dots, and nothing of what follows it.
fn top(name: &str) -> &str {
    let name = name.trim_start();
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::only;

    #[test]
    fn a_program_that_may_import_anything_else_is_told_apart() {
        let modules = ["os", "json", "xml.etree.ElementTree"].map(str::to_owned);
        for source in [
            "",
            "print(6 * 7)",
            "import os",
            "import os.path as p, json # quickly",
            "  from os import path; import json",
            "from xml.dom import minidom\nimport os\t\n",
        ] {
            assert!(only(source.as_bytes(), &modules), "{source}");
        }
        for source in [
            "import numpy",
            "import os, numpy",
            "import os; import numpy",
            "from numpy import sin",
            "from . import os",
            "if True: import os",
            "__import__('os')",
            "import importlib",
            "print('import os')",
            "import osmium",
            "import",
        ] {
            assert!(!only(source.as_bytes(), &modules), "{source}");
        }
        assert!(!only(b"import os # \xff", &modules));
    }
}
