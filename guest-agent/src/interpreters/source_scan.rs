//! What the text of a Python program tells before it runs. Pure, and never about what a program may do: one guess
//! costs time if it is wrong, the other is made so that it costs nothing else.

#[cfg(test)]
mod tests;

/// Whether every import in `source` is of one of `modules`. In doubt it is not.
pub fn imports_only(source: &[u8], modules: &[String]) -> bool {
    // Most short programs import nothing.
    if !holds(source, b"import") {
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

/// Words after which nothing is sure: they replace what modules hold.
const REPLACING: [&[u8]; 5] = [b"setattr(", b"delattr(", b"mock", b"monkeypatch", b"__dict__["];

/// Whether a program may change, before it imports a module, what that module finds when it is loaded: something that
/// another module holds, or a variable whose name begins with one of `variables`. A module that was loaded beforehand
/// has found what there was then. In doubt it may.
pub fn may_change_imports(source: &[u8], variables: &[&[u8]]) -> bool {
    if !holds(source, b"import") {
        return false;
    }
    if REPLACING.iter().any(|word| holds(source, word)) {
        return true;
    }
    let sets_variables = holds(source, b"environ") || holds(source, b"putenv");
    if sets_variables && variables.iter().any(|name| holds(source, name)) {
        return true;
    }
    let source = String::from_utf8_lossy(source);
    let imported = imported_names(&source);
    source.split(['\n', ';']).filter_map(assigned_holder).any(|holder| match holder {
        // Whoever uses it asks it again each time.
        "sys" => false,
        "os.path" | "__builtins__" => true,
        _ => imported.iter().any(|name| name == holder),
    })
}

/// The names under which modules, or what was imported from them, are known in the program.
fn imported_names(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    for statement in source.split(['\n', ';']) {
        // Wherever the word is: behind `if x:`, or in the middle of a text.
        let Some((_, list)) = statement.split_once("import ") else { continue };
        for part in list.trim_matches(['(', ')', ' ']).split(',') {
            let words: Vec<&str> = part.split_whitespace().collect();
            match words[..] {
                [_, "as", name, ..] => names.push(name.to_owned()),
                [name, ..] => names.push(name.to_owned()),
                [] => {}
            }
        }
    }
    names
}

/// What `x` is in a statement that assigns to `x.name`, or deletes it.
fn assigned_holder(statement: &str) -> Option<&str> {
    let statement = statement.trim();
    let target = match statement.strip_prefix("del ") {
        Some(target) => target,
        None => {
            let end = statement.find('=').filter(|end| !statement[*end..].starts_with("=="))?;
            statement[..end].trim_end_matches(['+', '-', '*', '/', '|', '&', ' '])
        }
    };
    // The last words, where it stands behind `if x:` or `with y:`.
    let target = target.rsplit([' ', ':', '(', ',']).next()?;
    let name = |c: char| c.is_alphanumeric() || c == '_';
    target.trim().rsplit_once('.').filter(|(_, last)| last.chars().all(name)).map(|(holder, _)| holder)
}

/// The first name of one with dots, and nothing of what follows it.
fn top(name: &str) -> &str {
    let name = name.trim_start();
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

fn holds(source: &[u8], word: &[u8]) -> bool {
    source.windows(word.len()).any(|part| part == word)
}
