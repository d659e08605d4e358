//! `pjrt inspect`.

use pjrt::{NamedValue, Plugin, slot};
use serde_json::json;

use crate::devices::values_json;
use crate::open::PluginArgs;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    plugin: PluginArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Every function of the interface, and whether the plugin's table holds it.
macro_rules! functions {
    ($($name:ident,)*) => {
        fn functions(plugin: &Plugin) -> Vec<(&'static str, bool)> {
            vec![$((stringify!($name), plugin.supports::<slot::$name>()),)*]
        }
    };
}
pjrt::for_each_slot!(functions);

pub(crate) fn run(args: &Args) -> Result<String, String> {
    let mut out = String::new();
    let plugin = args.plugin.open()?;
    let attributes = plugin.attributes().map_err(|error| error.to_string())?;
    let functions = functions(&plugin);
    let missing: Vec<&str> = functions.iter().filter(|(_, present)| !present).map(|(name, _)| *name).collect();
    let extensions = plugin.extensions();
    if args.json {
        let extensions: Vec<_> =
            extensions.iter().map(|(number, name)| json!({ "type": number, "name": name })).collect();
        line!(
            out,
            "{:#}",
            json!({
                "path": plugin.path(),
                "api_version": plugin.api_version().to_string(),
                "table_size": plugin.api().struct_size(),
                "attributes": values_json(&attributes),
                "extensions": extensions,
                "functions": functions.len() - missing.len(),
                "missing_functions": missing,
            })
        );
        return Ok(out);
    }
    let path = plugin.path().map_or_else(|| "embedded".to_owned(), |path| path.display().to_string());
    line!(out, "plugin {path}");
    line!(out, "API version {}, table of {} bytes", plugin.api_version(), plugin.api().struct_size());
    for NamedValue { name, value } in &attributes {
        line!(out, "attribute {name} = {value}");
    }
    for (number, name) in extensions {
        line!(out, "extension {} ({number})", name.unwrap_or("unknown to this version of the command"));
    }
    line!(out, "functions {} of {}", functions.len() - missing.len(), functions.len());
    for name in missing {
        line!(out, "  without {name}");
    }
    Ok(out)
}
