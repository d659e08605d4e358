//! The key of a compilation.

use std::fmt;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use pjrt_types::{CompileOptions, Program};
use sha2::{Digest, Sha256};

use crate::objects::owners::Client;
use crate::objects::plugin::fingerprint;

/// The version of the cache's format. Change it whenever the inputs of the hash, their encoding or the format of the
/// files change.
const VERSION: &[u8] = b"pjrt executable cache 2";
/// Environment variables that affect the code that XLA's compilers generate.
const VARIABLES: [&str; 2] = ["XLA_FLAGS", "LIBTPU_INIT_ARGS"];
/// Path of the file in which Linux lists the instruction sets of each processor.
const PROCESSOR: &str = "/proc/cpuinfo";
/// Names of the lines in [`PROCESSOR`] that list the instruction sets, on x86-64 and on AArch64.
const INSTRUCTION_SETS: [&str; 2] = ["flags", "Features"];

/// A hash of everything that identifies a compilation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A hash of everything that all compilations of a client share: the plugin, the devices and the machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Environment([u8; 32]);

/// Hashes a sequence of byte strings. The length of each string is hashed before its bytes, so that sequences with
/// different boundaries between the strings have different hashes.
struct Items(Sha256);

impl Items {
    fn add(&mut self, item: impl AsRef<[u8]>) {
        let item = item.as_ref();
        self.0.update((item.len() as u64).to_le_bytes());
        self.0.update(item);
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

impl Environment {
    pub(super) fn of(client: &Client) -> Self {
        let mut items = Items(Sha256::new());
        items.add(VERSION);
        for (name, value) in client.identity() {
            items.add(name);
            items.add(value);
        }
        let file = client.plugin().path().map(PathBuf::from).or_else(|| std::env::current_exe().ok());
        if let Some(file) = file {
            items.add(fingerprint(&file).unwrap_or_default());
            let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
            let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            items.add(modified.unwrap_or_default().as_nanos().to_le_bytes());
        }
        let mut options: Vec<_> = client.inner().options().iter().collect();
        options.sort_by(|a, b| a.name.cmp(&b.name));
        for option in options {
            items.add(&option.name);
            items.add(format!("{:?}", option.value));
        }
        // If the plugin lacks the function for one of these properties, the property is hashed as `None` or as an empty
        // list.
        items.add(format!("{:?}", client.process_index().ok()));
        for device in client.devices().unwrap_or_default() {
            let Ok(device) = device.description() else { continue };
            items.add(format!("{:?} {:?} {:?}", device.id().ok(), device.process_index().ok(), device.kind().ok()));
            let mut attributes = device.attributes().unwrap_or_default();
            attributes.sort_by(|a, b| a.name.cmp(&b.name));
            for attribute in attributes {
                items.add(attribute.name);
                items.add(attribute.value.to_string());
            }
        }
        for variable in VARIABLES {
            items.add(variable);
            items.add(std::env::var_os(variable).unwrap_or_default().as_encoded_bytes());
        }
        items.add(instruction_sets());
        Self(items.finish())
    }

    /// Returns the key for compiling `program` with `options` in this environment. `salt` is the salt of the cache.
    pub(super) fn key(&self, salt: &[u8], program: &Program, options: &CompileOptions) -> Key {
        let mut items = Items(Sha256::new());
        items.add(self.0);
        items.add(salt);
        items.add(options.encode());
        items.add(program.format());
        items.add(program.code());
        Key(items.finish())
    }
}

/// Returns the line that lists the instruction sets of the machine's first processor, or an empty string if the system
/// does not provide such a line.
fn instruction_sets() -> String {
    let text = std::fs::read_to_string(PROCESSOR).unwrap_or_default();
    let line = text.lines().find(|line| INSTRUCTION_SETS.iter().any(|name| line.starts_with(name)));
    line.unwrap_or_default().to_owned()
}
