//! Which plugin a policy takes, and what is said where it takes none.

use std::fs;

use device_plugin::manifest::{Hardware, PciId};
use plugin_registry::{Machine, PluginRegistry, Policy, Presence, SelectError};

use crate::fakes::{folder, of_file, registry};

fn chosen(registry: &PluginRegistry, policy: &Policy) -> String {
    registry.select(policy).unwrap().name().to_owned()
}

fn refused(registry: &PluginRegistry, policy: &Policy) -> SelectError {
    registry.select(policy).unwrap_err()
}

fn nodes(pattern: &str) -> Hardware {
    Hardware { device_nodes: vec![pattern.to_owned()], ..Hardware::default() }
}

#[test]
fn plugins_rank_by_name_then_readiness_then_priority_then_alphabet() {
    let registry = registry("rank");
    for (name, priority, experimental) in
        [("zeta", 400, false), ("alpha", 400, false), ("eager", 900, true), ("low", -1, false)]
    {
        let added = of_file(name, |manifest| {
            manifest.aliases.push("gpu".to_owned());
            (manifest.priority, manifest.experimental) = (priority, experimental);
        });
        registry.register_descriptor(added).unwrap();
    }
    assert_eq!(chosen(&registry, &Policy::any()), "alpha");
    assert_eq!(chosen(&registry, &Policy::prefer("gpu")), "alpha");
    assert_eq!(chosen(&registry, &Policy::any().experimental(true)), "eager");
    assert_eq!(chosen(&registry, &Policy::prefer("GPU").experimental(false)), "alpha");
    assert_eq!(chosen(&registry, &Policy::named("ZETA")), "zeta");
    assert_eq!(chosen(&registry, &Policy::named("eager").experimental(false)), "eager");
    assert_eq!(chosen(&registry, &Policy::prefer("tpu").or("low").or("gpu")), "low");
    // Whose name was asked for comes before whose alias it is, whatever the priority.
    let gpu = of_file("gpu", |manifest| manifest.priority = -5);
    registry.register_descriptor(gpu).unwrap();
    assert_eq!(chosen(&registry, &Policy::prefer("gpu")), "gpu");
}

#[test]
fn conditions_are_on_what_a_plugin_says() {
    let registry = registry("conditions");
    registry.register_descriptor(of_file("plain", |_| {})).unwrap();
    registry.register_descriptor(of_file("vendored", |manifest| manifest.vendor = "Example".to_owned())).unwrap();
    let wants = |policy: Policy, vendor: &'static str| {
        policy.require(format!("the vendor {vendor}"), move |manifest| manifest.vendor == vendor)
    };
    assert_eq!(chosen(&registry, &wants(Policy::any(), "Example")), "vendored");
    let error = refused(&registry, &wants(Policy::any(), "Other")).to_string();
    assert!(error.contains("any plugin with the vendor Other is asked for"), "{error}");
    assert!(error.contains("plain") && error.contains("it is not a plugin with the vendor Other"), "{error}");
    // The last resort is taken as it is.
    assert_eq!(chosen(&registry, &wants(Policy::any().fallback("plain"), "Other")), "plain");
}

#[test]
fn hardware_decides_unless_a_plugin_is_named() {
    let root = folder("hardware");
    fs::create_dir_all(root.join("dev/dri")).unwrap();
    fs::write(root.join("dev/dri/renderD128"), "").unwrap();
    let device = root.join("sys/bus/pci/devices/0000:01:00.0");
    fs::create_dir_all(&device).unwrap();
    for (file, text) in [("vendor", "0x10de\n"), ("device", "0x2330\n"), ("class", "0x030200\n")] {
        fs::write(device.join(file), text).unwrap();
    }
    let pci = |vendor: &str, devices: &[&str], classes: &[&str]| Hardware {
        pci: vec![PciId {
            vendor: vendor.to_owned(),
            devices: devices.iter().map(|&d| d.to_owned()).collect(),
            classes: classes.iter().map(|&c| c.to_owned()).collect(),
        }],
        ..Hardware::default()
    };
    let registry = PluginRegistry::builder().machine(Machine::at(&root)).build();
    for (name, hardware, presence, says) in [
        ("a_unknown", Hardware::default(), Presence::Unknown, "the plugin names no sign of it"),
        ("b_absent", nodes("/dev/accel*"), Presence::Absent, "no /dev/accel*"),
        ("c_node", nodes("/dev/dri/renderD*"), Presence::Present, "/dev/dri/renderD128"),
        ("d_vendor", pci("10de", &[], &[]), Presence::Present, "PCI 10de:2330"),
        ("e_device", pci("10de", &["1111"], &[]), Presence::Absent, "no PCI vendor 10de device 1111"),
        ("f_class", pci("10de", &["2330"], &["12", "0302"]), Presence::Present, "PCI 10de:2330"),
    ] {
        let entry = registry.register_descriptor(of_file(name, |m| m.hardware = hardware)).unwrap();
        assert_eq!(entry.hardware().presence, presence, "{name}: {}", entry.hardware());
        assert!(entry.hardware().to_string().contains(says), "{name}: {}", entry.hardware());
    }
    assert_eq!(chosen(&registry, &Policy::any()), "c_node");
    assert_eq!(chosen(&registry, &Policy::prefer("b_absent").or_any()), "c_node");
    assert_eq!(chosen(&registry, &Policy::named("b_absent")), "b_absent");
    let error = refused(&registry, &Policy::prefer("b_absent")).to_string();
    assert!(error.contains("its hardware is absent: no /dev/accel*; ask for it by name"), "{error}");

    // A device that is plugged in is seen when the registry looks again.
    fs::write(root.join("dev/accel0"), "").unwrap();
    registry.refresh();
    let entry = registry.select(&Policy::prefer("b_absent")).unwrap();
    assert_eq!(entry.hardware().evidence, ["/dev/accel0"]);

    // A system that lists no PCI devices cannot say that one is absent.
    let blind = Machine::at(root.join("nothing"));
    assert_eq!(blind.sight(&pci("10de", &[], &[])).presence, Presence::Unknown);
    assert_eq!(blind.sight(&nodes("/dev/accel*")).presence, Presence::Unknown);
}

#[test]
fn the_error_says_of_each_plugin_why_not() {
    let registry = registry("error");
    let nothing = refused(&registry, &Policy::any()).to_string();
    assert!(nothing.contains("No plugin was found"), "{nothing}");
    registry.register_descriptor(of_file("cuda", |m| m.aliases.push("gpu".to_owned()))).unwrap();
    let tpu = registry.register_descriptor(of_file("tpu", |_| {})).unwrap();
    registry.disable(tpu.id(), "of the test").unwrap();
    registry.register_library(folder("error").join("libnowhere.so"), None).unwrap();
    let error = refused(&registry, &Policy::prefer("tpu").or("libnowhere").or("npu"));
    let text = error.to_string();
    for part in [
        r#"a plugin for "tpu", or a plugin for "libnowhere", or a plugin for "npu" is asked for"#,
        "cuda or gpu (",
        "it goes by another name",
        "disabled: of the test",
        "libnowhere.so does not exist",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(error.rejected().len(), 3);
}
