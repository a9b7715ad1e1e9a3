//! Words are taken or refused by name.

use super::*;

#[test]
fn the_kernel_command_line_yields_only_our_words() {
    let line = "console=ttyS0 root=/dev/vda rekindle.transport=port:rekindle.agent quiet rekindle.user=dev\n";
    let config = Config::from_kernel_command_line(line).expect("it is right");
    assert_eq!(config.transport, Transport::Port("rekindle.agent".into()));
    assert_eq!(config.user, "dev");
    assert_eq!(config.cgroup, Some("/sys/fs/cgroup".into()));
}

#[test]
fn every_transport_is_understood() {
    let transport = |word: &str| Config::from_words([word].into_iter()).map(|config| config.transport);
    assert_eq!(transport("transport=vsock:1024"), Ok(Transport::Vsock(1024)));
    assert_eq!(transport("transport=tty:/dev/pts/3"), Ok(Transport::Tty("/dev/pts/3".into())));
    assert_eq!(transport("transport=unix:/a/b:c"), Ok(Transport::Unix("/a/b:c".into())));
    assert_eq!(transport("transport=fd:3"), Ok(Transport::Inherited(3)));
}

#[test]
fn words_that_make_no_sense_are_named() {
    let refused = |words: &[&str]| Config::from_words(words.iter().copied()).expect_err("refused");
    assert_eq!(refused(&[]), ConfigError::NoTransport);
    for word in [
        "transport=vsock:x",
        "transport=fd:1",
        "transport=carrier-pigeon:7",
        "user=",
        "ready=soon",
        "health=100000",
        "tuning=fast",
    ] {
        assert!(matches!(refused(&[word]), ConfigError::BadValue { .. }), "{word}");
    }
    assert!(matches!(refused(&["colour=red"]), ConfigError::UnknownWord { .. }));
    assert!(matches!(refused(&["verbose"]), ConfigError::UnknownWord { .. }));
}
