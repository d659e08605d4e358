//! The memory of the machine.

use std::fs;
use std::path::Path;

/// The memory that this process may use, in bytes. The limits of its control groups count, so in a container this is
/// the memory of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineMemory {
    /// Memory in total.
    pub total: usize,
    /// Memory that the process can still allocate, if no other process allocates more.
    pub available: usize,
}

impl MachineMemory {
    /// Returns the memory, or `None` if the operating system does not report it as Linux does.
    pub fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let kib = |name| field(&text, name)?.checked_mul(1024);
        let mut memory = MachineMemory {
            total: kib("MemTotal:")?,
            available: kib("MemAvailable:")?.saturating_add(kib("SwapFree:").unwrap_or(0)),
        };
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let root = Path::new("/sys/fs/cgroup");
        for group in root.join(own).ancestors().take_while(|group| group.starts_with(root)) {
            if let Some(group) = group_memory(group) {
                memory.total = memory.total.min(group.total);
                memory.available = memory.available.min(group.available);
            }
        }
        Some(memory)
    }
}

/// Returns the memory of a control group, or `None` if it has no limit.
fn group_memory(folder: &Path) -> Option<MachineMemory> {
    let number = |file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<usize>().ok();
    let total = number("memory.max")?;
    // The kernel frees the pages of files that were not used lately before it refuses memory.
    let files = fs::read_to_string(folder.join("memory.stat")).ok().and_then(|text| field(&text, "inactive_file"));
    let in_use = number("memory.current")?.saturating_sub(files.unwrap_or(0));
    Some(MachineMemory { total, available: total.saturating_sub(in_use) })
}

/// Returns the number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<usize> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(char::is_whitespace))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_kernels_files() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:   1200 kB\ninactive_file 4096\nactive_file 7\n";
        assert_eq!(field(text, "MemTotal:"), Some(24_000_000));
        assert_eq!(field(text, "inactive_file"), Some(4096));
        assert_eq!(field(text, "file"), None);
        assert_eq!(field("MemTotal: much", "MemTotal:"), None);
    }

    #[test]
    fn limits_of_a_control_group() {
        let folder = std::env::temp_dir().join(format!("stablehlo-cpu-group-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("memory.max", "max\n");
        write("memory.current", "6000\n");
        write("memory.stat", "anon 1000\ninactive_file 2000\n");
        assert_eq!(group_memory(&folder), None, "no limit");
        write("memory.max", "10000\n");
        assert_eq!(group_memory(&folder), Some(MachineMemory { total: 10000, available: 6000 }));
        write("memory.current", "13000\n");
        assert_eq!(group_memory(&folder), Some(MachineMemory { total: 10000, available: 0 }));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn machine_has_memory() {
        let memory = MachineMemory::read().unwrap();
        assert!(memory.available > 0 && memory.total >= 1 << 20, "{memory:?}");
    }
}
