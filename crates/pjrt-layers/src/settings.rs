//! The environment variables that select the plugin and the layers.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use pjrt_sys::StaticApi;

use crate::compat::Compat;
use crate::core::{elevated, load, refusal};
use crate::fault::{Fault, Rules};
use crate::layer::Layer;
use crate::trace::{Outputs, Trace};
use crate::validate::{Reports, Validate};

/// The path of the plugin's library.
pub const PLUGIN: &str = "PJRT_LAYERS_PLUGIN";
/// The names of the layers, separated by commas. The first one is next to the framework.
pub const LAYERS: &str = "PJRT_LAYERS";
/// The folder for the files of layers.
pub const OUTPUT: &str = "PJRT_LAYERS_OUTPUT";
/// Number of calls that the timeline of `trace` keeps for each thread.
pub const TRACE_CALLS: &str = "PJRT_LAYERS_TRACE_CALLS";
/// The minor version of the API that `compat` announces.
pub const COMPAT_MINOR: &str = "PJRT_LAYERS_COMPAT_MINOR";
/// The numbers of the extensions that `compat` hides, separated by commas.
pub const COMPAT_HIDE: &str = "PJRT_LAYERS_COMPAT_HIDE";
/// The rules of `fault`, separated by semicolons. See [`Rules`].
pub const FAULT: &str = "PJRT_LAYERS_FAULT";
/// The number from which `fault` draws the calls of rules with a probability. Without it, the seed is 0.
pub const FAULT_SEED: &str = "PJRT_LAYERS_FAULT_SEED";

/// Returns the value of an environment variable. Tests replace this function.
type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Creates a layer from the environment.
type Make = fn(Variables<'_>) -> Result<Box<dyn Layer>, String>;

/// The layers by their names.
const KNOWN: &[(&str, Make)] = &[("trace", trace), ("validate", validate), ("compat", compat), ("fault", fault)];

fn validate(variables: Variables<'_>) -> Result<Box<dyn Layer>, String> {
    Ok(Box::new(Validate::new(Reports::to_folder(variables(OUTPUT).map(PathBuf::from)))))
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
    Ok(Box::new(compat))
}

fn fault(variables: Variables<'_>) -> Result<Box<dyn Layer>, String> {
    let rules = variables(FAULT).unwrap_or_default();
    let rules = rules.to_string_lossy().parse::<Rules>().map_err(|error| format!("{FAULT}: {error}"))?;
    let seed = number(FAULT_SEED, variables)?.unwrap_or(0);
    Ok(Box::new(Fault::new(rules, seed).with_summary(variables(OUTPUT).map(PathBuf::from))))
}

fn number<T: FromStr>(name: &str, variables: Variables<'_>) -> Result<Option<T>, String> {
    variables(name).map(|text| parse(name, text.to_string_lossy().trim())).transpose()
}

fn parse<T: FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} has `{text}`, which is not a valid number"))
}

/// Loads the plugin and creates the layers. If that fails, every function of the table returns an error with the
/// reason.
pub(crate) fn from_environment() -> (StaticApi, Vec<Box<dyn Layer>>) {
    let start = || {
        if elevated() {
            return Err(format!(
                "this process has elevated privileges, so {PLUGIN} and {LAYERS} have no effect: give the framework the \
                 plugin itself"
            ));
        }
        let variables: Variables<'_> = &|name| std::env::var_os(name).filter(|value| !value.is_empty());
        let layers = layers(variables)?;
        let plugin = variables(PLUGIN).map(PathBuf::from);
        let plugin =
            plugin.ok_or_else(|| format!("{PLUGIN} is not set: set it to the path of the plugin's library"))?;
        Ok((load(&plugin)?, layers))
    };
    start().unwrap_or_else(|reason| refusal(format!("pjrt-layers: {reason}")))
}

fn layers(variables: Variables<'_>) -> Result<Vec<Box<dyn Layer>>, String> {
    let names = variables(LAYERS).unwrap_or_default();
    let names = names.to_string_lossy();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| layer(name, variables)).collect()
}

fn layer(name: &str, variables: Variables<'_>) -> Result<Box<dyn Layer>, String> {
    let found = KNOWN.iter().find(|(known, _)| *known == name);
    let (_, make) = found.ok_or_else(|| {
        let known: Vec<&str> = KNOWN.iter().map(|(known, _)| *known).collect();
        format!("{LAYERS} names `{name}`, which is not a layer; the layers are {}", known.join(", "))
    })?;
    make(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[(&str, &str)]) -> Result<Vec<&'static str>, String> {
        let find = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        Ok(layers(&find)?.iter().map(|layer| layer.name()).collect())
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
            "PJRT_LAYERS names `tracy`, which is not a layer; the layers are trace, validate, compat, fault"
        );
        assert_eq!(
            with(&[(LAYERS, "compat"), (COMPAT_MINOR, "x")]).unwrap_err(),
            "PJRT_LAYERS_COMPAT_MINOR has `x`, which is not a valid number"
        );
        assert_eq!(
            with(&[(LAYERS, "fault")]).unwrap_err(),
            "PJRT_LAYERS_FAULT: there is no rule: write one, such as `memory call=3 oom`"
        );
        assert_eq!(
            with(&[(LAYERS, "fault"), (FAULT, "memory oom; compile")]).unwrap_err(),
            "PJRT_LAYERS_FAULT: rule 2 `compile`: it has no effect: add `oom`, `error=CODE` or `delay=TIME`"
        );
        assert_eq!(
            with(&[(LAYERS, "fault"), (FAULT, "memory oom"), (FAULT_SEED, "-1")]).unwrap_err(),
            "PJRT_LAYERS_FAULT_SEED has `-1`, which is not a valid number"
        );
    }
}
