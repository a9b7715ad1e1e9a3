//! `rekindle context`: lists, makes, begins anew and removes the contexts in which `rekindle code` runs code.

use rekindle_api::client::Client;
use rekindle_api::v1::{
    CodeContext, CodeLanguage, CreateContextRequest, ListContextsRequest, RemoveContextRequest,
    RestartContextRequest,
};

use super::table::{Side, Table};
use super::{connect, escape, print, refusal, resolve, view};
use crate::cli::args::{ContextCommand, ContextOptions, LanguageName, NewContextOptions, OneOptions};

/// Runs one of the commands.
pub async fn context(command: ContextCommand) -> anyhow::Result<u8> {
    match command {
        ContextCommand::Ls(on) => ls(connect(&on.server).await?, on.options).await,
        ContextCommand::Create(on) => create(connect(&on.server).await?, on.options).await,
        ContextCommand::Restart(on) => restart(connect(&on.server).await?, on.options).await,
        ContextCommand::Rm(on) => rm(connect(&on.server).await?, on.options).await,
    }
}

/// A language in the API's words.
pub fn language(name: LanguageName) -> CodeLanguage {
    match name {
        LanguageName::Python => CodeLanguage::Python,
        LanguageName::Javascript => CodeLanguage::Javascript,
        LanguageName::Typescript => CodeLanguage::Typescript,
        LanguageName::Bash => CodeLanguage::Bash,
    }
}

async fn ls(mut client: Client, options: OneOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let listed = client.interpreter.list_contexts(ListContextsRequest { sandbox }).await;
    let contexts = listed.map_err(refusal::refused)?.into_inner().contexts;
    if options.json {
        print::json(&contexts.into_iter().map(view::CodeContext::from).collect::<Vec<_>>())?;
    } else {
        print::text(&table(&contexts).text())?;
    }
    Ok(0)
}

async fn create(mut client: Client, options: NewContextOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let language = language(options.language).into();
    let request = CreateContextRequest { sandbox, language, cwd: options.cwd };
    let made = client.interpreter.create_context(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::CodeContext::from(made))?;
    } else {
        print::line(&escape::text(&made.id))?;
    }
    Ok(0)
}

async fn restart(mut client: Client, options: ContextOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = RestartContextRequest { sandbox, context: options.context };
    client.interpreter.restart_context(request).await.map_err(refusal::refused)?;
    Ok(0)
}

async fn rm(mut client: Client, options: ContextOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = RemoveContextRequest { sandbox, context: options.context };
    client.interpreter.remove_context(request).await.map_err(refusal::refused)?;
    Ok(0)
}

fn table(contexts: &[CodeContext]) -> Table {
    let mut table = Table::new(&[("CONTEXT", Side::Left), ("LANGUAGE", Side::Left), ("CWD", Side::Left)]);
    for context in contexts {
        table.row([context.id.clone(), view::code_language(context.language), context.cwd.clone()]);
    }
    table
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use super::*;

    #[test]
    fn contexts_are_one_line_each() {
        let context = CodeContext {
            id: "c-1".into(),
            language: CodeLanguage::Javascript.into(),
            cwd: "/tmp/\u{1b}x".into(),
        };
        assert_eq!(
            table(&[context]).text(),
            "CONTEXT  LANGUAGE    CWD\nc-1      javascript  /tmp/\\u{1b}x\n"
        );
    }
}
