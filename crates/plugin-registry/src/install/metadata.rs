//! The metadata of packages: the requirements in the file `METADATA` of a wheel.

use super::requirement::Requirement;

/// Maximum size in bytes of a `METADATA` file. It contains the package's description, which may have some 100 kB.
pub(super) const LARGEST: u64 = 8 << 20;
/// Maximum number of requirements of a package.
const MOST_REQUIREMENTS: usize = 2000;

/// The part of a package's metadata that an installation uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    /// The requirements. A fault of a requirement matters only if the requirement cannot be left out.
    pub(super) requires: Vec<Result<Requirement, String>>,
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
        let parse = |text: String| text.parse().map_err(|why| format!("the requirement {text:?}: {why}"));
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
        assert_eq!(metadata.requires[0].as_ref().unwrap().package, "b");
        assert!(metadata.requires[1].is_err());
    }
}
