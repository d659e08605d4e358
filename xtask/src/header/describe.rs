//! Descriptions of the C interface for programs and for people: `include/device_plugin.json`, from which bindings of
//! other languages can be generated, and `docs/c-api.md`.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::Error;

/// The description for programs.
pub(super) const JSON: &str = "include/device_plugin.json";

/// The description for people.
pub(super) const PAGE: &str = "docs/c-api.md";

/// Objects of other headers, to which the functions pass pointers.
const FOREIGN: [&str; 8] = [
    "DLManagedTensor",
    "DLManagedTensorVersioned",
    "PJRT_Api",
    "PJRT_Buffer",
    "PJRT_Client",
    "PJRT_Device",
    "PJRT_LoadedExecutable",
    "PJRT_Memory",
];

/// The declarations of a header.
pub(super) struct Described {
    name: &'static str,
    about: &'static str,
    objects: Vec<Value>,
    constants: Vec<Value>,
    structs: Vec<Value>,
    types: Vec<Value>,
    functions: Vec<Value>,
}

impl Described {
    /// Reads a header that this task generated.
    pub(super) fn read(name: &'static str, about: &'static str, header: &str) -> Result<Self, Error> {
        let mut read = Self {
            name,
            about,
            objects: Vec::new(),
            constants: Vec::new(),
            structs: Vec::new(),
            types: Vec::new(),
            functions: Vec::new(),
        };
        let mut lines = header.lines().skip_while(|line| !line.starts_with("#define DEVICE_PLUGIN_"));
        let mut doc = String::new();
        while let Some(line) = lines.next() {
            if line.starts_with("/**") {
                doc = comment(line, &mut lines);
            } else if let Some(rest) = line.strip_prefix("#define DP_") {
                let (name, value) = rest.split_once(' ').ok_or_else(|| format!("{name}.h: {line}"))?;
                read.constants.push(json!({ "name": format!("DP_{name}"), "value": value, "doc": doc }));
            } else if line.starts_with("typedef struct") && line.ends_with('{') {
                read.structs.push(structure(line, &doc, &mut lines));
            } else if line.starts_with("typedef struct dp_") {
                let name = line.trim_end_matches(';').rsplit(' ').next().unwrap_or_default();
                read.objects.push(json!({ "name": name, "doc": doc }));
            } else if line.starts_with("typedef ") && !line.starts_with("typedef struct") {
                let text = statement(line, &mut lines);
                read.types.push(json!({ "name": type_name(&text), "declaration": text, "doc": doc }));
            } else if line.contains('(') && !line.starts_with([' ', '/', '#']) {
                read.functions.push(function(&statement(line, &mut lines), &doc)?);
            } else {
                continue;
            }
            if !line.starts_with("/**") {
                doc = String::new();
            }
        }
        Ok(read)
    }

    fn json(&self) -> Value {
        json!({
            "header": format!("device_plugin/{}.h", self.name),
            "objects": self.objects,
            "constants": self.constants,
            "structs": self.structs,
            "types": self.types,
            "functions": self.functions,
        })
    }
}

/// Returns the text of a comment, as one line for each paragraph.
fn comment<'a>(first: &str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    if let Some(text) = first.strip_prefix("/** ").and_then(|text| text.strip_suffix(" */")) {
        return text.to_owned();
    }
    let mut text = String::new();
    for line in lines.take_while(|line| line.trim() != "*/") {
        let line = line.trim().trim_start_matches('*').trim();
        match line {
            "" => text.push_str("\n\n"),
            line => {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push(' ');
                }
                text.push_str(line);
            }
        }
    }
    text
}

/// Returns a declaration that may span several lines, as one line.
fn statement<'a>(first: &str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut text = first.trim().to_owned();
    while !text.ends_with(';') {
        let Some(line) = lines.next() else { break };
        let _ = write!(text, "{}{}", if text.ends_with('(') { "" } else { " " }, line.trim());
    }
    text.trim_end_matches(';').to_owned()
}

fn type_name(declaration: &str) -> &str {
    match declaration.split_once("(*") {
        Some((_, rest)) => rest.split(')').next().unwrap_or_default(),
        None => declaration.rsplit(' ').next().unwrap_or_default(),
    }
}

/// Splits a declaration such as `const char *name` into its type and its name.
fn declarator(text: &str) -> (String, String) {
    if let Some((before, rest)) = text.split_once("(*") {
        let (name, after) = rest.split_once(')').unwrap_or((rest, ""));
        return (format!("{before}(*){after}"), name.to_owned());
    }
    let start = text.rfind([' ', '*']).map_or(0, |at| at + 1);
    (text[..start].trim().to_owned(), text[start..].to_owned())
}

fn structure<'a>(first: &str, doc: &str, lines: &mut impl Iterator<Item = &'a str>) -> Value {
    let name = first.trim_start_matches("typedef struct").trim_end_matches('{').trim();
    let mut fields = Vec::new();
    let mut field_doc = String::new();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if line.starts_with('}') {
            break;
        } else if line.starts_with("/**") {
            field_doc = comment(line, lines);
        } else if !line.is_empty() {
            let (mut ty, mut name) = declarator(&statement(line, lines));
            // An array, such as `uint32_t tile[2]`.
            if let Some(at) = name.find('[') {
                ty.push_str(&name.split_off(at));
            }
            fields.push(json!({ "name": name, "type": ty, "doc": std::mem::take(&mut field_doc) }));
        }
    }
    json!({ "name": name, "doc": doc, "fields": fields })
}

fn function(text: &str, doc: &str) -> Result<Value, Error> {
    let (before, rest) = text.split_once('(').ok_or_else(|| format!("no function: {text}"))?;
    let (returns, name) = declarator(before);
    let parameters = rest.trim_end_matches(')');
    let parameters: Vec<Value> = parameters
        .split(", ")
        .filter(|parameter| *parameter != "void")
        .map(|parameter| {
            let (ty, name) = declarator(parameter);
            json!({ "name": name, "type": ty })
        })
        .collect();
    Ok(json!({ "name": name, "returns": returns, "parameters": parameters, "doc": doc }))
}

/// Returns the description for programs.
pub(super) fn json(all: &[Described]) -> Result<String, Error> {
    let headers: Vec<Value> = all.iter().map(Described::json).collect();
    // One line for each declaration.
    Ok(serde_json::to_string(&json!({ "foreign": FOREIGN, "headers": headers }))?
        .replace("},{\"", "},\n{\"")
        .replace(":[{\"", ":[\n{\"")
        + "\n")
}

/// Breaks text into lines, of which all but the first begin with `indent`.
fn wrap(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let (mut column, mut begins) = (0, true);
    for paragraph in text.split("\n\n") {
        if !out.is_empty() {
            let _ = write!(out, "\n\n{indent}");
            (column, begins) = (indent.len(), true);
        }
        for word in paragraph.split_whitespace() {
            if column + 1 + word.len() > 120 {
                let _ = write!(out, "\n{indent}");
                column = indent.len();
            } else if !begins {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += word.len();
            begins = false;
        }
    }
    out
}

/// Returns the description for people.
pub(super) fn page(all: &[Described]) -> Result<String, Error> {
    let mut out = "# Functions of the C interface

The functions, objects, structs and constants of `libdevice_plugin`, by header. `device_plugin.h` includes all headers.
`cargo xtask header` writes this page from the code. [The C interface](c-interface.md) describes the rules: ownership,
errors, threads, text and structs. [PJRT from C and C++](../book/src/cpp.md) is the tutorial. `device_plugin.json` has
the same content for generators of bindings.
"
    .to_owned();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for described in all {
        let about = described.about.split("\n\n").next().unwrap_or_default();
        write!(out, "\n## device_plugin/{}.h\n\n{about}\n\n", described.name)?;
        for object in &described.objects {
            let line = format!("- `{}`: {}", text(&object["name"]), text(&object["doc"]));
            writeln!(out, "{}", wrap(&line, "  "))?;
        }
        for item in &described.types {
            let declaration = text(&item["declaration"]);
            let line = format!("- `{}`: {}", declaration.trim_start_matches("typedef "), text(&item["doc"]));
            writeln!(out, "{}", wrap(&line, "  "))?;
        }
        for constant in &described.constants {
            let (name, value) = (text(&constant["name"]), text(&constant["value"]));
            writeln!(out, "{}", wrap(&format!("- `{name}` ({value}): {}", text(&constant["doc"])), "  "))?;
        }
        for item in &described.structs {
            write!(out, "\n### {}\n\n{}\n\n", text(&item["name"]), wrap(&text(&item["doc"]), ""))?;
            for field in item["fields"].as_array().into_iter().flatten() {
                let line =
                    format!("- `{}` (`{}`): {}", text(&field["name"]), text(&field["type"]), text(&field["doc"]));
                writeln!(out, "{}", wrap(&line, "  "))?;
            }
        }
        for function in &described.functions {
            let name = text(&function["name"]);
            let parameters = function["parameters"].as_array().into_iter().flatten();
            let parameters: Vec<String> = parameters
                .map(|it| format!("{} {}", text(&it["type"]), text(&it["name"])).replace("* ", "*"))
                .collect();
            let returns = format!("{} ", text(&function["returns"])).replace("* ", "*");
            let one = format!("{returns}{name}({})", parameters.join(", "));
            let signature =
                if one.len() <= 116 { one } else { format!("{returns}{name}(\n    {})", parameters.join(",\n    ")) };
            write!(out, "\n### {name}\n\n```c\n{signature};\n```\n\n{}\n", wrap(&text(&function["doc"]), ""))?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "#define DEVICE_PLUGIN_X_H
/** A thing. */
typedef struct dp_x dp_x;

/** One. */
#define DP_ONE 1

/**
 * A pair
 * of two.
 */
typedef struct dp_pair {
    /** The first. */
    const char *first;
} dp_pair;

/** Runs it. */
dp_code dp_run(const dp_x *x,
               dp_error **error);
";

    #[test]
    fn declarations_are_read() {
        let read = Described::read("x", "", HEADER).unwrap();
        assert_eq!(read.objects, [json!({ "name": "dp_x", "doc": "A thing." })]);
        assert_eq!(read.constants, [json!({ "name": "DP_ONE", "value": "1", "doc": "One." })]);
        assert_eq!(read.structs[0]["doc"], "A pair of two.");
        assert_eq!(
            read.structs[0]["fields"][0],
            json!({ "name": "first", "type": "const char *", "doc": "The first." })
        );
        let function = &read.functions[0];
        assert_eq!((&function["name"], &function["returns"]), (&json!("dp_run"), &json!("dp_code")));
        assert_eq!(function["parameters"][1], json!({ "name": "error", "type": "dp_error **" }));
    }
}
