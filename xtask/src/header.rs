//! `cargo xtask header`: writes the committed C headers, from the Rust code that defines their functions.
//!
//! Each folder of `crates/pjrt-c/src` has a header in `include/device_plugin`. The functions of a folder are declared
//! with `#[c_function]`. This task turns them into C functions with the code of that attribute, and writes the
//! declarations with cbindgen.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use quote::ToTokens;

use crate::{Error, sh};

mod constants;
mod describe;
#[path = "../../crates/pjrt-c-macros/src/expand.rs"]
mod expand;
mod ops;

/// The folder with the headers, relative to the repository's root.
const FOLDER: &str = "include/device_plugin";

/// Configuration of cbindgen.
const CONFIG: &str = "crates/pjrt-c/cbindgen.toml";

/// The file with the types of strings.
const CAPABILITIES: &str = "crates/plugin-manifest/src/c_view/capabilities/structs.rs";

/// A header, and the Rust files from which it is generated.
struct Header {
    name: &'static str,
    /// The headers that it includes.
    includes: &'static [&'static str],
    /// Rust files, or folders of Rust files, in the order of their declarations in the header.
    sources: &'static [&'static str],
    /// What the header is about.
    about: &'static str,
}

const HEADERS: &[Header] = &[
    Header {
        name: "base",
        includes: &[],
        sources: &["crates/pjrt-c/src/border"],
        about: "What all functions have in common: objects, errors, text and bytes.

The rules; see docs/c-interface.md for details.

- A function that fills `out` passes one reference to an object to the caller, who releases it with dp_release. Text,
  arrays and structs that a function lends belong to the object that was passed, and are valid as long as it.
- Every object that is passed is checked. NULL, an object that was freed and an object of another type are the error
  DP_INVALID_ARGUMENT. NULL is allowed only where the documentation of the parameter says so. A function that returns no
  code then returns its empty value.
- Outputs are written on success only, a `dp_error **` on failure only.
- Any function may be called on any thread, and several threads may use one object at the same time. While an object is
  freed, or a function that takes it without `const` runs, no other call may use it.
- Input text is NUL-terminated UTF-8. Structs that may grow begin with `struct_size`, which the caller sets to `sizeof`.",
    },
    Header {
        name: "capabilities",
        includes: &["base"],
        sources: &[CAPABILITIES, constants::PATH],
        about: "What a plugin declares about its devices.",
    },
    Header {
        name: "descriptor",
        includes: &["capabilities"],
        sources: &["crates/plugin-manifest/src/c_view/descriptor/structs.rs"],
        about: "How a plugin describes itself: the result of DevicePlugin_GetDescriptor of its library.",
    },
    Header {
        name: "registry",
        includes: &["descriptor"],
        sources: &["crates/pjrt-c/src/registry"],
        about: "Finding, choosing and loading plugins.",
    },
    Header {
        name: "client",
        includes: &["base"],
        sources: &["crates/pjrt-c/src/client"],
        about: "Clients, their devices and memories, topologies, and stores of keys and values.",
    },
    Header {
        name: "buffer",
        includes: &["base"],
        sources: &["crates/pjrt-c/src/buffer"],
        about: "Arrays on devices: uploads, downloads, properties and events.",
    },
    Header {
        name: "program",
        includes: &["buffer"],
        sources: &["crates/pjrt-c/src/program"],
        about: "Programs, the options for compiling them, compiled programs, and their runs.",
    },
    Header {
        name: "stablehlo",
        includes: &["program"],
        sources: &["crates/pjrt-c/src/stablehlo"],
        about: "StableHLO programs: building, reading, checking, printing and writing them.",
    },
    Header {
        name: "extensions",
        includes: &["program"],
        sources: &["crates/pjrt-c/src/extensions"],
        about: "Extensions of PJRT that a plugin may have. Without the extension, a function returns DP_UNIMPLEMENTED.",
    },
    Header {
        name: VENDOR,
        includes: &["descriptor", "stablehlo"],
        sources: &["crates/pjrt-c/src/vendor"],
        about: "Plugins in C and C++, from the functions of a vendor's driver. Only the static library has them.",
    },
];

/// The header for vendors, whose functions only the static library has.
pub(crate) const VENDOR: &str = "vendor";

/// What the header with all the others says.
const ALL: &str = "\
/* Includes all headers of libdevice_plugin for callers: finding plugins, and running programs on their devices. A plugin
 * includes device_plugin/vendor.h. */";

/// Returns the paths of the headers, relative to the repository's root, except those in C++.
pub(crate) fn paths() -> Vec<String> {
    let each = HEADERS.iter().map(|header| format!("{FOLDER}/{}.h", header.name));
    each.chain([format!("{FOLDER}.h")]).collect()
}

/// Writes the headers, and the Rust constants that they contain. With `check`, compares them with the committed files
/// instead.
pub(crate) fn run(check: bool) -> Result<(), Error> {
    let mut stale = Vec::new();
    let mut finish = |name: String, text: String| -> Result<(), Error> {
        let path = sh::root().join(&name);
        if check {
            if fs::read_to_string(&path).unwrap_or_default() != text {
                stale.push(name);
            }
        } else {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&path, text)?;
            println!("wrote {name}");
        }
        Ok(())
    };
    finish(constants::PATH.to_owned(), constants::generate()?)?;
    finish(ops::PATH.to_owned(), ops::generate()?)?;
    let views = HEADERS.iter().map(Header::view).collect::<Result<Vec<_>, _>>()?;
    let objects: Vec<String> = views.iter().flat_map(|view| view.objects.iter().cloned()).collect();
    let mut described = Vec::new();
    for (header, mut view) in HEADERS.iter().zip(views) {
        view.objects = if header.name == "base" { objects.clone() } else { Vec::new() };
        let text = header.generate(&view)?;
        described.push(describe::Described::read(header.name, header.about, &text)?);
        finish(format!("{FOLDER}/{}.h", header.name), text)?;
    }
    finish(describe::JSON.to_owned(), describe::json(&described)?)?;
    finish(describe::PAGE.to_owned(), describe::page(&described)?)?;
    finish(format!("{FOLDER}.h"), all())?;
    match stale.as_slice() {
        [] if check => println!("headers are up to date"),
        [] => {}
        _ => return Err(format!("{} differ from what `cargo xtask header` writes", stale.join(" and ")).into()),
    }
    Ok(())
}

const GENERATED: &str = "// Generated by `cargo xtask header`; do not edit.";

fn all() -> String {
    let mut out = format!("{GENERATED}\n{ALL}\n\n#ifndef DEVICE_PLUGIN_H\n#define DEVICE_PLUGIN_H\n\n");
    for header in HEADERS.iter().filter(|header| header.name != VENDOR) {
        let _ = writeln!(out, "#include \"device_plugin/{}.h\"", header.name);
    }
    out + "\n#endif  /* DEVICE_PLUGIN_H */\n"
}

/// The declarations of a folder as cbindgen sees them.
#[derive(Default)]
struct View {
    /// Objects that C programs see only through handles.
    objects: Vec<String>,
    /// Constants, structs and types.
    items: Vec<String>,
    /// Names of the structs and types, which cbindgen omits unless it is told to include them.
    names: Vec<String>,
    functions: Vec<String>,
}

impl View {
    /// Adds the public items of a file.
    fn read(&mut self, source: &str, name: &str) -> Result<(), Error> {
        let file = syn::parse_file(source).map_err(|error| format!("{name}: {error}"))?;
        let has = |attrs: &[syn::Attribute], name: &str| attrs.iter().any(|attr| attr.path().is_ident(name));
        for item in file.items {
            match item {
                syn::Item::Fn(function) if has(&function.attrs, "c_function") => {
                    let signature = expand::Function::new(&function)?.signature();
                    let docs = docs(&function.attrs);
                    let text = format!("{docs}#[unsafe(no_mangle)]\npub extern \"C\" {signature} {{}}");
                    self.functions.push(text.replace(":: std :: ffi :: ", ""));
                }
                syn::Item::Struct(it) if is_public(&it.vis) && !has(&it.attrs, "repr") => {
                    self.objects.push(object(&docs(&it.attrs), &it.ident.to_string()));
                }
                syn::Item::Struct(it) if is_public(&it.vis) => {
                    self.names.push(it.ident.to_string());
                    self.items.push(it.to_token_stream().to_string());
                }
                syn::Item::Type(it) if is_public(&it.vis) => {
                    self.names.push(it.ident.to_string());
                    self.items.push(it.to_token_stream().to_string());
                }
                syn::Item::Const(it) if is_public(&it.vis) => self.items.push(it.to_token_stream().to_string()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Declares an object in C.
fn object(docs: &str, name: &str) -> String {
    let lines: Vec<&str> = docs.lines().map(|line| line.trim_start_matches("///")).collect();
    let comment = match lines[..] {
        [line] => format!("/**{line} */"),
        _ => lines.iter().fold("/**".to_owned(), |out, line| out + "\n *" + line) + "\n */",
    };
    format!("{comment}\ntypedef struct {name} {name};")
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

/// Returns the documentation as Rust comments.
fn docs(attrs: &[syn::Attribute]) -> String {
    let mut out = String::new();
    for attr in attrs {
        if let syn::Meta::NameValue(meta) = &attr.meta
            && meta.path.is_ident("doc")
            && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &meta.value
        {
            let _ = writeln!(out, "///{}", text.value());
        }
    }
    out
}

impl Header {
    fn view(&self) -> Result<View, Error> {
        let mut view = View::default();
        for file in self.files()? {
            let name = file.display().to_string();
            view.read(&fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?, &name)?;
        }
        // Strings are declared with the functions that all headers have.
        let is_string = |item: &String| item.contains("pub struct dp_string");
        match self.name {
            "capabilities" => {
                view.items.retain(|item| !is_string(item));
                view.names.retain(|name| name != "dp_string");
            }
            "base" => {
                let mut strings = Self { sources: &[CAPABILITIES], name: "", ..*self }.view()?.items;
                strings.retain(is_string);
                view.items.splice(0..0, strings);
                view.names.push("dp_string".to_owned());
            }
            _ => {}
        }
        Ok(view)
    }

    fn generate(&self, view: &View) -> Result<String, Error> {
        let folder = sh::target().join("headers");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{}.rs", self.name));
        fs::write(&path, [&view.items[..], &view.functions].concat().join("\n\n"))?;

        let mut config = cbindgen::Config::from_file(sh::root().join(CONFIG))?;
        config.include_guard = Some(format!("DEVICE_PLUGIN_{}_H", self.name.to_uppercase()));
        config.includes = self.includes.iter().map(|name| format!("{name}.h")).collect();
        config.export.include.clone_from(&view.names);
        if self.name == "base" {
            let objects = config.after_includes.get_or_insert_default();
            view.objects.iter().for_each(|object| objects.push_str(&format!("\n\n{object}")));
        } else {
            config.after_includes = None;
            config.sys_includes.clear();
        }
        let mut written = Vec::new();
        cbindgen::Builder::new().with_config(config).with_src(path).generate()?.write(&mut written);
        let written = String::from_utf8(written)?;
        let mut about = String::new();
        for line in self.about.lines() {
            about.push_str(format!(" * {line}").trim_end());
            about.push('\n');
        }
        Ok(format!("{GENERATED}\n/*\n{about} */\n\n{}", tidy(&written).trim_start()))
    }

    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let mut files = Vec::new();
        for source in self.sources {
            let path = sh::root().join(source);
            if path.is_dir() {
                let mut folder: Vec<PathBuf> =
                    fs::read_dir(&path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
                folder.sort();
                files.extend(folder);
            } else {
                files.push(path);
            }
        }
        Ok(files)
    }
}

/// Puts one-line comments on one line, replaces links by plain names, and removes `struct`, which the typedefs make
/// redundant.
fn tidy(text: &str) -> String {
    let mut out = String::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let comment = line.trim() == "/**" && lines.get(at + 2).is_some_and(|end| end.trim() == "*/");
        if comment {
            let indent = &line[..line.len() - line.trim_start().len()];
            let text = lines[at + 1].trim().trim_start_matches('*').trim();
            out.push_str(&plain(&format!("{indent}/** {text} */")));
            at += 3;
        } else {
            let line = plain(line);
            let keep = line.starts_with("typedef struct");
            out.push_str(&if keep { line } else { line.replace("struct dp_", "dp_") });
            at += 1;
        }
        out.push('\n');
    }
    out
}

/// Replaces Rust's links, `[text](path)` and `[text]` around code, by their text.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find("[`") {
        let Some(end) = rest[start..].find("`]") else { break };
        out.push_str(&rest[..start]);
        out.push_str(&rest[start + 1..start + end + 1]);
        rest = &rest[start + end + 2..];
        if let Some(path) = rest.strip_prefix('(')
            && let Some(end) = path.find(')')
        {
            rest = &path[end + 1..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn rust_is_made_plain() {
        let text = "/**\n * See [`a`](crate::a) and [`b`].\n */\nvoid f(struct dp_x *x);\ntypedef struct dp_x dp_x;\n";
        let expected = "/** See `a` and `b`. */\nvoid f(dp_x *x);\ntypedef struct dp_x dp_x;\n";
        assert_eq!(super::tidy(text), expected);
    }

    #[test]
    fn c_functions_have_c_signatures() {
        let source = "/// Finds it.\n#[c_function]\npub fn dp_find(registry: &dp_registry, name: Name<'_>, codes: &[i64]) \
                      -> Outcome<Owned<dp_plugin>> { unit() }\n/// A plugin.\npub struct dp_plugin { inner: u8 }\nfn other() {}";
        let mut view = super::View::default();
        view.read(source, "a.rs").unwrap();
        let [function] = &view.functions[..] else { panic!() };
        assert!(function.contains("/// Finds it.") && function.contains("codes_size : usize"), "{function}");
        assert!(function.contains("out : * mut * mut dp_plugin , error : * mut * mut dp_error"), "{function}");
        assert_eq!(view.objects, ["/** A plugin. */\ntypedef struct dp_plugin dp_plugin;"]);
    }
}
