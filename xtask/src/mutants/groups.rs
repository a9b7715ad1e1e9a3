//! Which bugs are planted together. Called by `passes`; it builds and runs nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::list::Mutant;

/// Bugs that are planted at once.
pub type Group<'a> = Vec<&'a Mutant>;

/// Which tests stayed green with which other bugs planted.
#[derive(Debug, Default)]
pub struct Cleared<'a>(BTreeSet<(&'a str, &'a str)>);

impl<'a> Cleared<'a> {
    /// The test of one bug stayed green in a build with all these and without its own.
    pub fn stayed_green(&mut self, test_of: &'a Mutant, planted: &Group<'a>) {
        self.0.extend(planted.iter().map(|other| (test_of.name.as_str(), other.name.as_str())));
    }

    /// Neither bug turns the test of the other red.
    fn of_each_other(&self, one: &Mutant, other: &Mutant) -> bool {
        let (one, other) = (one.name.as_str(), other.name.as_str());
        self.0.contains(&(one, other)) && self.0.contains(&(other, one))
    }
}

/// The bugs whose tests are built together: a package's unit tests, or its integration tests. Unit tests come first: they
/// take less.
pub fn families<'a>(mutants: &[&'a Mutant]) -> Vec<Vec<&'a Mutant>> {
    let mut families: BTreeMap<(bool, &str), Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        families.entry((is_integration(mutant), &mutant.package)).or_default().push(mutant);
    }
    families.into_values().collect()
}

/// What a family is called.
pub fn name(family: &[&Mutant]) -> String {
    let package = family.first().map_or("", |mutant| &mutant.package);
    let kind = if family.iter().any(|mutant| is_integration(mutant)) { "integration" } else { "unit" };
    format!("{package} ({kind} tests, {} bugs)", family.len())
}

fn is_integration(mutant: &Mutant) -> bool {
    !["lib", "bin"].contains(&mutant.target.as_str())
}

/// Groups in which no two bugs have a file or a test in common: as many groups as each has bugs, about, so that another
/// division can part all that are together.
pub fn first<'a>(family: &[&'a Mutant]) -> Vec<Group<'a>> {
    divided(family, |_, _| true)
}

/// Groups of bugs that do not turn each other's tests red.
pub fn second<'a>(family: &[&'a Mutant], cleared: &Cleared<'a>) -> Vec<Group<'a>> {
    // Those of one target in a row: the fewer targets a group has, the less is built.
    let mut family = family.to_vec();
    family.sort_by_key(|mutant| &mutant.target);
    divided(&family, |one, other| cleared.of_each_other(one, other))
}

fn divided<'a>(family: &[&'a Mutant], together: impl Fn(&Mutant, &Mutant) -> bool) -> Vec<Group<'a>> {
    let most = family.len().isqrt() + 1;
    let mut groups: Vec<Group<'_>> = Vec::new();
    for mutant in family {
        let fits = |other: &&Mutant| {
            mutant.file != other.file && mutant.test != other.test && together(mutant, other)
        };
        match groups.iter_mut().find(|group| group.len() < most && group.iter().all(fits)) {
            Some(group) => group.push(mutant),
            None => groups.push(vec![mutant]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str, file: &str, target: &str, test: &str) -> Mutant {
        Mutant {
            name: name.into(),
            bug: "b".into(),
            file: file.into(),
            replace: "a".into(),
            with: "b".into(),
            package: "p".into(),
            target: target.into(),
            test: test.into(),
        }
    }

    fn names(groups: &[Group<'_>]) -> Vec<Vec<String>> {
        groups.iter().map(|group| group.iter().map(|mutant| mutant.name.clone()).collect()).collect()
    }

    #[test]
    fn no_two_of_a_group_have_a_file_or_a_test_in_common() {
        let all = [
            mutant("a", "1", "lib", "t1"),
            mutant("b", "1", "lib", "t2"),
            mutant("c", "2", "lib", "t1"),
            mutant("d", "3", "lib", "t3"),
        ];
        let groups = first(&all.iter().collect::<Vec<_>>());
        assert_eq!(names(&groups), [vec!["a", "d"], vec!["b", "c"]]);
    }

    #[test]
    fn unit_tests_are_not_built_with_integration_tests() {
        let all = [
            mutant("a", "1", "lib", "t1"),
            mutant("b", "2", "grpc", "t2"),
            mutant("c", "3", "bin", "t3"),
            mutant("d", "4", "http", "t4"),
        ];
        let families = families(&all.iter().collect::<Vec<_>>());
        assert_eq!(names(&families), [vec!["a", "c"], vec!["b", "d"]]);
    }

    #[test]
    fn a_red_counts_only_beside_bugs_that_leave_the_test_green() {
        let all = [
            mutant("a", "1", "lib", "t1"),
            mutant("b", "2", "lib", "t2"),
            mutant("c", "3", "lib", "t3"),
            mutant("d", "4", "lib", "t4"),
        ];
        let [a, b, c, d] = all.each_ref();
        let (one, other) = (vec![a, b], vec![c, d]);
        let mut cleared = Cleared::default();
        for (test, planted) in [(a, &other), (b, &other), (c, &one)] {
            cleared.stayed_green(test, planted);
        }
        // The test of `d` was red beside `a` and `b`, and nothing was seen of those that were planted together.
        let groups = second(&[a, b, c, d], &cleared);
        assert_eq!(names(&groups), [vec!["a", "c"], vec!["b"], vec!["d"]]);
        cleared.stayed_green(d, &one);
        let groups = second(&[a, b, c, d], &cleared);
        assert_eq!(names(&groups), [vec!["a", "c"], vec!["b", "d"]]);
    }
}
