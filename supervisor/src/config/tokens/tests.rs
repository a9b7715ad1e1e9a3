//! Whom a secret lets in, what a bad file does, and that an edit keeps what a person wrote.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rekindle_test_support::wait::block_until;

use super::*;

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("tokens.toml")
    }

    fn create(&self, id: &str, expires: Option<Timestamp>) -> Secret {
        let new = NewToken {
            id: id.parse().expect("an id"),
            tenant: "acme".into(),
            scopes: vec![Scope::Create, Scope::Exec],
            quota: Quota {
                max_sandboxes: Some(3),
                max_milli_cpus: None,
                max_memory_mib: Some(4096),
                max_disk_mib: Some(9000),
                ..Quota::default()
            },
            networks: Vec::new(),
            gateway: Vec::new(),
            root: true,
            expires,
        };
        create(&self.file(), &new).expect("made").secret
    }

    fn mode(&self) -> u32 {
        fs::metadata(self.file()).expect("there").permissions().mode() & 0o777
    }
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn now() -> Timestamp {
    time("2026-06-01T00:00:00Z")
}

fn id(text: &str) -> TokenId {
    text.parse().expect("an id")
}

#[test]
fn a_secret_lets_in_its_own_token_and_nothing_else_does() {
    let dir = Dir::new();
    let secrets: Vec<(TokenId, Secret)> =
        ["one", "two", "three"].map(|name| (id(name), dir.create(name, None))).into();
    let tokens = Tokens::load(&dir.file()).expect("right");
    for (id, secret) in &secrets {
        let token = tokens.find(secret.reveal(), now()).expect("known");
        assert_eq!((&token.id, token.tenant.as_str()), (id, "acme"));
        assert!(token.allows(Scope::Exec) && !token.allows(Scope::Files) && !token.allows(Scope::Admin));
        assert_eq!(token.quota.max_sandboxes, Some(3));
        let hash: String = token.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        let near = &secret.reveal()[..secret.reveal().len() - 1];
        for wrong in [near, &format!("{} ", secret.reveal()), &hash, "", "rk_one_", &"x".repeat(100_000)] {
            assert_eq!(tokens.find(wrong, now()), Err(Denied::Unknown), "{wrong:.60}");
        }
    }
    assert_eq!(
        Tokens::default().find(secrets[0].1.reveal(), now()),
        Err(Denied::Unknown),
        "no tokens, nobody"
    );
}

#[test]
fn a_sum_that_differs_in_one_bit_is_another() {
    let secret = "rk_one_secret";
    let text = |sum: &[u8; 32]| {
        let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[[token]]\nid = \"one\"\nsha256 = \"{sum}\"\ntenant = \"acme\"\nscopes = [\"exec\"]\n")
    };
    let right = super::secret::sum(secret);
    let tokens = Tokens::parse(&text(&right)).expect("right");
    assert!(tokens.find(secret, now()).is_ok());
    for bit in 0..256 {
        let mut near = right;
        near[bit / 8] ^= 1 << (bit % 8);
        let tokens = Tokens::parse(&text(&near)).expect("right");
        assert_eq!(tokens.find(secret, now()), Err(Denied::Unknown), "bit {bit}");
    }
}

const GOLDEN: &str = include_str!("../../../tests/golden/0.1.0/tokens.toml");

#[test]
fn a_file_of_version_0_1_0_is_read_as_it_was_written() {
    let tokens = Tokens::parse(GOLDEN).expect("right");
    let all: Vec<&Token> = tokens.iter().collect();
    let ci = Token {
        id: id("ci"),
        sha256: super::secret::sum("secret"),
        tenant: "acme".into(),
        scopes: vec![Scope::Create, Scope::Exec],
        quota: Quota {
            max_sandboxes: Some(3),
            max_milli_cpus: Some(4000),
            max_memory_mib: Some(4096),
            max_disk_mib: Some(9000),
            ..Quota::default()
        },
        networks: Vec::new(),
        gateway: Vec::new(),
        root: true,
        expires: Some(time("2030-01-31T00:00:00Z")),
    };
    assert_eq!(all[0], &ci);
    assert_eq!(
        (all[1].id.as_str(), all[1].scopes.as_slice(), all[1].expires),
        ("ops", &[Scope::Admin][..], None)
    );
    assert_eq!((all.len(), all[1].quota), (2, Quota::default()));
}

#[test]
fn bounds_of_the_gateway_are_read_as_they_were_written_and_none_is_zero() {
    let dir = Dir::new();
    let quota = Quota {
        max_gateway_cost_per_day: Some(500),
        max_gateway_requests_per_minute: Some(60),
        ..Quota::default()
    };
    let new = NewToken {
        id: id("ai"),
        tenant: "acme".into(),
        scopes: vec![Scope::Create],
        quota,
        networks: Vec::new(),
        gateway: vec!["*".into()],
        root: false,
        expires: None,
    };
    super::create(&dir.file(), &new).expect("created");
    assert_eq!(Tokens::load(&dir.file()).expect("right").iter().next().expect("one").quota, quota);
    let text = fs::read_to_string(dir.file()).expect("a file");
    let none = text.replace("max_gateway_requests_per_minute = 60", "max_gateway_requests_per_minute = 0");
    let refused = Tokens::parse(&none).expect_err("no request at all");
    assert!(refused.contains("leave gateway out"), "{refused}");
}

#[test]
fn what_a_newer_version_may_say_is_refused_by_name() {
    for (line, key) in [
        ("max_gpus = 1\n", "max_gpus"),
        ("format = 2\n", "format"),
        ("[defaults]\nscopes = []\n", "defaults"),
    ] {
        let text = if key == "max_gpus" { format!("{GOLDEN}{line}") } else { format!("{line}{GOLDEN}") };
        let refused = Tokens::parse(&text).expect_err(key);
        assert!(refused.contains(key), "{refused}");
    }
}

#[test]
fn a_secret_has_its_form_and_is_not_in_the_file_or_in_debug_output() {
    let dir = Dir::new();
    let secret = dir.create("ci-2", None);
    let random = secret.reveal().strip_prefix("rk_ci-2_").expect("rk_<id>_");
    assert_eq!(random.len(), 43);
    assert!(random.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
    assert!(!fs::read_to_string(dir.file()).expect("there").contains(random));
    assert!(!format!("{secret:?}").contains(random));
}

#[test]
fn an_expired_token_is_denied_from_the_moment_on() {
    let dir = Dir::new();
    let secret = dir.create("short", Some(time("2026-06-01T00:00:00Z")));
    let tokens = Tokens::load(&dir.file()).expect("right");
    assert!(tokens.find(secret.reveal(), time("2026-05-31T23:59:59Z")).is_ok());
    let denied = Err(Denied::Expired { id: id("short") });
    assert_eq!(tokens.find(secret.reveal(), now()), denied);
}

#[test]
fn an_administrator_may_do_everything() {
    let sum = "0".repeat(64);
    let text = format!("[[token]]\nid = \"a\"\nsha256 = \"{sum}\"\ntenant = \"t\"\nscopes = [\"admin\"]\n");
    let tokens = Tokens::parse(&text).expect("right");
    assert!(Scope::ALL.iter().all(|scope| tokens.get(&id("a")).expect("there").allows(*scope)));
}

#[test]
fn a_file_open_to_everybody_is_refused() {
    let dir = Dir::new();
    dir.create("one", None);
    assert_eq!(dir.mode(), 0o600);
    for mode in [0o604, 0o602, 0o644] {
        fs::set_permissions(dir.file(), Permissions::from_mode(mode)).expect("set");
        assert!(matches!(Tokens::load(&dir.file()), Err(TokensError::Exposed { .. })), "{mode:o}");
    }
    fs::set_permissions(dir.file(), Permissions::from_mode(0o640)).expect("set");
    Tokens::load(&dir.file()).expect("a group may read it");
}

#[test]
fn files_that_make_no_sense_are_refused_with_the_reason() {
    let (zeros, ones) = ("0".repeat(64), "1".repeat(64));
    let entry = |id: &str, sum: &str, rest: &str| {
        format!("[[token]]\nid = \"{id}\"\nsha256 = \"{sum}\"\ntenant = \"t\"\nscopes = [\"exec\"]\n{rest}\n")
    };
    for (text, reason) in [
        (entry("a", &zeros, "") + &entry("a", &ones, ""), "two tokens a"),
        (entry("a", &zeros, "") + &entry("b", &zeros, ""), "sha256 of another"),
        (entry("a", "abc", ""), "64 hexadecimal"),
        (entry("a", &"é".repeat(32), ""), "64 hexadecimal"),
        (entry("A_b", &zeros, ""), "not a token id"),
        (entry("a", &zeros, "scope = 1"), "unknown field"),
        (entry("a", &zeros, "expires = \"tomorrow\""), "not a time"),
        (entry("a", &zeros, "max_sandboxes = -1"), "max_sandboxes"),
        (entry("a", &zeros, "").replace("\"t\"", "\"a b\""), "not a tenant"),
        (entry("a", &zeros, "").replace("\"exec\"", ""), "allows nothing"),
        (entry("a", &zeros, "").replace("exec", "root"), "unknown variant"),
        ("[token]\n".to_owned(), "sequence"),
    ] {
        let message = Tokens::parse(&text).expect_err(&text);
        assert!(message.contains(reason), "{reason:?} is not in {message:?}");
    }
}

#[test]
fn an_edit_keeps_comments_order_and_mode() {
    let dir = Dir::new();
    dir.create("one", None);
    let before = format!("# kept by ops\n{}\n# the end\n", fs::read_to_string(dir.file()).expect("there"));
    fs::write(dir.file(), &before).expect("written");
    fs::set_permissions(dir.file(), Permissions::from_mode(0o640)).expect("set");
    dir.create("two", None);
    let after = fs::read_to_string(dir.file()).expect("there");
    assert!(after.starts_with("# kept by ops\n[[token]]\nid = \"one\"\n"), "{after}");
    assert!(after.contains("# the end"), "{after}");
    assert_eq!(dir.mode(), 0o640, "the service's group can still read it");
    remove(&dir.file(), &id("one")).expect("removed");
    let left = Tokens::load(&dir.file()).expect("right");
    assert_eq!(left.iter().map(|token| token.id.as_str()).collect::<Vec<_>>(), ["two"]);
    assert!(matches!(remove(&dir.file(), &id("one")), Err(TokensError::Unknown { .. })));
    let names = fs::read_dir(dir.0.path()).expect("there").count();
    assert_eq!(names, 1, "nothing is left beside it");
}

#[test]
fn a_token_that_forbids_root_says_so_in_the_file() {
    let dir = Dir::new();
    dir.create("usual", None);
    let new = NewToken {
        id: id("strict"),
        tenant: "acme".into(),
        scopes: vec![Scope::Exec],
        quota: Quota::default(),
        networks: Vec::new(),
        gateway: Vec::new(),
        root: false,
        expires: None,
    };
    create(&dir.file(), &new).expect("made");
    let tokens = Tokens::load(&dir.file()).expect("read");
    let root = |name: &str| tokens.get(&id(name)).expect("there").root;
    assert_eq!((root("usual"), root("strict")), (true, false));
    let text = fs::read_to_string(dir.file()).expect("there");
    assert_eq!(text.matches("root").count(), 1, "what is usual is not written: {text}");
    // Calls that it let in as root end when it forbids root from now on.
    let now = Timestamp::now();
    let [usual, strict] = ["usual", "strict"].map(|name| tokens.get(&id(name)).expect("there").clone());
    assert!(tokens.in_force(&usual, now).is_some() && tokens.in_force(&strict, now).is_some());
    let shown = Token { root: true, ..strict };
    assert!(tokens.in_force(&shown, now).is_none());
}

#[test]
fn an_id_is_given_once() {
    let dir = Dir::new();
    dir.create("one", None);
    let before = fs::read(dir.file()).expect("there");
    let again = NewToken {
        id: id("one"),
        tenant: "other".into(),
        scopes: vec![Scope::Admin],
        quota: Quota::default(),
        networks: Vec::new(),
        gateway: Vec::new(),
        root: true,
        expires: None,
    };
    assert!(matches!(create(&dir.file(), &again), Err(TokensError::Taken { .. })));
    assert_eq!(fs::read(dir.file()).expect("there"), before);
}

#[test]
fn tokens_made_at_the_same_time_are_all_there() {
    let dir = Dir::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let dir = &dir;
            scope.spawn(move || dir.create(&format!("t{number}"), None));
        }
    });
    assert_eq!(Tokens::load(&dir.file()).expect("right").iter().count(), 8);
}

#[test]
fn a_reload_says_what_changed_and_a_bad_file_changes_nothing() {
    let dir = Dir::new();
    let first = dir.create("one", None);
    let file = TokenFile::open(&dir.file()).expect("right");
    let second = dir.create("two", None);
    assert_eq!(file.tokens().find(second.reveal(), now()), Err(Denied::Unknown));
    assert_eq!(file.reload().expect("right"), Change { added: vec![id("two")], ..Change::default() });
    assert!(file.tokens().find(second.reveal(), now()).is_ok());
    remove(&dir.file(), &id("one")).expect("removed");
    fs::write(dir.file(), fs::read_to_string(dir.file()).expect("there").replace("acme", "globex"))
        .expect("written");
    let change = file.reload().expect("right");
    assert_eq!((change.removed, change.changed), (vec![id("one")], vec![id("two")]));
    assert_eq!(file.tokens().find(first.reveal(), now()), Err(Denied::Unknown));
    fs::write(dir.file(), "nonsense").expect("written");
    assert!(matches!(file.reload(), Err(TokensError::Invalid { .. })));
    assert!(file.tokens().find(second.reveal(), now()).is_ok(), "the old tokens stay");
}

#[test]
fn a_changed_file_is_noticed_and_complained_about_once() {
    let dir = Dir::new();
    dir.create("one", None);
    let file = TokenFile::open(&dir.file()).expect("right");
    assert!(file.refresh_if_changed().is_none(), "nothing changed");
    dir.create("two", None);
    let change = file.refresh_if_changed().expect("noticed").expect("right");
    assert_eq!(change.added, [id("two")]);
    assert!(file.refresh_if_changed().is_none());
    fs::write(dir.file(), "nonsense").expect("written");
    assert!(file.refresh_if_changed().expect("noticed").is_err());
    assert!(file.refresh_if_changed().is_none(), "the same bad file is not tried again");
    assert_eq!(file.tokens().iter().count(), 2);
}

#[test]
fn no_token_is_for_the_tenant_of_the_socket() {
    let dir = Dir::new();
    let new = |tenant: &str| NewToken {
        id: id("one"),
        tenant: tenant.into(),
        scopes: vec![Scope::Exec],
        quota: Quota::default(),
        networks: Vec::new(),
        gateway: Vec::new(),
        root: true,
        expires: None,
    };
    let refused = create(&dir.file(), &new(LOCAL_TENANT)).expect_err("it is not a tenant's name");
    assert!(refused.to_string().contains("without a token"), "{refused}");
    create(&dir.file(), &new("locals")).expect("another name");
    let text = fs::read_to_string(dir.file()).expect("read");
    let planted = text.replace("\"locals\"", "\"local\"");
    assert!(planted != text && Tokens::parse(&text).is_ok());
    assert!(Tokens::parse(&planted).is_err(), "nor one that somebody wrote by hand");
}

#[test]
fn what_is_not_a_file_is_refused_and_not_waited_for() {
    let dir = Dir::new();
    let pipe = dir.file();
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let (done, told) = std::sync::mpsc::channel();
    let read = pipe.clone();
    std::thread::spawn(move || done.send(Tokens::load(&read)));
    let told = told.recv_timeout(Duration::from_secs(60)).expect("nobody writes, and it does not wait");
    assert!(matches!(told, Err(TokensError::NotAFile { .. })), "{told:?}");
    let directory = Tokens::load(pipe.parent().expect("a directory"));
    assert!(matches!(directory, Err(TokensError::NotAFile { .. })), "{directory:?}");
}

#[test]
fn a_huge_or_garbled_file_is_refused_in_few_words() {
    let dir = Dir::new();
    dir.create("one", None);
    let before = fs::read_to_string(dir.file()).expect("there");
    let comments = format!("{before}\n# {}\n", "x".repeat(4 << 20));
    let garbage = "\u{fc}".repeat(1 << 20);
    for (text, reason) in [(comments, "larger than 4 MiB"), (garbage, "not a valid tokens file")] {
        fs::write(dir.file(), text).expect("written");
        let error = Tokens::load(&dir.file()).expect_err("no good").to_string();
        assert!(error.contains(reason) && error.len() < 2048, "{} bytes: {error:.300}", error.len());
    }
}

#[test]
fn a_thread_keeps_the_tokens_current_until_nobody_wants_them() {
    let dir = Dir::new();
    dir.create("one", None);
    let file = Arc::new(TokenFile::open(&dir.file()).expect("right"));
    let refresh = file.keep_current().expect("a thread");
    dir.create("two", None);
    block_until("the second token", || file.tokens().iter().count() == 2);
    // Asked, it reads what it believes to know.
    let seen = file.subscribe();
    refresh.ask();
    block_until("read again", || seen.has_changed().unwrap_or(false));
    drop(refresh);
    block_until("the end of the thread", || Arc::strong_count(&file) == 1);
}
