//! What commands that start machines need: directories, engine, limits, recipes, store.

use std::path::{Path, PathBuf};

use anyhow::Context;
use rekindle::config::{Dirs, Recipe, RecipeError, TemplateName, default_template};
use rekindle::engine::EngineKind;
use rekindle::engine::detect::{self, Decision, Programs};
use rekindle::engine::firecracker::Confinement;
use rekindle::host::cgroup::CgroupManager;
use rekindle::store::{Artifacts, Difference, DifferenceKind, Snapshot, Store, StoreError};
use rekindle::vm::{BuiltTemplate, TemplateSource, UserRange, VmHost, VmHostConfig};

use super::args::MachineOptions;
use super::progress::Progress;

/// Recipes every installation has.
const BUILT_IN: [(&str, &str); 3] = [
    ("developer", include_str!("../../../snapshots/developer.toml")),
    ("minimal", include_str!("../../../snapshots/minimal.toml")),
    ("python-node", include_str!("../../../snapshots/python-node.toml")),
];

/// Everything a command works with.
pub struct Setup {
    pub host: VmHost,
    pub store: Store,
    pub artifacts: Artifacts,
    pub decision: Decision,
    templates: Vec<PathBuf>,
}

impl Setup {
    /// Looks at the machine, undoes what killed commands left, and opens the store.
    pub fn open(options: &MachineOptions) -> anyhow::Result<Self> {
        let dirs = Dirs::find()?;
        Self::open_with(options, None, &dirs)
    }

    /// The same with a Firecracker that is configured.
    pub fn open_with(
        options: &MachineOptions,
        firecracker: Option<&Path>,
        dirs: &Dirs,
    ) -> anyhow::Result<Self> {
        let confinement = if options.no_jail { Confinement::Bare } else { Confinement::Jailed };
        let (engine, decision) =
            detect::detect_confined(options.engine, Programs { qemu: None, firecracker }, confinement)?;
        if options.no_jail && decision.engine == EngineKind::Firecracker {
            // Not a log message, which could be turned off.
            eprintln!(
                "warning: NO JAIL: Firecracker runs without its jailer, as this user and with a view of \
                 every file of this host; never run strangers' code like this"
            );
        }
        tracing::info!("{decision}");
        let cgroups = CgroupManager::detect(None);
        if !options.require_limits {
            warn_unenforced(&cgroups);
        }
        let store = Store::open(&dirs.data)?;
        store.reclaim()?;
        let users = nix::unistd::geteuid().is_root().then_some(UserRange::DEFAULT);
        let config = VmHostConfig {
            engine,
            cgroups,
            require_limits: options.require_limits,
            data_dir: dirs.data.clone(),
            users,
        };
        let host = VmHost::open(config).context("machines cannot be started")?;
        if host.reclaimed().supervisors > 0 {
            tracing::info!("undid what {} killed commands had left", host.reclaimed().supervisors);
        }
        let templates = dirs.templates();
        Ok(Self { host, store, artifacts: Artifacts::of(dirs), decision, templates })
    }

    /// The template that is meant when none is named.
    pub fn default_template(&self) -> TemplateName {
        default_template(|name| has_image(name, &self.artifacts))
    }

    /// Limits this host cannot enforce, each with the reason.
    pub fn unenforced(&self) -> Vec<String> {
        self.host.cgroups().unenforced().iter().map(ToString::to_string).collect()
    }

    /// The recipe of a template with the kernel and image it needs.
    pub fn source(&self, name: &TemplateName) -> anyhow::Result<TemplateSource> {
        Ok(TemplateSource::find(recipe(name, &self.templates)?, &self.artifacts)?)
    }

    /// A snapshot of the template that fits. It is built first when this engine has none, or when what it is
    /// made from was renewed. One that was made elsewhere is refused: see docs/decisions/0023.
    pub async fn snapshot(&self, source: &TemplateSource) -> anyhow::Result<Snapshot> {
        match self.store.load(&source.recipe.name, &source.inputs(&self.host)) {
            Ok(snapshot) => Ok(snapshot),
            Err(StoreError::Missing { .. }) => Ok(self.build(source, false).await?.0),
            Err(StoreError::Incompatible { differences, .. }) if may_build_anew(&differences) => {
                for difference in &differences {
                    tracing::info!("template {} is built again: {difference}", source.recipe.name);
                }
                Ok(self.build(source, false).await?.0)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Builds a snapshot. Unless forced, one that somebody else finished meanwhile does as well.
    pub async fn build(
        &self,
        source: &TemplateSource,
        force: bool,
    ) -> anyhow::Result<(Snapshot, Option<BuiltTemplate>)> {
        let name = &source.recipe.name;
        let (store, template) = (self.store.clone(), name.clone());
        let progress = Progress::start(format!("template {name}"));
        progress.step("preparing");
        let _turn = tokio::task::spawn_blocking(move || store.lock_build(&template)).await??;
        if !force && let Ok(snapshot) = self.store.load(name, &source.inputs(&self.host)) {
            progress.clear();
            return Ok((snapshot, None));
        }
        let built = source.build(&self.host, &self.store, &|step| progress.build_step(&step)).await;
        match built {
            Ok(built) => {
                progress.done("built");
                let snapshot = self.store.load(name, &source.inputs(&self.host))?;
                Ok((snapshot, Some(built)))
            }
            Err(error) => {
                progress.clear();
                Err(anyhow::Error::new(error).context(format!("template {name} could not be built")))
            }
        }
    }
}

/// Whether a snapshot that does not fit is nothing to worry about: it is another engine's, or a person has
/// renewed what it was made from.
fn may_build_anew(differences: &[Difference]) -> bool {
    let kinds = || differences.iter().map(|difference| difference.kind);
    kinds().any(|kind| kind == DifferenceKind::Engine) || kinds().all(|kind| kind == DifferenceKind::Input)
}

/// All template names there are, a person's own and the built-in ones.
pub fn template_names() -> anyhow::Result<Vec<TemplateName>> {
    let mut names = Recipe::names(&Dirs::find()?.templates());
    names.extend(BUILT_IN.iter().map(|(name, _)| (*name).to_owned()));
    names.sort();
    names.dedup();
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// A recipe: a person's own wins over a built-in one of the same name.
pub fn recipe_of(name: &TemplateName) -> anyhow::Result<Recipe> {
    Ok(recipe(name, &Dirs::find()?.templates())?)
}

/// Whether there is an image to make a template of our own from.
pub fn has_image(name: &TemplateName, artifacts: &Artifacts) -> bool {
    recipe_of(name).is_ok_and(|recipe| artifacts.image(&recipe.image).is_ok())
}

fn recipe(name: &TemplateName, dirs: &[PathBuf]) -> Result<Recipe, RecipeError> {
    match Recipe::load(name, dirs) {
        Err(RecipeError::Unknown { name, mut known }) => {
            match BUILT_IN.iter().find(|(built_in, _)| *built_in == name.as_str()) {
                Some((_, text)) => Recipe::parse(&name, text),
                None => {
                    known.extend(BUILT_IN.iter().map(|(built_in, _)| (*built_in).to_owned()));
                    Err(RecipeError::Unknown { name, known })
                }
            }
        }
        other => other,
    }
}

fn warn_unenforced(cgroups: &CgroupManager) {
    let missing: Vec<String> = cgroups.unenforced().iter().map(ToString::to_string).collect();
    if !missing.is_empty() {
        tracing::warn!("limits that are not enforced here: {}", missing.join(", "));
    }
}
