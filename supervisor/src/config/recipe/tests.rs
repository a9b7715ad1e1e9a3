//! Recipes: the repository's own, and bad ones.

use std::path::PathBuf;
use std::time::Duration;

use super::{Language, Recipe, RecipeError, Run};
use crate::config::TemplateName;

const SMALL: &str = "description = \"d\"\nimage = \"minimal\"\n";

fn name(text: &str) -> TemplateName {
    text.parse().expect("a name")
}

fn parse(text: &str) -> Result<Recipe, RecipeError> {
    Recipe::parse(&name("test"), text)
}

#[test]
fn the_recipes_of_this_repository_are_valid() {
    let dirs = [PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../snapshots"))];
    let names = Recipe::names(&dirs);
    assert!(names.contains(&"minimal".to_owned()) && names.contains(&"python-node".to_owned()), "{names:?}");
    for entry in names {
        let recipe = Recipe::load(&name(&entry), &dirs).unwrap_or_else(|error| panic!("{entry}: {error}"));
        assert!(!recipe.warmup.is_empty() && recipe.ready.is_some());
    }
}

#[test]
fn defaults_are_those_the_first_recipe_explains() {
    let recipe = parse(SMALL).expect("valid");
    assert_eq!((recipe.vcpus, recipe.memory_mib, recipe.scratch_mib), (2, 2048, 1024));
    assert!(recipe.kernel_args.is_empty() && recipe.warmup.is_empty() && recipe.ready.is_none());
}

#[test]
fn what_is_kept_warm_is_part_of_a_recipes_identity() {
    let none = parse(SMALL).expect("valid");
    assert_eq!((none.warm.python.as_ref(), none.warm.node), (None, 0));
    let some = parse(&format!("{SMALL}[warm]\npython = [\"json\", \"os.path\"]\nnode = 2\n")).expect("valid");
    assert_eq!(some.warm.python.as_deref(), Some(&["json".to_owned(), "os.path".to_owned()][..]));
    assert_ne!(none.digest(), some.digest());
    let more = parse(&format!(
        "{SMALL}[warm]\npython = [\"json\", \"os.path\"]\npackages = [\"numpy\"]\nnode = 2\n"
    ));
    assert_ne!(some.digest(), more.expect("valid").digest());
}

#[test]
fn a_step_is_one_of_three_things() {
    let text = format!(
        "{SMALL}[[warmup]]\ncommand = [\"a\", \"b\"]\n[[warmup]]\nshell = \"x\"\ntimeout_s = 5\n\
         [ready]\ncode = {{ language = \"node\", source = \"1\" }}\n"
    );
    let recipe = parse(&text).expect("valid");
    assert_eq!(recipe.warmup[0].run, Run::Command(vec!["a".into(), "b".into()]));
    assert_eq!(recipe.warmup[0].timeout, Duration::from_secs(120));
    assert_eq!(recipe.warmup[1].timeout, Duration::from_secs(5));
    let code = Run::Code { language: Language::Node, source: "1".into() };
    assert_eq!(recipe.ready.expect("there").run, code);
}

#[test]
fn bad_recipes_are_refused_with_a_message_and_a_hint() {
    for (bad, word) in [
        ("surprise = 1\n", "surprise"),
        ("vcpus = 0\n", "vcpus"),
        ("memory_mib = 1\n", "memory_mib"),
        ("scratch_mib = 1\n", "scratch_mib"),
        ("kernel_args = [\"init=/bin/sh\"]\n", "init=/bin/sh"),
        ("kernel_args = [\"rekindle.transport=vsock\"]\n", "rekindle.transport"),
        ("kernel_args = [\"a b\"]\n", "a b"),
        ("[[warmup]]\ntimeout_s = 1\n", "exactly one"),
        ("[[warmup]]\nshell = \"x\"\ncommand = [\"y\"]\n", "exactly one"),
        ("[[warmup]]\ncommand = []\n", "exactly one"),
        ("[[warmup]]\nshell = \"x\"\ntimeout_s = 0\n", "timeout_s"),
        ("[ready]\ncode = { language = \"perl\", source = \"1\" }\n", "perl"),
        ("[warm]\nruby = 1\n", "ruby"),
        ("[warm]\nnode = 9\n", "warm.node"),
        ("[warm]\npython = [\"os; print(1)\"]\n", "not the name of a module"),
        ("[warm]\npython = [\"a..b\"]\n", "not the name of a module"),
        ("[warm]\npython = []\npackages = [\"a b\"]\n", "warm.packages"),
        ("[warm]\npackages = [\"numpy\"]\n", "without warm.python"),
        ("[warm]\nnode = 1\npython_first = true\n", "warm.python_first is of no use without warm.python"),
    ] {
        let error = parse(&format!("{SMALL}{bad}")).expect_err(bad).to_string();
        assert!(error.contains(word) && error.contains("hint: "), "{bad}: {error}");
    }
    assert!(parse("description = \"d\"\nimage = \"../etc\"\n").is_err());
}

#[test]
fn an_unknown_template_hears_which_ones_there_are() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("known.toml"), SMALL).expect("written");
    let error = Recipe::load(&name("other"), &[dir.path().to_owned()]).expect_err("unknown");
    assert_eq!(error.to_string(), "there is no template named other\nhint: there are known");
}

#[test]
fn the_digest_changes_with_what_matters_and_only_then() {
    let base = parse(SMALL).expect("valid").digest();
    let described = parse("description = \"another\"\nimage = \"minimal\"\n").expect("valid").digest();
    let larger = parse(&format!("{SMALL}memory_mib = 512\n")).expect("valid").digest();
    let spelled = parse(&format!("{SMALL}vcpus = 2\n")).expect("valid").digest();
    assert_eq!((base == described, base == larger, base == spelled), (true, false, true));
}
