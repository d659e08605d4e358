//! Packages whose names are known, because nothing in their files says them, or nothing announces them at all.

/// A plugin a package is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Name under which the package registers it.
    pub(super) name: &'static str,
    /// Its priority in JAX.
    pub(super) priority: Option<i32>,
}

/// Modules by the start of their last component. JAX's own GPU plugins carry a version at the end.
const MODULES: &[(&str, Known)] = &[
    ("xla_cuda", Known { name: "cuda", priority: Some(500) }),
    ("xla_rocm", Known { name: "rocm", priority: Some(500) }),
    ("intel_extension_for_openxla", Known { name: "sycl", priority: Some(500) }),
    ("metal_plugin", Known { name: "metal", priority: Some(500) }),
    ("jax_plugin_tt", Known { name: "tt", priority: Some(500) }),
    ("pjrt_plugin_tt", Known { name: "tt", priority: Some(500) }),
    ("torch_plugin_tt", Known { name: "tt", priority: None }),
];

/// Distributions that announce nothing, by normalized name; the library is in their record.
const BARE: &[(&str, Known)] = &[
    ("libtpu", Known { name: "tpu", priority: Some(300) }),
    ("libtpu-nightly", Known { name: "tpu", priority: Some(300) }),
    ("lammps-jax-pjrt-cpu", Known { name: "cpu", priority: None }),
    ("fastatomstruct-xla-cpu", Known { name: "cpu", priority: None }),
];

/// What a module is known to be.
pub(super) fn module(module: &str) -> Option<Known> {
    let last = module.rsplit('.').next().unwrap_or(module);
    MODULES.iter().find(|(start, _)| last.starts_with(start)).map(|(_, known)| *known)
}

/// What a distribution without announcement is known to be.
pub(super) fn bare(normalized: &str) -> Option<Known> {
    BARE.iter().find(|(name, _)| *name == normalized).map(|(_, known)| *known)
}

/// Whether a distribution's name suggests that it holds a plugin, though nothing announces one.
pub(super) fn suggests_a_plugin(normalized: &str) -> bool {
    normalized.contains("pjrt")
}

/// PyTorch/XLA's own entry points, whose libraries come from elsewhere: a variable or another package.
pub(super) fn brings_no_library(normalized: &str) -> bool {
    normalized == "torch-xla"
}
