//! Passes hostile names to `pjrt new` and `pjrt header`. Each name is either rejected with an error that quotes it and
//! states a remedy, or the files that the command writes are well-formed.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::wheel_support::{self, Folder};

/// Words that mean something to Rust, Python, C, C++, Cargo, JAX or an operating system, and words close to the
/// example's name and to the crates that the project uses.
const WORDS: &str = "\
    abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if \
    impl in let loop macro match mod move mut override priv pub ref return self static struct super trait true try \
    type typeof union unsafe unsized use virtual where while yield Self macro_rules raw safe auto default \
    and assert class def del elif except finally from global import is lambda nonlocal not or pass raise with None True \
    False print exec case soft \
    alignas bool char complex constexpr delete double explicit export float friend goto inline int long mutable \
    namespace new noexcept nullptr operator private protected public register restrict short signed sizeof switch \
    template this throw typedef typename unsigned using void volatile wchar_t main asm errno stdin NULL EOF \
    core std alloc proc_macro test bench build debug release deps target incremental examples doc src lib bin workspace \
    package dependencies features \
    pjrt pjrt_rs pjrt_sys device_plugin stablehlo plugin plugins pjrt_plugin jax jaxlib xla torch numpy os sys site json \
    minimal minimal_npu my_minimal minimal_minimal minima pjrt_plugin_minimal \
    cpu gpu tpu cuda rocm metal neuron pjrt_cpu interpreter METAL CPU \
    con prn aux nul com0 com1 com9 lpt1 lpt9 clock conin com10 CON Aux";

/// Names that are not words.
const OTHERS: &[&str] = &[
    "",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\u{b}",
    "\u{1}",
    "\u{7}",
    "\u{8}",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{7f}",
    "\u{85}",
    "a\nb",
    "a\n",
    "\na",
    "a\rb",
    "a\tb",
    "a b",
    " a",
    "a ",
    "a\u{0b}b",
    "name\"\n[dependencies]\nevil = \"*",
    "a\"",
    "\"a\"",
    "'a'",
    "a'b",
    "`a`",
    "a`id`",
    "$(id)",
    "${HOME}",
    "$HOME",
    "%PATH%",
    "a;b",
    "a&b",
    "a&&b",
    "a|b",
    "a>b",
    "a<b",
    "<a>",
    "a*",
    "a?",
    "[a]",
    "{a}",
    "(a)",
    "a#b",
    "#a",
    "!a",
    "a!",
    "a@b",
    "a:b",
    "a::b",
    "a,b",
    "a=b",
    "a+b",
    "a%b",
    "a^b",
    "~",
    "~root",
    "a~",
    "\\",
    "a\\b",
    "a\\",
    "\\\\server\\share",
    "C:",
    "C:\\x",
    ".",
    "..",
    "...",
    ".a",
    "a.",
    "a.b",
    "a..b",
    "./a",
    "../a",
    "../../a",
    "a/..",
    "a/../b",
    "a/b",
    "/",
    "//",
    "/a",
    "/tmp/a",
    "/dev/null",
    "a/",
    "con.txt",
    "nul.",
    "a.rs",
    "Cargo.toml",
    "-",
    "--",
    "-a",
    "--help",
    "--sdk-path",
    "-o",
    "a-b",
    "a-",
    "my-device",
    "_",
    "__",
    "_a",
    "a_",
    "a__b",
    "__init__",
    "__pycache__",
    "a_b_",
    "0",
    "1",
    "9lives",
    "42",
    "0x1f",
    "1e9",
    "-1",
    "3.14",
    "Acme",
    "ACME",
    "aCme",
    "a",
    "z",
    "a1",
    "a_1",
    "a1_b2_c3",
    "größe",
    "straße",
    "名前",
    "имя",
    "αβγ",
    "аcme",
    "асме",
    "acme\u{301}",
    "ａｃｍｅ",
    "𝒶𝒸𝓂𝑒",
    "ⅸ",
    "ﬁne",
    "İ",
    "ı",
    "ß",
    "🦀",
    "a🦀",
    "\u{202e}emca",
    "a\u{202e}b",
    "\u{200f}acme",
    "a\u{200b}b",
    "a\u{200d}b",
    "\u{feff}acme",
    "a\u{a0}b",
    "a\u{2028}b",
    "a\u{2029}b",
    "a\u{2044}b",
    "a\u{2215}b",
    "\u{2024}\u{2024}/a",
    "a\u{ad}b",
    "\u{fffd}",
    "\u{e000}",
    "/*",
    "*/",
    "a*/",
    "//a",
    "??/",
    "<!--",
    "-->",
    "{{a}}",
    "%s%n",
    "%00",
    "\\0",
    "\\x00",
    "\\u0000",
    "&lt;",
    "'; drop table--",
    "\"\"\"",
    "'''",
    "r#a",
    "r#\"a\"#",
    "b'a'",
    "@a",
    "a\\\nb",
    "null",
    "undefined",
    "nan",
    "inf",
    "true_",
    "on",
    "off",
    "yes",
];

/// Returns all names of the test.
fn names() -> BTreeSet<String> {
    let long = [63, 64, 65, 255, 256, 5000].map(|length| "a".repeat(length));
    let wide = ["é".repeat(40), "\u{202e}".repeat(70), "_".repeat(64), "a_".repeat(32), "../".repeat(50)];
    let names = WORDS.split_whitespace().chain(OTHERS.iter().copied()).map(str::to_owned);
    names.chain(long).chain(wide).collect()
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Checks the message for a name that a command rejected.
fn check_refusal(name: &str, output: &Output) {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{name:?}: {message}");
    assert!(output.stdout.is_empty(), "{name:?}");
    let quoted = format!("{name:?}");
    let start: String = name.chars().take(16).collect();
    assert!(
        message.contains(&quoted) || (name.len() > 64 && message.contains(&format!("{start:?}"))),
        "{name:?}: {message}"
    );
    assert!(["write ", "choose "].iter().any(|remedy| message.contains(remedy)), "{name:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{name:?}: {message}");
    // `escape_debug` also escapes characters that change the direction of writing or have no width.
    let harmful = |c: &char| c.escape_debug().count() > 1 && !matches!(c, '"' | '\'' | '\\' | '\n');
    assert_eq!(message.chars().find(harmful), None, "{name:?}: {message}");
}

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pjrt")).args(args).current_dir(folder).output().unwrap()
}

/// Returns the names of the files in a folder and in the folders below it.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

#[test]
fn new_writes_project_or_refuses_name() {
    let names = names();
    let (mut accepted, mut refused) = (0, 0);
    for name in &names {
        let folder = Folder::new("names-new");
        let root = folder.path("");
        let output = run(&root, &["new", "--", name]);
        if !output.status.success() {
            check_refusal(name, &output);
            assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "{name:?} left a file");
            refused += 1;
            continue;
        }
        accepted += 1;
        assert!(is_plain(name), "{name:?} was accepted");
        let entries: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(entries, [name.as_str()]);
        let package = format!("pjrt-plugin-{}", name.replace('_', "-"));
        for path in files(&root.join(name)) {
            let text = fs::read_to_string(&path).unwrap();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("toml") => {
                    let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{name:?}: {path:?}: {error}"));
                    if path.ends_with("Cargo.toml") {
                        assert_eq!(table["package"]["name"].as_str(), Some(package.as_str()));
                    }
                }
                Some("rs") => {
                    syn::parse_file(&text).unwrap_or_else(|error| panic!("{name:?}: {path:?}: {error}"));
                    if path.ends_with("src/lib.rs") {
                        assert!(text.contains(&format!("NAME: &'static str = \"{name}\";")), "{text}");
                    }
                }
                Some("sh") => {
                    let library = format!("name=libpjrt_plugin_{name}.so");
                    assert!(text.contains(&library), "{text}");
                }
                _ => {}
            }
        }
    }
    println!("{} names: {accepted} accepted, {refused} refused", names.len());
    assert!(names.len() >= 200 && accepted >= 50 && refused >= 200, "{accepted} {refused}");
}

/// Compiles a source with a C or C++ compiler. Returns `false` if there is no compiler.
fn compiles(compiler: &str, language: &str, folder: &Folder, source: &str) -> bool {
    folder.write("all.c", source);
    let mut command = Command::new(compiler);
    command.args([language, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]).arg(folder.path("all.c"));
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            println!("SKIPPED hostile_names: {compiler}: {error}");
            false
        }
    }
}

#[test]
fn header_is_c_or_name_is_refused() {
    let folder = Folder::new("names-header");
    let library = folder.library("libplugin.so", wheel_support::PLUGIN);
    let library = library.to_str().unwrap();
    let (mut source, mut guards, mut refused) = (String::new(), BTreeSet::new(), 0);
    let names = names();
    for name in &names {
        let output = run(&folder.path(""), &["header", "--library", library, &format!("--name={name}")]);
        if !output.status.success() {
            check_refusal(name, &output);
            refused += 1;
            continue;
        }
        assert!(is_plain(name), "{name:?} was accepted");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("`{name}`")) && text.is_ascii(), "{text}");
        let guard = text.lines().find_map(|line| line.strip_prefix("#ifndef ")).unwrap().to_owned();
        assert!(guards.insert(guard), "{name:?} shares its include guard");
        source.push_str(&text);
    }
    println!("{} names: {} accepted, {refused} refused", names.len(), guards.len());
    assert!(guards.len() >= 50 && refused >= 100, "{} {refused}", guards.len());
    compiles("cc", "-std=c11", &folder, &source);
    compiles("c++", "-xc++", &folder, &source);
}

/// A manifest may name any symbol as the shutdown function.
#[test]
fn shutdown_symbol_is_c_or_refused() {
    let folder = Folder::new("names-symbols");
    let words: BTreeSet<&str> = WORDS.split_whitespace().collect();
    let more = ["GetPjrtApi", "a_GetPjrtApi", "DevicePlugin_GetDescriptor", "Stop", "_Stop", "_Bool", "stop9"];
    let symbols: BTreeSet<&str> = words.into_iter().chain(more).collect();
    let functions = symbols.iter().filter(|symbol| !symbol.ends_with("GetPjrtApi")).enumerate().map(|(at, symbol)| {
        format!("#[unsafe(export_name = \"{symbol}\")]\npub extern \"C\" fn function_{at}() {{}}\n")
    });
    // A static library is not linked, so that it can define symbols that the C library also defines.
    folder.write(
        "plugin.rs",
        &format!(
            "#![no_std]\n#[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! {{ loop {{}} }}\n\
         #[unsafe(no_mangle)]\npub extern \"C\" fn GetPjrtApi() -> *const u8 {{ core::ptr::null() }}\n{}",
            functions.collect::<String>()
        ),
    );
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--crate-type=staticlib", "--edition=2024", "-Cpanic=abort", "-o", "libplugin.a", "plugin.rs"]);
    let built = rustc.current_dir(folder.path("")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let (mut source, mut refused) = (String::new(), 0);
    for (at, symbol) in symbols.iter().copied().chain(OTHERS.iter().copied()).enumerate() {
        let manifest =
            serde_json::json!({ "format_version": "1.0", "name": format!("p{at}"), "shutdown_symbol": symbol });
        folder.write("manifest.json", &manifest.to_string());
        let args = ["header", "--library", "libplugin.a", "--manifest", "manifest.json"];
        let output = run(&folder.path(""), &args);
        if !output.status.success() {
            check_refusal(symbol, &output);
            refused += 1;
            continue;
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let declared = text.contains(&format!("\nvoid {symbol}(void);\n"));
        assert!(declared || !symbols.contains(symbol), "{symbol:?}: {text}");
        // A later declaration of a function with another type would be an error.
        source.push_str(&text);
    }
    println!("{} symbols: {refused} refused", symbols.len() + OTHERS.len());
    compiles("cc", "-std=c11", &folder, &source);
    compiles("c++", "-xc++", &folder, &source);
}

/// The header never replaces the files from which it is generated, and an output that cannot be written is an error
/// that names the path.
#[test]
fn header_output_is_checked() {
    let folder = Folder::new("names-output");
    folder.library("libplugin.so", wheel_support::PLUGIN);
    folder.write("manifest.json", r#"{"format_version": "1.0", "name": "acme"}"#);
    fs::create_dir(folder.path("folder")).unwrap();
    fs::hard_link(folder.path("libplugin.so"), folder.path("other-name.so")).unwrap();
    let before = ["libplugin.so", "manifest.json"].map(|name| fs::read(folder.path(name)).unwrap());
    for output in [
        "",
        ".",
        "..",
        "/",
        "folder",
        "folder/",
        "libplugin.so",
        "./libplugin.so",
        "folder/../libplugin.so",
        "other-name.so",
        "manifest.json",
        "manifest.json/acme.h",
        "/dev/full",
        "/proc/acme.h",
    ] {
        let args = ["header", "--library", "libplugin.so", "--manifest", "manifest.json", "-o", output];
        let done = run(&folder.path(""), &args);
        let message = String::from_utf8(done.stderr).unwrap();
        assert!(matches!(done.status.code(), Some(1 | 2)), "{output:?}: {message}");
        let part = output.strip_suffix("/acme.h").unwrap_or(output.trim_end_matches('/'));
        assert!(message.contains(part), "{output:?}: {message}");
        let after = ["libplugin.so", "manifest.json"].map(|name| fs::read(folder.path(name)).unwrap());
        assert!(before == after, "{output:?} replaced an input");
    }
    for output in ["acme.h", "new/folder/acme.h", "-acme.h", "a b.h", "größe.h", "$(id).h", "a\nb.h", "\u{202e}.h"] {
        let args =
            ["header", "--library", "libplugin.so", "--manifest", "manifest.json", &format!("--output={output}")];
        let done = run(&folder.path(""), &args);
        assert!(done.status.success(), "{output:?}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(folder.path(output).is_file(), "{output:?}");
    }
}
