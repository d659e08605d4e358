//! Parses the JSON of plugin descriptions. Each fault names the field that caused it.

use serde::de::value::Error as NoValue;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, Visitor};

use crate::diagnostic::{Fault, Faults};
use crate::manifest::{FORMAT_VERSION, Hardware, LibraryFile, Manifest};
use crate::process::{EnvRule, OptionRule};
use crate::variants::{Requirements, VersionRange};
use crate::{Capabilities, OptionSchema, OptionSpec, ProcessPlan};

impl Manifest {
    /// Parses and checks a manifest. Unknown fields are faults, unless the manifest has a newer minor version of the
    /// format than [`FORMAT_VERSION`]. New minor versions only add fields that readers may ignore.
    ///
    /// # Errors
    ///
    /// Returns an error if the manifest has faults. If the JSON is malformed or a value has the wrong type, the error
    /// contains only that fault. Otherwise, the error contains all faults.
    pub fn from_json(text: &str) -> Result<Self, Faults> {
        if !text.trim_start().starts_with('{') {
            return Err(Fault::new("manifest", "a manifest must be a JSON object: `{\"format_version\": …, …}`").into());
        }
        let (mut manifest, unknown): (Self, _) = read(text).map_err(|(field, error)| {
            let mut message = error.to_string();
            if message.starts_with("missing field `format_version`") {
                message.push_str(&format!("; write \"format_version\": {FORMAT_VERSION:?}"));
            }
            Fault::new(field.unwrap_or_else(|| "manifest".to_owned()), message)
        })?;
        manifest.create_options.normalize();
        let mut faults = manifest.validate().err().map(Faults::into_vec).unwrap_or_default();
        if !manifest.is_newer() {
            faults.extend(unknown.iter().map(|field| unknown_field(field)));
        }
        Faults::check(faults)?;
        Ok(manifest)
    }

    /// Returns whether the manifest has a later minor version of the format than this crate writes.
    fn is_newer(&self) -> bool {
        let minor = |version: &str| version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
        minor(&self.format_version) > minor(FORMAT_VERSION)
    }
}

/// Parses a value and returns it with the paths of unknown fields.
///
/// # Errors
///
/// Returns an error, with the path of the field, if a value has the wrong type. If the error concerns the whole value,
/// or the JSON is malformed, there is no path. The message ends with the position in the text.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<(T, Vec<String>), (Option<String>, serde_json::Error)> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut parser, &mut track);
    // Not generic, so that the code for a type is compiled once.
    let mut add: &mut dyn FnMut(serde_ignored::Path<'_>) = &mut |path| unknown.push(as_field(&path.to_string()));
    let read = T::deserialize(serde_ignored::Deserializer::new(tracked, &mut add));
    match read.and_then(|value| parser.end().map(|()| value)) {
        Ok(value) => Ok((value, unknown)),
        Err(error) => {
            let path = track.path().to_string();
            // If the JSON is malformed or truncated, the path is meaningless.
            let whole = path == "." || error.is_syntax() || error.is_eof();
            Err(((!whole).then_some(path), error))
        }
    }
}

/// Converts a path of the crate `serde_ignored`, such as `a.?.b.2.c`, to the notation of faults: `a.b[2].c`.
fn as_field(path: &str) -> String {
    let mut field = String::new();
    for part in path.split('.').filter(|part| *part != "?") {
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            field.push_str(&format!("[{part}]"));
        } else {
            let separator = if field.is_empty() { "" } else { "." };
            field.push_str(&format!("{separator}{part}"));
        }
    }
    field
}

/// Returns the fault for an unknown field. The message suggests a known field with a similar name. If there is no such
/// field, the message lists all known fields of the enclosing object, if this function knows them.
pub(crate) fn unknown_field(field: &str) -> Fault {
    let (within, name) = field.rsplit_once('.').unwrap_or(("", field));
    let known = match without_indices(within).as_str() {
        "" => fields::<Manifest>(),
        "library" => fields::<LibraryFile>(),
        "library.requires" => fields::<Requirements>(),
        "library.requires.cuda_compute_capability" | "library.requires.nvidia_driver" => fields::<VersionRange>(),
        "hardware" => fields::<Hardware>(),
        "capabilities" => fields::<Capabilities>(),
        "create_options" => fields::<OptionSchema>(),
        "create_options.options" => fields::<OptionSpec>(),
        "process" => fields::<ProcessPlan>(),
        "process.environment" => fields::<EnvRule>(),
        "process.options" => fields::<OptionRule>(),
        _ => &[],
    };
    let near = known.iter().map(|known| (strsim::levenshtein(known, name), known)).min();
    Fault::new(
        field,
        match near {
            Some((distance, near)) if distance <= 2 => format!("unknown field; did you mean {near:?}?"),
            _ if known.is_empty() => "unknown field; remove it, or correct its spelling".to_owned(),
            _ => format!("unknown field; the known fields are {}", known.join(", ")),
        },
    )
}

/// Removes the list indices from the path of a field: `a[2].b` becomes `a.b`.
fn without_indices(field: &str) -> String {
    field.split('[').map(|part| part.split_once(']').map_or(part, |(_, after)| after)).collect()
}

/// Returns the JSON names of a type's fields. Returns an empty list if the type is not a struct.
fn fields<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // Deserialization always fails, because there is no value. Before that, it passes the field names to `Names`.
    let _ = T::deserialize(Names(&mut names));
    names
}

/// A deserializer that stores the field names of the requested struct.
struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = NoValue;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
        Err(NoValue::custom("no value"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NoValue> {
        *self.0 = fields;
        Err(NoValue::custom("no value"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn fields_match_serde_names() {
        assert_eq!(as_field("create_options.options.2.defalt"), "create_options.options[2].defalt");
        assert_eq!(as_field("capabilities.autocast.?.kindd"), "capabilities.autocast.kindd");
    }

    #[test]
    fn misspelt_field_suggests_nearest() {
        let mut messages = String::new();
        for field in [
            "capabilites",
            "capabilities.donaton",
            "create_options.opn",
            "create_options.options[2].defalt",
            "library[0].sha265",
            "library.sha265",
            "library[0].requires.cpus",
            "library.requires.nvidia_driver.max",
            "process.option",
            "process.environment[0].varable",
            "hardware.gpu",
            "capabilities.autocast.colour",
        ] {
            messages += &format!("{field}: {}\n", unknown_field(field).message);
        }
        expect![[r#"
            capabilites: unknown field; did you mean "capabilities"?
            capabilities.donaton: unknown field; did you mean "donation"?
            create_options.opn: unknown field; did you mean "open"?
            create_options.options[2].defalt: unknown field; did you mean "default"?
            library[0].sha265: unknown field; did you mean "sha256"?
            library.sha265: unknown field; did you mean "sha256"?
            library[0].requires.cpus: unknown field; did you mean "cpu"?
            library.requires.nvidia_driver.max: unknown field; did you mean "min"?
            process.option: unknown field; did you mean "options"?
            process.environment[0].varable: unknown field; did you mean "variable"?
            hardware.gpu: unknown field; the known fields are device_nodes, pci
            capabilities.autocast.colour: unknown field; remove it, or correct its spelling
        "#]]
        .assert_eq(&messages);
    }

    #[test]
    fn invalid_text_has_position() {
        let mut messages = String::new();
        for (text, field) in [
            ("", "manifest"),
            ("[]", "manifest"),
            ("{", "manifest"),
            (r#"{"format_version": "1.0", "name": "x"} x"#, "manifest"),
            (r#"{"name": "x"}"#, "manifest"),
            (r#"{"format_version": "1.0", "name": "x", "libary": {}}"#, "libary"),
            (r#"{"format_version": "1.0", "name": "x", "library": {"pth": ""}}"#, "library"),
            (r#"{"format_version": "1.0", "name": "x", "library": "x.so"}"#, "library"),
            (
                r#"{"format_version": "1.0", "name": "x", "library": [{"path": "x.so", "sha265": "0"}]}"#,
                "library[0].sha265",
            ),
            (r#"{"format_version": "1.0", "name": "x", "library": {"path": "x.so", "sha265": "0"}}"#, "library.sha265"),
            (r#"{"format_version": "1.0", "name": "x", "capabilities": {"donation": "yes"}}"#, "capabilities.donation"),
            (
                r#"{"format_version": "1.0", "name": "x", "process": {"chips": [{"from": "variabel"}]}}"#,
                "process.chips[0].from",
            ),
            (r#"{"format_version": "1.0", "name": "x", "ownership": "mine"}"#, "ownership"),
            (r#"{"format_version": 1, "name": "x"}"#, "format_version"),
            (
                r#"{"format_version": "1.0", "name": "x", "capabilities": {"dense_gather_factor": -3}}"#,
                "capabilities.dense_gather_factor",
            ),
            (r#"{"format_version": "1.0", "name": "x", "hardware": {"pic": []}}"#, "hardware.pic"),
            (
                r#"{"format_version": "1.1", "name": "x", "library": {"path": "x.so", "requires": {"cpu": "x86-64-v5"}}}"#,
                "library.requires.cpu",
            ),
            (
                r#"{"format_version": "1.1", "name": "x", "library": [{"path": "x.so", "requires": {"gpu": "9.0"}}]}"#,
                "library[0].requires.gpu",
            ),
            (
                r#"{"format_version": "1.1", "name": "x", "library": [{"path": "x.so", "requires": {"nvidia_driver": {"min": "R550"}}}]}"#,
                "library[0].requires.nvidia_driver.min",
            ),
            (
                r#"{"format_version": "1.1", "name": "x", "library": [{"path": "x.so", "requires": {"nvidia_driver": {}}}]}"#,
                "library[0].requires.nvidia_driver",
            ),
            (
                r#"{"format_version": "1.1", "name": "x", "library": [{"path": "x.so", "requires": {"cuda_compute_capability": {"min": "9.0", "below": "9.0"}}}]}"#,
                "library[0].requires.cuda_compute_capability",
            ),
            (
                r#"{"format_version": "1.1", "name": "x", "library": [{"path": "x.so", "arch": "aarch64", "requires": {"cpu": "x86-64-v3"}}]}"#,
                "library[0].requires.cpu",
            ),
            (
                r#"{"format_version": "1.0", "name": "x", "library": [{"path": "x.so", "requires": {"cpu": "x86-64-v3"}}]}"#,
                "library[0].requires",
            ),
        ] {
            let faults = Manifest::from_json(text).unwrap_err();
            let fields: Vec<&str> = faults.all().iter().map(|fault| fault.field.as_str()).collect();
            assert_eq!(fields, [field], "{text}: {faults}");
            messages += &format!("{text:?}: {faults}\n");
        }
        expect![[r#"
            "": manifest: a manifest must be a JSON object: `{"format_version": …, …}`
            "[]": manifest: a manifest must be a JSON object: `{"format_version": …, …}`
            "{": manifest: EOF while parsing an object at line 1 column 1
            "{\"format_version\": \"1.0\", \"name\": \"x\"} x": manifest: trailing characters at line 1 column 40
            "{\"name\": \"x\"}": manifest: missing field `format_version` at line 1 column 13; write "format_version": "1.1"
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"libary\": {}}": libary: unknown field; did you mean "library"?
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"library\": {\"pth\": \"\"}}": library: missing field `path` at line 1 column 61
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"library\": \"x.so\"}": library: invalid type: string "x.so", expected `{"path": …}`, or a list of these at line 1 column 56
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"library\": [{\"path\": \"x.so\", \"sha265\": \"0\"}]}": library[0].sha265: unknown field; did you mean "sha256"?
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"library\": {\"path\": \"x.so\", \"sha265\": \"0\"}}": library.sha265: unknown field; did you mean "sha256"?
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"capabilities\": {\"donation\": \"yes\"}}": capabilities.donation: invalid type: string "yes", expected a boolean at line 1 column 73
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"process\": {\"chips\": [{\"from\": \"variabel\"}]}}": process.chips[0].from: unknown variant `variabel`, expected one of `constant`, `variable`, `device_nodes` at line 1 column 80
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"ownership\": \"mine\"}": ownership: unknown variant `mine`, expected one of `shared`, `per_process`, `exclusive` at line 1 column 58
            "{\"format_version\": 1, \"name\": \"x\"}": format_version: invalid type: integer `1`, expected a string at line 1 column 20
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"capabilities\": {\"dense_gather_factor\": -3}}": capabilities.dense_gather_factor: invalid value: integer `-3`, expected a nonzero u32 at line 1 column 81
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"hardware\": {\"pic\": []}}": hardware.pic: unknown field; did you mean "pci"?
            "{\"format_version\": \"1.1\", \"name\": \"x\", \"library\": {\"path\": \"x.so\", \"requires\": {\"cpu\": \"x86-64-v5\"}}}": library.requires.cpu: unknown variant `x86-64-v5`, expected one of `x86-64`, `x86-64-v2`, `x86-64-v3`, `x86-64-v4`, `armv8-a`, `armv8.2-a`, `armv9-a` at line 1 column 98
            "{\"format_version\": \"1.1\", \"name\": \"x\", \"library\": [{\"path\": \"x.so\", \"requires\": {\"gpu\": \"9.0\"}}]}": library[0].requires.gpu: unknown field; did you mean "cpu"?
            "{\"format_version\": \"1.1\", \"name\": \"x\", \"library\": [{\"path\": \"x.so\", \"requires\": {\"nvidia_driver\": {\"min\": \"R550\"}}}]}": library[0].requires.nvidia_driver.min: "R550" is not a version; write one to four numbers with dots between them, such as "550.54" at line 1 column 113
            "{\"format_version\": \"1.1\", \"name\": \"x\", \"library\": [{\"path\": \"x.so\", \"requires\": {\"nvidia_driver\": {}}}]}": library[0].requires.nvidia_driver: the range has no limit; write "min" or "below", or remove it
            "{\"format_version\": \"1.1\", \"name\": \"x\", \"library\": [{\"path\": \"x.so\", \"requires\": {\"cuda_compute_capability\": {\"min\": \"9.0\", \"below\": \"9.0\"}}}]}": library[0].requires.cuda_compute_capability: no version is at least 9.0 and below 9.0; correct one of the limits
            "{\"format_version\": \"1.1\", \"name\": \"x\", \"library\": [{\"path\": \"x.so\", \"arch\": \"aarch64\", \"requires\": {\"cpu\": \"x86-64-v3\"}}]}": library[0].requires.cpu: x86-64-v3 is a level of x86_64, but the library is for aarch64; its levels are: armv8-a, armv8.2-a, armv9-a
            "{\"format_version\": \"1.0\", \"name\": \"x\", \"library\": [{\"path\": \"x.so\", \"requires\": {\"cpu\": \"x86-64-v3\"}}]}": library[0].requires: version 1.0 of the format lacks this field; write "format_version": "1.1"
        "#]].assert_eq(&messages);
    }
}
