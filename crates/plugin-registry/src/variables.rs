//! The environment variables that this crate defines. Variables of other projects are in
//! [`discovery::variables`](crate::discovery::variables).

use plugin_manifest::Capabilities;

/// Manifest files or folders. If this variable is set, discovery searches no other source.
pub(crate) const MANIFESTS: &str = "PJRT_REGISTRY_MANIFESTS";
/// Manifest files or folders that discovery searches first.
pub(crate) const ADD_MANIFESTS: &str = "PJRT_REGISTRY_ADD_MANIFESTS";
/// Patterns of the plugins that may be used.
pub(crate) const SELECT: &str = "PJRT_REGISTRY_SELECT";
/// Patterns of the plugins that must not be used.
pub(crate) const DISABLE: &str = "PJRT_REGISTRY_DISABLE";
/// Path of a file with the SHA-256 hashes of the libraries that may be loaded.
pub(crate) const ALLOWLIST: &str = "PJRT_REGISTRY_ALLOWLIST";
/// Path of the folder with the lock files.
pub(crate) const LOCK_DIR: &str = "PJRT_REGISTRY_LOCK_DIR";
/// The old name of [`LOCK_DIR`].
pub(crate) const OLD_LOCK_DIR: &str = "PJRT_LOCK_DIR";

/// Names that these variables had in earlier versions, each with its new name. The old names have no effect.
const OLD_NAMES: &[(&str, &str)] = &[
    ("PJRT_PLUGIN_MANIFESTS", MANIFESTS),
    ("PJRT_ADD_PLUGIN_MANIFESTS", ADD_MANIFESTS),
    ("PJRT_PLUGINS_SELECT", SELECT),
    ("PJRT_PLUGINS_DISABLE", DISABLE),
    ("PJRT_PLUGIN_ALLOWLIST", ALLOWLIST),
    (OLD_LOCK_DIR, LOCK_DIR),
];

/// Returns the new name of a variable that only earlier versions read, or `None` for any other variable.
pub(crate) fn new_name(name: &str) -> Option<String> {
    if let Some((_, new)) = OLD_NAMES.iter().find(|(old, _)| *old == name) {
        return Some((*new).to_owned());
    }
    let plugin = name.strip_prefix("DEVICE_PLUGIN_")?.strip_suffix("_CAPABILITIES")?;
    Some(Capabilities::override_variable(plugin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_lead_to_new_names() {
        for (old, new) in OLD_NAMES {
            assert_eq!(new_name(old).as_deref(), Some(*new));
            assert_eq!(new_name(new), None, "{new}");
        }
        let capabilities = new_name("DEVICE_PLUGIN_TPU_CAPABILITIES");
        assert_eq!(capabilities.as_deref(), Some("PJRT_REGISTRY_CAPABILITIES_TPU"));
        for other in ["PJRT_DEVICE", "PJRT_PLUGIN_LIBRARY_PATH", "DEVICE_PLUGIN_TPU", "PJRT_REGISTRY_CAPABILITIES_TPU"]
        {
            assert_eq!(new_name(other), None, "{other}");
        }
    }
}
