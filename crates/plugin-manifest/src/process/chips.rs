//! Counts a plugin's devices and determines the index of the host before the plugin is loaded.

use super::environment::{Environment, Host};
use super::plan::ProcessPlan;
use super::probe::{ChipProbe, HostIndex};
use super::topology::ProcessTopology;
use crate::{Fault, Faults};

/// Splits the path of a glob into the folder and the pattern of the file name.
pub(super) fn split_glob(glob: &str) -> Result<(&str, glob::Pattern), String> {
    let (folder, name) =
        glob.rsplit_once('/').ok_or_else(|| format!("{glob:?} is not an absolute path; begin it with /"))?;
    if !glob.starts_with('/') || folder.contains(['*', '?', '[']) {
        return Err(format!(
            "{glob:?} is not a valid pattern; write an absolute path with *, ? and [] only in its last part"
        ));
    }
    let pattern = glob::Pattern::new(name).map_err(|error| format!("{glob:?}: {error}"))?;
    Ok((if folder.is_empty() { "/" } else { folder }, pattern))
}

impl ProcessPlan {
    /// Returns the number of devices of this host, from the first probe that finds any devices. If each process uses
    /// one device, the result is also the number of processes on this host. Returns `None` if no probe finds any
    /// devices.
    ///
    /// # Errors
    ///
    /// Returns an error if the value of a variable is not an unsigned integer, or if a glob is invalid.
    #[doc(alias = "physical_chip_count")]
    pub fn chip_count(&self, environment: &Environment, host: &dyn Host) -> Result<Option<u32>, Faults> {
        for probe in &self.chips {
            let count = match probe {
                ChipProbe::Constant { count } => *count,
                ChipProbe::Variable { name } => number(environment, name)?.unwrap_or(0),
                ChipProbe::DeviceNodes { glob } => {
                    let (folder, pattern) = split_glob(glob).map_err(|problem| Fault::new("chips", problem))?;
                    let count = host.folder(folder).iter().filter(|name| pattern.matches(name)).count();
                    u32::try_from(count).unwrap_or(u32::MAX)
                }
            };
            if count > 0 {
                return Ok(Some(count));
            }
        }
        Ok(None)
    }

    /// Returns the index of the host in the order that the plugin uses. The first variable in [`HostIndex::Variables`]
    /// that is set and not empty contains the index. If there is none, returns the host index of the topology.
    ///
    /// # Errors
    ///
    /// Returns an error if the value of a variable is not an unsigned integer.
    pub fn host_index(&self, topology: &ProcessTopology, environment: &Environment) -> Result<u32, Faults> {
        if let HostIndex::Variables { names } = &self.host_index {
            for name in names {
                if let Some(index) = number(environment, name)? {
                    return Ok(index);
                }
            }
        }
        Ok(topology.host_index())
    }
}

fn number(environment: &Environment, name: &str) -> Result<Option<u32>, Faults> {
    let Some(text) = environment.value(name) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| {
        Fault::new(name, format!("{text:?} is not a whole number; set it to a number of at least 0, or unset it"))
            .into()
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    struct Nodes;

    impl Host for Nodes {
        fn folder(&self, path: &str) -> Vec<String> {
            let names: &[&str] = match path {
                "/dev" => &["nvidia-uvm", "nvidia0", "nvidia1", "nvidia10", "nvidiactl"],
                "/dev/vfio" => &["0", "3", "vfio"],
                _ => &[],
            };
            names.iter().map(|name| (*name).to_owned()).collect()
        }
    }

    #[test]
    fn first_successful_probe_counts() {
        let nodes = |glob: &str| ChipProbe::DeviceNodes { glob: glob.to_owned() };
        let variable = || ChipProbe::Variable { name: "N".to_owned() };
        let count = |probes: &[ChipProbe], environment: &Environment| {
            ProcessPlan { chips: probes.to_vec(), ..ProcessPlan::default() }.chip_count(environment, &Nodes)
        };
        let empty = Environment::new();
        assert_eq!(ProcessPlan::default().chip_count(&empty, &Nodes).unwrap(), Some(1));
        assert_eq!(count(&[nodes("/dev/nvidia[0-9]*")], &empty).unwrap(), Some(3));
        assert_eq!(count(&[nodes("/dev/accel[0-9]*"), nodes("/dev/vfio/[0-9]*")], &empty).unwrap(), Some(2));
        assert_eq!(count(&[nodes("/dev/accel[0-9]*")], &empty).unwrap(), None);
        let set = Environment::from([("N", "5")]);
        assert_eq!(count(&[variable(), nodes("/dev/nvidia[0-9]*")], &set).unwrap(), Some(5));
        assert_eq!(count(&[variable(), nodes("/dev/nvidia[0-9]*")], &empty).unwrap(), Some(3));
        let faults = count(&[variable()], &Environment::from([("N", "five")])).unwrap_err();
        assert_eq!(faults.all()[0].field, "N");
        expect![[r#"N: "five" is not a whole number; set it to a number of at least 0, or unset it"#]]
            .assert_eq(&faults.to_string());
        for glob in ["dev/x", "/d*v/x", "/dev/[", "x"] {
            assert!(count(&[nodes(glob)], &empty).is_err(), "{glob}");
        }
    }

    #[test]
    fn host_index_source() {
        let single = ProcessTopology::single();
        let host_index = HostIndex::Variables { names: vec!["A".to_owned(), "B".to_owned()] };
        let plan = ProcessPlan { host_index, ..ProcessPlan::default() };
        assert_eq!(plan.host_index(&single, &Environment::from([("A", ""), ("B", "3")])).unwrap(), 3);
        assert_eq!(plan.host_index(&single, &Environment::new()).unwrap(), 0);
        assert!(plan.host_index(&single, &Environment::from([("A", "-1")])).is_err());
        assert_eq!(ProcessPlan::default().host_index(&single, &Environment::from([("A", "3")])).unwrap(), 0);
    }
}
