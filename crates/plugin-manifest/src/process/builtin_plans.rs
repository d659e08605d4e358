//! Process plans for Google TPU, AWS Neuron, NVIDIA CUDA and AMD ROCm.
//!
//! The plans express Python code of PyTorch/XLA as data. Except for ROCm, the documentation of each plan names the
//! Python functions that the plan replaces.

use super::plan::{CoordinatorNeed, EnvRule, OptionRule, ProcessPlan, When};
use super::probe::{ChipProbe, HostIndex};
use crate::OptionType;

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
///
/// The mesh of processes is the axis-by-axis product of the mesh of hosts and the mesh of the chips of a host.
/// `TPU_HOST_BOUNDS` and `TPU_CHIPS_PER_HOST_BOUNDS` must therefore be known, from the environment or from the metadata
/// of the TPU VM. A single host has the bounds `1,1,1`. For generations before v4, whose metadata lacks the bounds, set
/// the variables by hand. The mesh of TPU v7 has a fourth axis, of size 2. If you set the variables by hand,
/// `TPU_HOST_BOUNDS` ends in `,1` and `TPU_CHIPS_PER_HOST_BOUNDS` in `,2`. Values from the metadata lack this axis, so
/// the detection of the topology appends it.
pub fn tpu() -> ProcessPlan {
    let chip = [When::OneDevice];
    let alone = [When::OneDevice, When::SingleProcess];
    let many = [When::OneDevice, When::MultiProcess];
    let rule = EnvRule::default_value;
    ProcessPlan::new()
        .with_variable(rule("TPU_VISIBLE_CHIPS", "{local_rank}").when(chip).reason("the chip of this process"))
        .with_variable(rule("TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1").when(chip).reason("one chip for each process"))
        .with_variable(rule("TPU_PROCESS_BOUNDS", "1,1,1").when(alone).reason("one process"))
        .with_variable(
            rule("TPU_PROCESS_BOUNDS", "{mesh_product:TPU_HOST_BOUNDS,TPU_CHIPS_PER_HOST_BOUNDS}")
                .when(many)
                .reason("the mesh of processes: hosts times chips of a host"),
        )
        .with_variable(
            rule("CLOUD_TPU_TASK_ID", "{host_in_slice*local_world_size+local_rank}")
                .when(many)
                .reason("place of this process in its slice"),
        )
        .with_variable(
            rule("TPU_PROCESS_ADDRESSES", format!("{{process_addresses:{TPU_PORT}}}").as_str())
                .when(many)
                .reason("where the processes of the slice listen"),
        )
        .with_variable(
            rule("TPU_PROCESS_PORT", format!("{{{TPU_PORT}+local_rank}}").as_str())
                .when(many)
                .reason("where this process listens"),
        )
        .with_chips([nodes("/dev/accel[0-9]*"), nodes("/dev/vfio/[0-9]*")])
        .with_host_index(HostIndex::Variables { names: vec!["TPU_WORKER_ID".to_owned()] })
}

/// Returns the plan for AWS Neuron, which replaces `initialize_env`, `num_local_processes` and `set_rt_root_comm_id` of
/// PyTorch/XLA's `neuron.py`.
///
/// If `NEURON_RT_VISIBLE_CORES` contains a list such as `4-7`, the list contains the cores of all processes of the
/// host. In each process, the plan replaces the list with the core of this process.
pub fn neuron() -> ProcessPlan {
    let core = [When::OneDevice];
    let many = [When::MultiProcess];
    ProcessPlan::new()
        .with_variable(
            EnvRule::override_value("NEURON_RT_VISIBLE_CORES", "{env:NEURON_RT_VISIBLE_CORES[local_rank]|local_rank}")
                .when(core)
                .reason("the core of this process"),
        )
        .with_variable(
            EnvRule::default_value("NEURON_RT_ROOT_COMM_ID", "{coordinator_host|'localhost'}:62182")
                .when(many)
                .reason("where the Neuron runtimes of all processes meet"),
        )
        .with_variable(
            EnvRule::override_value("NEURON_PJRT_PROCESS_INDEX", "{global_rank}")
                .when(many)
                .reason("rank of this process"),
        )
        .with_variable(
            EnvRule::default_value("NEURON_PJRT_WORLD_SIZE", "{world_size}")
                .when(many)
                .unless_set("NEURON_PJRT_PROCESSES_NUM_DEVICES")
                .reason("number of processes, each with one core"),
        )
        .with_chips([variable("NEURONCORE_NUM_DEVICES"), ChipProbe::Constant { count: 1 }])
}

/// Returns the plan for NVIDIA CUDA, which replaces `client_create_options`, `physical_chip_count` and
/// `requires_xla_coordinator` of PyTorch/XLA 2.8's CUDA plugin.
pub fn cuda() -> ProcessPlan {
    gpu("NVIDIA").with_chips([variable("GPU_NUM_DEVICES"), nodes("/dev/nvidia[0-9]*")])
}

/// Returns the plan for AMD ROCm, whose plugin accepts the same options as the CUDA plugin.
pub fn rocm() -> ProcessPlan {
    gpu("AMD").with_chips([variable("GPU_NUM_DEVICES"), nodes("/dev/dri/renderD[0-9]*")])
}

fn gpu(vendor: &str) -> ProcessPlan {
    let many = [When::MultiProcess];
    ProcessPlan::new()
        .with_option(
            OptionRule::new("visible_devices", OptionType::Int64List, "{local_rank}")
                .when([When::SharedHost, When::OneDevice])
                .reason(format!("the {vendor} device of this process")),
        )
        .with_option(
            OptionRule::new("node_id", OptionType::Int64, "{global_rank}").when(many).reason("rank of this process"),
        )
        .with_option(
            OptionRule::new("num_nodes", OptionType::Int64, "{world_size}").when(many).reason("number of processes"),
        )
        .with_coordinator(CoordinatorNeed::MultiProcess)
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
        let one = ProcessTopology::single().with_device_share(DeviceShare::One);
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
        let topology = ProcessTopology::new(at(3, 4), at(1, 2), at(1, 2)).unwrap();
        let topology = topology.with_coordinator("fe80::1".parse().unwrap());
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
        assert!(plan.steps().iter().all(|step| step.variable != "NEURON_PJRT_WORLD_SIZE"));
        let short = Environment::from([("NEURON_RT_VISIBLE_CORES", "4")]);
        let faults = neuron().resolve(&topology, &short).unwrap_err();
        expect![[r#"environment[0] NEURON_RT_VISIBLE_CORES: NEURON_RT_VISIBLE_CORES="4": the list has 1 items and lacks item 1, counted from 0; list one item for each process"#]]
            .assert_eq(&faults.to_string());
    }

    #[test]
    fn cuda_process_per_device() {
        let topology = ProcessTopology::new(at(3, 4), at(1, 2), at(1, 2)).unwrap();
        let topology = topology.with_coordinator("node0".parse().unwrap());
        let plan = cuda().resolve(&topology, &Environment::new()).unwrap();
        let options: Vec<String> =
            plan.create_options().iter().map(|option| format!("{}={}", option.name, option.value)).collect();
        assert_eq!(options, ["visible_devices=[1]", "node_id=3", "num_nodes=4"]);
        assert_eq!(plan.coordinator().unwrap().to_string(), "node0:8547");
        assert!(plan.steps().is_empty());
    }
}
