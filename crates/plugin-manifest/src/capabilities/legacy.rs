//! The environment variables of PyTorch/XLA that correspond to a capability.
//!
//! PyTorch/XLA does not query capabilities. Environment variables change some of its rules for all devices of the
//! process. PyTorch/XLA reads some of these variables only for certain device names, so they have no effect on other
//! devices. A package can set the variables that have an effect, and report the capabilities that PyTorch/XLA ignores.
//!
//! ```
//! use std::num::NonZeroU32;
//!
//! use plugin_manifest::capabilities::{ProgramFormat, ProgramFormats, legacy};
//! use plugin_manifest::Capabilities;
//!
//! let formats = ProgramFormats::preferring(ProgramFormat::Mlir);
//! let capabilities = Capabilities {
//!     program_formats: formats,
//!     dense_gather_factor: NonZeroU32::new(64),
//!     ..Capabilities::default()
//! };
//! let settings = legacy::environment(&capabilities, "example");
//! assert_eq!((settings[0].variable, settings[0].value.as_str()), ("XLA_STABLEHLO_COMPILE", "1"));
//! assert_eq!(legacy::unhonoured(&capabilities, "example"), ["dense_gather_factor"]);
//! ```

use std::num::NonZeroU32;

use super::{Bf16Policy, Capabilities, DynamicShapes, Int64Policy, LayoutPolicy, ProgramFormat, RngBitGenerator};
use crate::Value;

/// A row of [`VARIABLES`]:
///
/// - name of the field in [`Capabilities`];
/// - name of the environment variable;
/// - lower-case platform names for which PyTorch/XLA reads the variable, or an empty list for every platform; and
/// - function that computes the variable's value from capabilities, or returns `None` to leave the variable unset.
type Row = (&'static str, &'static str, &'static [&'static str], fn(&Capabilities) -> Option<String>);

/// An environment variable to set, its value, and the capability that it represents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Name of the environment variable.
    pub variable: &'static str,
    /// Value of the environment variable.
    pub value: String,
    /// Name of the field in [`Capabilities`] that the variable represents.
    pub field: &'static str,
}

/// All variables, in the order of the fields of [`Capabilities`]. Fields without a variable are not listed.
const VARIABLES: &[Row] = &[
    ("dense_gather_factor", "XLA_DENSE_GATHER_FACTOR", &["tpu", "neuron"], |all| count(all.dense_gather_factor)),
    ("dense_scatter_factor", "XLA_DENSE_SCATTER_FACTOR", &["tpu"], |all| count(all.dense_scatter_factor)),
    ("rng_bit_generator", "XLA_RNG_BIT_GENERATOR", &[], |all| {
        let generator = all.rng_bit_generator;
        (generator != RngBitGenerator::Default).then(|| generator.name().to_owned())
    }),
    // The feature names the device that runs operations without a lowering. By default, the host runs them.
    ("features", "XLA_FALLBACK_CPU", &["cuda"], |all| {
        flag(all.features.get("eager_fallback") != Some(&Value::from("cuda")))
    }),
    ("int64", "XLA_USE_32BIT_LONG", &[], |all| flag(all.int64 == Int64Policy::Remapped)),
    ("bf16", "XLA_USE_BF16", &[], |all| flag(all.bf16 == Bf16Policy::Replace)),
    ("bf16", "XLA_DOWNCAST_BF16", &[], |all| flag(all.bf16 == Bf16Policy::Downcast)),
    ("layout", "XLA_MAX_PADDING_FACTOR", &["tpu"], |all| match all.layout {
        LayoutPolicy::Tiled { max_padding, .. } => Some(max_padding.to_string()),
        LayoutPolicy::Descending => None,
    }),
    // PyTorch/XLA sends HLO unless the variable is set. Prefer HLO if the device accepts it, even if the device prefers
    // StableHLO, because PyTorch/XLA's conversion to StableHLO drops the donation of arguments.
    ("program_formats", "XLA_STABLEHLO_COMPILE", &[], |all| {
        let formats = all.program_formats.as_slice();
        flag(formats.contains(&ProgramFormat::Mlir) && !formats.contains(&ProgramFormat::Hlo))
    }),
    ("dynamic_shapes", "EXPERIMENTAL_XLA_UNBOUNDED_DYNAMISM", &[], |all| {
        flag(all.dynamic_shapes == DynamicShapes::Unbounded)
    }),
];

/// Platforms for which PyTorch/XLA has its own rules.
const OWN_RULES: &[&str] = &["tpu", "neuron", "cpu", "cuda"];

/// Returns the variables to set for a device with this platform name, in the order of the fields of [`Capabilities`].
pub fn environment(capabilities: &Capabilities, platform: &str) -> Vec<Setting> {
    let is_read_for = |platforms: &[&str]| platforms.is_empty() || contains(platforms, platform);
    let read = VARIABLES.iter().filter(|(_, _, platforms, _)| is_read_for(platforms));
    read.filter_map(|&(field, variable, _, value)| Some(Setting { variable, value: value(capabilities)?, field }))
        .collect()
}

fn contains(platforms: &[&str], platform: &str) -> bool {
    platforms.iter().any(|known| known.eq_ignore_ascii_case(platform))
}

/// Returns the non-default fields that PyTorch/XLA ignores for a device with this platform name. PyTorch/XLA has a rule
/// for each of these fields, but no environment variable changes the rule for this platform. Returns an empty list for
/// a platform for which PyTorch/XLA has its own rules.
pub fn unhonoured(capabilities: &Capabilities, platform: &str) -> Vec<&'static str> {
    if contains(OWN_RULES, platform) {
        return Vec::new();
    }
    let set = environment(capabilities, platform);
    let changes = capabilities.changes().into_iter().filter(|(_, replaces)| replaces.contains("PyTorch/XLA"));
    changes.map(|(field, _)| field).filter(|field| !set.iter().any(|setting| setting.field == *field)).collect()
}

fn count(count: Option<NonZeroU32>) -> Option<String> {
    count.map(|count| count.to_string())
}

fn flag(set: bool) -> Option<String> {
    set.then(|| "1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::ProgramFormats;

    fn set(capabilities: &Capabilities, platform: &str) -> Vec<(&'static str, String)> {
        environment(capabilities, platform).into_iter().map(|setting| (setting.variable, setting.value)).collect()
    }

    #[test]
    fn entries_name_fields() {
        // Every field of these capabilities differs from its default.
        let fields = crate::capabilities::tests::full().changes();
        for (name, variable, platforms, _) in VARIABLES {
            let (_, replaces) = fields.iter().find(|(field, _)| field == name).expect(name);
            assert!(replaces.contains("PyTorch/XLA") || *name == "features", "{name}");
            assert!(platforms.iter().all(|platform| OWN_RULES.contains(platform)), "{variable}");
        }
    }

    #[test]
    fn defaults_set_nothing() {
        assert_eq!(set(&Capabilities::default(), "example"), []);
        assert_eq!(unhonoured(&Capabilities::default(), "example"), Vec::<&str>::new());
        // Up to release 2.8, PyTorch/XLA runs the fallback for CUDA on the CUDA device unless this variable is set.
        assert_eq!(set(&Capabilities::default(), "cuda"), [("XLA_FALLBACK_CPU", "1".to_owned())]);
    }

    #[test]
    fn factors_of_unknown_names_are_ignored() {
        let dense = Capabilities {
            dense_gather_factor: NonZeroU32::new(64),
            dense_scatter_factor: NonZeroU32::new(7),
            ..Capabilities::default()
        };
        let gather = ("XLA_DENSE_GATHER_FACTOR", "64".to_owned());
        assert_eq!(set(&dense, "TPU"), [gather.clone(), ("XLA_DENSE_SCATTER_FACTOR", "7".to_owned())]);
        assert_eq!(set(&dense, "neuron"), [gather]);
        assert_eq!(set(&dense, "example"), []);
        assert_eq!(unhonoured(&dense, "example"), ["dense_gather_factor", "dense_scatter_factor"]);
        assert_eq!(unhonoured(&dense, "tpu"), Vec::<&str>::new());
    }

    #[test]
    fn variable_values() {
        use crate::capabilities::{DynamicShapes, LayoutPolicy};
        let two = NonZeroU32::new(2).unwrap();
        let all = Capabilities {
            rng_bit_generator: RngBitGenerator::ThreeFry,
            int64: Int64Policy::Remapped,
            bf16: Bf16Policy::Downcast,
            layout: LayoutPolicy::Tiled { tile: [two, two], max_padding: 1.5 },
            program_formats: ProgramFormats::preferring(ProgramFormat::Mlir),
            dynamic_shapes: DynamicShapes::Unbounded,
            donation: true,
            ..Capabilities::default()
        };
        let texts: Vec<String> = set(&all, "tpu").iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            texts,
            [
                "XLA_RNG_BIT_GENERATOR=three_fry",
                "XLA_USE_32BIT_LONG=1",
                "XLA_DOWNCAST_BF16=1",
                "XLA_MAX_PADDING_FACTOR=1.5",
                "XLA_STABLEHLO_COMPILE=1",
                "EXPERIMENTAL_XLA_UNBOUNDED_DYNAMISM=1",
            ]
        );
        // PyTorch/XLA does not have a rule for donation.
        assert_eq!(unhonoured(&all, "example"), ["layout"]);
    }

    #[test]
    fn hlo_with_config_does_not_satisfy_pytorch() {
        let formats = |formats: &[ProgramFormat]| {
            let formats = ProgramFormats::try_from(formats.to_vec()).unwrap();
            set(&Capabilities { program_formats: formats, ..Capabilities::default() }, "example").len()
        };
        assert_eq!(formats(&[ProgramFormat::HloWithConfig, ProgramFormat::Mlir]), 1);
        assert_eq!(formats(&[ProgramFormat::HloWithConfig, ProgramFormat::Hlo, ProgramFormat::Mlir]), 0);
        assert_eq!(formats(&[ProgramFormat::Mlir, ProgramFormat::Hlo]), 0, "HLO keeps donation");
    }
}
