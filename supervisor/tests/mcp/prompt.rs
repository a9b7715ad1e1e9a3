//! `rekindle prompt`: the rules of a server for a system prompt.

use crate::place::Place;

#[tokio::test]
async fn it_prints_the_rules_of_the_template_and_the_policy() {
    let place = Place::with(|config| config.execute_timeout = std::time::Duration::from_secs(45)).await;
    let printed = |words: Vec<&'static str>| {
        let mut command = place.rekindle(&words);
        async move {
            let ended = command.output().await.expect("run");
            assert!(ended.status.success(), "{ended:?}");
            String::from_utf8(ended.stdout).expect("text")
        }
    };
    let usual = printed(vec!["prompt"]).await;
    for part in [
        "template is tiny",
        "numpy==2.4.6",
        "There is no network",
        "longer than 45 seconds",
        "4,000 characters",
    ] {
        assert!(usual.contains(part), "{part:?} is not in {usual}");
    }
    let other = printed(vec!["prompt", "--template", "bare", "--network", "build"]).await;
    for part in ["template is bare", "not known beforehand", "network policy is build", "tls pypi.org:443"] {
        assert!(other.contains(part), "{part:?} is not in {other}");
    }
    let ended = place.rekindle(&["prompt", "--template", "missing"]).output().await.expect("run");
    assert_eq!(ended.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("hint: there are: bare, tiny"), "{ended:?}");
}
