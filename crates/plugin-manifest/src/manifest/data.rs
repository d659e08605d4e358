//! The description of a plugin as data: the content of `pjrt_plugin.json`.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::c_function::is_shutdown;
use crate::diagnostic::{Faults, Found};
use crate::process::{is_variable, not_a_variable};
use crate::variants::Requirements;
use crate::{Capabilities, OptionSchema, Ownership, ProcessPlan, SupportTable};

/// Version of the manifest format that this crate writes. Readers accept every version with this major version.
pub const FORMAT_VERSION: &str = "1.1";

/// File name of a manifest in the folder of a plugin's library.
pub const FILE_NAME: &str = "pjrt_plugin.json";
/// Maximum length in bytes of a plugin's name, of each alias and of each platform name. The limit exists because names
/// become parts of file names, Python modules, environment variables and C symbols.
pub const MAX_NAME_LENGTH: usize = 64;

/// All information about a plugin that a framework can get without loading the plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Version of the manifest format, such as `1.1`. Version `1.0` lacks [`LibraryFile::requires`].
    pub format_version: String,
    /// Name by which frameworks register the plugin: a lower-case letter, then lower-case letters, digits and
    /// underscores.
    pub name: String,
    /// Other names by which users select the plugin, such as `gpu`. Several plugins may have the same alias.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Platform names that the plugin's clients report, if they differ from `name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platform_names: Vec<String>,
    /// Name of the plugin for display.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Name of the vendor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    /// Version of the plugin.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// One-line description for users.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// URL of the plugin's documentation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub homepage: String,
    /// Address for bug reports.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub support: String,
    /// The library, or one library for each supported system. Several libraries for one system are variants for
    /// different CPUs, GPUs or drivers (see [`variants`](crate::variants)). Empty if the plugin is part of a program.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub library: Vec<LibraryFile>,
    /// Priority among plugins that match a request. Frameworks prefer the plugin with the largest priority. JAX uses
    /// 400 for plugins, and 300 and 0 for its own TPU and CPU backends.
    #[serde(default = "default_priority", skip_serializing_if = "is_default_priority")]
    pub priority: i32,
    /// Whether the vendor considers the plugin unfinished.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub experimental: bool,
    /// Hardware for which frameworks search before they load the plugin.
    #[serde(default, skip_serializing_if = "Hardware::is_empty")]
    pub hardware: Hardware,
    /// The options that the plugin's clients accept.
    #[serde(default)]
    pub create_options: OptionSchema,
    /// Set-up of each process.
    #[serde(default)]
    pub process: ProcessPlan,
    /// Whether several clients may use the plugin's devices at the same time.
    #[serde(default)]
    pub ownership: Ownership,
    /// The capabilities of the plugin's devices.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The programs that the plugin's devices can run. `None` if the manifest does not list them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported_programs: Option<SupportTable>,
    /// Name of an environment variable that disables the plugin if it is set, not empty and not `0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_env: Option<String>,
    /// Name of a C function without parameters and without a result. The function is called after the last client is
    /// destroyed and before the process ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown_symbol: Option<String>,
}

/// A library file, and the system for which it is built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct LibraryFile {
    /// Path of the file. A relative path is relative to the manifest's folder if it has a separator or if the file
    /// exists in this folder. The dynamic loader searches for any other bare name.
    #[serde(serialize_with = "path_as_text")]
    pub path: PathBuf,
    /// Operating system, as `std::env::consts::OS` spells it. If omitted, the file is for every operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Architecture, as `std::env::consts::ARCH` spells it. If omitted, the file is for every architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// SHA-256 hash of the file in lower-case hexadecimal. Loaders reject a file with a different hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Requirements that the machine must meet. Added in format version 1.1. Readers of version 1.0 ignore this field
    /// and choose the first library for the system. To support these readers, list the library with the lowest
    /// requirements first.
    #[serde(default, skip_serializing_if = "Requirements::is_empty")]
    pub requires: Requirements,
}

impl LibraryFile {
    /// Creates an entry for any operating system and architecture, without a hash.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// Returns whether the file is for an operating system and an architecture, as `std::env::consts` spells them.
    pub fn is_for(&self, os: &str, arch: &str) -> bool {
        let fits = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        fits(&self.os, os) && fits(&self.arch, arch)
    }
}

/// Signs by which a plugin's hardware is detected. One matching sign is enough. If no sign is listed, the hardware
/// counts as present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct Hardware {
    /// Device nodes such as `/dev/nvidia*`, where `*` matches any characters except `/`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<String>,
    /// PCI devices of the hardware.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pci: Vec<PciId>,
}

impl Hardware {
    /// Returns whether neither a device node nor a PCI device is listed.
    pub fn is_empty(&self) -> bool {
        self.device_nodes.is_empty() && self.pci.is_empty()
    }
}

/// A pattern for PCI devices: single devices, all devices of a vendor, or a vendor's devices of some classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct PciId {
    /// Vendor ID, as four lower-case hexadecimal digits.
    pub vendor: String,
    /// Device IDs, as four lower-case hexadecimal digits each. If omitted, all devices match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// First hexadecimal digits of class codes, such as `0300` or `12`. If omitted, all classes match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
}

/// Serializes a path as a string. JSON strings are Unicode, so other bytes are replaced instead of causing an error.
fn path_as_text<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

const fn default_priority() -> i32 {
    400
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_default_priority(priority: &i32) -> bool {
    *priority == default_priority()
}

fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<LibraryFile>, D::Error> {
    // Deserialize by hand, because an untagged enum would not report which field is invalid and would lose unknown
    // fields.
    struct OneOrMany;

    impl<'de> Visitor<'de> for OneOrMany {
        type Value = Vec<LibraryFile>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("`{\"path\": …}`, or a list of these")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            LibraryFile::deserialize(MapAccessDeserializer::new(map)).map(|file| vec![file])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
    }

    from.deserialize_any(OneOrMany)
}

impl Manifest {
    /// Creates the manifest of a plugin with this name and with the capabilities that frameworks assume about an
    /// unknown device.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            format_version: FORMAT_VERSION.to_owned(),
            name: name.into(),
            aliases: Vec::new(),
            platform_names: Vec::new(),
            display_name: String::new(),
            vendor: String::new(),
            version: String::new(),
            description: String::new(),
            homepage: String::new(),
            support: String::new(),
            library: Vec::new(),
            priority: default_priority(),
            experimental: false,
            hardware: Hardware::default(),
            create_options: OptionSchema::default(),
            process: ProcessPlan::default(),
            ownership: Ownership::default(),
            capabilities: Capabilities::default(),
            supported_programs: None,
            disable_env: None,
            shutdown_symbol: None,
        }
    }

    /// Serializes the manifest as the content of `pjrt_plugin.json`.
    pub fn to_json(&self) -> String {
        // All maps have string keys, so serialization cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Checks everything that can be checked without loading the plugin.
    ///
    /// # Errors
    ///
    /// Returns an error if the manifest has faults. The error contains all of them.
    pub fn validate(&self) -> Result<(), Faults> {
        let mut faults = Found::default();
        if self.format_version.split('.').next() != FORMAT_VERSION.split('.').next() {
            let message = format!("unknown format version {:?}; write {FORMAT_VERSION:?}", self.format_version);
            faults.add("format_version", message);
        }
        if let Err(message) = check_name(&self.name) {
            faults.add("name", message);
        }
        for (index, alias) in self.aliases.iter().enumerate() {
            let field = format!("aliases[{index}]");
            if let Err(message) = check_name(alias) {
                faults.add(field, message);
            } else if *alias == self.name || self.aliases[..index].contains(alias) {
                faults.add(field, format!("{alias:?} is already a name of the plugin; remove the alias"));
            }
        }
        for (index, name) in self.platform_names.iter().enumerate().filter(|(_, name)| name.len() > MAX_NAME_LENGTH) {
            let message = format!("the name has {} bytes; write a name of at most {MAX_NAME_LENGTH} bytes", name.len());
            faults.add(format!("platform_names[{index}]"), message);
        }
        for (index, file) in self.library.iter().enumerate() {
            let field = format!("library[{index}]");
            if file.path.as_os_str().is_empty() {
                faults.add(format!("{field}.path"), "the path is empty; write the path of the file");
            }
            if file.sha256.as_ref().is_some_and(|hash| hash.len() != 64 || !is_lower_hex(hash)) {
                let message = "the digest is not valid; write 64 lower-case hexadecimal digits";
                faults.add(format!("{field}.sha256"), message);
            }
            for (name, message) in file.requires.faults(file.arch.as_deref()) {
                faults.add(format!("{field}.requires.{name}"), message);
            }
            if !file.requires.is_empty() && self.format_version == "1.0" {
                let message =
                    format!("version 1.0 of the format lacks this field; write \"format_version\": {FORMAT_VERSION:?}");
                faults.add(format!("{field}.requires"), message);
            }
        }
        for (index, node) in self.hardware.device_nodes.iter().enumerate() {
            if let Err(message) = check_node(node) {
                faults.add(format!("hardware.device_nodes[{index}]"), message);
            }
        }
        for (index, id) in self.hardware.pci.iter().enumerate() {
            let field = format!("hardware.pci[{index}]");
            let devices = id.devices.iter().map(|device| ("devices", device));
            for (name, digits) in devices.chain([("vendor", &id.vendor)]) {
                if digits.len() != 4 || !is_lower_hex(digits) {
                    let message = format!("{digits:?} is not a PCI number; write four lower-case hexadecimal digits");
                    faults.add(format!("{field}.{name}"), message);
                }
            }
            for class in id.classes.iter().filter(|class| !matches!(class.len(), 1..=6) || !is_lower_hex(class)) {
                let message = format!("{class:?} is not a PCI class; write one to six lower-case hexadecimal digits");
                faults.add(format!("{field}.classes"), message);
            }
        }
        if let Some(variable) = self.disable_env.as_deref().filter(|name| !is_variable(name)) {
            faults.add("disable_env", not_a_variable(variable));
        }
        if let Some(symbol) = self.shutdown_symbol.as_deref().filter(|symbol| !is_shutdown(symbol)) {
            let message = format!(
                "{symbol:?} cannot name the shutdown function; write the name of a C function that is not an entry point \
                 and not a keyword of C or C++"
            );
            faults.add("shutdown_symbol", message);
        }
        let inner = |checked: Result<(), Faults>| checked.err().map(Faults::into_vec).unwrap_or_default();
        faults.within("supported_programs", self.supported_programs.iter().flat_map(SupportTable::validate));
        faults.within("create_options", self.create_options.faults());
        faults.within("process", inner(self.process.validate()));
        // The options that the process plan passes although the schema rejects them.
        for (index, rule) in self.process.options.iter().enumerate() {
            if let Some(refused) = self.create_options.refuses(&rule.name, rule.ty) {
                faults.add(format!("process.options[{index}]"), refused);
            }
        }
        faults.within("capabilities", inner(self.capabilities.validate()));
        faults.finish()
    }

    /// Returns whether `name` is the plugin's name, an alias or a platform name. Letter case is ignored.
    pub fn answers_to(&self, name: &str) -> bool {
        let names = [&self.name].into_iter().chain(&self.aliases).chain(&self.platform_names);
        names.into_iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Checks the pattern of a device node. Only the file name may contain wildcards, so that the search for a node does
/// not visit the whole file system.
fn check_node(node: &str) -> Result<(), String> {
    if !node.starts_with('/') {
        return Err(format!("{node:?} is not an absolute path; begin it with /"));
    }
    let folder = node.rsplit_once('/').map_or("", |(folder, _)| folder);
    if folder.contains(['*', '?', '[']) || node.ends_with("**") || node.split('/').any(|part| part == "..") {
        return Err(format!(
            "{node:?} is not a valid pattern of a device node; write a path without `..`, with *, ? and [] only in its last part"
        ));
    }
    Ok(())
}

/// Returns whether `name` is a valid plugin name. A plugin name must be usable in the name of a Python module, a C
/// symbol and an environment variable.
pub const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.len() > MAX_NAME_LENGTH {
        return false;
    }
    let mut index = 0;
    while index < bytes.len() {
        match bytes[index] {
            b'a'..=b'z' => {}
            b'0'..=b'9' | b'_' if index > 0 => {}
            _ => return false,
        }
        index += 1;
    }
    index > 0
}

fn check_name(name: &str) -> Result<(), String> {
    if is_name(name) {
        return Ok(());
    }
    if name.len() > MAX_NAME_LENGTH {
        let start: String = name.chars().take(16).collect();
        return Err(format!("{start:?}... has {} bytes; write a name of at most {MAX_NAME_LENGTH} bytes", name.len()));
    }
    Err(format!(
        "{name:?} is not a valid plugin name; write a lower-case letter, then lower-case letters, digits and underscores"
    ))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn smallest_manifest() {
        let manifest = Manifest::from_json(r#"{"format_version": "1.3", "name": "x", "library": {"path": "l.so"}}"#);
        let manifest = manifest.unwrap();
        assert_eq!(manifest.library, [LibraryFile::new("l.so")]);
        assert_eq!((manifest.priority, manifest.ownership), (400, Ownership::Shared));
        assert!(manifest.create_options.open);
        assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
    }

    #[test]
    fn library_for_each_system() {
        let mut manifest = Manifest::new("x");
        for (path, os, arch) in [("a.dll", "windows", "x86_64"), ("b.so", "linux", "aarch64"), ("c.so", "linux", "")] {
            manifest.library.push(LibraryFile {
                path: path.into(),
                os: Some(os.to_owned()),
                arch: (!arch.is_empty()).then(|| arch.to_owned()),
                ..LibraryFile::default()
            });
        }
        let chosen = |os, arch| {
            let file = manifest.library.iter().find(|file| file.is_for(os, arch));
            file.map(|file| file.path.to_str().unwrap())
        };
        assert_eq!(chosen("linux", "aarch64"), Some("b.so"));
        assert_eq!(chosen("linux", "x86_64"), Some("c.so"));
        assert_eq!(chosen("macos", "aarch64"), None);
        assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
    }

    #[test]
    fn names_of_variables_are_checked() {
        for (name, is_valid) in [("A_1", true), ("", false), ("A=B", false), ("A\0", false), ("1A", false)] {
            let manifest = Manifest { disable_env: Some(name.to_owned()), ..Manifest::new("x") };
            let fields: Vec<String> = manifest
                .validate()
                .err()
                .map_or_else(Vec::new, Faults::into_vec)
                .into_iter()
                .map(|fault| fault.field)
                .collect();
            assert_eq!(fields, if is_valid { vec![] } else { vec!["disable_env"] }, "{name:?}");
        }
    }

    #[test]
    fn device_node_patterns_stay_in_folder() {
        for node in ["/dev/x", "/dev/x*", "/dev/a/[0-9]?"] {
            assert_eq!(check_node(node), Ok(()));
        }
        for node in ["", "x", "/**/x", "/dev/**", "/*/*/x", "/dev/../home/*", "/d?v/x"] {
            assert!(check_node(node).is_err(), "{node}");
        }
    }

    #[test]
    fn name_length_limit() {
        let with = |name: &str| {
            let mut manifest = Manifest::new(name);
            manifest.aliases.push(format!("{name}b"));
            manifest.platform_names.push(name.to_uppercase());
            manifest.validate()
        };
        assert_eq!(with(&"a".repeat(MAX_NAME_LENGTH - 1)), Ok(()));
        let faults = with(&"a".repeat(100_000)).unwrap_err();
        let fields: Vec<&str> = faults.all().iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(fields, ["name", "aliases[0]", "platform_names[0]"]);
        let text = faults.to_string();
        assert!(text.contains("100000 bytes") && text.len() < 1000, "{text}");
    }

    #[test]
    fn lists_all_faults() {
        let mut manifest = Manifest::new("My-Device");
        manifest.format_version = "2.0".to_owned();
        manifest.aliases = vec!["gpu".to_owned(), "gpu".to_owned(), "G".to_owned()];
        manifest.library.push(LibraryFile { sha256: Some("ABC".to_owned()), ..LibraryFile::default() });
        manifest.hardware.device_nodes.push("nvidia0".to_owned());
        let pci = PciId { vendor: "10DE".to_owned(), devices: vec!["1".to_owned()], classes: vec![String::new()] };
        manifest.hardware.pci.push(pci);
        let faults = manifest.validate().unwrap_err();
        let fields: Vec<&str> = faults.all().iter().map(|fault| fault.field.as_str()).collect();
        let expected = [
            "format_version",
            "name",
            "aliases[1]",
            "aliases[2]",
            "library[0].path",
            "library[0].sha256",
            "hardware.device_nodes[0]",
            "hardware.pci[0].devices",
            "hardware.pci[0].vendor",
            "hardware.pci[0].classes",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn plan_options_must_be_in_schema() {
        let faults = |options: &str, create_options: &str| {
            let text = format!(
                r#"{{"format_version": "1.0", "name": "x", "create_options": {create_options},
                    "process": {{"options": [{options}]}}}}"#
            );
            Manifest::from_json(&text).map(drop)
        };
        let node = r#"{"name": "node", "type": "int64", "value": "{global_rank}"}"#;
        let closed = |ty: &str| format!(r#"{{"open": false, "options": [{{"name": "nodes", "type": "{ty}"}}]}}"#);
        let nodes = node.replace("node", "nodes");
        let mut messages = String::new();
        for (case, option, ty) in [("another name", node, "int64"), ("another type", &nodes, "bool")] {
            let faults = faults(option, &closed(ty)).unwrap_err();
            assert_eq!(faults.all()[0].field, "process.options[0]", "{faults}");
            messages += &format!("{case}: {faults}\n");
        }
        expect![[r#"
            another name: process.options[0]: create_options does not list the option "node"; did you mean "nodes"?
            another type: process.options[0]: "nodes" has the type int64 here, but bool in create_options; use one type
        "#]]
        .assert_eq(&messages);
        // Integers convert to lists and floats, and strings are parsed as the option's type.
        for ty in ["int64", "int64_list", "float"] {
            assert_eq!(faults(&nodes, &closed(ty)), Ok(()));
        }
        assert_eq!(faults(&nodes.replace("int64", "string"), &closed("int64")), Ok(()));
        assert_eq!(faults(node, r#"{"open": true}"#), Ok(()));
    }

    #[test]
    fn newer_minor_version_adds_fields() {
        let text = |version: &str| format!(r#"{{"format_version": "{version}", "name": "x", "colour": "blue"}}"#);
        assert!(Manifest::from_json(&text("1.7")).is_ok());
        assert!(Manifest::from_json(&text("1.0")).is_err());
        assert!(Manifest::from_json(&text("2.0")).is_err());
    }

    #[test]
    fn names_ignore_case() {
        let mut manifest = Manifest::new("cuda");
        manifest.aliases.push("gpu".to_owned());
        manifest.platform_names.push("CUDA".to_owned());
        assert!(manifest.answers_to("Gpu") && manifest.answers_to("cuda") && !manifest.answers_to("cud"));
    }
}
