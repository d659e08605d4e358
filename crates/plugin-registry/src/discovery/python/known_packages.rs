//! Known packages whose files do not contain the plugin's name, and known packages that do not announce their plugin.

/// Name and priority of a known package's plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownPlugin {
    /// The name under which the package registers the plugin.
    pub(super) name: &'static str,
    /// The plugin's priority in JAX.
    pub(super) priority: Option<i32>,
}

/// Known modules, identified by a prefix of the last component of their dotted name. The names of JAX's own GPU plugins
/// end in a version, such as `xla_cuda13`.
const MODULES: &[(&str, KnownPlugin)] = &[
    ("xla_cuda", KnownPlugin { name: "cuda", priority: Some(500) }),
    ("xla_rocm", KnownPlugin { name: "rocm", priority: Some(500) }),
    ("intel_extension_for_openxla", KnownPlugin { name: "sycl", priority: Some(500) }),
    ("metal_plugin", KnownPlugin { name: "metal", priority: Some(500) }),
    ("jax_plugin_tt", KnownPlugin { name: "tt", priority: Some(500) }),
    ("pjrt_plugin_tt", KnownPlugin { name: "tt", priority: Some(500) }),
    ("torch_plugin_tt", KnownPlugin { name: "tt", priority: None }),
];

/// Distributions that do not announce their plugin, by normalized name. Their `RECORD` lists the library.
const BARE: &[(&str, KnownPlugin)] = &[
    ("libtpu", KnownPlugin { name: "tpu", priority: Some(300) }),
    ("libtpu-nightly", KnownPlugin { name: "tpu", priority: Some(300) }),
    ("lammps-jax-pjrt-cpu", KnownPlugin { name: "cpu", priority: None }),
    ("fastatomstruct-xla-cpu", KnownPlugin { name: "cpu", priority: None }),
];

/// Returns the plugin of a known module, which is given by its dotted name.
pub(super) fn module(module: &str) -> Option<KnownPlugin> {
    let last = module.rsplit('.').next().unwrap_or(module);
    MODULES.iter().find(|(start, _)| last.starts_with(start)).map(|(_, known)| *known)
}

/// Returns the plugin of a known distribution that does not announce its plugin.
pub(super) fn bare(normalized: &str) -> Option<KnownPlugin> {
    BARE.iter().find(|(name, _)| *name == normalized).map(|(_, known)| *known)
}

/// Returns whether a distribution's name suggests that it contains a plugin, although it does not announce one.
pub(super) fn suggests_a_plugin(normalized: &str) -> bool {
    normalized.contains("pjrt")
}

/// Returns whether a distribution announces plugins but contains no library. PyTorch/XLA's own entry points use a
/// library from an environment variable or another package.
pub(super) fn brings_no_library(normalized: &str) -> bool {
    normalized == "torch-xla"
}
