//! Finds the sandbox a person means by its id or the beginning of one.

use anyhow::bail;
use rekindle::service::SandboxId;
use rekindle_api::client::Client;
use rekindle_api::v1::{ListSandboxesRequest, Sandbox, SandboxState};

use super::{escape, refusal};

/// Most entries of a list in one answer.
const PAGE: u32 = 1000;
/// How many candidates are named when several fit.
const NAMED: usize = 5;

/// The full id of the sandbox that is meant.
pub async fn resolve(client: &mut Client, text: &str) -> anyhow::Result<String> {
    if text.is_empty() {
        bail!("the sandbox's id is empty\nhint: `rekindle ps` lists the sandboxes");
    }
    // A whole id needs no call before the one it is for.
    if text.parse::<SandboxId>().is_ok() {
        return Ok(text.to_owned());
    }
    let request = ListSandboxesRequest { include_ended: true, ..ListSandboxesRequest::default() };
    pick(&list(client, request).await?, text)
}

/// Every sandbox that fits, page by page.
pub async fn list(client: &mut Client, request: ListSandboxesRequest) -> anyhow::Result<Vec<Sandbox>> {
    let mut request = ListSandboxesRequest { page_size: PAGE, ..request };
    let mut all = Vec::new();
    loop {
        let answer = client.sandboxes.list(request.clone()).await.map_err(refusal::refused)?.into_inner();
        all.extend(answer.sandboxes);
        // A token that does not move on would never end.
        if answer.next_page_token.is_empty() || answer.next_page_token == request.page_token {
            return Ok(all);
        }
        request.page_token = answer.next_page_token;
    }
}

/// The one whose id begins so. One that lives goes before those that have ended.
fn pick(sandboxes: &[Sandbox], text: &str) -> anyhow::Result<String> {
    let (ended, live): (Vec<&Sandbox>, Vec<&Sandbox>) = sandboxes
        .iter()
        .filter(|sandbox| sandbox.id.starts_with(text))
        .partition(|sandbox| sandbox.state() == SandboxState::Ended);
    let fitting = if live.is_empty() { ended } else { live };
    match &fitting[..] {
        [one] => Ok(one.id.clone()),
        [] => bail!("there is no sandbox {}\nhint: `rekindle ps` lists the sandboxes", escape::text(text)),
        several => {
            let mut names: Vec<String> =
                several.iter().take(NAMED).map(|sandbox| escape::text(&sandbox.id)).collect();
            if several.len() > NAMED {
                names.push("…".into());
            }
            bail!(
                "{} sandboxes begin with {}: {}\nhint: use more of the id",
                several.len(),
                escape::text(text),
                names.join(", ")
            );
        }
    }
}

#[cfg(test)]
mod tests {
    //! Who is meant.

    use super::*;

    fn sandboxes(all: &[(&str, SandboxState)]) -> Vec<Sandbox> {
        let one = |(id, state): &(&str, SandboxState)| Sandbox {
            id: (*id).to_owned(),
            state: (*state).into(),
            ..Sandbox::default()
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn a_unique_beginning_is_enough() {
        let all = sandboxes(&[("abc1", SandboxState::Running), ("abd2", SandboxState::Paused)]);
        assert_eq!(pick(&all, "abc").expect("one"), "abc1");
        assert_eq!(pick(&all, "abd2").expect("one"), "abd2");
    }

    #[test]
    fn an_ambiguous_beginning_names_who_could_be_meant() {
        let all: Vec<_> = (0..7).map(|n| format!("ab{n}")).collect();
        let all: Vec<_> = all.iter().map(|id| (id.as_str(), SandboxState::Running)).collect();
        let error = pick(&sandboxes(&all), "ab").expect_err("seven").to_string();
        assert_eq!(error, "7 sandboxes begin with ab: ab0, ab1, ab2, ab3, ab4, …\nhint: use more of the id");
    }

    #[test]
    fn the_living_go_before_the_ended() {
        let all = sandboxes(&[("abc1", SandboxState::Ended), ("abc2", SandboxState::Running)]);
        assert_eq!(pick(&all, "abc").expect("one"), "abc2");
        assert_eq!(pick(&all, "abc1").expect("one"), "abc1");
        let all = sandboxes(&[("abc1", SandboxState::Ended), ("abc2", SandboxState::Ended)]);
        assert!(pick(&all, "abc").is_err());
    }

    #[test]
    fn nobody_is_a_clear_error() {
        let error = pick(&[], "x\u{1b}").expect_err("none").to_string();
        assert_eq!(error, "there is no sandbox x\\u{1b}\nhint: `rekindle ps` lists the sandboxes");
    }
}
