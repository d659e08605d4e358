//! The Python modules in a wheel. They are the same for every plugin, except for values from the manifest.

use std::collections::BTreeMap;

use device_plugin::Manifest;
use device_plugin::capabilities::legacy;
use device_plugin::variants::CpuLevel;
use serde_json::json;

use super::wheel::Content;

/// Modules that every wheel contains.
const COMMON: &[(&str, &str)] = &[
    ("__init__.py", include_str!("python/__init__.py")),
    ("options.py", include_str!("python/options.py")),
    ("process.py", include_str!("python/process.py")),
    ("shutdown.py", include_str!("python/shutdown.py")),
    ("variants.py", include_str!("python/variants.py")),
];
/// Modules for JAX.
const JAX: &[(&str, &str)] = &[
    ("jax_plugin.py", include_str!("python/jax_plugin.py")),
    ("jax_callbacks.py", include_str!("python/jax_callbacks.py")),
    ("jax_export.py", include_str!("python/jax_export.py")),
    ("jax_ffi.py", include_str!("python/jax_ffi.py")),
    ("jax_lowerings.py", include_str!("python/jax_lowerings.py")),
];
/// File name of the vendor's own module for JAX.
pub(crate) const JAX_HOOK: &str = "jax_hook.py";
const JAX_NAMESPACE: &str = include_str!("python/jax_namespace.py");
/// Modules for PyTorch: one for each of its backends.
const TORCH: &[(&str, &str)] = &[
    ("torch_tpu_plugin.py", include_str!("python/torch_tpu_plugin.py")),
    ("torch_xla_plugin.py", include_str!("python/torch_xla_plugin.py")),
];

/// The frameworks that a wheel supports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frameworks {
    pub(crate) jax: bool,
    pub(crate) torch: bool,
}

/// Returns the name of the Python package.
pub(crate) fn package(manifest: &Manifest) -> String {
    format!("pjrt_plugin_{}", manifest.name)
}

/// Returns the Python modules and the JSON files with their settings, by their path within the wheel.
pub(crate) fn modules(manifest: &Manifest, frameworks: Frameworks) -> BTreeMap<String, Content> {
    let package = package(manifest);
    let levels = cpu_levels();
    let mut files = BTreeMap::new();
    let mut add = |path: String, text: &str| {
        let header = concat!("# Written by `pjrt package` ", env!("CARGO_PKG_VERSION"), ".\n");
        files.insert(path, Content::Text(format!("{header}{text}")));
    };
    for (name, text) in COMMON {
        add(format!("{package}/{name}"), &text.replace("{levels}", &levels));
    }
    if frameworks.jax {
        for (name, text) in JAX {
            add(format!("{package}/{name}"), text);
        }
        // JAX treats a folder in its namespace package and an entry point with the same name as one plugin. The folder
        // works even if the distribution's metadata is lost. The entry point works even if JAX does not search the
        // folder.
        add(format!("jax_plugins/{}/__init__.py", manifest.name), &JAX_NAMESPACE.replace("{package}", &package));
    }
    if frameworks.torch {
        for (name, text) in TORCH {
            add(format!("{package}/{name}"), text);
        }
        files.insert(format!("{package}/torch_xla.json"), Content::Text(torch_xla(manifest)));
        files.insert(format!("{package}.pth"), Content::Text(at_start(manifest)));
    }
    files
}

/// Returns the features of each CPU level as JSON, in the order of the levels.
fn cpu_levels() -> String {
    let level = |level: CpuLevel| format!("{}: {}", json!(level.name()), json!(level.features()));
    format!("{{\n{}\n}}", CpuLevel::ALL.map(level).join(",\n"))
}

/// Returns the value of `PJRT_DEVICE` that selects the plugin. In some places, PyTorch/XLA truncates the value at the
/// first underscore, so this value contains none. The plugin's name in capital letters selects the plugin, too.
pub(crate) fn torch_device(manifest: &Manifest) -> String {
    manifest.name.replace('_', "").to_ascii_uppercase()
}

/// Returns the line that Python runs when it starts. It imports the package only if `PJRT_DEVICE` names the plugin.
fn at_start(manifest: &Manifest) -> String {
    let names = json!([manifest.name.to_ascii_uppercase(), torch_device(manifest)]);
    let package = package(manifest);
    format!(
        "import os; os.environ.get(\"PJRT_DEVICE\", \"\").upper() in {names} and \
         __import__(\"{package}.torch_tpu_plugin\").torch_tpu_plugin.choose_library()\n"
    )
}

/// Returns the settings that PyTorch/XLA reads from environment variables, and the settings that PyTorch/XLA does not
/// support at all.
fn torch_xla(manifest: &Manifest) -> String {
    let (capabilities, platform) = (&manifest.capabilities, &manifest.name);
    let settings = legacy::environment(capabilities, platform);
    let environment: Vec<_> = settings
        .iter()
        .map(|setting| json!({ "variable": setting.variable, "value": setting.value, "field": setting.field }))
        .collect();
    let unhonoured = legacy::unhonoured(capabilities, platform);
    format!("{:#}\n", json!({ "environment": environment, "unhonoured": unhonoured }))
}

/// Returns the content of `entry_points.txt`.
pub(crate) fn entry_points(manifest: &Manifest, frameworks: Frameworks) -> String {
    let (name, package) = (&manifest.name, package(manifest));
    let mut text = String::new();
    if frameworks.jax {
        text.push_str(&format!("[jax_plugins]\n{name} = jax_plugins.{name}\n\n"));
    }
    if frameworks.torch {
        let device = torch_device(manifest).to_ascii_lowercase();
        text.push_str("[torch_xla.plugins]\n");
        for name in std::iter::once(name).chain((device != *name).then_some(&device)) {
            text.push_str(&format!("{name} = {package}.torch_xla_plugin:Plugin\n"));
        }
        text.push_str(&format!("\n[torch.backends]\n{name} = {package}.torch_tpu_plugin:autoload\n\n"));
    }
    text
}
