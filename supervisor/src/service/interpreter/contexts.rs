//! The contexts of one sandbox.

use std::sync::Arc;

use super::context::{Context, ContextView};
use super::language::CodeLanguage;
use crate::service::error::ServiceError;

/// Contexts of one sandbox.
const MAX_CONTEXTS: usize = 16;
/// Where code begins unless its caller says otherwise.
pub(super) const HOME: &str = "/home/user";
/// Languages whose contexts are there from the beginning. Their programs start with their first run.
const FIRST: [CodeLanguage; 2] = [CodeLanguage::Python, CodeLanguage::JavaScript];

/// The contexts of one sandbox, oldest first.
#[derive(Debug, Default)]
pub(in crate::service) struct Contexts {
    all: Vec<Arc<Context>>,
    /// The first ones were made.
    begun: bool,
}

impl Contexts {
    fn begin(&mut self) -> Result<(), ServiceError> {
        if !self.begun {
            for language in FIRST {
                self.all.push(Arc::new(Context::new(language, HOME.to_owned(), true)?));
            }
            self.begun = true;
        }
        Ok(())
    }

    /// Makes room for one more and enters it.
    pub(super) fn enter(
        &mut self,
        language: CodeLanguage,
        cwd: String,
        default: bool,
    ) -> Result<Arc<Context>, ServiceError> {
        self.begin()?;
        if self.all.len() >= MAX_CONTEXTS {
            return Err(ServiceError::InterpreterFull { what: "contexts are open", most: MAX_CONTEXTS });
        }
        let context = Arc::new(Context::new(language, cwd, default)?);
        self.all.push(Arc::clone(&context));
        Ok(context)
    }

    /// The context of this name.
    pub(super) fn named(&mut self, id: &str) -> Result<Arc<Context>, ServiceError> {
        self.begin()?;
        let found = self.all.iter().find(|context| context.view.id == id).cloned();
        found.ok_or(ServiceError::UnknownContext)
    }

    /// What runs of this language use that name no context; made where it is not there.
    pub(super) fn default(&mut self, language: CodeLanguage) -> Result<Arc<Context>, ServiceError> {
        self.begin()?;
        let mut found = self.all.iter().filter(|context| context.default);
        match found.find(|context| context.view.language == language) {
            Some(context) => Ok(Arc::clone(context)),
            None => self.enter(language, HOME.to_owned(), true),
        }
    }

    /// Forgets a context.
    pub(super) fn remove(&mut self, id: &str) -> Result<Arc<Context>, ServiceError> {
        let context = self.named(id)?;
        self.all.retain(|other| other.view.id != id);
        Ok(context)
    }

    pub(super) fn views(&mut self) -> Result<Vec<ContextView>, ServiceError> {
        self.begin()?;
        Ok(self.all.iter().map(|context| context.view.clone()).collect())
    }
}
