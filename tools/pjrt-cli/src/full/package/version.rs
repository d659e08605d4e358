//! Determines the version of a wheel, in the form of Python packages (PEP 440).

use pep440_rs::Version;

/// Returns the version of a wheel: `--version` if it is given, or else the manifest's version, or else the crate's. The
/// result is in the normal form that pip compares. For example, `0.1.0-alpha.2` becomes `0.1.0a2`.
pub(crate) fn of(given: Option<&str>, manifest: &str, crate_version: Option<&str>) -> Result<String, String> {
    let manifest = (!manifest.is_empty()).then_some(manifest);
    let Some(text) = given.or(manifest).or(crate_version) else {
        return Err("the version is unknown; write \"version\" in the manifest, or give --version".to_owned());
    };
    let version: Version = text.parse().map_err(|error| {
        format!("{text:?} is not a version of a Python package, such as 1.2.0, 1.2.0rc1 or 1.2.0.dev3: {error}")
    })?;
    Ok(version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_normal_form() {
        for (given, expected) in [
            ("1.2.3", "1.2.3"),
            ("2026.1", "2026.1"),
            ("0.1.0-alpha.2", "0.1.0a2"),
            ("0.1.0-RC1", "0.1.0rc1"),
            ("0.1.0-pre", "0.1.0rc0"),
            ("1.0.dev3", "1.0.dev3"),
            ("1.0a1.dev3", "1.0a1.dev3"),
            ("1.0.post1", "1.0.post1"),
            ("1.0+cuda12-1", "1.0+cuda12.1"),
        ] {
            assert_eq!(of(Some(given), "", None).as_deref(), Ok(expected), "{given}");
        }
        for text in ["", "1..2", "1.", ".1", "1.0-nightly", "1/2", "1.0+", "1.0+a b", "1.0.dev1.dev2"] {
            let error = of(Some(text), "", None).unwrap_err();
            assert!(error.contains("is not a version of a Python package"), "{text}: {error}");
        }
    }

    #[test]
    fn option_overrides_manifest_and_crate() {
        assert_eq!(of(Some("3"), "2", Some("1")).unwrap(), "3");
        assert_eq!(of(None, "2", Some("1")).unwrap(), "2");
        assert_eq!(of(None, "", Some("1")).unwrap(), "1");
        assert!(of(None, "", None).unwrap_err().contains("--version"));
    }
}
