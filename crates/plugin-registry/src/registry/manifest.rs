//! Creates a manifest for a plugin that does not have one.

use plugin_manifest::Manifest;
use plugin_manifest::manifest::MAX_NAME_LENGTH;

use crate::discovery::Candidate;

/// Returns a candidate's own manifest. If there is none, returns the built-in manifest of the device with the
/// candidate's name, or a manifest with only the known names and priority.
pub(super) fn generic_manifest(candidate: &Candidate) -> Manifest {
    if let Some(manifest) = &candidate.manifest {
        return manifest.clone();
    }
    let names: Vec<String> = candidate.names.iter().map(|name| as_name(&name.name)).collect();
    let known = names.iter().find_map(|name| {
        let mut known = plugin_manifest::builtin::all().into_iter().filter(|known| known.answers_to(name));
        // A name that several devices share, such as `gpu`, does not identify a device.
        known.next().filter(|_| known.next().is_none())
    });
    let name = names.first().cloned().unwrap_or_else(|| "unnamed".to_owned());
    let mut manifest = known.unwrap_or_else(|| Manifest::new(name.clone()));
    let others = std::mem::take(&mut manifest.aliases);
    let generic = std::mem::replace(&mut manifest.name, name);
    manifest.library.clear();
    for alias in names.into_iter().skip(1).chain([generic]).chain(others) {
        if alias != manifest.name && !manifest.aliases.contains(&alias) {
            manifest.aliases.push(alias);
        }
    }
    manifest.priority = candidate.priority.unwrap_or(manifest.priority);
    manifest
}

/// Converts a string to a valid plugin name: lowercase letters, digits and underscores, starting with a letter.
/// Truncates the names of files and modules that are too long for a plugin name.
fn as_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let letter = if text.starts_with(|c: char| c.is_ascii_alphabetic()) { "" } else { "x" };
    // `plain` maps each character to one byte, so this limits the length in bytes.
    letter.chars().chain(text.chars().map(plain)).take(MAX_NAME_LENGTH).collect()
}
