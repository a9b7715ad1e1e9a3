//! Which tests of a program run, and which of them together: those of one module, so that a lab that breaks
//! half-way costs little.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Tests that run in one process, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The test program.
    pub program: PathBuf,
    /// The program and the module they are in, as a person calls them.
    pub name: String,
    tests: Vec<String>,
}

/// What was asked for: words that names contain, and options for the test program.
pub struct Filter {
    words: Vec<String>,
    options: Vec<String>,
}

impl Filter {
    /// Words that begin with a dash are options.
    pub fn new(words: &[String]) -> Self {
        let (options, words) = words.iter().cloned().partition(|word| word.starts_with('-'));
        Self { words, options }
    }

    fn takes(&self, test: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| test.contains(word))
    }
}

/// The tests of a program that begin with `module` and are asked for, in the order the program has them.
pub fn groups(program: &Path, title: &str, module: &str, filter: &Filter) -> Result<Vec<Group>> {
    let listed = Command::new(program).args(["--list", "--format", "terse"]).output();
    let listed = listed.with_context(|| format!("cannot list the tests of {title}"))?;
    ensure!(listed.status.success(), "cannot list the tests of {title}: {}", listed.status);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut groups: Vec<Group> = Vec::new();
    let named = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    for test in named.filter(|test| test.starts_with(module) && filter.takes(test)) {
        let name = match test.split_once("::") {
            Some((module, _)) => format!("{title}::{module}"),
            None => title.to_owned(),
        };
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.tests.push(test.to_owned()),
            None => groups.push(Group { program: program.to_owned(), name, tests: vec![test.to_owned()] }),
        }
    }
    Ok(groups)
}

impl Group {
    /// The shell command that runs them, with the program in `dir` if that is given.
    pub fn command(&self, dir: Option<&str>, filter: &Filter) -> String {
        let program = match dir {
            Some(dir) => Path::new(dir).join(self.program.file_name().unwrap_or_default()),
            None => self.program.clone(),
        };
        let mut words = vec![program.display().to_string(), "--test-threads=1".to_owned()];
        words.extend_from_slice(&filter.options);
        words.push("--exact".to_owned());
        words.extend_from_slice(&self.tests);
        words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word of a shell command.
pub fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_filter_chooses_among_the_tests_of_the_module_only_and_modules_run_apart() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        // Stands in for a test program: lists, or says what it was asked to run.
        let text = "#!/bin/sh\ncase \"$*\" in *--list*) printf '%s: test\\n' kvm::a_one clones::c kvm::b_two;; \
                    *) echo \"$@\";; esac\n";
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let run = |module: &str, words: &[&str]| {
            let filter = Filter::new(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
            let said = |group: &Group| {
                let output = Command::new("sh").arg("-c").arg(group.command(None, &filter)).output().unwrap();
                (group.name.clone(), String::from_utf8(output.stdout).unwrap())
            };
            groups(&program, "it", module, &filter).unwrap().iter().map(said).collect::<Vec<_>>()
        };
        let said = |name: &str, words: &str| (name.to_owned(), format!("--test-threads=1 {words}\n"));
        assert_eq!(run("kvm::", &[]), [said("it::kvm", "--exact kvm::a_one kvm::b_two")]);
        assert_eq!(
            run("kvm::", &["two", "--nocapture"]),
            [said("it::kvm", "--nocapture --exact kvm::b_two")]
        );
        assert_eq!(run("kvm::", &["three"]), []);
        let apart =
            [said("it::kvm", "--exact kvm::a_one kvm::b_two"), said("it::clones", "--exact clones::c")];
        assert_eq!(run("", &[]), apart);
    }
}
