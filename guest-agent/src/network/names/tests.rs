//! Names and the addresses that stand for them.

use super::*;

#[test]
fn a_name_keeps_its_address_and_the_address_its_name() {
    let mut names = Names::default();
    let pypi = names.address("pypi.org");
    let npm = names.address("registry.npmjs.org");
    assert_ne!(pypi, npm);
    assert_eq!(names.address("pypi.org"), pypi);
    assert_eq!(names.name(pypi), Some("pypi.org"));
    assert_eq!(names.name(npm), Some("registry.npmjs.org"));
    for other in [[198, 18, 0, 1], [198, 18, 1, 2], [127, 0, 0, 1], [255, 255, 255, 255]] {
        assert_eq!(names.name(Ipv4Addr::from(other)), None);
    }
}

#[test]
fn when_all_places_are_taken_the_oldest_name_gives_way_and_memory_stays_flat() {
    let mut names = Names::default();
    let first = names.address("first.example");
    let second = names.address("second.example");
    for number in 2..MAX_NAMES {
        names.address(&format!("{number}.example"));
    }
    assert_eq!(names.name(first), Some("first.example"));
    assert_eq!(names.address("one.more.example"), first);
    assert_eq!(names.name(first), Some("one.more.example"));
    assert_eq!(names.name(second), Some("second.example"));
    for number in 0..3 * MAX_NAMES {
        let name = format!("{number}.flood.example");
        let address = names.address(&name);
        assert_eq!(names.name(address), Some(name.as_str()));
        let [a, b, ..] = address.octets();
        assert_eq!((a, b & 0xfe), (198, 18), "an address outside of the network");
    }
    assert_eq!((names.by_name.len(), names.by_place.len()), (MAX_NAMES, MAX_NAMES));
}
