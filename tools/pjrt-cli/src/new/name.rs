//! Checks the names of plugins.

use device_plugin::manifest::MAX_NAME_LENGTH;
use device_plugin::{Manifest, builtin};

/// Names that JAX always reserves: its own platforms `cpu` and `tpu`, and `gpu`, which is its alias for CUDA and ROCm.
const JAX_NAMES: [&str; 3] = ["cpu", "tpu", "gpu"];

/// Words that cannot name a crate, module or type: the keywords of Rust, then the keywords that only Python has.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "and",
    "assert", "class", "def", "del", "elif", "except", "finally", "from", "global", "import", "is", "lambda",
    "nonlocal", "not", "or", "pass", "raise", "with",
];

/// Returns whether Windows reserves a name for a device, so that no file or folder can have it.
fn is_windows_device(name: &str) -> bool {
    let is_port = |kind| matches!(name.strip_prefix(kind).map(str::as_bytes), Some([b'0'..=b'9']));
    matches!(name, "con" | "prn" | "aux" | "nul") || is_port("com") || is_port("lpt")
}

/// Rejects the names in [`JAX_NAMES`].
pub(crate) fn check_for_jax(name: &str) -> Result<(), String> {
    if JAX_NAMES.contains(&name) {
        return Err(format!(
            "{name:?} is a platform of JAX itself, so users who select it never get the plugin; choose another name, \
             such as \"acme_{name}\""
        ));
    }
    Ok(())
}

/// Rejects a name that is too long, that is not a valid plugin name, that Cargo or pip would change, that is a keyword
/// of Rust or Python, or that is a device of Windows. Returns a warning if another plugin has the same name.
pub(crate) fn check(name: &str) -> Result<Option<String>, String> {
    if name.len() > MAX_NAME_LENGTH {
        let start: String = name.chars().take(16).collect();
        return Err(format!("{start:?}... has {} characters; write at most {MAX_NAME_LENGTH}", name.len()));
    }
    if Manifest::new(name).validate().is_err() {
        let meant = suggestion(name);
        let meant = meant.map_or_else(String::new, |meant| format!(", such as {meant:?}"));
        return Err(format!(
            "{name:?} is not a valid plugin name; write a lower-case letter, then lower-case letters, digits and \
             underscores{meant}"
        ));
    }
    if name.ends_with('_') || name.contains("__") {
        return Err(format!(
            "{name:?} has two underscores in a row or one at the end, which Cargo and pip do not keep; write single \
             underscores between words"
        ));
    }
    if KEYWORDS.contains(&name) {
        return Err(format!("{name:?} is a keyword of Rust or Python; choose another name, such as \"{name}_device\""));
    }
    if is_windows_device(name) {
        return Err(format!(
            "{name:?} is a device of Windows, where no folder can have this name; choose another name, such as \
             \"{name}_device\""
        ));
    }
    Ok(known(name).map(|owner| {
        format!("users who select {name:?} may get {owner} if both are installed; another name avoids this")
    }))
}

/// Describes the plugin that already has this name, if any.
fn known(name: &str) -> Option<String> {
    if plugin_registry::names().iter().any(|linked| linked == name) {
        return Some("the CPU device that programs embed".to_owned());
    }
    let manifest = builtin::find(name)?;
    let owner =
        if manifest.vendor.is_empty() { manifest.name } else { format!("{}'s {}", manifest.vendor, manifest.name) };
    Some(owner)
}

/// Suggests a valid name that is similar to an invalid one.
fn suggestion(name: &str) -> Option<String> {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let meant: String = name.trim().chars().map(fit).collect();
    let words: Vec<_> = meant.split('_').filter(|word| !word.is_empty()).collect();
    let meant = words.join("_");
    (meant != name && check(&meant).is_ok()).then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_with_a_remedy() {
        for name in ["acme", "a", "x9", "acme_npu_2"] {
            assert_eq!(check(name), Ok(None), "{name}");
        }
        for (name, said) in [
            ("", "not a valid plugin name"),
            ("Acme", "such as \"acme\""),
            ("my-device", "such as \"my_device\""),
            ("my device", "such as \"my_device\""),
            ("../up", "such as \"up\""),
            ("9lives", "a lower-case letter, then"),
            ("größe", "a lower-case letter, then"),
            ("a\nb", "not a valid plugin name"),
            ("a__b", "single underscores"),
            ("a_", "single underscores"),
            ("match", "\"match_device\""),
            ("self", "\"self_device\""),
            ("class", "a keyword of Rust or Python"),
            ("nul", "\"nul_device\""),
            ("com1", "a device of Windows"),
        ] {
            let error = check(name).unwrap_err();
            assert!(error.contains(said), "{name}: {error}");
        }
        assert!(check(&"a".repeat(65)).unwrap_err().contains("at most 64"));
        assert!(check_for_jax("gpu").unwrap_err().contains("\"acme_gpu\""));
        assert_eq!(check_for_jax("acme_gpu"), Ok(()));
    }

    #[test]
    fn names_of_known_plugins_are_warned_of() {
        for name in ["cuda", "rocm", "neuron", "pjrt_cpu"] {
            let warning = check(name).unwrap().unwrap();
            assert!(warning.contains(name), "{warning}");
        }
    }
}
