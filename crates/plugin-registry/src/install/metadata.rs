//! The metadata of packages: the requirements in the file `METADATA` of a wheel.

use super::requirement::Requirement;

/// Maximum size in bytes of a `METADATA` file. It contains the package's description, which may have some 100 kB.
pub(super) const LARGEST: u64 = 8 << 20;
/// Maximum number of requirements of a package.
const MOST_REQUIREMENTS: usize = 2000;

/// The part of a package's metadata that an installation uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    /// The text of each requirement, and the requirement or its fault.
    pub(super) requires: Vec<(String, Result<Requirement, String>)>,
}

impl Metadata {
    /// Reads the headers, which end at the first empty line.
    pub(super) fn parse(text: &str) -> Self {
        let headers = text.lines().take_while(|line| !line.trim().is_empty());
        let is_requirement = |line: &str| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("Requires-Dist").then(|| value.trim().to_owned())
        };
        let requires = headers.filter_map(is_requirement).take(MOST_REQUIREMENTS);
        let parse = |text: String| {
            let requirement = text.parse();
            (text, requirement)
        };
        Self { requires: requires.map(parse).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_only() {
        let text = "Name: a\nRequires-Dist: b>=1\r\nrequires-dist:c @ file:///c\n\nRequires-Dist: d\n";
        let metadata = Metadata::parse(text);
        assert_eq!(metadata.requires.len(), 2);
        assert_eq!(metadata.requires[0].1.as_ref().unwrap().package, "b");
        assert!(metadata.requires[1].1.is_err());
    }
}
