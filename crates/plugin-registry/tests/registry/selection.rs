//! Tests which plugin a policy selects, and the error if no plugin fits.

use std::fs;

use device_plugin::manifest::{Hardware, PciId};
use plugin_registry::discovery::Refusal;
use plugin_registry::{HardwarePresence, HardwareProbe, PluginRegistry, Policy, RejectReason, Rejected, SelectError};

use crate::fakes::{folder, of_file, register_library, registry};

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
fn ranks_by_name_readiness_priority_alphabet() {
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
    // A plugin with the requested name ranks before a plugin with that alias, whatever their priorities.
    let gpu = of_file("gpu", |manifest| manifest.priority = -5);
    registry.register_descriptor(gpu).unwrap();
    assert_eq!(chosen(&registry, &Policy::prefer("gpu")), "gpu");
}

#[test]
fn conditions_apply_to_declared_values() {
    let registry = registry("conditions");
    registry.register_descriptor(of_file("plain", |_| {})).unwrap();
    registry.register_descriptor(of_file("vendored", |manifest| manifest.vendor = "Example".to_owned())).unwrap();
    let wants = |policy: Policy, vendor: &'static str| {
        policy.require(format!("the vendor {vendor}"), move |manifest| manifest.vendor == vendor)
    };
    assert_eq!(chosen(&registry, &wants(Policy::any(), "Example")), "vendored");
    let error = refused(&registry, &wants(Policy::any(), "Other"));
    let condition =
        |rejected: &Rejected| matches!(&rejected.reason, RejectReason::Condition(c) if c == "the vendor Other");
    assert!(error.rejected().len() == 2 && error.rejected().iter().all(condition), "{error}");
    // A fallback does not need to meet the conditions.
    assert_eq!(chosen(&registry, &wants(Policy::any().fallback("plain"), "Other")), "plain");
}

#[test]
#[cfg_attr(windows, ignore = "hardware is found in the folders /dev and /sys of Linux")]
fn hardware_decides_unless_named() {
    let root = folder("hardware");
    fs::create_dir_all(root.join("dev/dri")).unwrap();
    fs::write(root.join("dev/dri/renderD128"), "").unwrap();
    let device = root.join("sys/bus/pci/devices/0000:01:00.0");
    fs::create_dir_all(&device).unwrap();
    for (file, text) in [("vendor", "0x10de\n"), ("device", "0x2330\n"), ("class", "0x030200\n")] {
        fs::write(device.join(file), text).unwrap();
    }
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let pci = |vendor: &str, devices: &[&str], classes: &[&str]| Hardware {
        pci: vec![PciId { vendor: vendor.to_owned(), devices: owned(devices), classes: owned(classes) }],
        ..Hardware::default()
    };
    let registry = PluginRegistry::builder().hardware(HardwareProbe::at(&root)).build();
    for (name, hardware, presence, evidence) in [
        ("a_unknown", Hardware::default(), HardwarePresence::Unknown, &[][..]),
        ("b_absent", nodes("/dev/accel*"), HardwarePresence::Absent, &["/dev/accel*"]),
        ("c_node", nodes("/dev/dri/renderD*"), HardwarePresence::Present, &["/dev/dri/renderD128"]),
        ("d_vendor", pci("10de", &[], &[]), HardwarePresence::Present, &["PCI 10de:2330"]),
        ("e_device", pci("10de", &["1111"], &[]), HardwarePresence::Absent, &["PCI vendor 10de device 1111"]),
        ("f_class", pci("10de", &["2330"], &["12", "0302"]), HardwarePresence::Present, &["PCI 10de:2330"]),
    ] {
        let entry = registry.register_descriptor(of_file(name, |m| m.hardware = hardware)).unwrap();
        assert_eq!(entry.hardware().presence, presence, "{name}: {}", entry.hardware());
        assert_eq!(entry.hardware().evidence, evidence, "{name}: {}", entry.hardware());
    }
    assert_eq!(chosen(&registry, &Policy::any()), "c_node");
    assert_eq!(chosen(&registry, &Policy::prefer("b_absent").or_any()), "c_node");
    assert_eq!(chosen(&registry, &Policy::named("b_absent")), "b_absent");
    let error = refused(&registry, &Policy::prefer("b_absent"));
    let absent = error.rejected().iter().find(|rejected| rejected.name == "b_absent").unwrap();
    assert!(matches!(&absent.reason, RejectReason::NoHardware(s) if s.evidence == ["/dev/accel*"]), "{error}");

    // Refreshing the registry finds a device that was plugged in after the first search.
    fs::write(root.join("dev/accel0"), "").unwrap();
    registry.refresh();
    let entry = registry.select(&Policy::prefer("b_absent")).unwrap();
    assert_eq!(entry.hardware().evidence, ["/dev/accel0"]);

    // If a system does not list PCI devices, the presence of a PCI device is unknown.
    let blind = HardwareProbe::at(root.join("nothing"));
    assert_eq!(blind.look_for(&pci("10de", &[], &[])).presence, HardwarePresence::Unknown);
    assert_eq!(blind.look_for(&nodes("/dev/accel*")).presence, HardwarePresence::Unknown);
}

#[test]
fn error_explains_each_plugin() {
    let registry = registry("error");
    assert!(refused(&registry, &Policy::any()).rejected().is_empty());
    registry.register_descriptor(of_file("cuda", |m| m.aliases.push("gpu".to_owned()))).unwrap();
    let tpu = registry.register_descriptor(of_file("tpu", |_| {})).unwrap();
    registry.disable(tpu.id(), "of the test").unwrap();
    register_library(&registry, folder("error").join("libnowhere.so"), None).unwrap();
    let error = refused(&registry, &Policy::prefer("tpu").or("libnowhere").or("npu"));
    let [cuda, tpu, nowhere] = error.rejected() else { panic!("{error}") };
    assert_eq!((&*cuda.name, &*cuda.aliases), ("cuda", &["gpu".to_owned()][..]));
    assert!(matches!(cuda.reason, RejectReason::OtherName), "{error}");
    assert!(matches!(&tpu.reason, RejectReason::Disabled(why) if why == "of the test"), "{error}");
    let RejectReason::Refused(refusals) = &nowhere.reason else { panic!("{error}") };
    assert!(matches!(&refusals[..], [Refusal::Missing { path }] if path.ends_with("libnowhere.so")), "{error}");
    let policy = r#"a plugin for "tpu", or a plugin for "libnowhere", or a plugin for "npu""#;
    assert_eq!(error.policy().to_string(), policy);
}
