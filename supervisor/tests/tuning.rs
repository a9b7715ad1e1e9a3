//! A process in which some mechanisms are switched off: what is made there is made without them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rekindle::config::{Recipe, TemplateName};
use rekindle::pool::PoolConfig;
use rekindle::store::{Artifacts, WorkingSet};
use rekindle::tuning::{self, Mechanism, Switches};
use rekindle::vm::{TemplateSource, files};
use rekindle_fake_host::FakeHost;

const RECIPE: &str =
    "description = \"a test\"\nimage = \"tiny\"\nmemory_mib = 64\nscratch_mib = 16\nvcpus = 1\n";

/// The same in every test: the first choice of a process counts.
fn switch_off() {
    tuning::choose(Switches::parse("-head_start,-prefault_clones,-settle,-preopened").expect("known names"));
}

fn recipe() -> Recipe {
    let name: TemplateName = "tiny".parse().expect("a name");
    Recipe::parse(&name, RECIPE).expect("a recipe")
}

/// A kernel and an image, as they lie in the cache.
fn artifacts(cache: &Path) -> Artifacts {
    for (dir, file) in [("kernel/current", "vmlinux"), ("images/tiny/current", "image.erofs")] {
        let dir = cache.join(dir);
        fs::create_dir_all(&dir).expect("made");
        fs::write(dir.join(file), "built").expect("written");
        let manifest = format!("{{\"sha256\":\"{}\",\"size_bytes\":5}}", "0".repeat(64));
        fs::write(dir.join("manifest.json"), manifest).expect("written");
    }
    Artifacts::new(cache)
}

#[test]
fn what_was_not_named_stays_on_and_a_second_choice_changes_nothing() {
    switch_off();
    tuning::choose(Switches::default());
    assert!(!tuning::on(Mechanism::HeadStart));
    assert!(tuning::on(Mechanism::CpuWeight));
    assert_eq!(PoolConfig::new(1, 1).head_start, Duration::ZERO);
}

#[test]
fn a_template_without_a_mechanism_of_the_guest_is_another_template() {
    switch_off();
    let dir = tempfile::tempdir().expect("a directory");
    let source = TemplateSource::find(recipe(), &artifacts(dir.path())).expect("found");
    assert_eq!(source.recipe.kernel_args, ["rekindle.tuning=-preopened,-settle"]);
    assert_ne!(source.recipe.digest(), recipe().digest(), "its snapshot is not taken for the usual one");
}

#[tokio::test]
async fn no_page_is_prefaulted_though_the_snapshot_knows_which() {
    switch_off();
    let fake = FakeHost::new();
    let snapshot = fake.build(&fake.source("tiny", "")).await.expect("built");
    let set = WorkingSet::of_blocks([0, 1], 64 * 1024).with_prefault([3]);
    snapshot.keep_working_set(&set).expect("kept");
    assert_eq!(snapshot.working_set().map(|set| set.prefault().count()), Some(1));
    assert!(files(&snapshot).prefault.is_empty());
}
