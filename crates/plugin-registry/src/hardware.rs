//! Whether a plugin's hardware is there, seen without loading the plugin: device nodes and PCI devices.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use device_plugin::manifest::{Hardware, PciId};

/// Whether hardware is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Presence {
    /// A sign of it was seen.
    Present,
    /// Nothing says how to see it, or this system cannot be asked.
    Unknown,
    /// None of its signs was seen.
    Absent,
}

impl fmt::Display for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Present => "present",
            Self::Unknown => "unknown",
            Self::Absent => "absent",
        })
    }
}

/// Whether hardware is there, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Whether it is there.
    pub presence: Presence,
    /// Signs seen (`/dev/nvidia0`, `PCI 10de:2330`), or those looked for where none was seen.
    pub evidence: Vec<String>,
}

impl Sighting {
    pub(crate) fn unknown() -> Self {
        Self { presence: Presence::Unknown, evidence: Vec::new() }
    }
}

impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evidence = self.evidence.join(", ");
        match self.presence {
            Presence::Present => write!(f, "present: {evidence}"),
            Presence::Unknown if evidence.is_empty() => f.write_str("unknown: the plugin names no sign of it"),
            Presence::Unknown => write!(f, "unknown: this system does not tell of {evidence}"),
            Presence::Absent => write!(f, "absent: no {evidence}"),
        }
    }
}

/// The machine whose hardware is looked at.
#[derive(Debug)]
pub struct Machine {
    root: PathBuf,
    /// Read once: what a machine has does not change while plugins are ranked.
    pci: OnceLock<Option<Vec<PciDevice>>>,
}

/// What the system says of a PCI device, in lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PciDevice {
    vendor: String,
    device: String,
    class: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        Self::at("/")
    }

    /// A machine whose `/dev` and `/sys` lie below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), pci: OnceLock::new() }
    }

    /// The same machine, to be looked at anew.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::at(self.root.clone())
    }

    /// Looks for hardware.
    pub fn sight(&self, hardware: &Hardware) -> Sighting {
        if hardware.is_empty() {
            return Sighting::unknown();
        }
        let mut seen: Vec<String> = Vec::new();
        for pattern in &hardware.device_nodes {
            // One node of each pattern is proof enough, and machines with many devices have many.
            seen.extend(self.node(pattern));
        }
        let bus = if hardware.pci.is_empty() { None } else { self.pci() };
        for id in &hardware.pci {
            let found = bus.iter().flat_map(|bus| bus.iter()).find(|device| matches(id, device));
            seen.extend(found.map(|device| format!("PCI {}:{}", device.vendor, device.device)));
        }
        if !seen.is_empty() {
            return Sighting { presence: Presence::Present, evidence: seen };
        }
        let nodes_known = !hardware.device_nodes.is_empty() && self.root.join("dev").is_dir();
        let presence = if nodes_known || bus.is_some() { Presence::Absent } else { Presence::Unknown };
        let nodes = hardware.device_nodes.iter().cloned();
        Sighting { presence, evidence: nodes.chain(hardware.pci.iter().map(describe)).collect() }
    }

    /// PCI devices; none where the system does not list them.
    fn pci(&self) -> Option<&[PciDevice]> {
        let read = || {
            let folder = self.root.join("sys/bus/pci/devices");
            let mut folders: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
            folders.sort();
            Some(folders.iter().filter_map(|folder| PciDevice::read(folder)).collect())
        };
        self.pci.get_or_init(read).as_deref()
    }

    /// The first file that matches a pattern, as a path of that machine.
    fn node(&self, pattern: &str) -> Option<String> {
        let root = self.root.to_str()?.trim_end_matches('/');
        let pattern = format!("{}{pattern}", glob::Pattern::escape(root));
        // A folder that cannot be read shows nothing.
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
