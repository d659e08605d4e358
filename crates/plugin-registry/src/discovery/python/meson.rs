//! Editable installations of meson-python. An import hook takes the modules of the package from the places that Meson's
//! installation plan in the build folder names.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::source;
use crate::discovery::folder;

/// Maximum size of an installation plan in bytes. A plan has about 200 bytes for each file.
const LARGEST_PLAN: u64 = 16 << 20;

/// The files of a package.
#[derive(Default)]
pub(super) struct Plan {
    /// The dotted name of each module, and its path without `.py`.
    pub(super) modules: Vec<(String, PathBuf)>,
    /// The dotted name of the package that contains a shared library, and the path of the library.
    pub(super) libraries: Vec<(String, PathBuf)>,
}

/// Returns the files that an import hook adds. Returns no files if the package was not built.
pub(super) fn plan(loader: &Path) -> Plan {
    let mut plan = Plan::default();
    let source = folder::read_text(loader, folder::LARGEST_SETTINGS).unwrap_or_default();
    let Some(build) = source::text_argument(&source, "MesonpyMetaFinder", 2) else { return plan };
    let file = PathBuf::from(build).join("meson-info/intro-install_plan.json");
    let text = folder::read_text(&file, LARGEST_PLAN).unwrap_or_default();
    let Ok(Value::Object(kinds)) = serde_json::from_str(&text) else { return plan };
    for (from, entry) in kinds.values().filter_map(Value::as_object).flatten() {
        let destination = entry.get("destination").and_then(Value::as_str).unwrap_or_default();
        let site = ["{py_purelib}/", "{py_platlib}/"].iter().find_map(|site| destination.strip_prefix(site));
        let Some((package, name)) = site.and_then(|path| path.rsplit_once('/')) else { continue };
        let (from, package) = (PathBuf::from(from), package.replace('/', "."));
        if name == "__init__.py" {
            plan.modules.extend(from.parent().map(|folder| (package, folder.to_owned())));
        } else if let Some(module) = name.strip_suffix(".py") {
            plan.modules.push((format!("{package}.{module}"), from.with_extension("")));
        } else if folder::is_library_name(name) {
            plan.libraries.push((package, from));
        }
    }
    plan
}
