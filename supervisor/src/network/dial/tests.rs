//! What a resolver's answer leads to. Nothing here leaves the machine: addresses that would are screened before.

use std::sync::Mutex;

use super::*;

/// Answers in turn, the last one for ever, and counts.
#[derive(Default)]
struct Scripted {
    answers: Vec<Vec<IpAddr>>,
    asked: Mutex<Vec<String>>,
    own: Vec<IpAddr>,
}

impl Resolve for Scripted {
    fn lookup<'a>(&'a self, name: &'a HostName) -> Lookup<'a> {
        let mut asked = self.asked.lock().unwrap();
        let answer = self.answers.get(asked.len()).or(self.answers.last()).cloned();
        asked.push(name.to_string());
        Box::pin(async move { answer.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }

    fn own(&self) -> io::Result<Vec<IpAddr>> {
        Ok(self.own.clone())
    }
}

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn scripted(answers: &[&[&str]]) -> Arc<Scripted> {
    Arc::new(Scripted { answers: answers.iter().map(|answer| ips(answer)).collect(), ..Scripted::default() })
}

fn target(text: &str) -> Target {
    Target::Name(name(text))
}

fn dialer(resolver: &Arc<Scripted>) -> Dialer {
    Dialer::new(resolver.clone(), BTreeMap::new())
}

/// Never answers for some names, as resolvers do whose servers are silent.
struct Silent(Semaphore);

impl Resolve for Silent {
    fn lookup<'a>(&'a self, name: &'a HostName) -> Lookup<'a> {
        Box::pin(async move {
            if name.to_string().starts_with("silent") {
                // As a thread does, it goes on when nobody waits for it.
                let _ = self.0.acquire().await;
            }
            Ok(ips(&["127.0.0.1"]))
        })
    }

    fn own(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_one_sandbox_that_never_resolve_hold_up_nobody_elses() {
    let resolver = Arc::new(Silent(Semaphore::new(0)));
    let one = Dialer::new(resolver.clone(), BTreeMap::new());
    let other = one.clone().for_another();
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..2 * MAX_LOOKUPS {
        let (one, target) = (one.clone(), target(&format!("silent{number}.example.com")));
        asked.spawn(async move { one.dial(&target, 9).await });
    }
    while let Some(ended) = asked.join_next().await {
        assert!(matches!(ended.unwrap(), Err(DialError::Lookup(_))));
    }
    // Its turns are not free yet, for the threads are not; another's are.
    let late = one.dial(&target("loopback.example.com"), 9).await;
    assert!(matches!(late, Err(DialError::Lookup(_))), "{late:?}");
    let prompt = other.dial(&target("loopback.example.com"), 9).await;
    assert!(matches!(prompt, Err(DialError::Private)), "{prompt:?}");
    resolver.0.add_permits(MAX_LOOKUPS);
    let again = one.dial(&target("loopback.example.com"), 9).await;
    assert!(matches!(again, Err(DialError::Private)), "{again:?}");
}

#[tokio::test]
async fn a_name_that_leads_to_private_addresses_alone_is_not_dialled() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for answer in [
        &["127.0.0.1"][..],
        &["::ffff:127.0.0.1"],
        &["::1", "127.0.0.1", "169.254.169.254"],
        &["64:ff9b::7f00:1"],
        &["0.0.0.0"],
    ] {
        let error = dialer(&scripted(&[answer])).dial(&target("rebind.example.com"), port).await.unwrap_err();
        assert!(matches!(error, DialError::Private), "{answer:?}: {error}");
    }
    let nobody = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
    assert!(nobody.is_err(), "somebody connected");
}

#[tokio::test]
async fn of_a_mixed_answer_only_what_may_be_dialled_is_left() {
    let resolver = scripted(&[&["10.0.0.1", "1.1.1.1", "::1", "2606:4700::1111"]]);
    let addresses = dialer(&resolver).addresses(&name("mixed.example.com"), 443).await.unwrap();
    let expected: Vec<SocketAddr> =
        ["1.1.1.1:443", "[2606:4700::1111]:443"].iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(addresses, expected);
}

#[tokio::test]
async fn the_hosts_own_addresses_are_not_dialled() {
    let own = Arc::new(Scripted {
        own: ips(&["1.1.1.1"]),
        answers: vec![ips(&["1.1.1.1"])],
        ..Scripted::default()
    });
    let error = dialer(&own).addresses(&name("self.example.com"), 443).await.unwrap_err();
    assert!(matches!(error, DialError::Private));
}

#[tokio::test]
async fn the_very_address_that_was_screened_is_dialled_and_the_name_looked_up_once() {
    // The second answer would be the attack: it is never asked for.
    let resolver = scripted(&[&["1.1.1.1"], &["127.0.0.1"]]);
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stand_in = server.local_addr().unwrap();
    let dialled = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&dialled);
    let dialer = dialer(&resolver).connecting_by(Arc::new(move |address| {
        seen.lock().unwrap().push(address);
        Box::pin(TcpStream::connect(stand_in))
    }));
    for connection in 1..=2 {
        *resolver.asked.lock().unwrap() = Vec::new();
        dialer.dial(&target("rebind.example.com"), 443).await.expect("the public address is dialled");
        assert_eq!(*resolver.asked.lock().unwrap(), ["rebind.example.com"]);
        assert_eq!(*dialled.lock().unwrap(), vec!["1.1.1.1:443".parse().unwrap(); connection]);
    }
    // One that has changed before the next connection is screened anew.
    let changed = dialer.dial(&target("rebind.example.com"), 443).await;
    assert!(matches!(changed, Err(DialError::Private)), "{changed:?}");
    assert_eq!(dialled.lock().unwrap().len(), 2, "it was dialled");
}

#[tokio::test]
async fn a_mapped_name_leads_where_the_operator_says_and_is_not_looked_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let resolver = scripted(&[]);
    let hosts = BTreeMap::from([(name("pypi.org"), listener.local_addr().unwrap())]);
    let dialer = Dialer::new(resolver.clone(), hosts);
    let pypi = target("pypi.org");
    let (dialled, accepted) = tokio::join!(dialer.dial(&pypi, 443), listener.accept());
    assert_eq!(dialled.unwrap().local_addr().unwrap(), accepted.unwrap().1);
    assert!(resolver.asked.lock().unwrap().is_empty());
    assert!(matches!(dialer.dial(&target("www.pypi.org"), 443).await, Err(DialError::Lookup(_))));
}

#[test]
fn the_hosts_own_addresses_are_found() {
    let own = SystemResolver.own().unwrap();
    assert!(own.contains(&"127.0.0.1".parse().unwrap()), "{own:?}");
}
