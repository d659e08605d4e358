//! Opens the plugin and creates the client for a command.

use clap::Args;
use pjrt::{Client, ClientOptions, Value};
use plugin_registry::PluginEntry;

use crate::library;

/// Which plugin to open.
#[derive(Args, Clone)]
pub(crate) struct PluginArgs {
    /// `cpu` for the embedded device, the name of an installed plugin, or the path of a plugin's library.
    #[arg(long, short, default_value = "cpu", value_name = "NAME|PATH")]
    pub(crate) plugin: String,
}

/// Which plugin to open, and how to create its client.
#[derive(Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    pub(crate) plugin: PluginArgs,
    /// An option of the plugin's client. The value's form decides its type (`true`, `3`, `0.5`, `[1,2]`, else a
    /// string). `NAME:TYPE=VALUE` names the type: string, int64, int64s, float or bool.
    #[arg(long = "option", short = 'O', value_name = "NAME=VALUE")]
    pub(crate) options: Vec<String>,
}

impl PluginArgs {
    pub(crate) fn find(&self) -> Result<PluginEntry, String> {
        library::find(&self.plugin)
    }
}

impl ClientArgs {
    pub(crate) fn client(&self) -> Result<Client, String> {
        let mut options = ClientOptions::new();
        for text in &self.options {
            let (name, value) = option(text)?;
            options = options.with(name, value);
        }
        let plugin = self.plugin.find()?.load().map_err(|error| error.to_string())?;
        plugin.client_labelled("the command pjrt", &options).map_err(|error| error.to_string())
    }
}

/// Parses an option of a client, which has the form `NAME=VALUE` or `NAME:TYPE=VALUE`.
pub(crate) fn option(text: &str) -> Result<(&str, Value), String> {
    let fault = || format!("--option {text}: write NAME=VALUE or NAME:TYPE=VALUE");
    let (name, value) = text.split_once('=').ok_or_else(fault)?;
    let (name, ty) = match name.split_once(':') {
        Some((name, ty)) => (name, Some(ty)),
        None => (name, None),
    };
    if name.is_empty() {
        return Err(fault());
    }
    let value = match ty {
        None => guess(value),
        Some(ty) => typed(ty, value).ok_or_else(|| {
            format!(
                "--option {text}: {value:?} is not of type {ty:?}; the types are string, int64, int64s, float and bool"
            )
        })?,
    };
    Ok((name, value))
}

fn typed(ty: &str, text: &str) -> Option<Value> {
    Some(match ty {
        "string" => Value::String(text.to_owned()),
        "int64" => Value::Int64(text.parse().ok()?),
        "int64s" => {
            let items = text.trim_start_matches('[').trim_end_matches(']').split(',').map(str::trim);
            Value::Int64List(items.filter(|i| !i.is_empty()).map(|i| i.parse().ok()).collect::<Option<_>>()?)
        }
        "float" => Value::Float(text.parse().ok()?),
        "bool" => Value::Bool(text.parse().ok()?),
        _ => return None,
    })
}

fn guess(text: &str) -> Value {
    let list = if text.starts_with('[') && text.ends_with(']') { typed("int64s", text) } else { None };
    let digits = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
    let number = if digits { typed("int64", text).or_else(|| typed("float", text)) } else { None };
    list.or(number).or_else(|| typed("bool", text)).unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_types() {
        let value = |text| option(text).unwrap().1;
        assert_eq!(value("a=3"), Value::Int64(3));
        assert_eq!(value("a=0.5"), Value::Float(0.5));
        assert_eq!(value("a=true"), Value::Bool(true));
        assert_eq!(value("a=[1, 2]"), Value::Int64List(vec![1, 2]));
        assert_eq!(value("a=infinity"), Value::String("infinity".to_owned()));
        assert_eq!(value("a:string=3"), Value::String("3".to_owned()));
        assert_eq!(value("a="), Value::String(String::new()));
        assert!(option("a").is_err());
        assert!(option("=3").is_err());
        assert!(option("a:int64=x").unwrap_err().contains("types are"));
    }
}
