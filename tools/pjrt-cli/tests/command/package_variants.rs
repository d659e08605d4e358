//! Tests wheels with several libraries: their content, rejected combinations, and the choice of a library in Rust, in
//! Python and in `pjrt list`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::wheel_support::{Folder, PLUGIN, pjrt};
use expect_test::expect_file;
use plugin_registry::discovery::{Discovered, Discovery};
use serde_json::{Value, json};

/// Two CPU levels of this machine's architecture, the lower one first.
const LEVELS: [&str; 2] =
    if cfg!(target_arch = "aarch64") { ["armv8.2-a", "armv9-a"] } else { ["x86-64-v3", "x86-64-v4"] };

/// Writes a manifest with these libraries into the folder, and returns its path.
fn manifest(folder: &Folder, libraries: &Value) -> String {
    let manifest = json!({ "format_version": "1.1", "name": "example", "version": "1", "library": libraries });
    folder.write("example.json", &manifest.to_string());
    folder.path("example.json").to_str().unwrap().to_owned()
}

/// Creates a folder with a library under several names.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    let library = folder.library("libhigh.so", PLUGIN);
    for copy in ["liblow.so", "libany.so"] {
        std::fs::copy(&library, folder.path(copy)).unwrap();
    }
    folder
}

/// Returns a library for each CPU level, and one for any machine.
fn levels() -> Value {
    let [low, high] = LEVELS;
    json!([
        { "path": "libhigh.so", "requires": { "cpu": high } },
        { "path": "liblow.so", "requires": { "cpu": low } },
        { "path": "libany.so" },
    ])
}

fn extract(folder: &Folder, wheel: &Path) -> PathBuf {
    let content = folder.path("content");
    zip::ZipArchive::new(std::fs::File::open(wheel).unwrap()).unwrap().extract(&content).unwrap();
    content
}

#[test]
fn wheel_with_level_libraries() {
    let folder = folder("variants");
    let args = ["package", "--output", folder.path("out").to_str().unwrap(), "--manifest"].map(str::to_owned);
    let given = manifest(&folder, &levels());
    let output = pjrt(&[&args.each_ref().map(String::as_str)[..], &[&given]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let wheel = said.lines().next().unwrap().strip_prefix("wrote ").unwrap();
    let package = extract(&folder, Path::new(wheel)).join("pjrt_plugin_example");
    let written: Value = serde_json::from_slice(&std::fs::read(package.join("pjrt_plugin.json")).unwrap()).unwrap();
    // The least demanding library is the first, for readers of format version 1.0.
    let names: Vec<&str> = written["library"].as_array().unwrap().iter().map(|l| l["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["libany.so", "liblow.so", "libhigh.so"]);
    assert_eq!(written["library"][2]["requires"], json!({ "cpu": LEVELS[1] }));
    for library in written["library"].as_array().unwrap() {
        assert!(package.join(library["path"].as_str().unwrap()).is_file());
        assert_eq!(library["sha256"].as_str().unwrap().len(), 64);
        assert_eq!(library["arch"], std::env::consts::ARCH);
    }

    // A library that is packaged alone keeps its requirements.
    let alone =
        ["--library", folder.path("libhigh.so").to_str().unwrap(), "--manifest", &given, "--force"].map(str::to_owned);
    let wheel = folder.package(&alone.each_ref().map(String::as_str));
    let package = extract(&folder, &wheel).join("pjrt_plugin_example");
    let written: Value = serde_json::from_slice(&std::fs::read(package.join("pjrt_plugin.json")).unwrap()).unwrap();
    assert_eq!(written["library"].as_array().unwrap().len(), 1);
    assert_eq!(written["library"][0]["requires"], json!({ "cpu": LEVELS[1] }));
}

#[test]
fn rejected_combinations() {
    let folder = folder("variants-refused");
    let [low, high] = LEVELS;
    let mut text = String::new();
    let mut add = |case: &str, message: String| {
        let root = folder.path("").to_str().unwrap().trim_end_matches('/').to_owned();
        let message = message.replace(&root, "<folder>").replace(low, "<low>").replace(high, "<high>");
        text += &format!("{case}\n    {}\n", message.trim_end().replace('\n', "\n    "));
    };
    let refused = |libraries: Value| folder.refused(&["--manifest", &manifest(&folder, &libraries)]);
    let twice = json!([
        { "path": "libhigh.so", "requires": { "cpu": low } },
        { "path": "liblow.so", "requires": { "cpu": low } },
    ]);
    add("the same needs", refused(twice));
    add(
        "no needs twice",
        refused(json!([
            { "path": "libhigh.so", "requires": { "cpu": high } }, { "path": "liblow.so" }, { "path": "libany.so" },
        ])),
    );
    add(
        "a missing file",
        refused(json!([{ "path": "libany.so" }, { "path": "libabsent.so", "requires": { "cpu": low } }])),
    );
    std::fs::create_dir(folder.path("below")).unwrap();
    std::fs::copy(folder.path("libany.so"), folder.path("below/libany.so")).unwrap();
    let same_name = json!([{ "path": "libany.so" }, { "path": "below/libany.so", "requires": { "cpu": low } }]);
    add("the same file name", refused(same_name));
    let many = manifest(&folder, &levels());
    add("--compat", folder.refused(&["--manifest", &many, "--compat"]));
    let unknown = folder
        .refused(&["--manifest", &manifest(&folder, &json!([{ "path": "libany.so", "requires": { "cpu": "x" } }]))]);
    assert!(unknown.contains("library[0].requires.cpu") && unknown.contains(high), "{unknown}");

    // A wheel does not need to contain a library for every machine.
    let given = manifest(&folder, &json!([{ "path": "libhigh.so", "requires": { "cpu": high } }]));
    let out = folder.path("out");
    let output = pjrt(&["package", "--output", out.to_str().unwrap(), "--manifest", &given, "--no-torch"]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("library")).collect();
    add("no library for every machine", lines.join("\n"));
    expect_file!["../messages/package_variants.txt"].assert_eq(&text);
}

/// Files and environment variables of a simulated machine.
struct Described {
    files: Vec<(&'static str, String)>,
    variables: Vec<(&'static str, &'static str)>,
}

fn machines() -> Vec<Described> {
    let x86 = |level: &str| {
        let level = plugin_registry_levels(level);
        ("proc/cpuinfo", format!("processor : 0\nflags\t\t: fpu {level}\n\nprocessor : 1\nflags\t\t: {level} extra\n"))
    };
    let driver = |version: &str| ("sys/module/nvidia/version", format!("{version}\n"));
    let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.02  Release Build\n".to_owned();
    let capability = "PJRT_REGISTRY_CUDA_COMPUTE_CAPABILITY";
    let mut machines = Vec::new();
    for files in [
        vec![],
        vec![x86("x86-64")],
        vec![x86("x86-64-v2"), driver("535.183.06")],
        vec![x86("x86-64-v3"), driver("550.54.15")],
        vec![x86("x86-64-v4"), ("proc/driver/nvidia/version", open)],
        vec![("proc/cpuinfo", "Features\t: fp asimd\n".to_owned()), driver("garbage")],
    ] {
        for variables in [
            vec![],
            vec![(capability, "7.5")],
            vec![(capability, "9.0, 8.6"), ("PJRT_REGISTRY_CPU_LEVEL", "x86-64-v4")],
            vec![(capability, "10"), ("PJRT_REGISTRY_NVIDIA_DRIVER", "550")],
            vec![(capability, "9.0,sm_90"), ("PJRT_REGISTRY_CPU_LEVEL", "v4"), ("PJRT_REGISTRY_NVIDIA_DRIVER", "R550")],
        ] {
            machines.push(Described { files: files.clone(), variables });
        }
    }
    machines
}

fn plugin_registry_levels(name: &str) -> String {
    device_plugin::variants::CpuLevel::named(name).unwrap().features().join(" ")
}

const CHOOSE: &str = r#"
import json, sys
from pjrt_plugin_example import variants

data = json.load(open(sys.argv[1]))
found = [variants.machine(root, environment) for root, environment in data["machines"]]

def choose(libraries, machine):
    try:
        return variants.choose(libraries, machine)
    except RuntimeError as error:
        assert str(error), "an error has a message"
        return None

print(json.dumps([[choose(libraries, machine) for machine in found] for libraries in data["lists"]]))
"#;

#[test]
fn python_chooses_like_rust() {
    if !Command::new("python3")
        .args(["-c", "import sys; sys.exit(sys.version_info < (3, 9))"])
        .status()
        .is_ok_and(|s| s.success())
    {
        return println!("SKIPPED python_chooses_like_rust: no python3 of version 3.9 or later");
    }
    let pool = [
        json!({}),
        json!({ "cpu": "x86-64-v2" }),
        json!({ "cpu": "x86-64-v4" }),
        json!({ "cuda_compute_capability": { "min": "8.0" } }),
        json!({ "cuda_compute_capability": { "min": "8.0", "below": "10.0" } }),
        json!({ "cuda_compute_capability": { "below": "8.0" }, "cpu": "x86-64-v3" }),
        json!({ "nvidia_driver": { "min": "550" } }),
        json!({ "nvidia_driver": { "min": "550", "below": "555.42.2" }, "cpu": "x86-64-v2" }),
        json!({ "nvidia_driver": { "min": "535.1" }, "cuda_compute_capability": { "min": "9.0" } }),
    ];
    let mut lists = Vec::new();
    for (a, first) in pool.iter().enumerate() {
        for (b, second) in pool.iter().enumerate().filter(|(b, _)| *b != a) {
            let third = &pool[(a + 2 * b + 1) % pool.len()];
            let needs = [first, second, third].into_iter().enumerate();
            let libraries: Vec<Value> =
                needs.map(|(i, requires)| json!({ "path": format!("lib{i}.so"), "requires": requires })).collect();
            lists.push(libraries);
        }
    }
    let folder = folder("variants-python");
    let wheel = folder.package(&["--manifest", &manifest(&folder, &levels())]);
    let content = extract(&folder, &wheel);
    let machines = machines();
    let mut roots = Vec::new();
    for (index, machine) in machines.iter().enumerate() {
        let root = folder.path(&format!("machine{index}"));
        for (path, text) in &machine.files {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), text).unwrap();
        }
        roots.push(root);
    }
    let described: Vec<Value> = machines
        .iter()
        .zip(&roots)
        .map(|(machine, root)| {
            json!([root, machine.variables.iter().copied().collect::<std::collections::BTreeMap<_, _>>()])
        })
        .collect();
    folder.write("data.json", &json!({ "machines": described, "lists": lists }).to_string());
    folder.write("script.py", CHOOSE);
    let mut python = Command::new("python3");
    python.arg("-B").arg(folder.path("script.py")).arg(folder.path("data.json")).env("PYTHONPATH", content);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Vec<Option<String>>> = serde_json::from_slice(&output.stdout).unwrap();

    let (mut refused, mut uncertain) = (0, 0);
    for (libraries, answers) in lists.iter().zip(&answers) {
        let file = manifest(&folder, &json!(libraries));
        for ((machine, root), answer) in machines.iter().zip(&roots).zip(answers) {
            let mut discovery = Discovery::isolated(root).variable("PJRT_REGISTRY_MANIFESTS", &file);
            for (name, value) in &machine.variables {
                discovery = discovery.variable(*name, *value);
            }
            let Discovered { candidates, .. } = discovery.discover();
            let Some(choice) = &candidates[0].choice else { panic!("{:?}", candidates[0]) };
            let chosen = choice.chosen().map(|variant| variant.path.to_str().unwrap().to_owned());
            assert_eq!(answer, &chosen, "{libraries:?} {:?} {:?}", machine.files, machine.variables);
            refused += usize::from(chosen.is_none());
            uncertain += usize::from(choice.reason.name() == "needs_least");
        }
    }
    assert!(refused > 0 && uncertain > 0, "the cases include every outcome: {refused}, {uncertain}");
}

/// Runs `pjrt` with a single manifest and the given CPU level.
fn with_level(folder: &Folder, file: &str, level: &str, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    command.args(args).env("PJRT_REGISTRY_MANIFESTS", file).env("PJRT_REGISTRY_CPU_LEVEL", level);
    let output = command.current_dir(folder.path("")).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn list_and_doctor_explain_choice() {
    let folder = folder("variants-list");
    let file = manifest(&folder, &levels());
    let [low, high] = LEVELS;
    let list: Value = serde_json::from_str(&with_level(&folder, &file, low, &["list", "--json"])).unwrap();
    let plugins = list["plugins"].as_array().unwrap();
    let example = plugins.iter().find(|plugin| plugin["name"] == "example").unwrap();
    assert!(example["library"].as_str().unwrap().ends_with("liblow.so"), "{example}");
    let variants = example["variants"].as_array().unwrap();
    let summary: Vec<Value> = variants.iter().map(|v| json!([v["path"], v["fit"], v["chosen"]])).collect();
    let expected =
        json!([["libhigh.so", "mismatch", null], ["liblow.so", "fits", "most_specific"], ["libany.so", "fits", null],]);
    assert_eq!(json!(summary), expected);
    let unmet = &variants[0]["unmet"][0];
    assert_eq!(variants[0]["requires"], json!({ "cpu": high }));
    assert!(unmet["needs"].as_str().unwrap().contains(high), "{unmet}");
    assert!(
        unmet["has"].as_str().unwrap().starts_with(low) && !unmet["remedy"].as_str().unwrap().is_empty(),
        "{unmet}"
    );

    let text = with_level(&folder, &file, low, &["list", "--all"]);
    let explained: Vec<&str> = text.lines().filter(|line| line.starts_with("  lib")).collect();
    assert_eq!(explained.len(), 3, "{text}");

    let doctor: Value =
        serde_json::from_str(&with_level(&folder, &file, low, &["doctor", "-p", "example", "--json"])).unwrap();
    let checks = doctor["plugins"][0]["checks"].as_array().unwrap();
    let verdicts: Vec<&Value> = checks.iter().filter(|c| c["check"] == "variant").map(|c| &c["verdict"]).collect();
    assert_eq!(json!(verdicts), json!(["note", "ok", "note"]));

    // Test a manifest whose only library does not fit the machine.
    let file = manifest(&folder, &json!([{ "path": "libhigh.so", "requires": { "cpu": high } }]));
    let list: Value = serde_json::from_str(&with_level(&folder, &file, low, &["list", "--all", "--json"])).unwrap();
    let example = list["plugins"].as_array().unwrap().iter().find(|plugin| plugin["name"] == "example").unwrap();
    assert_eq!((&example["refusals"][0]["kind"], &example["usable"]), (&json!("no variant"), &json!(false)));
}
