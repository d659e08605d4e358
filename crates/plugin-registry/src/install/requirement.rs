//! Requirements of packages, such as `nvidia-cudnn-cu13<10.0,>=9.12; sys_platform == "linux"`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use pep440_rs::{Operator, Version, VersionSpecifiers};

use super::marker::{Environment, Marker};
use crate::discovery::normalize;

/// A requirement for a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    /// Normalized name of the package.
    pub(super) package: String,
    /// Normalized names of the requested extras.
    pub(super) extras: BTreeSet<String>,
    pub(super) versions: VersionSpecifiers,
    pub(super) marker: Option<Marker>,
}

impl Requirement {
    /// Returns whether the requirement applies.
    pub(super) fn applies(&self, environment: Environment<'_>) -> Result<bool, String> {
        self.marker.as_ref().map_or(Ok(true), |marker| marker.holds(environment))
    }

    /// Returns whether the requirement names this exact version.
    pub(super) fn names(&self, version: &Version) -> bool {
        self.versions.iter().any(|one| matches!(one.operator(), Operator::Equal | Operator::ExactEqual))
            && self.versions.contains(version)
    }

    /// Returns whether the requirement mentions a pre-release.
    pub(super) fn mentions_prerelease(&self) -> bool {
        self.versions.iter().any(|one| one.any_prerelease())
    }
}

impl FromStr for Requirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (head, marker) = match text.split_once(';') {
            Some((head, marker)) => (head, Some(Marker::parse(marker)?)),
            None => (text, None),
        };
        let head = head.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let (name, rest) = head.split_at(head.find(|c| !is_name(c)).unwrap_or(head.len()));
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        if !edge(name.chars().next()) || !edge(name.chars().next_back()) {
            return Err(format!("{name:?} is not a package's name"));
        }
        let rest = rest.trim_start();
        let (extras, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("the bracket of the extras is not closed")?,
            None => ("", rest),
        };
        let extras = extras.split(',').map(str::trim).filter(|extra| !extra.is_empty()).map(normalize).collect();
        let versions = rest.trim();
        if versions.starts_with('@') {
            return Err("a requirement with an address is not supported".to_owned());
        }
        let inner = versions.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(versions);
        let versions = VersionSpecifiers::from_str(inner).map_err(|error| {
            // The first line describes the fault, and the others point to it.
            let text = error.to_string();
            let fault = text.lines().next().unwrap_or("it is invalid").trim_end_matches(':');
            format!("{inner:?} is not a version: {}", fault.trim_start_matches("Failed to parse version: "))
        })?;
        Ok(Self { package: normalize(name), extras, versions, marker })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.package)?;
        if !self.extras.is_empty() {
            write!(f, "[{}]", self.extras.iter().cloned().collect::<Vec<_>>().join(","))?;
        }
        f.write_str(&self.versions.to_string().replace(' ', ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (text, shown) in [
            ("libtpu", "libtpu"),
            ("Lib_TPU.x == 0.0.52", "lib-tpu-x==0.0.52"),
            ("jax-cuda13-plugin [With_CUDA , local] (>=0.9,<1)", "jax-cuda13-plugin[local,with-cuda]>=0.9,<1"),
            ("a==1.*; extra == 'x'", "a==1.*"),
        ] {
            assert_eq!(text.parse::<Requirement>().unwrap().to_string(), shown, "{text}");
        }
        for text in
            ["", "-a", "a-", "a[x", "a @ https://example.com/a.whl", "a=1", "a>=", "a; b", "a b", "../a", "a>=1*"]
        {
            assert!(text.parse::<Requirement>().is_err(), "{text}");
        }
    }
}
