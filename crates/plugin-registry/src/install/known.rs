//! The table of known plugins.

/// A plugin that can be installed by a short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownPlugin {
    /// The name under which the plugin is installed.
    pub name: &'static str,
    /// Further names of the plugin. The first is that of a [built-in description](plugin_manifest::builtin).
    pub aliases: &'static [&'static str],
    /// The package that contains the plugin's library.
    pub package: &'static str,
    /// A package whose requirements are the libraries that the plugin needs, with the extra that names them. It has the
    /// same version as `package`. Only its metadata is read.
    pub companion: Option<&'static str>,
    /// Other requirements with libraries that the plugin needs.
    pub libraries: &'static [&'static str],
    /// The vendor's index, if `package` is not in the default index.
    pub index: Option<&'static str>,
    /// What the plugin needs and no package contains. Empty if it needs nothing.
    pub note: &'static str,
}

const PLAIN: KnownPlugin =
    KnownPlugin { name: "", aliases: &[], package: "", companion: None, libraries: &[], index: None, note: "" };

/// To add a plugin, add a row. `pjrt install --known` prints this table.
const KNOWN: &[KnownPlugin] = &[
    KnownPlugin { name: "xla-cpu", aliases: &["cpu"], package: "xla-cpu-pjrt", ..PLAIN },
    KnownPlugin {
        name: "cuda13",
        aliases: &["cuda"],
        package: "jax-cuda13-pjrt",
        companion: Some("jax-cuda13-plugin[with-cuda]"),
        note: "NVIDIA's driver 580 or newer",
        ..PLAIN
    },
    KnownPlugin {
        name: "cuda12",
        aliases: &["cuda"],
        package: "jax-cuda12-pjrt",
        companion: Some("jax-cuda12-plugin[with-cuda]"),
        note: "NVIDIA's driver 525 or newer",
        ..PLAIN
    },
    // Its library was linked with CUDA 13.0, whose `libnvrtc-builtins` has the minor version in its name.
    KnownPlugin {
        name: "xla-cuda13",
        aliases: &["cuda"],
        package: "xla-cuda13-pjrt",
        libraries: &[
            "nvidia-cublas<13.1",
            "nvidia-cuda-cupti==13.0.*",
            "nvidia-cuda-nvcc==13.0.*",
            "nvidia-cuda-nvrtc==13.0.*",
            "nvidia-cuda-runtime==13.0.*",
            "nvidia-cudnn-cu13<10",
            "nvidia-cuda-crt==13.0.*",
            "nvidia-cufft<12.1",
            "nvidia-cusolver<12.1",
            "nvidia-cusparse<12.7",
            "nvidia-nccl-cu13",
            "nvidia-nvjitlink==13.0.*",
            "nvidia-nvvm==13.0.*",
        ],
        note: "NVIDIA's driver 580 or newer",
        ..PLAIN
    },
    KnownPlugin { name: "tpu", package: "libtpu", note: "a Cloud TPU VM", ..PLAIN },
    // The packages that its companion names for the libraries are in no public index.
    KnownPlugin {
        name: "rocm7",
        aliases: &["rocm"],
        package: "jax-rocm7-pjrt",
        note: "ROCm 7 in /opt/rocm, or AMD's packages `rocm-sdk-core` and `rocm-sdk-libraries-GPU` by --with and \
               --extra-index",
        ..PLAIN
    },
    KnownPlugin {
        name: "oneapi",
        aliases: &["sycl"],
        package: "jax-oneapi-pjrt",
        companion: Some("jax-oneapi-plugin[with-oneapi]"),
        note: "Intel's GPU driver and a Level Zero loader (libze_loader.so.1) newer than 1.8",
        ..PLAIN
    },
    KnownPlugin {
        name: "neuron",
        package: "libneuronxla",
        index: Some("https://pip.repos.neuron.amazonaws.com"),
        note: "the Neuron runtime (the system's package aws-neuronx-runtime-lib)",
        ..PLAIN
    },
    KnownPlugin {
        name: "tt",
        aliases: &["tenstorrent"],
        package: "pjrt-plugin-tt",
        index: Some("https://pypi.eng.aws.tenstorrent.com"),
        note: "Tenstorrent's kernel driver",
        ..PLAIN
    },
];

/// Returns the plugins that can be installed by a short name.
pub fn known_plugins() -> &'static [KnownPlugin] {
    KNOWN
}

/// Returns the known plugin with this name, in this package, or with this alias. If several have the alias, returns the
/// first one. The name must be normalized.
pub(super) fn find(name: &str) -> Option<&'static KnownPlugin> {
    let mut known = KNOWN.iter();
    known
        .clone()
        .find(|known| known.name == name || known.package == name)
        .or_else(|| known.find(|known| known.aliases.contains(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::requirement::Requirement;

    #[test]
    fn rows_are_valid() {
        for (index, known) in KNOWN.iter().enumerate() {
            assert!(KNOWN[..index].iter().all(|other| other.name != known.name), "{}", known.name);
            let device = known.aliases.first().unwrap_or(&known.name);
            assert!(plugin_manifest::builtin::find(device).is_some(), "{device} has no built-in description");
            for text in known.libraries.iter().chain(&known.companion) {
                text.parse::<Requirement>().unwrap();
            }
        }
    }
}
