//! Creates the layers from the environment variables, or from the file beside the library.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use pjrt_sys::StaticApi;

use crate::beside::Beside;
use crate::compat::Compat;
use crate::core::{load, refusal};
use crate::fault::{Fault, Rules};
use crate::layer::Layer;
use crate::overrides::{Override, Programs};
use crate::record::{Record, Selection, Target};
use crate::trace::{Outputs, Trace};
use crate::validate::{Reports, Validate};
use crate::variables::{
    COMPAT_HIDE, COMPAT_MINOR, COMPAT_SINGLE_REPLICA, FAULT, FAULT_SEED, LAYERS, OUTPUT, OVERRIDE_API_VERSION,
    OVERRIDE_DEVICE_KIND, OVERRIDE_DEVICES, OVERRIDE_MEMORY, OVERRIDE_PLATFORM_NAME, OVERRIDE_PLATFORM_VERSION,
    OVERRIDE_PROGRAMS, OVERRIDE_SYNCHRONOUS, PLUGIN, RECORD_RUN, TRACE_CALLS, VALIDATE_WAIT,
};

/// A function that returns the value of the setting with this environment variable. Tests pass other functions.
type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A function that creates a layer from its settings.
type Make = fn(Variables<'_>) -> Result<Box<dyn Layer>, String>;

/// The layers of this crate, by their names.
const KNOWN: &[(&str, Make)] = &[
    ("trace", trace),
    ("validate", validate),
    ("compat", compat),
    ("fault", fault),
    ("override", overrides),
    ("record", record),
];

fn validate(variables: Variables<'_>) -> Result<Box<dyn Layer>, String> {
    let reports = Reports::to_folder(variables(OUTPUT).map(PathBuf::from));
    let seconds = number::<u64>(VALIDATE_WAIT, variables)?;
    Ok(Box::new(Validate::new(reports).with_wait_limit(seconds.map(Duration::from_secs))))
}

fn trace(variables: Variables<'_>) -> Result<Box<dyn Layer>, String> {
    let folder = variables(OUTPUT).map(PathBuf::from);
    let calls_per_thread = number(TRACE_CALLS, variables)?.unwrap_or(0);
    Ok(Box::new(Trace::new(Outputs { folder, calls_per_thread })))
}

fn compat(variables: Variables<'_>) -> Result<Box<dyn Layer>, String> {
    let mut compat = Compat { minor: number(COMPAT_MINOR, variables)?, ..Compat::default() };
    let hidden = variables(COMPAT_HIDE).unwrap_or_default();
    for text in hidden.to_string_lossy().split(',').map(str::trim).filter(|text| !text.is_empty()) {
        compat.hidden.push(parse(COMPAT_HIDE, text)?);
    }
    compat.single_replica = switch(COMPAT_SINGLE_REPLICA, variables, "compile programs for a single device")?;
    Ok(Box::new(compat))
}

fn fault(variables: Variables<'_>) -> Result<Box<dyn Layer>, String> {
    let rules = variables(FAULT).unwrap_or_default();
    let rules = rules.to_string_lossy().parse::<Rules>().map_err(|error| format!("{FAULT}: {error}"))?;
    let seed = number(FAULT_SEED, variables)?.unwrap_or(0);
    Ok(Box::new(Fault::new(rules, seed).with_summary(variables(OUTPUT).map(PathBuf::from))))
}

fn overrides(variables: Variables<'_>) -> Result<Box<dyn Layer>, String> {
    let path = |name: &str| variables(name).map(PathBuf::from);
    let text = |name: &str| variables(name).map(|text| text.to_string_lossy().into_owned());
    let version = |text: &str| {
        let (major, minor) = text.trim().split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let fault = |name: &str, text: &str, example: &str| format!("{name} has `{text}`; write {example}");
    let mut layer = Override::new(Programs::new(path(OUTPUT), path(OVERRIDE_PROGRAMS)));
    layer.platform_name = text(OVERRIDE_PLATFORM_NAME);
    layer.platform_version = text(OVERRIDE_PLATFORM_VERSION);
    layer.device_kind = text(OVERRIDE_DEVICE_KIND);
    if let Some(text) = text(OVERRIDE_API_VERSION) {
        let version = version(&text);
        let example = "the major and the minor version, such as `0.90`";
        layer.api_version = Some(version.ok_or_else(|| fault(OVERRIDE_API_VERSION, &text, example))?);
    }
    layer.synchronous = switch(OVERRIDE_SYNCHRONOUS, variables, "make calls synchronous")?.unwrap_or_default();
    if let Some(text) = text(OVERRIDE_MEMORY) {
        layer.memory = text.parse().map_err(|error| format!("{OVERRIDE_MEMORY}: {error}"))?;
    }
    if let Some(text) = text(OVERRIDE_DEVICES) {
        layer.set_devices(text.parse().map_err(|error| format!("{OVERRIDE_DEVICES}: {error}"))?);
    }
    if let Some(folder) = layer.programs().replacements().filter(|folder| !folder.is_dir()) {
        return Err(format!("{OVERRIDE_PROGRAMS} has `{}`, which is not a folder", folder.display()));
    }
    if layer.is_empty() {
        return Err(format!(
            "the layer `override` has nothing to do: set {OUTPUT} to save programs, or one of its variables, such as \
             {OVERRIDE_SYNCHRONOUS}=1"
        ));
    }
    Ok(Box::new(layer))
}

/// Parses the value of a variable that must be `1` or `0`. Returns `None` if the variable is not set. `purpose`
/// describes the effect of `1` in the error message.
fn switch(name: &str, variables: Variables<'_>, purpose: &str) -> Result<Option<bool>, String> {
    let Some(text) = variables(name) else { return Ok(None) };
    match text.to_string_lossy().trim() {
        "1" => Ok(Some(true)),
        "0" => Ok(Some(false)),
        text => Err(format!("{name} has `{text}`; write `1` to {purpose}, or `0`")),
    }
}

fn record(variables: Variables<'_>) -> Result<Box<dyn Layer>, String> {
    let only = variables(RECORD_RUN).map(|text| text.to_string_lossy().trim().parse::<Selection>()).transpose();
    Ok(Box::new(Record::new(Target {
        folder: variables(OUTPUT).map(PathBuf::from),
        plugin: variables(PLUGIN).map(PathBuf::from),
        only: only.map_err(|error| format!("{RECORD_RUN}: {error}"))?,
    })))
}

fn number<T: FromStr>(name: &str, variables: Variables<'_>) -> Result<Option<T>, String> {
    variables(name).map(|text| parse(name, text.to_string_lossy().trim())).transpose()
}

fn parse<T: FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} has `{text}`, which is not a valid number"))
}

/// Loads the plugin and creates the layers, with the settings from the file beside the library or from the environment.
/// `own` contains the layers of the library's author, which have priority over layers of this crate with the same
/// names. If the settings are invalid, the plugin cannot be loaded, or a process with elevated privileges has no
/// settings file, every function of the returned table returns an error with the reason.
pub(crate) fn start(own: Vec<Box<dyn Layer>>) -> (StaticApi, Vec<Box<dyn Layer>>) {
    let elevated = private_files::elevated();
    let start = || match Beside::read(elevated)? {
        Some(file) => load_with(&|name| file.get(name), own),
        None if elevated => Err(format!(
            "this process has elevated privileges, so {PLUGIN} and {LAYERS} have no effect: give the framework the \
             plugin itself"
        )),
        None => load_with(&|name| std::env::var_os(name).filter(|value| !value.is_empty()), own),
    };
    start().unwrap_or_else(|reason: String| refusal(format!("pjrt-layers: {reason}")))
}

fn load_with(variables: Variables<'_>, own: Vec<Box<dyn Layer>>) -> Result<(StaticApi, Vec<Box<dyn Layer>>), String> {
    let layers = layers(variables, own)?;
    let plugin = variables(PLUGIN).map(PathBuf::from);
    let plugin = plugin.ok_or_else(|| format!("{PLUGIN} is not set: set it to the path of the plugin's library"))?;
    Ok((load(&plugin)?, layers))
}

fn layers(variables: Variables<'_>, mut own: Vec<Box<dyn Layer>>) -> Result<Vec<Box<dyn Layer>>, String> {
    let names = variables(LAYERS).unwrap_or_default();
    let names = names.to_string_lossy();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| layer(name, variables, &mut own)).collect()
}

/// Removes the layer with this name from `own` and returns it. If `own` does not contain such a layer, creates the
/// layer of this crate with this name.
fn layer(name: &str, variables: Variables<'_>, own: &mut Vec<Box<dyn Layer>>) -> Result<Box<dyn Layer>, String> {
    if let Some(at) = own.iter().position(|layer| layer.name() == name) {
        return Ok(own.swap_remove(at));
    }
    let found = KNOWN.iter().find(|(known, _)| *known == name);
    let (_, make) = found.ok_or_else(|| {
        let own = own.iter().map(|layer| layer.name());
        let known: Vec<&str> = own.chain(KNOWN.iter().map(|(known, _)| *known)).collect();
        format!("{LAYERS} names `{name}`, which is not a layer; the layers are {}", known.join(", "))
    })?;
    make(variables)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn with(values: &[(&str, &str)]) -> Result<Vec<&'static str>, String> {
        let find = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        Ok(layers(&find, Vec::new())?.iter().map(|layer| layer.name()).collect())
    }

    #[test]
    fn order_is_kept() {
        assert_eq!(with(&[(LAYERS, "compat, trace")]), Ok(vec!["compat", "trace"]));
        assert_eq!(with(&[]), Ok(Vec::new()));
    }

    #[test]
    fn faults_name_the_variable() {
        assert_eq!(
            with(&[(LAYERS, "tracy")]).unwrap_err(),
            "PJRT_LAYERS names `tracy`, which is not a layer; the layers are trace, validate, compat, fault, override, record"
        );
        assert_eq!(
            with(&[(LAYERS, "compat"), (COMPAT_MINOR, "x")]).unwrap_err(),
            "PJRT_LAYERS_COMPAT_MINOR has `x`, which is not a valid number"
        );
        let refused = |settings: &[(&str, &str)], expected: Expect| expected.assert_eq(&with(settings).unwrap_err());
        refused(
            &[(LAYERS, "fault")],
            expect!["PJRT_LAYERS_FAULT: there is no rule: write one, such as `memory call=3 oom`"],
        );
        refused(
            &[(LAYERS, "fault"), (FAULT, "memory oom; compile")],
            expect![
                "PJRT_LAYERS_FAULT: rule 2 `compile`: it has no effect: add `oom`, `error=CODE`, `delay=TIME`, `lost` or `late`"
            ],
        );
        refused(
            &[(LAYERS, "fault"), (FAULT, "memory oom"), (FAULT_SEED, "-1")],
            expect!["PJRT_LAYERS_FAULT_SEED has `-1`, which is not a valid number"],
        );
    }

    #[test]
    fn overrides_are_checked() {
        let mut messages = String::new();
        for (name, value) in [
            (LAYERS, "override"),
            (OVERRIDE_SYNCHRONOUS, "yes"),
            (OVERRIDE_API_VERSION, "90"),
            (OVERRIDE_PROGRAMS, "/nonexistent"),
            (OVERRIDE_MEMORY, "bytes=1"),
            (OVERRIDE_DEVICES, "x"),
        ] {
            let message = with(&[(LAYERS, "override"), (name, value)]).unwrap_err();
            messages += &format!("{name}={value}: {message}\n");
        }
        expect![[r#"
            PJRT_LAYERS=override: the layer `override` has nothing to do: set PJRT_LAYERS_OUTPUT to save programs, or one of its variables, such as PJRT_LAYERS_OVERRIDE_SYNCHRONOUS=1
            PJRT_LAYERS_OVERRIDE_SYNCHRONOUS=yes: PJRT_LAYERS_OVERRIDE_SYNCHRONOUS has `yes`; write `1` to make calls synchronous, or `0`
            PJRT_LAYERS_OVERRIDE_API_VERSION=90: PJRT_LAYERS_OVERRIDE_API_VERSION has `90`; write the major and the minor version, such as `0.90`
            PJRT_LAYERS_OVERRIDE_PROGRAMS=/nonexistent: PJRT_LAYERS_OVERRIDE_PROGRAMS has `/nonexistent`, which is not a folder
            PJRT_LAYERS_OVERRIDE_MEMORY=bytes=1: PJRT_LAYERS_OVERRIDE_MEMORY: `bytes=1` is not a value; write NAME=NUMBER with one of bytes_in_use, peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit, bytes_reserved, peak_bytes_reserved, bytes_reservable_limit, largest_free_block_bytes, pool_bytes, peak_pool_bytes, peak_allocated_bytes
            PJRT_LAYERS_OVERRIDE_DEVICES=x: PJRT_LAYERS_OVERRIDE_DEVICES: `x` does not select devices; write the number of devices as `first 2`, or the positions of devices as `0,3`
        "#]].assert_eq(&messages);
        assert_eq!(with(&[(LAYERS, "override"), (OVERRIDE_PLATFORM_NAME, "acme")]), Ok(vec!["override"]));
    }
}
