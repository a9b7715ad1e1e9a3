//! `rekindle template ls --server`: what sandboxes can be made from on a server.

use rekindle_api::client::Client;
use rekindle_api::v1::ListTemplatesRequest;

use super::table::{Side, Table};
use super::{print, quantity, refusal, view};

/// Runs the command.
pub async fn template_ls(mut client: Client, json: bool) -> anyhow::Result<u8> {
    let request = ListTemplatesRequest {};
    let templates =
        client.host.list_templates(request).await.map_err(refusal::refused)?.into_inner().templates;
    if json {
        print::json(&templates.into_iter().map(view::Template::from).collect::<Vec<_>>())?;
        return Ok(0);
    }
    let mut table = Table::new(&[
        ("TEMPLATE", Side::Left),
        ("PROCESSORS", Side::Right),
        ("MEMORY", Side::Right),
        ("DISK", Side::Right),
        ("DEFAULT", Side::Left),
        ("DESCRIPTION", Side::Left),
    ]);
    for template in templates {
        table.row([
            template.name,
            template.vcpus.to_string(),
            quantity::size(template.memory_bytes),
            quantity::size(template.disk_bytes),
            if template.is_default { "yes" } else { "" }.into(),
            template.description,
        ]);
    }
    print::text(&table.text())?;
    Ok(0)
}
