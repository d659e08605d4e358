//! Versions as Python packages write them.

/// The version of a wheel: what the user says, else the manifest, else the crate.
pub(crate) fn of(given: Option<&str>, manifest: &str, crate_version: Option<&str>) -> Result<String, String> {
    let manifest = (!manifest.is_empty()).then_some(manifest);
    let Some(version) = given.or(manifest).or(crate_version) else {
        return Err("no version: write \"version\" in the manifest, or give --version".to_owned());
    };
    python(version).ok_or_else(|| {
        format!("{version:?} is no version of a Python package: write numbers with dots, as in 1.2.0, 1.2.0rc1 or 1.2.0.dev3")
    })
}

/// A version of a crate or a Python package in Python's own form (PEP 440): `0.1.0-alpha.2` becomes `0.1.0a2`.
fn python(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (public, local) = match text.split_once('+') {
        Some((public, local)) => (public, Some(local)),
        None => (text.as_str(), None),
    };
    let end = public.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(public.len());
    // The dot before `dev` and `post` is not part of the release.
    let release = public[..end].trim_end_matches('.');
    if !release.split('.').all(|part| !part.is_empty()) {
        return None;
    }
    let mut version = release.to_owned();
    let mut rest = &public[release.len()..];
    let suffixes = [
        ("alpha", "a"),
        ("beta", "b"),
        ("preview", "rc"),
        ("pre", "rc"),
        ("rc", "rc"),
        ("a", "a"),
        ("b", "b"),
        ("post", ".post"),
        ("dev", ".dev"),
    ];
    let mut last = 0;
    while !rest.is_empty() {
        let name = rest.trim_start_matches(['.', '-', '_']);
        let (index, (word, canonical)) = suffixes.iter().enumerate().find(|(_, (word, _))| name.starts_with(word))?;
        // A pre-release, then post, then dev, each once.
        let rank = match index {
            0..7 => 1,
            7 => 2,
            _ => 3,
        };
        if rank <= last {
            return None;
        }
        last = rank;
        let number = name[word.len()..].trim_start_matches(['.', '-', '_']);
        let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        version.push_str(canonical);
        version.push_str(if digits == 0 { "0" } else { &number[..digits] });
        rest = &number[digits..];
    }
    if let Some(local) = local {
        let fits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !local.split(['.', '-', '_']).all(fits) {
            return None;
        }
        version.push('+');
        version.push_str(&local.replace(['-', '_'], "."));
    }
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_pythons() {
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
            assert_eq!(python(given).as_deref(), Some(expected), "{given}");
        }
        for text in ["", "v1", "1..2", "1.", ".1", "1.0-nightly", "1.0 ", "1/2", "1.0+", "1.0+a b", "1.0.dev1.dev2"] {
            assert_eq!(python(text), None, "{text}");
        }
    }

    #[test]
    fn the_user_comes_first() {
        assert_eq!(of(Some("3"), "2", Some("1")).unwrap(), "3");
        assert_eq!(of(None, "2", Some("1")).unwrap(), "2");
        assert_eq!(of(None, "", Some("1")).unwrap(), "1");
        assert!(of(None, "", None).unwrap_err().contains("--version"));
        assert!(of(Some("x"), "2", None).unwrap_err().contains("\"x\" is no version"));
    }
}
