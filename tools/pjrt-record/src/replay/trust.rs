//! Decides which recorded options a replay passes to the plugin.
//!
//! Options may contain paths, to which a plugin writes or from which it loads code. A replay of a stranger's recording
//! therefore passes only options that are known to be harmless.

use std::collections::BTreeMap;

use pjrt::{CompileOptions, OptionOverride};
use pjrt_types::{NamedValue, Value};

/// Backend options that a replay passes if their values are booleans. They change how a plugin computes.
const OVERRIDES: [&str; 9] = [
    "xla_allow_excess_precision",
    "xla_cpu_enable_fast_math",
    "xla_cpu_enable_fast_min_max",
    "xla_cpu_fast_math_honor_division",
    "xla_cpu_fast_math_honor_functions",
    "xla_cpu_fast_math_honor_infs",
    "xla_cpu_fast_math_honor_nans",
    "xla_gpu_deterministic_ops",
    "xla_gpu_exclude_nondeterministic_ops",
];
/// Formats of programs that contain no options.
const FORMATS: [&str; 2] = ["mlir", "hlo"];
/// Largest field number for which the fields of compile options are searched. XLA uses numbers below 40.
const FIELDS: std::ops::RangeInclusive<u64> = 1..=100;
/// Maximum number of characters of a name in a report.
const LONGEST_NAME: usize = 80;
/// Maximum number of distinct names in a report.
const MOST_NAMES: usize = 100;

/// Numbers of calls without an option, by a description of the option.
pub(super) type Dropped = BTreeMap<String, u64>;

fn count(dropped: &mut Dropped, what: String) {
    let what = if dropped.len() < MOST_NAMES || dropped.contains_key(&what) { what } else { "other options".into() };
    *dropped.entry(what).or_default() += 1;
}

fn named(what: &str, name: &str) -> String {
    let name: String = name.chars().take(LONGEST_NAME).collect();
    format!("{what} `{name}`")
}

/// Returns the harmless options of a client. Counts the other options in `dropped`.
pub(super) fn client_options(recorded: Vec<NamedValue>, dropped: &mut Dropped) -> Vec<NamedValue> {
    let is_harmless = |option: &NamedValue| match (option.name.as_str(), &option.value) {
        ("cpu_device_count" | "device_count", Value::Int64(_))
        | ("asynchronous" | "deterministic" | "plain_platform_name" | "preallocate", Value::Bool(_))
        | ("memory_limit", Value::Int64(_))
        | ("memory_fraction", Value::Float(_))
        | ("visible_devices", Value::Int64List(_)) => true,
        ("memory_limit", Value::String(size)) => {
            size.len() < 32 && size.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
        }
        _ => false,
    };
    let (harmless, rest): (Vec<_>, Vec<_>) = recorded.into_iter().partition(is_harmless);
    for option in rest {
        count(dropped, named("client option", &option.name));
    }
    harmless
}

/// Counts the options of a run in `dropped`. All of them belong to the plugin, so none is known to be harmless.
pub(super) fn run_options(recorded: &[NamedValue], dropped: &mut Dropped) {
    for option in recorded {
        count(dropped, named("run option", &option.name));
    }
}

/// Returns serialized compile options with only the harmless ones of the recorded options. Counts the other options in
/// `dropped`.
pub(super) fn compile_options(recorded: &[u8], dropped: &mut Dropped) -> Result<Vec<u8>, String> {
    let mut options = CompileOptions::decode(recorded).map_err(|error| error.to_string())?;
    options.env_option_overrides.retain(|name, value| {
        let is_harmless = OVERRIDES.contains(&name.as_str()) && matches!(value, OptionOverride::Bool(_));
        if !is_harmless {
            count(dropped, named("compile option", name));
        }
        is_harmless
    });
    let unknown = std::mem::take(&mut options.unknown);
    if unknown.debug_options().is_some() {
        count(dropped, "XLA's debug options of a compilation".to_owned());
    }
    for number in FIELDS.filter(|number| unknown.field(*number).is_some()) {
        count(dropped, format!("field {number} of the compile options"));
    }
    for number in FIELDS.filter(|number| *number != 3 && unknown.build_field(*number).is_some()) {
        count(dropped, format!("field {number} of the executable build options"));
    }
    Ok(options.encode())
}

/// Returns an error unless programs of this format contain no options.
pub(super) fn check_format(format: &str) -> Result<(), String> {
    if FORMATS.contains(&format) {
        return Ok(());
    }
    Err(format!(
        "{}, which may contain options: `pjrt replay --trust-options` replays it",
        named("the program has the format", format)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_options_are_kept() {
        let mut dropped = Dropped::new();
        let kept = CompileOptions::default()
            .with_num_replicas(2)
            .with_portable_executable(true)
            .with_option_override("xla_cpu_enable_fast_math", true);
        let recorded = kept
            .clone()
            .with_option_override("xla_dump_to", "/tmp/x")
            .with_option_override("xla_allow_excess_precision", "/tmp/x")
            .with_option_override("xla_cpu_parallel_codegen_split_count", -1);
        // Field 3 of the build options contains XLA's debug options. Field 11 names a variant of the compiler.
        let mut recorded = recorded.encode();
        recorded.extend([0x1a, 6, 0x1a, 4, 0xf8, 0x01, 0x01, 0x07, 0x5a, 1, b'a']);
        let options = compile_options(&recorded, &mut dropped).unwrap();
        assert_eq!(CompileOptions::decode(&options).unwrap(), kept);
        let names: Vec<&str> = dropped.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "XLA's debug options of a compilation",
                "compile option `xla_allow_excess_precision`",
                "compile option `xla_cpu_parallel_codegen_split_count`",
                "compile option `xla_dump_to`",
                "field 11 of the compile options"
            ]
        );
        compile_options(&[0xff], &mut dropped).unwrap_err();
    }

    #[test]
    fn client_options_have_known_names_and_types() {
        let mut dropped = Dropped::new();
        let harmless = [NamedValue::new("device_count", 2), NamedValue::new("memory_limit", "64MiB")];
        let mut recorded = harmless.to_vec();
        recorded.push(NamedValue::new("device_count", "/tmp/x"));
        recorded.push(NamedValue::new("memory_limit", "/tmp/x"));
        recorded.push(NamedValue::new("library_path", "/tmp/x.so"));
        assert_eq!(client_options(recorded, &mut dropped), harmless);
        assert_eq!(dropped.values().sum::<u64>(), 3);
        assert_eq!(dropped["client option `library_path`"], 1);
        for number in 0..1000 {
            count(&mut dropped, format!("{number}"));
        }
        assert!(dropped.len() <= MOST_NAMES + 1 && dropped["other options"] > 800);
    }

    #[test]
    fn formats_with_options_are_rejected() {
        check_format("mlir").unwrap();
        check_format("hlo_with_config").unwrap_err();
    }
}
