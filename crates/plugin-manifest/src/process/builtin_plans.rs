//! Process plans for Google TPU, AWS Neuron, NVIDIA CUDA and AMD ROCm.
//!
//! The plans express Python code of PyTorch/XLA as data. Except for ROCm, the documentation of each plan names the
//! Python functions that the plan replaces.

use super::plan::{Coordinator, CoordinatorNeed, EnvRule, OptionRule, ProcessPlan, SetMode, When};
use super::probe::{ChipProbe, HostIndex};
use crate::OptionType;

fn rule(variable: &str, value: &str, when: &[When], reason: &str) -> EnvRule {
    EnvRule { when: when.to_vec(), reason: reason.to_owned(), ..EnvRule::new(variable, value) }
}

fn option(name: &str, ty: OptionType, value: &str, when: &[When], reason: &str) -> OptionRule {
    OptionRule { when: when.to_vec(), reason: reason.to_owned(), ..OptionRule::new(name, ty, value) }
}

fn nodes(glob: &str) -> ChipProbe {
    ChipProbe::DeviceNodes { glob: glob.to_owned() }
}

fn variable(name: &str) -> ChipProbe {
    ChipProbe::Variable { name: name.to_owned() }
}

/// Port of the first TPU process on each host. Every further process on the host uses the next higher port.
const TPU_PORT: u16 = 8476;

/// Returns the plan for Google TPU, which replaces `configure_one_chip_topology` and `configure_topology` of
/// PyTorch/XLA's `tpu.py`.
///
/// A process that uses all chips of its host needs no variables, because libtpu itself reads the shape of the slice. A
/// process that uses one chip needs variables with the index of its chip and the addresses of the other processes.
pub(crate) fn tpu() -> ProcessPlan {
    let chip = [When::OneDevice];
    let alone = [When::OneDevice, When::SingleProcess];
    let many = [When::OneDevice, When::MultiProcess];
    let mesh = "{mesh_product:TPU_HOST_BOUNDS,TPU_CHIPS_PER_HOST_BOUNDS}";
    let task = "{host_in_slice*local_world_size+local_rank}";
    let addresses = format!("{{process_addresses:{TPU_PORT}}}");
    let port = format!("{{{TPU_PORT}+local_rank}}");
    ProcessPlan {
        environment: vec![
            rule("TPU_VISIBLE_CHIPS", "{local_rank}", &chip, "the chip of this process"),
            rule("TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1", &chip, "one chip for each process"),
            rule("TPU_PROCESS_BOUNDS", "1,1,1", &alone, "one process"),
            rule("TPU_PROCESS_BOUNDS", mesh, &many, "the mesh of processes: hosts times chips of a host"),
            rule("CLOUD_TPU_TASK_ID", task, &many, "place of this process in its slice"),
            rule("TPU_PROCESS_ADDRESSES", &addresses, &many, "where the processes of the slice listen"),
            rule("TPU_PROCESS_PORT", &port, &many, "where this process listens"),
        ],
        chips: vec![nodes("/dev/accel[0-9]*"), nodes("/dev/vfio/[0-9]*")],
        host_index: HostIndex::Variables { names: vec!["TPU_WORKER_ID".to_owned()] },
        ..ProcessPlan::default()
    }
}

/// Returns the plan for AWS Neuron, which replaces `initialize_env`, `num_local_processes` and `set_rt_root_comm_id` of
/// PyTorch/XLA's `neuron.py`.
///
/// If `NEURON_RT_VISIBLE_CORES` contains a list such as `4-7`, the list contains the cores of all processes of the
/// host. In each process, the plan replaces the list with the core of this process.
pub(crate) fn neuron() -> ProcessPlan {
    let many = [When::MultiProcess];
    let core = "{env:NEURON_RT_VISIBLE_CORES[local_rank]|local_rank}";
    let root = "{coordinator_host|'localhost'}:62182";
    let size = rule("NEURON_PJRT_WORLD_SIZE", "{world_size}", &many, "number of processes, each with one core");
    let always = |rule| EnvRule { set: SetMode::Override, ..rule };
    ProcessPlan {
        environment: vec![
            always(rule("NEURON_RT_VISIBLE_CORES", core, &[When::OneDevice], "the core of this process")),
            rule("NEURON_RT_ROOT_COMM_ID", root, &many, "where the Neuron runtimes of all processes meet"),
            always(rule("NEURON_PJRT_PROCESS_INDEX", "{global_rank}", &many, "rank of this process")),
            EnvRule { unless_set: vec!["NEURON_PJRT_PROCESSES_NUM_DEVICES".to_owned()], ..size },
        ],
        chips: vec![variable("NEURONCORE_NUM_DEVICES"), ChipProbe::Constant { count: 1 }],
        ..ProcessPlan::default()
    }
}

/// Returns the plan for NVIDIA CUDA, which replaces `client_create_options`, `physical_chip_count` and
/// `requires_xla_coordinator` of PyTorch/XLA 2.8's CUDA plugin.
pub(crate) fn cuda() -> ProcessPlan {
    gpu("NVIDIA", "/dev/nvidia[0-9]*")
}

/// Returns the plan for AMD ROCm, whose plugin accepts the same options as the CUDA plugin.
pub(crate) fn rocm() -> ProcessPlan {
    gpu("AMD", "/dev/dri/renderD[0-9]*")
}

fn gpu(vendor: &str, devices: &str) -> ProcessPlan {
    let many = [When::MultiProcess];
    let one = [When::SharedHost, When::OneDevice];
    let own = format!("the {vendor} device of this process");
    ProcessPlan {
        options: vec![
            option("visible_devices", OptionType::Int64List, "{local_rank}", &one, &own),
            option("node_id", OptionType::Int64, "{global_rank}", &many, "rank of this process"),
            option("num_nodes", OptionType::Int64, "{world_size}", &many, "number of processes"),
        ],
        coordinator: Coordinator { need: CoordinatorNeed::MultiProcess, ..Coordinator::default() },
        chips: vec![variable("GPU_NUM_DEVICES"), nodes(devices)],
        ..ProcessPlan::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::environment::Environment;
    use super::super::rank::Position;
    use super::super::topology::{DeviceShare, ProcessTopology};
    use super::*;
    use expect_test::expect;

    fn at(index: u32, count: u32) -> Position {
        Position::new(index, count).unwrap()
    }

    #[test]
    fn valid_and_json_round_trip() {
        for plan in [tpu(), neuron(), cuda(), rocm()] {
            plan.validate().unwrap();
            let json = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<ProcessPlan>(&json).unwrap(), plan);
        }
    }

    #[test]
    fn whole_host_process_gets_no_variables() {
        let single = ProcessTopology::single();
        for plan in [tpu(), neuron(), cuda(), rocm()] {
            assert!(plan.resolve(&single, &Environment::new()).unwrap().is_empty());
        }
    }

    #[test]
    fn one_tpu_chip() {
        let mut one = ProcessTopology::single();
        one.device_share = DeviceShare::One;
        let plan = tpu().resolve(&one, &Environment::new()).unwrap();
        assert_eq!(
            plan.for_child().collect::<Vec<_>>(),
            [("TPU_VISIBLE_CHIPS", "0"), ("TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1"), ("TPU_PROCESS_BOUNDS", "1,1,1")]
        );
    }

    #[test]
    fn tpu_process_per_chip_two_hosts() {
        let topology = ProcessTopology::new(at(5, 8), at(1, 4), at(1, 2)).unwrap();
        let topology = topology.with_hosts(vec!["10.0.0.1".into(), "10.0.0.2".into()]).unwrap();
        let environment = Environment::from([
            ("TPU_HOST_BOUNDS", "1,1,2"),
            ("TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1"),
            ("TPU_VISIBLE_CHIPS", "3"),
        ]);
        let plan = tpu().resolve(&topology, &environment).unwrap();
        assert_eq!(
            plan.for_child().collect::<Vec<_>>(),
            [
                ("TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1"),
                ("TPU_PROCESS_BOUNDS", "2,2,2"),
                ("CLOUD_TPU_TASK_ID", "5"),
                (
                    "TPU_PROCESS_ADDRESSES",
                    "10.0.0.1:8476,10.0.0.1:8477,10.0.0.1:8478,10.0.0.1:8479,\
                     10.0.0.2:8476,10.0.0.2:8477,10.0.0.2:8478,10.0.0.2:8479"
                ),
                ("TPU_PROCESS_PORT", "8477"),
            ],
            "a variable of the user stays"
        );
        let faults = tpu().resolve(&topology, &Environment::new()).unwrap_err();
        expect!["environment[3] TPU_PROCESS_BOUNDS: TPU_HOST_BOUNDS is not set"].assert_eq(&faults.to_string());
    }

    #[test]
    fn neuron_process_per_core() {
        let mut topology = ProcessTopology::new(at(3, 4), at(1, 2), at(1, 2)).unwrap();
        topology.coordinator = Some("fe80::1".parse().unwrap());
        let environment = Environment::from([("NEURON_RT_VISIBLE_CORES", "4-5")]);
        let plan = neuron().resolve(&topology, &environment).unwrap();
        assert_eq!(
            plan.for_child().collect::<Vec<_>>(),
            [
                ("NEURON_RT_VISIBLE_CORES", "5"),
                ("NEURON_RT_ROOT_COMM_ID", "[fe80::1]:62182"),
                ("NEURON_PJRT_PROCESS_INDEX", "3"),
                ("NEURON_PJRT_WORLD_SIZE", "4"),
            ]
        );
        let environment = Environment::from([("NEURON_PJRT_PROCESSES_NUM_DEVICES", "1,1,1,1")]);
        let plan = neuron().resolve(&topology, &environment).unwrap();
        assert!(plan.steps.iter().all(|step| step.variable != "NEURON_PJRT_WORLD_SIZE"));
        let short = Environment::from([("NEURON_RT_VISIBLE_CORES", "4")]);
        let faults = neuron().resolve(&topology, &short).unwrap_err();
        expect![[r#"environment[0] NEURON_RT_VISIBLE_CORES: NEURON_RT_VISIBLE_CORES="4": the list has 1 items and lacks item 1, counted from 0; list one item for each process"#]]
            .assert_eq(&faults.to_string());
    }

    #[test]
    fn cuda_process_per_device() {
        let mut topology = ProcessTopology::new(at(3, 4), at(1, 2), at(1, 2)).unwrap();
        topology.coordinator = Some("node0".parse().unwrap());
        let plan = cuda().resolve(&topology, &Environment::new()).unwrap();
        let options: Vec<String> =
            plan.create_options().iter().map(|option| format!("{}={}", option.name, option.value)).collect();
        assert_eq!(options, ["visible_devices=[1]", "node_id=3", "num_nodes=4"]);
        assert_eq!(plan.coordinator.unwrap().to_string(), "node0:8547");
        assert!(plan.steps.is_empty());
    }
}
