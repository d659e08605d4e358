//! Describes the plugin, the machine and the time for reports.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pjrt::{Client, Plugin};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::process::lines::tell;
use crate::report::Machine;

/// Returns the API version, the attributes and the extensions of a loaded plugin.
pub(crate) fn describe_plugin(plugin: &Plugin) -> Value {
    let attributes: Map<String, Value> = plugin
        .attributes()
        .unwrap_or_default()
        .into_iter()
        .map(|attribute| (attribute.name.clone(), json!(attribute.value.to_string())))
        .collect();
    let extensions: Vec<u32> = plugin.extensions().iter().map(|extension| extension.number).collect();
    json!({
        "api_version": plugin.api_version().to_string(),
        "attributes": attributes,
        "extensions": extensions,
    })
}

/// Reports the client's platform and devices to the parent process. Only the first call in a process has an effect.
pub(crate) fn describe_client_once(client: &Client, version: &str) {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    let devices = client.addressable_devices().unwrap_or_default();
    let kinds: Vec<String> = devices.iter().filter_map(|device| device.kind().ok()).collect();
    tell(&json!({ "client": {
        "platform_name": client.platform_name().unwrap_or_default(),
        "platform_version": version,
        "device_kinds": kinds,
    }}));
}

/// Returns a description of the machine that runs the suite.
pub(crate) fn this_machine() -> Machine {
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
    });
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: kernel.trim().to_owned(),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory,
    }
}

/// Returns the size in bytes and the hexadecimal SHA-256 hash of a file. Returns `None` if the file cannot be read.
pub(crate) fn hash(path: &Path) -> Option<(u64, String)> {
    let mut file = File::open(path).ok()?;
    let mut hash = Sha256::new();
    let size = io::copy(&mut file, &mut hash).ok()?;
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Some((size, digits))
}

/// Returns the current Unix time in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
