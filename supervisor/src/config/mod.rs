//! What a person wrote down, parsed once and trusted from then on.
//!
//! A leaf layer. Names and recipes are checked here, so that no other layer sees a template name that is a
//! path or a recipe with an unknown key.

pub mod amount;
mod dirs;
mod installation;
mod recipe;
pub mod refresh;
pub mod secret_file;
pub mod server;
mod template;
pub mod tokens;

pub use dirs::{Dirs, NoHome};
pub use installation::Installation;
pub use recipe::{Language, Recipe, RecipeError, Run, Step, Warm};
pub use server::ServerConfig;
pub use template::{InvalidTemplate, TemplateName, default_template};
