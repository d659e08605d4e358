//! Process plans.

use expect_test::expect;

use crate::process::{DeviceShare, Position};
use crate::{Environment, ProcessPlan, ProcessTopology};

fn tpu() -> ProcessPlan {
    super::known("tpu").process
}

fn neuron() -> ProcessPlan {
    super::known("neuron").process
}

fn cuda() -> ProcessPlan {
    super::known("cuda").process
}

fn rocm() -> ProcessPlan {
    super::known("rocm").process
}

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
