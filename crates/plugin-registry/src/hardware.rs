//! Detects a plugin's hardware by device nodes and PCI devices, without loading the plugin.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plugin_manifest::manifest::{Hardware, PciId};

/// Whether a plugin's hardware is in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Exhaustive, because the hardware is either present, unknown or absent.
pub enum HardwarePresence {
    /// The probe found a device node or a PCI device that belongs to the plugin.
    Present,
    /// The manifest does not describe the hardware, or the system lists none of the kinds of devices (device nodes or
    /// PCI devices) that the manifest describes.
    Unknown,
    /// The system lists at least one of these kinds of devices, but the probe found none of the devices that the
    /// manifest describes.
    Absent,
}

impl fmt::Display for HardwarePresence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Present => "present",
            Self::Unknown => "unknown",
            Self::Absent => "absent",
        })
    }
}

/// Whether a plugin's hardware is in the machine, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HardwareStatus {
    /// Whether the hardware is present.
    pub presence: HardwarePresence,
    /// The devices that were found, such as `/dev/nvidia0` or `PCI 10de:2330`. If no device was found, the devices that
    /// were searched for.
    pub evidence: Vec<String>,
}

impl HardwareStatus {
    fn unknown() -> Self {
        Self { presence: HardwarePresence::Unknown, evidence: Vec::new() }
    }
}

impl fmt::Display for HardwareStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evidence = self.evidence.join(", ");
        match self.presence {
            HardwarePresence::Present => write!(f, "present: {evidence}"),
            HardwarePresence::Unknown if evidence.is_empty() => {
                f.write_str("unknown: the manifest lists no device node or PCI device")
            }
            HardwarePresence::Unknown => write!(f, "unknown: this system does not list {evidence}"),
            HardwarePresence::Absent => write!(f, "absent: no {evidence}"),
        }
    }
}

/// Looks for plugins' hardware among the device nodes and PCI devices of a machine.
#[derive(Debug)]
pub struct HardwareProbe {
    root: PathBuf,
    /// Cached PCI devices, so that all plugins in one ranking are compared with the same devices.
    pci: OnceLock<Option<Vec<PciDevice>>>,
}

/// The identifiers of a PCI device, in lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PciDevice {
    vendor: String,
    device: String,
    class: String,
}

impl HardwareProbe {
    /// Creates a probe of this machine.
    pub fn of_this_machine() -> Self {
        Self::at("/")
    }

    /// Creates a probe of a machine whose `/dev` and `/sys` are below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), pci: OnceLock::new() }
    }

    /// Returns a probe of the same machine with an empty cache.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Self::at(self.root.clone())
    }

    /// Searches for the hardware that a manifest describes.
    pub fn look_for(&self, hardware: &Hardware) -> HardwareStatus {
        if hardware.is_empty() {
            return HardwareStatus::unknown();
        }
        let mut seen: Vec<String> = Vec::new();
        for pattern in &hardware.device_nodes {
            // One node for each pattern is enough evidence. A machine may have many nodes.
            seen.extend(self.node(pattern));
        }
        let bus = if hardware.pci.is_empty() { None } else { self.pci() };
        for id in &hardware.pci {
            let found = bus.iter().flat_map(|bus| bus.iter()).find(|device| matches(id, device));
            seen.extend(found.map(|device| format!("PCI {}:{}", device.vendor, device.device)));
        }
        if !seen.is_empty() {
            return HardwareStatus { presence: HardwarePresence::Present, evidence: seen };
        }
        let nodes_are_listed = !hardware.device_nodes.is_empty() && self.root.join("dev").is_dir();
        let listed = nodes_are_listed || bus.is_some();
        let presence = if listed { HardwarePresence::Absent } else { HardwarePresence::Unknown };
        let nodes = hardware.device_nodes.iter().cloned();
        HardwareStatus { presence, evidence: nodes.chain(hardware.pci.iter().map(describe)).collect() }
    }

    /// Returns the PCI devices, or `None` if the system does not list them.
    fn pci(&self) -> Option<&[PciDevice]> {
        let read = || {
            let folder = self.root.join("sys/bus/pci/devices");
            let mut folders: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
            folders.sort();
            Some(folders.iter().filter_map(|folder| PciDevice::read(folder)).collect())
        };
        self.pci.get_or_init(read).as_deref()
    }

    /// Returns the first device node that matches a pattern, as an absolute path on the probed machine.
    fn node(&self, pattern: &str) -> Option<String> {
        let root = self.root.to_str()?.trim_end_matches('/');
        let pattern = format!("{}{pattern}", glob::Pattern::escape(root));
        // The iterator returns an error for an unreadable folder. `flatten` skips the error.
        let found = glob::glob(&pattern).ok()?.flatten().next()?;
        Some(found.to_str()?.strip_prefix(root)?.to_owned())
    }
}

impl PciDevice {
    fn read(folder: &Path) -> Option<Self> {
        let read = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            Some(text.trim().trim_start_matches("0x").to_ascii_lowercase())
        };
        Some(Self { vendor: read("vendor")?, device: read("device")?, class: read("class").unwrap_or_default() })
    }
}

fn matches(id: &PciId, device: &PciDevice) -> bool {
    id.vendor == device.vendor
        && (id.devices.is_empty() || id.devices.contains(&device.device))
        && (id.classes.is_empty() || id.classes.iter().any(|class| device.class.starts_with(class.as_str())))
}

fn describe(id: &PciId) -> String {
    let mut text = format!("PCI vendor {}", id.vendor);
    if !id.devices.is_empty() {
        text.push_str(&format!(" device {}", id.devices.join(" or ")));
    }
    if !id.classes.is_empty() {
        text.push_str(&format!(" class {}", id.classes.join(" or ")));
    }
    text
}
