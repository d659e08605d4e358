//! Determines the platform tag of a wheel. pip uses the tag to decide on which systems the wheel can be installed.

use super::library::Library;

/// Libraries that a manylinux wheel may expect on every system (PEP 600, and the tools that check wheels).
const SYSTEM: &[&str] = &[
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "libutil.so.1",
    "libnsl.so.1",
    "libresolv.so.2",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libatomic.so.1",
    "libz.so.1",
    "libexpat.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "ld-linux.so.2",
    "ld-linux-armhf.so.3",
    "ld64.so.2",
    "ld64.so.1",
];

/// Pairs of the patch number N of a symbol version `GLIBCXX_3.4.N` of libstdc++, and the minor version of glibc on the
/// oldest system whose libstdc++ has this symbol version.
const LIBSTDCXX: &[(u32, u32)] =
    &[(13, 12), (19, 17), (22, 24), (24, 27), (25, 28), (28, 31), (29, 34), (30, 35), (32, 38), (33, 39)];

/// A platform tag. If it is weaker than a manylinux tag, `note` states the reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) tag: String,
    pub(crate) note: Option<String>,
}

/// Returns the platform tag for a library. `beside` contains the names of the other files in the library's folder.
pub(crate) fn of(library: &Library, beside: &[String]) -> Tag {
    let architecture = library.architectures.first().copied().unwrap_or_default();
    match library.os {
        "macos" => Tag { tag: macos(library), note: None },
        "windows" => {
            let tag = match architecture {
                "x86" => "win32".to_owned(),
                "aarch64" => "win_arm64".to_owned(),
                _ => "win_amd64".to_owned(),
            };
            Tag { tag, note: None }
        }
        _ => {
            let architecture = linux_architecture(architecture);
            match manylinux(library, beside) {
                Ok(minor) => Tag { tag: format!("manylinux_2_{minor}_{architecture}"), note: None },
                Err(note) => Tag { tag: format!("linux_{architecture}"), note: Some(note) },
            }
        }
    }
}

fn macos(library: &Library) -> String {
    let architecture = match library.architectures.as_slice() {
        [_, _, ..] => "universal2",
        ["aarch64"] => "arm64",
        _ => "x86_64",
    };
    // The oldest version of macOS that a tag may name, for each architecture. From macOS 11 on, the minor version in
    // Python's tags is 0.
    let first = if architecture == "x86_64" { (10, 9) } else { (11, 0) };
    let (major, minor) = library.macos.unwrap_or(first).max(first);
    format!("macosx_{major}_{}_{architecture}", if major >= 11 { 0 } else { minor })
}

fn linux_architecture(name: &'static str) -> &'static str {
    match name {
        "x86" => "i686",
        "arm" => "armv7l",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// Returns the minor version of the oldest glibc that the library supports, or the reason why the wheel cannot have a
/// manylinux tag.
fn manylinux(library: &Library, beside: &[String]) -> Result<u32, String> {
    let strangers: Vec<&str> = library
        .needed
        .iter()
        .map(String::as_str)
        .filter(|name| !SYSTEM.contains(name) && !beside.iter().any(|file| file == name))
        .collect();
    if !strangers.is_empty() {
        return Err(format!(
            "it needs {}, which some Linux systems lack; add such files with --include for a manylinux wheel",
            strangers.join(", ")
        ));
    }
    if library.versions.is_empty() {
        return Err("it does not record the version of glibc that it was linked with".to_owned());
    }
    // pip does not accept manylinux tags older than 2.5.
    let mut oldest = 5;
    for version in &library.versions {
        if let Some(minor) = version.strip_prefix("GLIBC_2.") {
            let minor = minor.split('.').next().and_then(|digits| digits.parse().ok());
            oldest = oldest.max(minor.ok_or_else(|| format!("it needs {version}, which no release of glibc has"))?);
        } else if let Some(patch) = version.strip_prefix("GLIBCXX_3.4") {
            let patch: u32 = patch.strip_prefix('.').and_then(|digits| digits.parse().ok()).unwrap_or(0);
            let system = LIBSTDCXX.iter().find(|(last, _)| patch <= *last);
            let (_, minor) = system.ok_or_else(|| format!("it needs {version}, newer than any manylinux has"))?;
            oldest = oldest.max(*minor);
        }
    }
    Ok(oldest)
}

/// Rejects a tag that is not a platform tag, or that includes systems on which the library does not work.
pub(crate) fn check(tag: &str, library: &Library, beside: &[String]) -> Result<(), String> {
    let fits = |os: &str, architectures: &[&str]| {
        os == library.os && architectures.iter().all(|wanted| library.architectures.contains(wanted))
    };
    let is_for = || {
        let architectures = library.architectures.join(" and ");
        format!("--platform-tag {tag}: the library is for {} on {architectures}", library.os)
    };
    // The tag ends with the architecture, which may itself contain an underscore (`x86_64`).
    let parts = |prefix: &str| -> Option<String> {
        let rest = tag.strip_prefix(prefix)?;
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
        Some(rest.to_owned())
    };
    let known = |name: &str| -> Option<Vec<&'static str>> {
        Some(match name {
            "x86_64" | "amd64" => vec!["x86_64"],
            "i686" => vec!["x86"],
            "aarch64" | "arm64" => vec!["aarch64"],
            "armv7l" => vec!["arm"],
            "riscv64" => vec!["riscv64"],
            "ppc64le" => vec!["powerpc64"],
            "s390x" => vec!["s390x"],
            "loongarch64" => vec!["loongarch64"],
            "universal2" => vec!["x86_64", "aarch64"],
            _ => return None,
        })
    };
    let strange = || {
        format!(
            "--platform-tag {tag}: not a tag of a wheel; write one such as {}, or leave it out",
            of(library, beside).tag
        )
    };
    if tag == "win32" {
        return if fits("windows", &["x86"]) { Ok(()) } else { Err(is_for()) };
    }
    let prefixes = [
        ("manylinux2014_", "linux"),
        ("manylinux2010_", "linux"),
        ("manylinux1_", "linux"),
        ("manylinux_", "linux"),
        ("musllinux_", "linux"),
        ("linux_", "linux"),
        ("macosx_", "macos"),
        ("win_", "windows"),
    ];
    let found = prefixes.iter().find_map(|(prefix, os)| Some((*prefix, *os, parts(prefix)?)));
    let Some((prefix, os, architecture)) = found else { return Err(strange()) };
    let Some(architectures) = known(&architecture) else { return Err(strange()) };
    if !fits(os, &architectures) {
        return Err(is_for());
    }
    let promised = match prefix {
        "manylinux1_" => 5,
        "manylinux2010_" => 12,
        "manylinux2014_" => 17,
        "manylinux_" => {
            let digits = tag.strip_prefix("manylinux_2_").and_then(|rest| rest.split('_').next());
            digits.and_then(|digits| digits.parse().ok()).ok_or_else(strange)?
        }
        _ => return Ok(()),
    };
    match manylinux(library, beside) {
        Ok(needed) if needed <= promised => Ok(()),
        Ok(needed) => Err(format!(
            "--platform-tag {tag}: the library needs glibc 2.{needed} (or a system as new), not 2.{promised}"
        )),
        Err(note) => Err(format!("--platform-tag {tag}: {note}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linux(needed: &[&str], versions: &[&str]) -> Library {
        Library {
            os: "linux",
            architectures: vec!["x86_64"],
            needed: needed.iter().map(|&name| name.to_owned()).collect(),
            versions: versions.iter().map(|&name| name.to_owned()).collect(),
            ..Library::default()
        }
    }

    #[test]
    fn linux_tags_follow_the_newest_symbol() {
        let of = |library: &Library| of(library, &[]).tag;
        let rust = linux(&["libc.so.6", "libgcc_s.so.1"], &["GLIBC_2.2.5", "GLIBC_2.28", "GLIBC_2.9", "GCC_3.0"]);
        assert_eq!(of(&rust), "manylinux_2_28_x86_64");
        let cpp = linux(&["libc.so.6", "libstdc++.so.6"], &["GLIBC_2.17", "GLIBCXX_3.4", "GLIBCXX_3.4.29"]);
        assert_eq!(of(&cpp), "manylinux_2_34_x86_64");
        assert_eq!(of(&linux(&[], &["GLIBC_2.17", "GLIBCXX_3.4.99"])), "linux_x86_64");
        assert_eq!(of(&linux(&[], &["GLIBC_PRIVATE", "GLIBC_2.17"])), "manylinux_2_17_x86_64");
        assert_eq!(of(&linux(&[], &[])), "linux_x86_64");
    }

    #[test]
    fn names_missing_dependencies() {
        let library = linux(&["libc.so.6", "libmpi.so.12"], &["GLIBC_2.17"]);
        let tag = of(&library, &[]);
        assert_eq!(tag.tag, "linux_x86_64");
        assert!(tag.note.unwrap().contains("libmpi.so.12"));
        assert_eq!(of(&library, &["libmpi.so.12".to_owned()]).tag, "manylinux_2_17_x86_64");
    }

    #[test]
    fn other_systems() {
        let on = |os, architectures: &[&'static str], macos| {
            of(&Library { os, architectures: architectures.to_vec(), macos, ..Library::default() }, &[]).tag
        };
        assert_eq!(on("macos", &["aarch64"], Some((12, 3))), "macosx_12_0_arm64");
        assert_eq!(on("macos", &["x86_64"], Some((10, 12))), "macosx_10_12_x86_64");
        assert_eq!(on("macos", &["x86_64", "aarch64"], Some((10, 12))), "macosx_11_0_universal2");
        assert_eq!(on("macos", &["aarch64"], None), "macosx_11_0_arm64");
        assert_eq!(on("windows", &["x86_64"], None), "win_amd64");
        assert_eq!(on("windows", &["x86"], None), "win32");
    }

    #[test]
    fn tags_must_be_true() {
        let library = linux(&["libc.so.6"], &["GLIBC_2.28"]);
        let check = |tag| check(tag, &library, &[]);
        for tag in ["linux_x86_64", "manylinux_2_28_x86_64", "manylinux_2_35_x86_64", "musllinux_1_2_x86_64"] {
            assert_eq!(check(tag), Ok(()), "{tag}");
        }
        for (tag, says) in [
            ("manylinux2014_x86_64", "needs glibc 2.28"),
            ("manylinux_2_17_x86_64", "needs glibc 2.28"),
            ("manylinux_2_28_aarch64", "is for linux on x86_64"),
            ("macosx_11_0_x86_64", "is for linux on x86_64"),
            ("win_amd64", "is for linux on x86_64"),
            ("win32", "is for linux on x86_64"),
            ("linux", "write one such as manylinux_2_28_x86_64"),
            ("any", "not a tag"),
            ("manylinux_x86_64", "not a tag"),
        ] {
            let error = check(tag).unwrap_err();
            assert!(error.contains(says), "{tag}: {error}");
        }
    }
}
