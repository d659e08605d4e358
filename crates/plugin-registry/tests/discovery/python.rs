//! Tests that Python environments are searched without running Python: every form of package, the search order, and
//! shadowing.

use crate::common;
use crate::common::Content::{Bytes, Library, Text};
use crate::common::binaries::{PE_AMD64, PE_ARM64, pe};
use crate::common::{Elf, Machine, list, named};
#[cfg(unix)]
use crate::hostile::soon;
use expect_test::expect;
use plugin_registry::discovery::{
    Architecture, Candidate, Discovered, Discovery, NameOrigin, OperatingSystem, Place, Provenance, PythonAnnouncement,
    Refusal, SourceKind, Target,
};

const SITE: &str = "venv/lib/python3.12/site-packages";

/// Creates a machine with one virtual environment.
fn venv(name: &str) -> Machine {
    let machine = Machine::new(name);
    machine.file("venv/pyvenv.cfg", "home = /nowhere/bin\ninclude-system-site-packages = false\nversion = 3.12.4\n");
    machine
}

fn discovery(machine: &Machine) -> Discovery {
    machine.discovery().variable("VIRTUAL_ENV", machine.path("venv")).conventional(false)
}

/// Returns the group of the entry point in a provenance.
fn group(provenance: &Provenance) -> &str {
    match &provenance.place {
        Place::Python { announcement: PythonAnnouncement::EntryPoint { group, .. }, .. } => group,
        other => panic!("{other:?}"),
    }
}

fn found(machine: &Machine) -> Discovered {
    discovery(machine).discover()
}

fn plugin() -> common::Content<'static> {
    Library(Elf::plugin())
}

const CALL: &str = "def initialize():\n  xb.register_plugin('mine', priority=450, library_path=p)\n";

#[test]
fn library_beside_module() {
    let machine = venv("py-a");
    let files = [
        ("jax_plugins/xla_cuda13/__init__.py", Text("c = xb.register_plugin(\n 'cuda', priority=500)")),
        ("jax_plugins/xla_cuda13/xla_cuda_plugin.so", plugin()),
        ("jax_plugins/xla_cuda13/_versions.so", Library(Elf::new())),
    ];
    let points = "[jax_plugins]\nxla_cuda13 = jax_plugins.xla_cuda13\n";
    machine.wheel(SITE, "jax-cuda13-pjrt", "0.12.0", &files, points);
    let found = found(&machine);
    assert_eq!(list(&machine, &found), [format!("cuda {SITE}/jax_plugins/xla_cuda13/xla_cuda_plugin.so")]);
    let candidate = &found.candidates[0];
    assert_eq!((candidate.priority, candidate.names[0].origin), (Some(500), NameOrigin::Known));
    assert!(candidate.is_named("XLA_CUDA13") && !candidate.is_named("rocm"));
    assert!(candidate.also.is_empty(), "the namespace module is the entry point's: {:?}", candidate.also);
    assert_eq!(candidate.provenance.source, SourceKind::Python);
    assert_eq!(
        candidate.provenance.place,
        Place::Python {
            environment: machine.path("venv"),
            directory: machine.path(SITE),
            distribution: Some("jax_cuda13_pjrt".to_owned()),
            version: Some("0.12.0".to_owned()),
            announcement: PythonAnnouncement::EntryPoint {
                group: "jax_plugins".to_owned(),
                name: "xla_cuda13".to_owned(),
                value: "jax_plugins.xla_cuda13".to_owned(),
            },
            library_distribution: None,
        }
    );
    expect!["python: jax_cuda13_pjrt 0.12.0, entry point xla_cuda13 = jax_plugins.xla_cuda13 of group jax_plugins, in ROOT/venv/lib/python3.12/site-packages"]
        .assert_eq(&machine.relative(&candidate.provenance));
    assert_eq!((candidate.manifest().name, candidate.manifest().priority), ("cuda".to_owned(), 500));
}

#[test]
fn b_namespace_only() {
    let machine = venv("py-b");
    let files = [
        ("jax_plugins/intel_extension_for_openxla/__init__.py", Text("register_plugin('sycl', priority=500)")),
        ("jax_plugins/intel_extension_for_openxla/pjrt_plugin_xpu.so", plugin()),
    ];
    machine.wheel(SITE, "intel-extension-for-openxla", "0.8", &files, "");
    // These files belong to no distribution. One is a single-file module. The other is in a folder without
    // `__init__.py`, which is not a module.
    machine.file(&format!("{SITE}/jax_plugins/plain.py"), CALL);
    machine.plugin(&format!("{SITE}/jax_plugins/no_init/x.so"));
    let found = found(&machine);
    let so = format!("{SITE}/jax_plugins/intel_extension_for_openxla/pjrt_plugin_xpu.so");
    assert_eq!(list(&machine, &found), [format!("sycl {so}"), "mine - !no library".to_owned()]);
    let module = "jax_plugins.intel_extension_for_openxla".to_owned();
    match &found.candidates[0].provenance.place {
        Place::Python { announcement, distribution, .. } => {
            assert_eq!(*announcement, PythonAnnouncement::Namespace { module });
            assert_eq!(distribution.as_deref(), Some("intel_extension_for_openxla"));
        }
        other => panic!("{other}"),
    }
    assert_eq!(
        (found.candidates[1].priority, found.candidates[1].names[0].origin),
        (Some(450), NameOrigin::RegisterCall)
    );
}

#[test]
fn c_entry_points_elsewhere_and_a_third_package() {
    let machine = venv("py-c");
    let files = [
        ("jax_plugin_tt/__init__.py", Text("xb.register_plugin(\"tt\", priority=500)")),
        ("torch_plugin_tt/__init__.py", Text("class TTPlugin: pass")),
        ("pjrt_plugin_tt/__init__.py", Text("")),
        ("pjrt_plugin_tt/pjrt_plugin_tt.so", plugin()),
        ("pjrt_plugin_tt/lib/libtt_metal.so", Library(Elf::new())),
    ];
    let points =
        "[jax_plugins]\npjrt_plugin_tt = jax_plugin_tt\n\n[torch_xla.plugins]\ntt = torch_plugin_tt:TTPlugin\n";
    machine.wheel(SITE, "pjrt-plugin-tt", "0.1.3", &files, points);
    let found = found(&machine);
    assert_eq!(list(&machine, &found), [format!("tt {SITE}/pjrt_plugin_tt/pjrt_plugin_tt.so")]);
    let groups: Vec<&str> = found.candidates[0].provenances().map(group).collect();
    assert_eq!(groups, ["jax_plugins", "torch_xla.plugins"]);
}

#[test]
fn d_elsewhere_in_distribution() {
    let machine = venv("py-d");
    let files = [
        ("jax_plugins/iree_metal/__init__.py", Text("register_plugin(f'iree_{x}')")),
        ("_pjrt_libs/pjrt_plugin_iree_metal.so", plugin()),
    ];
    machine.wheel(SITE, "iree-metal", "1", &files, "[jax_plugins]\niree_metal = jax_plugins.iree_metal");
    let files = [("jax_plugins/mps/__init__.py", Text("")), ("jax_plugins/mps/lib/libpjrt_plugin_mps.so", plugin())];
    machine.wheel(SITE, "jax-mps", "1", &files, "[jax_plugins]\nmps = jax_plugins.mps");
    let expected = [
        format!("iree_metal {SITE}/_pjrt_libs/pjrt_plugin_iree_metal.so"),
        format!("mps {SITE}/jax_plugins/mps/lib/libpjrt_plugin_mps.so"),
    ];
    assert_eq!(list(&machine, &found(&machine)), expected);
}

#[test]
fn e_in_a_required_distribution() {
    let machine = venv("py-e");
    let files = [("jax_plugins/graft/__init__.py", Text(""))];
    let points = "[jax_plugins]\ngraft = jax_plugins.graft";
    let requires = ["numpy>=2", "Metal.PJRT_core (>=1); extra == 'x'"];
    machine.wheel_requiring(SITE, "jax-graft", "1", &files, points, &requires);
    machine.wheel(SITE, "metal-pjrt-core", "2", &[("metal_pjrt_core/libcore.so", plugin())], "");
    let found = found(&machine);
    assert_eq!(list(&machine, &found), [format!("graft {SITE}/metal_pjrt_core/libcore.so")]);
    expect!["python: jax_graft 1, entry point graft = jax_plugins.graft of group jax_plugins, in ROOT/venv/lib/python3.12/site-packages, library from metal_pjrt_core"]
        .assert_eq(&machine.relative(&found.candidates[0].provenance));
}

#[test]
fn f_no_announcement_at_all() {
    let machine = venv("py-f");
    machine.wheel(SITE, "libtpu", "0.0.51", &[("libtpu/__init__.py", Text("")), ("libtpu/libtpu.so", plugin())], "");
    let files = [("lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", plugin())];
    machine.wheel(SITE, "lammps-jax-pjrt-cpu", "0.11.2", &files, "");
    machine.wheel(SITE, "fastatomstruct-xla-cpu", "1", &[("fastatomstruct_xla_cpu/libpjrt_cpu.so", plugin())], "");
    machine.wheel(SITE, "acme-pjrt", "1", &[("acme/libacme_pjrt.so", plugin())], "");
    machine.wheel(SITE, "pjrt-tools", "1", &[("pjrt_tools/_native.so", Library(Elf::new()))], "");
    machine.wheel(SITE, "numpy", "2", &[("numpy/libx.so", plugin())], "");
    let expected = [
        format!("acme_pjrt {SITE}/acme/libacme_pjrt.so"),
        format!("cpu {SITE}/fastatomstruct_xla_cpu/libpjrt_cpu.so"),
        format!("cpu {SITE}/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"),
        format!("tpu {SITE}/libtpu/libtpu.so"),
    ];
    assert_eq!(list(&machine, &found(&machine)), expected, "two libraries of one name both stay");
}

#[test]
fn g_group_xla_plugins() {
    let machine = venv("py-g");
    let files =
        [("xla_plugins/xla_cpu_pjrt/__init__.py", Text("")), ("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", plugin())];
    machine.wheel(SITE, "xla_cpu_pjrt", "0.0.1", &files, "[xla_plugins]\nxla_cpu_pjrt = xla_plugins.xla_cpu_pjrt");
    let found = found(&machine);
    assert_eq!(list(&machine, &found), [format!("xla_cpu_pjrt {SITE}/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so")]);
    assert!(found.candidates[0].is_usable());
}

#[test]
fn h_broken_packages_hide_nothing() {
    let machine = venv("py-h");
    let files = [
        ("jax_plugins/qnn/__init__.py", Text("")),
        ("jax_plugins/qnn/pjrt_qnn.dll", Bytes(pe(PE_ARM64, &["Nothing"], &[]))),
    ];
    machine.wheel(SITE, "jax_qnn", "1", &files, "[jax_plugins]\nqnn = jax_plugins.qnn");
    let lfs = Bytes(b"version https://git-lfs.github.com/spec/v1\n".to_vec());
    let files = [("jax_plugins/lfs/__init__.py", Text("")), ("jax_plugins/lfs/pjrt_plugin_lfs.so", lfs)];
    machine.wheel(SITE, "a-lfs", "1", &files, "[jax_plugins]\nlfs = jax_plugins.lfs");
    machine.wheel(SITE, "b-nothing", "1", &[], "[jax_plugins]\nghost = jax_plugins.ghost:initialize\n = \nx=..bad..\n");
    machine.file(&format!("{SITE}/c_binary-1.dist-info/entry_points.txt"), [0xff, 0xfe, b'[', 0]);
    machine.file(&format!("{SITE}/d-1.dist-info"), "a file where a folder should be");
    let files = [("jax_plugins/z/__init__.py", Text(CALL)), ("jax_plugins/z/z.so", plugin())];
    machine.wheel(SITE, "z-good", "1", &files, "[jax_plugins]\nz = jax_plugins.z");
    let found = found(&machine);
    let lines = list(&machine, &found);
    let z = format!("mine {SITE}/jax_plugins/z/z.so");
    assert!(lines.contains(&z), "{lines:#?}");
    let qnn = named(&found, "qnn");
    assert_eq!(qnn.refusals.iter().map(Refusal::kind).collect::<Vec<_>>(), ["no GetPjrtApi", "architecture"]);
    assert!(matches!(&named(&found, "lfs").refusals[..], [Refusal::NotALibrary { what, .. }] if what.contains("LFS")));
    let ghost = named(&found, "ghost");
    assert!(matches!(&ghost.refusals[..], [Refusal::NoLibrary { .. }]), "{ghost:?}");
    expect![[r#"
        JAX cannot import "jax_plugins.ghost:initialize"; the entry point must name a module alone
        the module "jax_plugins.ghost" was not found in the search path"#]]
    .assert_eq(&machine.relative(&ghost.notes.join("\n")));
    assert_eq!(found.candidates.iter().filter(|candidate| candidate.is_usable()).count(), 1);
}

#[test]
fn first_distribution_shadows_others() {
    let machine = venv("py-shadow");
    let files = |_: &str| [("jax_plugins/m/__init__.py", Text(CALL)), ("jax_plugins/m/m.so", plugin())];
    let points = "[jax_plugins]\nm = jax_plugins.m";
    machine.wheel("extra", "My.Plugin", "2", &files(""), points);
    machine.wheel(SITE, "my-plugin", "1", &files(""), points);
    let discovery = discovery(&machine).variable("PYTHONPATH", machine.path("extra"));
    let found = discovery.discover();
    assert_eq!(list(&machine, &found), ["mine extra/jax_plugins/m/m.so"]);
    let shadowed = &found.candidates[0].provenance.shadowed;
    let shadowed: Vec<String> = shadowed.iter().map(|text| machine.relative(text)).collect();
    assert!(shadowed[0].starts_with("my_plugin 1 in ") && shadowed[0].contains(SITE), "{shadowed:?}");
    assert!(shadowed[1].ends_with("site-packages/jax_plugins/m/__init__.py"), "{shadowed:?}");
    assert!(found.candidates[0].provenance.to_string().contains("[shadows my_plugin 1"));
}

#[test]
fn regular_package_hides_namespace() {
    let machine = venv("py-regular");
    machine.file(&format!("{SITE}/jax_plugins/a/__init__.py"), "");
    machine.plugin(&format!("{SITE}/jax_plugins/a/a.so"));
    machine.file("extra/jax_plugins/__init__.py", "");
    machine.file("extra/jax_plugins/b/__init__.py", "");
    machine.plugin("extra/jax_plugins/b/b.so");
    let found = discovery(&machine).variable("PYTHONPATH", machine.path("extra")).discover();
    assert_eq!(list(&machine, &found), ["b extra/jax_plugins/b/b.so"]);
    let note = found.notes.iter().find(|note| machine.relative(&note.about).contains(SITE)).unwrap();
    expect!["is hidden by ROOT/extra/jax_plugins/__init__.py; delete that file"]
        .assert_eq(&machine.relative(&note.message));
}

#[test]
fn whole_search_path_in_order() {
    let machine = Machine::new("py-order");
    // Each folder contains its own plugin and the plugin `common`.
    let place = |site: &str, name: &str| {
        let common = [("jax_plugins/common/__init__.py", Text("")), ("jax_plugins/common/common.so", plugin())];
        machine.wheel(site, "common", name, &common, "[jax_plugins]\ncommon = jax_plugins.common");
        let module = format!("jax_plugins/{name}/__init__.py");
        let library = format!("jax_plugins/{name}/{name}.so");
        let own = [(module.as_str(), Text("")), (library.as_str(), plugin())];
        machine.wheel(site, name, "1", &own, &format!("[jax_plugins]\n{name} = jax_plugins.{name}"));
    };
    machine.file("base/bin/python3.12", "\x7fELF");
    machine.file("base/bin/other", "");
    machine.file(
        "venv/pyvenv.cfg",
        format!(
            "home = {}\ninclude-system-site-packages = true\nversion_info = 3.12.0.final.0\n",
            machine.text("base/bin")
        ),
    );
    place("paths/one", "p1");
    place("venv/lib/python3.12/site-packages", "v1");
    place("venv/lib/python3.11/site-packages", "wrong");
    place("linked", "pth");
    place("home/.local/lib/python3.12/site-packages", "u1");
    place("home/.local/lib/python3.9/site-packages", "wrong2");
    place("base/lib/python3.12/site-packages", "b1");
    place("usr/lib/python3/dist-packages", "debian");
    place("usr/local/lib/python3.11/dist-packages", "local");
    machine.file(
        "venv/lib/python3.12/site-packages/x.pth",
        format!("# comment\n{}\nimport os; os.system('no')\n/does/not/exist\n", machine.text("linked")),
    );
    let discovery = discovery(&machine).variable("PYTHONPATH", machine.path("paths/one"));
    let found = discovery.discover();
    let own: Vec<&str> = found.candidates.iter().filter_map(|c| c.name()).filter(|name| *name != "common").collect();
    assert_eq!(own, ["p1", "v1", "pth", "u1", "b1", "local", "debian"]);
    // `common` is found once in the virtual environment and once in the machine's own installation. `PYTHONPATH` comes
    // first in both environments.
    let common = named(&found, "common");
    assert_eq!(common.location.path(), Some(machine.path("paths/one/jax_plugins/common/common.so").as_path()));
    assert_eq!(common.provenance.shadowed.iter().filter(|text| text.contains(" in ")).count(), 4);
    let note = found.notes.iter().find(|note| note.about.ends_with("x.pth")).unwrap();
    expect![
        "contains code that Python runs at startup; the search does not run it, so packages that it adds are not found"
    ]
    .assert_eq(&machine.relative(&note.message));
    assert_eq!(found, discovery.discover(), "the same machine gives the same list");
    // Exclude the packages of the base installation and of the user.
    machine.file("venv/pyvenv.cfg", "home = /nowhere\ninclude-system-site-packages = false\nversion = 3.12.0\n");
    let found = discovery.variable("PYTHONNOUSERSITE", "1").discover();
    let own: Vec<&str> = found.candidates.iter().filter_map(|c| c.name()).filter(|name| *name != "common").collect();
    assert_eq!(own, ["p1", "v1", "pth", "local", "debian"]);
}

#[cfg(unix)]
#[test]
fn interpreters_on_path() {
    let machine = Machine::new("py-path");
    for (site, name) in [
        ("usr/lib/python3.11/site-packages", "system"),
        ("tool/lib/python3.12/site-packages", "tool"),
        ("pyenv/versions/3.10.1/lib/python3.10/site-packages", "shimmed"),
        ("conda/lib/python3.13/site-packages", "conda"),
    ] {
        machine.file(&format!("{site}/jax_plugins/{name}/__init__.py"), "");
        machine.plugin(&format!("{site}/jax_plugins/{name}/{name}.so"));
    }
    machine.file("usr/bin/python3.11", "\x7fELF");
    machine.link("usr/bin/python3", "python3.11");
    machine.file("tool/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.1\ninclude-system-site-packages = false\n");
    machine.link("tool/bin/python3", machine.path("usr/bin/python3"));
    machine.file("pyenv/shims/python3", "#!/bin/sh\nexec pyenv\n");
    machine.file("pyenv/version", "3.10.1\n");
    machine.file("wrapped/python3", "#!/bin/sh\n");
    let path = ["tool/bin", "wrapped", "none", "pyenv/shims", "usr/bin"].map(|folder| machine.path(folder));
    let path = std::env::join_paths(path).unwrap();
    let found = machine.discovery().variable("PATH", path).variable("CONDA_PREFIX", machine.path("conda")).discover();
    let names: Vec<&str> = found.candidates.iter().filter_map(|candidate| candidate.name()).collect();
    assert_eq!(names, ["conda", "tool", "shimmed", "system"]);
    assert!(
        found.notes.iter().any(|note| note.about.ends_with("wrapped/python3") && note.message.contains("VIRTUAL_ENV"))
    );
    let given = machine.discovery().interpreter_path([machine.path("tool/bin")]).discover();
    assert_eq!(given.candidates[0].name(), Some("tool"));
}

#[test]
fn compiled_modules_and_deep_libraries() {
    let machine = Machine::new("py-uncommon");
    let site = "venv/lib/python3.11/site-packages/jax_plugins";
    machine.file(&format!("{site}/compiled/__init__.pyc"), "\u{0}");
    machine.plugin(&format!("{site}/compiled/compiled.so"));
    machine.file(&format!("{site}/deep/__init__.py"), "");
    machine.plugin(&format!("{site}/deep/a/b/c/d/e/deep.so"));
    machine.file(&format!("{site}/both/__init__.py"), "");
    machine.file(&format!("{site}/both/__init__.pyc"), "\u{0}");
    machine.plugin(&format!("{site}/both/both.so"));
    machine.file("venv/pyvenv.cfg", "home = /nowhere\nversion = 3.11.1\ninclude-system-site-packages = false\n");
    let found = machine.discovery().variable("VIRTUAL_ENV", machine.path("venv")).discover();
    let names: Vec<&str> = found.candidates.iter().filter_map(|candidate| candidate.name()).collect();
    assert_eq!(names, ["both", "compiled", "deep"]);
    assert!(found.candidates.iter().all(|candidate| candidate.is_usable()));
}

/// The folders of free-threaded builds have a version that ends with `t`.
#[cfg(unix)]
#[test]
fn free_threaded_builds() {
    let machine = Machine::new("py-free-threaded");
    for (site, name) in [
        ("venv/lib/python3.13t/site-packages", "free"),
        ("base/lib/python3.13t/site-packages", "base"),
        ("base/lib/python3.13/site-packages", "other_build"),
        ("tool/lib/python3.14t/site-packages", "on_path"),
        ("tool/lib/python3.14/site-packages", "other_on_path"),
        ("conda/lib/python3.13t/site-packages", "conda"),
    ] {
        machine.file(&format!("{site}/jax_plugins/{name}/__init__.py"), "");
        machine.plugin(&format!("{site}/jax_plugins/{name}/{name}.so"));
    }
    let base = machine.path("base/bin");
    machine.file("base/bin/python3.13t", "\x7fELF");
    let configuration = format!("home = {}\nversion = 3.13.1\ninclude-system-site-packages = true\n", base.display());
    machine.file("venv/pyvenv.cfg", &configuration);
    machine.file("tool/bin/python3.14t", "\x7fELF");
    machine.link("tool/bin/python3", "python3.14t");
    let discovery = machine.discovery().variable("VIRTUAL_ENV", machine.path("venv"));
    let discovery = discovery.variable("CONDA_PREFIX", machine.path("conda"));
    let found = discovery.variable("PATH", machine.path("tool/bin")).discover();
    let names: Vec<&str> = found.candidates.iter().filter_map(|candidate| candidate.name()).collect();
    assert_eq!(names, ["free", "base", "conda", "on_path"]);
}

#[cfg(unix)]
#[test]
fn pyenv_selects_as_its_command_does() {
    let machine = Machine::new("py-pyenv");
    for version in ["3.9.1", "3.11.9", "3.12.2", "3.12.10", "3.13.1t"] {
        let library = format!("3.{}", version.split('.').nth(1).unwrap());
        let free = if version.ends_with('t') { "t" } else { "" };
        let name = format!("v{}", version.replace('.', "_"));
        let site = format!("pyenv/versions/{version}/lib/python{library}{free}/site-packages/jax_plugins/{name}");
        machine.file(&format!("{site}/__init__.py"), "");
        machine.plugin(&format!("{site}/{name}.so"));
    }
    machine.file("pyenv/shims/python3", "#!/bin/sh\nexec pyenv\n");
    machine.file("pyenv/version", "# chosen by hand\n3.9.1\n");
    machine.file("work/.python-version", "3.12\n3.11.9\n");
    machine.file("work/below/empty", "");
    let selected = |variables: &[(&str, &str)]| {
        let mut discovery = machine.discovery().variable("PATH", machine.path("pyenv/shims"));
        for (name, value) in variables {
            discovery = discovery.variable(*name, *value);
        }
        let found = discovery.discover();
        found.candidates.iter().filter_map(|candidate| candidate.name()).map(str::to_owned).collect::<Vec<_>>()
    };
    let below = machine.path("work/below");
    let (below, elsewhere) = (below.to_str().unwrap(), machine.path("pyenv"));
    assert_eq!(selected(&[]), ["v3_9_1"]);
    assert_eq!(selected(&[("PWD", below)]), ["v3_12_10"]);
    assert_eq!(selected(&[("PWD", below), ("PYENV_DIR", elsewhere.to_str().unwrap())]), ["v3_9_1"]);
    assert_eq!(selected(&[("PWD", below), ("PYENV_VERSION", "3.11.9:3.12.2")]), ["v3_11_9"]);
    assert_eq!(selected(&[("PYENV_VERSION", "3.13t")]), ["v3_13_1t"]);
    for nothing in ["system", "3.1", "../versions/3.9.1", "/"] {
        assert_eq!(selected(&[("PYENV_VERSION", nothing)]), [""; 0], "{nothing}");
    }
}

/// Tests the folder layouts of Windows, which discovery can search on every system.
#[test]
fn windows_layouts() {
    let machine = Machine::new("py-windows");
    for (root, name) in [
        ("venv/Lib", "environment"),
        ("base/Lib", "base"),
        ("roaming/Python/Python312", "own"),
        ("roaming/Python/Python39", "own_old"),
        ("tools/Lib", "on_path"),
        ("msys/lib/python3.11", "msys"),
        ("local/Programs/Python/Python39/Lib", "installed_39"),
        ("local/Programs/Python/Python310-arm64/Lib", "installed_310"),
        ("local/Programs/Python/Python313/Lib", "removed"),
        ("programs/Python311/Lib", "machine"),
        ("usr/Lib", "fixed"),
    ] {
        let folder = format!("{root}/site-packages/jax_plugins/{name}");
        machine.file(&format!("{folder}/__init__.py"), "");
        machine.file(&format!("{folder}/{name}.dll"), pe(PE_AMD64, &["GetPjrtApi"], &[]));
    }
    let settings = "include-system-site-packages = true\nversion = 3.12.1\n";
    machine.file("venv/pyvenv.cfg", format!("home = {}\n{settings}", machine.text("base")));
    for interpreter in [
        "venv/Scripts",
        "base",
        "tools",
        "msys/bin",
        "local/Programs/Python/Python39",
        "local/Programs/Python/Python310-arm64",
        "programs/Python311",
    ] {
        machine.file(&format!("{interpreter}/python.exe"), "MZ");
    }
    machine.file("tools/python311.dll", "MZ");
    machine.file("tools/python3.dll", "MZ");
    let path = ["venv/Scripts", "tools", "msys/bin", "none"].map(|folder| machine.path(folder));
    let host = Target { os: OperatingSystem::Windows, architecture: Architecture::X86_64 };
    // Windows spells the variable `PATH` as `Path`.
    let discovery = machine.discovery().host(host).conventional(false);
    let discovery = discovery.variable("Path", std::env::join_paths(path).unwrap());
    let discovery = discovery
        .variable("APPDATA", machine.path("roaming"))
        .variable("LOCALAPPDATA", machine.path("local"))
        .variable("ProgramFiles", machine.path("programs"));
    let names = |discovery: &Discovery| -> Vec<String> {
        discovery.candidates().iter().filter_map(|candidate| candidate.name().map(str::to_owned)).collect()
    };
    assert!(discovery.candidates().iter().all(Candidate::is_usable), "{:#?}", discovery.candidates());
    let installed = ["installed_310", "own_old", "installed_39", "machine", "fixed"];
    let expected = [&["environment", "own", "base", "on_path", "msys"][..], &installed].concat();
    assert_eq!(names(&discovery), expected);
    // With elevated privileges, only the fixed folders of the machine are searched.
    assert_eq!(names(&discovery.clone().elevated(true)), ["fixed"]);
    // On another system, the interpreters have other file names.
    let linux = Target { os: OperatingSystem::Linux, ..host };
    assert_eq!(names(&discovery.host(linux).variable("PATH", machine.path("tools"))), ["fixed"]);
}

#[test]
fn eggs_and_editable_installations() {
    let machine = venv("py-eggs");
    // Create an old installation, whose metadata folder contains its own list of files.
    machine.file(&format!("{SITE}/old-1.0-py3.12.egg-info/entry_points.txt"), "[jax_plugins]\nold = oldpkg\n");
    machine.file(&format!("{SITE}/old-1.0-py3.12.egg-info/installed-files.txt"), "../oldlib/old_plugin.so\n");
    machine.plugin(&format!("{SITE}/oldlib/old_plugin.so"));
    // Create a development folder that a line of a `.pth` file adds.
    machine.file("src/dev.egg-info/entry_points.txt", "[jax_plugins]\ndev = jax_plugins.dev\n");
    machine.file("src/dev.egg-info/PKG-INFO", "Name: dev\n");
    machine.file("src/jax_plugins/dev/__init__.py", "");
    machine.plugin("src/jax_plugins/dev/dev.so");
    machine.file(&format!("{SITE}/easy-install.pth"), machine.text("src"));
    // Create an import hook of setuptools, whose dictionaries contain the paths of the modules, and an import hook that
    // only Python can evaluate.
    machine.file("src2/hooked/__init__.py", "");
    machine.plugin("src2/hooked/libhooked.so");
    machine.file("src2/jax_plugins/spaced/__init__.py", "");
    machine.plugin("src2/jax_plugins/spaced/spaced.so");
    // Python source escapes the backslashes of Windows paths.
    let escaped = |path| machine.text(path).replace('\\', r"\\");
    let (hooked, spaced) = (escaped("src2/hooked"), escaped("src2/jax_plugins/spaced"));
    let spaces = escaped("src2/jax_plugins");
    machine.file(
        &format!("{SITE}/__editable___hooked_1_finder.py"),
        format!(
            "MAPPING: dict[str, str] = {{'hooked': '{hooked}', 'jax_plugins.spaced': '{spaced}'}}\n\
         NAMESPACES: dict[str, list[str]] = {{'jax_plugins': ['{spaces}']}}\n"
        ),
    );
    machine.file(
        &format!("{SITE}/__editable__.hooked-1.pth"),
        "import __editable___hooked_1_finder; __editable___hooked_1_finder.install()",
    );
    machine.file(&format!("{SITE}/other.pth"), "import other_hook");
    machine.wheel(SITE, "hooked", "1", &[], "[jax_plugins]\nhooked = hooked");
    machine.file(
        &format!("{SITE}/hooked-1.dist-info/direct_url.json"),
        r#"{"url": "file:///src/hooked", "dir_info": {"editable": true}}"#,
    );
    // One manifest is in the library's folder, and one is in the metadata folder.
    let manifest = |name: &str, path: &str| {
        format!(r#"{{"format_version": "1.0", "name": "{name}", "priority": 7, "library": {{"path": "{path}"}}}}"#)
    };
    let (beside, within) = (manifest("acme", "libacme.so"), manifest("meta", "../meta/libmeta.so"));
    let files = [
        ("jax_plugins/acme_module/__init__.py", Text("register_plugin('guess', priority=1)")),
        ("jax_plugins/acme_module/libacme.so", plugin()),
        ("jax_plugins/acme_module/pjrt_plugin.json", Text(&beside)),
    ];
    machine.wheel(SITE, "acme", "1", &files, "[jax_plugins]\nm = jax_plugins.acme_module");
    let files = [("meta/libmeta.so", plugin()), ("meta-1.dist-info/pjrt_plugin.json", Text(&within))];
    machine.wheel(SITE, "meta", "1", &files, "");
    let found = found(&machine);
    assert!(named(&found, "old").is_usable() && named(&found, "dev").is_usable());
    let hooked = named(&found, "hooked");
    assert!(hooked.is_usable() && hooked.notes.iter().any(|note| note.contains("file:///src/hooked")), "{hooked:?}");
    assert!(named(&found, "spaced").is_usable());
    let note = found.notes.iter().find(|note| note.about.ends_with("other.pth")).unwrap();
    expect![
        "contains code that Python runs at startup; the search does not run it, so packages that it adds are not found"
    ]
    .assert_eq(&machine.relative(&note.message));
    let acme = named(&found, "acme");
    assert_eq!((acme.priority, acme.names[0].origin), (Some(7), NameOrigin::Manifest));
    assert!(acme.is_named("guess") && acme.manifest_path.as_ref().unwrap().ends_with("acme_module/pjrt_plugin.json"));
    let meta = named(&found, "meta");
    assert!(meta.is_usable() && meta.manifest.is_some(), "{meta:?}");
}

/// An import hook of meson-python takes the modules and the library from different folders.
#[test]
fn editable_installations_of_meson() {
    let machine = venv("py-meson");
    machine.file("src/python/first.py", "");
    machine.file("src/python/__init__.py", "register_plugin('built', priority=3)");
    machine.plugin("build/cp312/native/libbuilt.so");
    machine.file("src/spaced/__init__.py", "");
    machine.plugin("build/cp312/libspaced.so");
    let escaped = |path| machine.text(path).replace('\\', r"\\");
    let target = |path, to: &str| format!(r#""{}": {{"destination": "{to}", "tag": "runtime"}}"#, escaped(path));
    let targets = [
        target("build/cp312/native/libbuilt.so", "{py_platlib}/mesonpkg/lib/libbuilt.so"),
        target("build/cp312/libspaced.so", "{py_platlib}/jax_plugins/spaced/libspaced.so"),
        target("build/cp312/tool", "{bindir}/tool"),
    ];
    let modules = [
        target("src/python/__init__.py", "{py_purelib}/mesonpkg/__init__.py"),
        target("src/python/first.py", "{py_purelib}/mesonpkg/first.py"),
        target("src/spaced/__init__.py", "{py_purelib}/jax_plugins/spaced/__init__.py"),
    ];
    let plan = format!(r#"{{"targets": {{{}}}, "python": {{{}}}}}"#, targets.join(","), modules.join(","));
    machine.file("build/cp312/meson-info/intro-install_plan.json", plan);
    let loader = format!(
        "class MesonpyMetaFinder(importlib.abc.MetaPathFinder):\n    def __init__(self, name, names, path, cmd, verbose): pass\n\
         def init():\n    finder = MesonpyMetaFinder('meson-dev', {{'mesonpkg'}}, '{}', ['/usr/bin/ninja'], False,)\n",
        escaped("build/cp312")
    );
    machine.file(&format!("{SITE}/_meson_dev_editable_loader.py"), loader);
    machine.file(
        &format!("{SITE}/meson-dev-editable.pth"),
        "import _meson_dev_editable_loader; _meson_dev_editable_loader.init()",
    );
    machine.wheel(SITE, "meson_dev", "1", &[], "[jax_plugins]\nmeson_dev = mesonpkg");
    // A package that was not built has no plan.
    machine.file(&format!("{SITE}/_absent_editable_loader.py"), "MesonpyMetaFinder('a', {'a'}, '/nowhere', [], False)");
    machine.file(&format!("{SITE}/absent-editable.pth"), "import _absent_editable_loader");
    let found = found(&machine);
    let built = named(&found, "built");
    assert!(built.is_usable() && built.is_named("meson_dev") && built.priority == Some(3), "{built:?}");
    assert!(built.location.path().unwrap().ends_with("build/cp312/native/libbuilt.so"), "{built:?}");
    assert!(named(&found, "spaced").is_usable());
    assert!(found.notes.iter().all(|note| !note.about.ends_with(".pth")), "{:?}", found.notes);
}

/// Tests a malicious package that is small on disk. Its many entry points must not each cause a scan of the whole
/// `RECORD`.
#[cfg(unix)]
#[test]
fn limits_entry_points_per_distribution() {
    let machine = venv("py-many");
    let points: String = (0..500).map(|i| format!("p{i} = acme.m{i}\n")).collect();
    let files = [("acme/__init__.py", Text("")), ("acme/libacme_pjrt.so", plugin())];
    machine.wheel(SITE, "acme", "1.0", &files, &format!("[jax_plugins]\n{points}"));
    let record = machine.path(&format!("{SITE}/acme-1.0.dist-info/RECORD"));
    let lines: String = (0..50_000).map(|i| format!("acme/data/{i}.py,,\n")).collect();
    std::fs::write(&record, std::fs::read_to_string(&record).unwrap() + &lines).unwrap();
    let found = soon("a record of 50,000 lines", || found(&machine));
    let notes: Vec<_> = found.notes.iter().filter(|note| note.about.starts_with("acme 1.0")).collect();
    assert_eq!(notes.len(), 1, "{:#?}", found.notes);
    expect!["announces 500 plugins by entry points; the first 256 are looked at"].assert_eq(&notes[0].message);
    // There is one library, which every entry point that is read announces.
    assert_eq!(found.candidates.len(), 1);
    assert_eq!(found.candidates[0].provenances().count(), 256);
}
