//! Tests every environment variable that names libraries, with its exact syntax and with invalid values. Also tests
//! TensorFlow's folders and conventional names.

use crate::common::{Elf, Machine, SEPARATOR, line, list, named, names_and_paths};
use device_plugin::{NamedValue, Value};
use expect_test::expect;
use plugin_registry::discovery::{Discovered, NameOrigin, Place, Refusal, SourceKind, variables};
use std::path::Path;

fn search(machine: &Machine, variables: &[(&str, String)]) -> Discovered {
    let mut discovery = machine.discovery().conventional(false);
    for (name, value) in variables {
        discovery = discovery.variable(name, value);
    }
    discovery.discover()
}

#[test]
fn names_and_library_paths() {
    let machine = Machine::new("env-names");
    let (a, b) = (machine.plugin("a.so"), machine.plugin("b.so"));
    let value = names_and_paths(&[("One", &a), ("two", &b)]);
    let found = search(&machine, &[("PJRT_NAMES_AND_LIBRARY_PATHS", value)]);
    assert_eq!(list(&machine, &found), ["one a.so", "two b.so"]);
    assert_eq!(found.candidates[0].names[0].origin, NameOrigin::Given);
    let item = names_and_paths(&[("One", &a)]);
    let name = "PJRT_NAMES_AND_LIBRARY_PATHS".to_owned();
    assert_eq!(found.candidates[0].provenance.place, Place::Variable { name, item, config: None });
}

#[test]
fn faulty_items_of_names_and_library_paths() {
    let machine = Machine::new("env-faults");
    let a = machine.plugin("a.so");
    let (a, ghost) = (a.display(), machine.path("no/file.so"));
    let (s, ghost) = (SEPARATOR, ghost.display());
    let value =
        format!("nocolon,x{s}C{s}/y.so,{s}{a},z{s},dup{s}/ghost.so,,dup{s}{a},ghost{s}{ghost},bare{s}libnone.so");
    let found = search(&machine, &[("PJRT_NAMES_AND_LIBRARY_PATHS", value)]);
    let expected = [
        "? - !environment",
        "? - !environment",
        "? - !environment",
        "? - !environment",
        "dup - !duplicate",
        "? - !environment",
        "dup a.so",
        "ghost no/file.so !missing",
        "bare - !missing",
    ];
    assert_eq!(list(&machine, &found), expected);
    let mut messages = String::new();
    for index in 0..5 {
        let refusal = machine.relative(&found.candidates[index].refusals[0]);
        // On Windows, replace the separator `;` with `:`. Keep each semicolon that a space follows, because it belongs
        // to the message itself.
        let refusal = refusal.split("; ").map(|part| part.replace(';', ":")).collect::<Vec<_>>().join("; ");
        messages += &format!("{refusal}\n");
    }
    expect![[r#"
        PJRT_NAMES_AND_LIBRARY_PATHS: item "nocolon": the path is missing; write name:path
        PJRT_NAMES_AND_LIBRARY_PATHS: item "x:C:/y.so": the item has more than one ':', so JAX ignores it; use a path without ':'
        PJRT_NAMES_AND_LIBRARY_PATHS: item ":ROOT/a.so": the plugin's name is missing; write it before ':'
        PJRT_NAMES_AND_LIBRARY_PATHS: item "z:": the library's path is missing; write it after ':'
        PJRT_NAMES_AND_LIBRARY_PATHS gives the name "dup" to "dup:ROOT/a.so" too, and only the last item counts: use another name
    "#]].assert_eq(&messages);
    assert!(
        matches!(&found.candidates[8].refusals[..], [Refusal::NotInLibrarySearch { name }] if name == "libnone.so")
    );
}

#[test]
fn configuration_files() {
    let machine = Machine::new("env-config");
    let a = machine.plugin("a.so");
    // JSON escapes the backslashes of Windows paths.
    let escaped = a.to_str().unwrap().replace('\\', r"\\");
    let config = |name: &str, text: &str| machine.file(name, text.replace("LIB", &escaped));
    let good = config(
        "good.json",
        r#"{"library_path": "LIB", "create_option": 1,
        "create_options": {"s": "x", "i": -3, "f": 0.5, "b": true, "l": [1, 2]}}"#,
    );
    let plain = config("plain.json", r#"{"library_path": "LIB"}"#);
    let value = names_and_paths(&[("with", &good), ("without", &plain), ("also", &a)]);
    let found = search(&machine, &[("PJRT_NAMES_AND_LIBRARY_PATHS", value)]);
    // Two items with the same library and different options become two plugins. Two items with the same library and the
    // same options become one plugin with two names.
    assert_eq!(list(&machine, &found), ["with a.so", "without a.so"]);
    let mut options = found.candidates[0].create_options.clone();
    options.sort_by(|a, b| a.name.cmp(&b.name));
    let expected = [
        NamedValue::new("b", true),
        NamedValue::new("f", 0.5f32),
        NamedValue::new("i", -3i64),
        NamedValue::new("l", Value::Int64List(vec![1, 2])),
        NamedValue::new("s", "x"),
    ];
    assert_eq!(options, expected);
    expect![[r#"ROOT/good.json: JAX ignores the field "create_option"; write create_options"#]]
        .assert_eq(&machine.relative(&found.candidates[0].notes[0]));
    assert!(found.candidates[1].is_named("also") && found.candidates[1].also.len() == 1);
    assert!(found.candidates[0].provenance.to_string().contains("good.json)"));

    let mut messages = String::new();
    for (text, field) in [
        ("{", ""),
        ("[]", ""),
        ("{}", "library_path"),
        (r#"{"library_path": 3}"#, "library_path"),
        (r#"{"library_path": "LIB", "create_options": []}"#, "create_options"),
        (r#"{"library_path": "LIB", "create_options": {"x": {}}}"#, "create_options.x"),
        (r#"{"library_path": "LIB", "create_options": {"x": [0.5]}}"#, "create_options.x"),
    ] {
        let path = config("bad.json", text);
        let found = search(&machine, &[("PJRT_NAMES_AND_LIBRARY_PATHS", names_and_paths(&[("bad", &path)]))]);
        match &named(&found, "bad").refusals[..] {
            [Refusal::MalformedManifest { field: f, message, .. }] => {
                assert_eq!(f, field, "{text}");
                messages += &format!("{text}: {message}\n");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    expect![[r#"
        {: not JSON: EOF while parsing an object at line 1 column 1
        []: not a JSON object; write {"library_path": ...}
        {}: missing; write the library's path
        {"library_path": 3}: 3 is not a path
        {"library_path": "LIB", "create_options": []}: [] is not a JSON object
        {"library_path": "LIB", "create_options": {"x": {}}}: {} cannot be the value of an option; write text, a number, true, false or a list of integers
        {"library_path": "LIB", "create_options": {"x": [0.5]}}: [0.5] cannot be the value of an option; write text, a number, true, false or a list of integers
    "#]].assert_eq(&messages);
    let found =
        search(&machine, &[("PJRT_NAMES_AND_LIBRARY_PATHS", names_and_paths(&[("x", Path::new("/no/such.json"))]))]);
    assert!(matches!(&named(&found, "x").refusals[..], [Refusal::Missing { .. }]));
}

#[test]
fn one_library_variables() {
    let machine = Machine::new("env-one");
    for (variable, name) in [
        ("PJRT_LIBRARY_PATH", "library"),
        ("TPU_LIBRARY_PATH", "tpu"),
        ("PTXLA_TPU_LIBRARY_PATH", "tpu"),
        ("XPU_LIBRARY_PATH", "xpu"),
        ("NEURON_LIBRARY_PATH", "neuron"),
        ("PYPJRT_PLUGIN", "acme"),
        ("PJRT_PLUGIN_PATH", "acme"),
        ("PJRT_PLUGIN_PATH_CUDA", "cuda"),
        ("XLA_PJRT_PLUGIN", "acme"),
        ("JAX_MPS_LIBRARY_PATH", "mps"),
        ("METALJAX_PLUGIN_PATH", "metal"),
        ("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "acme"),
    ] {
        let plugin = machine.plugin("lib/pjrt_c_api_acme_plugin.so");
        let found = search(&machine, &[(variable, plugin.display().to_string())]);
        assert_eq!(list(&machine, &found), [format!("{name} lib/pjrt_c_api_acme_plugin.so")], "{variable}");
        assert!(found.searched.iter().any(|place| place.path == plugin && place.exists), "{variable}");
        assert!(found.candidates[0].provenance.to_string().contains(variable), "{variable}");

        let missing = found_missing(&machine, variable);
        assert_eq!(missing, [format!("{name} lib/ghost/pjrt_c_api_acme_plugin.so !missing")], "{variable}");
        // An empty variable counts as unset.
        assert!(search(&machine, &[(variable, String::new())]).candidates.is_empty(), "{variable}");
        let listed = variables().iter().any(|known| {
            known.name == variable || (known.name.ends_with("<PLATFORM>") && variable == "PJRT_PLUGIN_PATH_CUDA")
        });
        assert!(listed, "{variable} is in no table");
    }
}

fn found_missing(machine: &Machine, variable: &str) -> Vec<String> {
    let path = machine.text("lib/ghost/pjrt_c_api_acme_plugin.so");
    list(machine, &search(machine, &[(variable, path)]))
}

#[test]
fn other_variables() {
    let machine = Machine::new("env-other");
    let a = machine.plugin("a.so").display().to_string();
    let lines = |variable: &str, value: String| list(&machine, &search(&machine, &[(variable, value)]));
    assert_eq!(lines("XLA_PJRT_PLUGIN", format!("cuda:{a}")), ["cuda a.so"]);
    assert_eq!(lines("XLA_PJRT_PLUGIN", "cuda:".to_owned()), ["cuda - !environment"]);
    machine.plugin("tt/pjrt_plugin_tt.so");
    assert_eq!(lines("TT_PJRT_PLUGIN_DIR", machine.text("tt")), ["tt tt/pjrt_plugin_tt.so"]);
    assert_eq!(lines("PJRT_PLUGIN_PATH_", a.clone()), [""; 0]);

    // The search looks for a name without a folder as the dynamic loader does, and never in the current folder.
    machine.plugin("usr/lib/libxpu.so");
    assert_eq!(lines("XPU_LIBRARY_PATH", "libxpu.so".to_owned()), ["xpu usr/lib/libxpu.so"]);
    assert_eq!(lines("XPU_LIBRARY_PATH", "Cargo.toml".to_owned()), ["xpu - !missing"]);

    // `LIBRARY` is PyTorch/XLA's placeholder device.
    assert_eq!(lines("PJRT_DEVICE", "LIBRARY".to_owned()), ["library - !environment"]);
    let found = search(&machine, &[("PJRT_DEVICE", "LIBRARY".to_owned()), ("PJRT_LIBRARY_PATH", a.clone())]);
    assert_eq!(list(&machine, &found), ["library a.so"]);
    assert_eq!(
        (found.hints[0].variable.as_str(), &found.hints[0].names[..]),
        ("PJRT_DEVICE", &["library".to_owned()][..])
    );
    let found = search(&machine, &[("JAX_PLATFORMS", " CUDA, cpu,".to_owned())]);
    assert_eq!(found.hints[0].names, ["cuda", "cpu"]);
    let found = search(&machine, &[("JAX_PLATFORMS", " ,".to_owned())]);
    assert!(found.hints.is_empty());
}

#[test]
fn folders_of_libraries() {
    let machine = Machine::new("env-folders");
    for file in ["one/pjrt-plugin-b.so", "one/pjrt_plugin_a.so", "two/pjrt_c_api_c_plugin.so", "two/libother.so"] {
        machine.plugin(file);
    }
    machine.file(
        "two/pjrt-plugin-d.json",
        r#"{"format_version": "1.0", "name": "d", "library": {"path": "./libother.so"}}"#,
    );
    machine.file("two/pjrt_plugin_text.so", "hello");
    let value = std::env::join_paths(["one", "none", "two", "one/pjrt-plugin-b.so"].map(|path| machine.path(path)));
    let value = value.unwrap().into_string().unwrap();
    let found = search(&machine, &[("PJRT_PLUGIN_LIBRARY_PATH", value)]);
    let expected = [
        "b one/pjrt-plugin-b.so",
        "a one/pjrt_plugin_a.so",
        "d two/./libother.so",
        "c two/pjrt_c_api_c_plugin.so",
        "text two/pjrt_plugin_text.so !not a library",
        "? - !environment",
    ];
    let lines: Vec<String> =
        list(&machine, &found).iter().map(|line| line.replace("two/libother", "two/./libother")).collect();
    assert_eq!(lines, expected);
    assert!(found.notes.iter().any(|note| note.about == "PJRT_PLUGIN_LIBRARY_PATH" && note.message.contains("none")));
    expect![[r#"PJRT_PLUGIN_LIBRARY_PATH: item "ROOT/one/pjrt-plugin-b.so": the variable is a list of folders; write the folder ROOT/one"#]]
        .assert_eq(&machine.relative(&found.candidates[5].refusals[0]));
}

#[test]
fn paths_beyond_ascii() {
    let machine = Machine::new("env-größe");
    let library = machine.plugin("数 é/pjrt_plugin_a.so");
    let variables = [
        ("PJRT_NAMES_AND_LIBRARY_PATHS", names_and_paths(&[("b", &library)])),
        ("PJRT_PLUGIN_LIBRARY_PATH", machine.text("数 é")),
    ];
    let found = search(&machine, &variables);
    assert_eq!(list(&machine, &found), ["b 数 é/pjrt_plugin_a.so"]);
    assert!(found.candidates[0].is_named("a") && found.candidates[0].is_usable());
}

#[test]
fn tensorflow_folders() {
    let machine = Machine::new("env-tensorflow");
    let site = "usr/lib/python3.12/site-packages";
    let next = Elf { exports: vec!["GetPjrtApi", "TFNPD_InitPlugin"], ..Elf::new() };
    machine.library(&format!("{site}/tensorflow-plugins/libnext.so"), &next);
    machine.plugin(&format!("{site}/tensorflow-plugins/libplain.so"));
    machine.library(
        &format!("{site}/tensorflow-plugins/libstream.so"),
        &Elf { exports: vec!["SE_InitPlugin"], ..Elf::new() },
    );
    machine.plugin("folder/libz.so");
    let found = search(&machine, &[("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", machine.text("folder"))]);
    let expected = [
        "z folder/libz.so".to_owned(),
        format!("next {site}/tensorflow-plugins/libnext.so"),
        format!("plain {site}/tensorflow-plugins/libplain.so"),
        format!("stream {site}/tensorflow-plugins/libstream.so !no GetPjrtApi"),
    ];
    assert_eq!(list(&machine, &found), expected);
    assert!(named(&found, "next").notes.is_empty());
    assert!(named(&found, "plain").notes[0].contains("TFNPD_InitPlugin"));
    assert_eq!(named(&found, "next").provenance.source, SourceKind::TensorFlow);
}

#[test]
fn conventional_folders_and_names() {
    let machine = Machine::new("env-conventional");
    for file in [
        "home/.local/lib/gomlx/pjrt/pjrt_c_api_cpu_plugin.so",
        "usr/local/lib/gomlx/pjrt/pjrt-plugin-g.so",
        "usr/lib/libtpu.so",
        "usr/lib/libc.so.6",
        "ld/libmy_pjrt.so",
        "ld/libunrelated.so",
    ] {
        machine.plugin(file);
    }
    #[cfg(unix)]
    {
        // Create a link to a folder that is searched as well, and a link whose target does not exist.
        machine.link("usr/local/lib/pjrt", machine.path("usr/local/lib/gomlx/pjrt"));
        machine.link("ld/pjrt_plugin_ghost.so", "/no/such/file");
    }
    let found = machine.discovery().variable("LD_LIBRARY_PATH", machine.path("ld")).discover();
    let lines: Vec<String> = found.candidates.iter().map(|candidate| line(&machine, candidate)).collect();
    let mut expected = vec![
        "cpu home/.local/lib/gomlx/pjrt/pjrt_c_api_cpu_plugin.so",
        "g usr/local/lib/gomlx/pjrt/pjrt-plugin-g.so",
        "my ld/libmy_pjrt.so",
        "tpu usr/lib/libtpu.so",
    ];
    if cfg!(unix) {
        expected.insert(3, "ghost ld/pjrt_plugin_ghost.so !missing");
    }
    assert_eq!(lines, expected);
    assert!(found.candidates[2].provenance.to_string().ends_with("ld (from LD_LIBRARY_PATH)"));
}

#[cfg(unix)]
#[test]
fn one_candidate_per_file_lists_places() {
    let machine = Machine::new("env-dedupe");
    let real = machine.plugin("real/pjrt_plugin_x.so");
    machine.link("link/pjrt_plugin_y.so", &real);
    std::fs::create_dir_all(machine.path("hard")).unwrap();
    std::fs::hard_link(&real, machine.path("hard/pjrt_plugin_z.so")).unwrap();
    let folders = std::env::join_paths([machine.path("link"), machine.path("hard")]).unwrap().into_string().unwrap();
    let variables = [
        ("PJRT_NAMES_AND_LIBRARY_PATHS", names_and_paths(&[("a", &real), ("b", &real)])),
        ("TPU_LIBRARY_PATH", real.display().to_string()),
        ("PJRT_PLUGIN_LIBRARY_PATH", folders),
    ];
    let found = search(&machine, &variables);
    assert_eq!(list(&machine, &found), ["a real/pjrt_plugin_x.so"]);
    let candidate = &found.candidates[0];
    let names: Vec<&str> = candidate.names.iter().map(|name| name.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "tpu", "y", "z"]);
    assert_eq!(candidate.provenances().count(), 5, "{:#?}", candidate.also);
    // A copy is another library, although its file has the same name.
    let copy = machine.plugin("copy/pjrt_plugin_x.so");
    let value = names_and_paths(&[("a", &copy)]);
    let found = search(
        &machine,
        &[("PJRT_NAMES_AND_LIBRARY_PATHS", value), ("PJRT_PLUGIN_PATH_A", real.display().to_string())],
    );
    assert_eq!(list(&machine, &found), ["a copy/pjrt_plugin_x.so", "a real/pjrt_plugin_x.so"]);
}
