//! Detects the topology of this process: its ranks and hosts.

use std::fmt;

use serde::Serialize;

use super::address::Address;
use super::environment::{Environment, Host};
use super::partial_topology::{Attributed, Partial};
use super::provenance::{Item, Origin, Source};
use super::source::{self, Input, Reading};
use super::topology::{DeviceShare, ProcessTopology};
use crate::Faults;

/// Topology values that the program itself passes. They take precedence over all other sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "ProcessTopology documents the values of the same names")]
pub struct Explicit {
    pub global_rank: Option<u32>,
    pub world_size: Option<u32>,
    pub local_rank: Option<u32>,
    pub local_world_size: Option<u32>,
    pub host_index: Option<u32>,
    pub host_count: Option<u32>,
    pub slice_index: Option<u32>,
    pub slice_count: Option<u32>,
    pub coordinator: Option<Address>,
    pub device_share: Option<DeviceShare>,
}

impl Explicit {
    fn partial(&self) -> Partial {
        let origin = || Origin::of(Source::Explicit);
        let numbers = [
            (Item::GlobalRank, self.global_rank),
            (Item::WorldSize, self.world_size),
            (Item::LocalRank, self.local_rank),
            (Item::LocalWorldSize, self.local_world_size),
            (Item::HostIndex, self.host_index),
            (Item::HostCount, self.host_count),
            (Item::SliceIndex, self.slice_index),
            (Item::SliceCount, self.slice_count),
        ];
        let coordinator = self.coordinator.clone().map(|value| Attributed::new(value, origin()));
        Partial { coordinator, ..Partial::default() }
            .with(numbers.map(|(item, value)| (item, value.map(|value| Attributed::new(value, origin())))))
    }
}

/// The state of a source after detection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SourceState {
    /// Values of the source were used.
    Used,
    /// The source is present or malformed, but another launcher takes precedence.
    Passed,
    /// The source is partly present, but it does not describe this process. The string is the reason.
    Incomplete(String),
    /// The source is not present.
    Absent,
    /// The source was not queried, because the query requires the network and another launcher takes precedence.
    NotAsked,
}

/// A source of topology values, and its state after detection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceReport {
    /// The source.
    pub source: Source,
    /// State of the source after detection.
    pub state: SourceState,
}

impl fmt::Display for SourceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:19} ", self.source.name())?;
        match &self.state {
            SourceState::Used => f.write_str("used"),
            SourceState::Passed => f.write_str("present, but an earlier source is used"),
            SourceState::Incomplete(why) => write!(f, "incomplete: {why}"),
            SourceState::Absent => f.write_str("absent"),
            SourceState::NotAsked => f.write_str("not queried, because an earlier source is used"),
        }
    }
}

/// The topology of this process, and the states of the sources from which it was detected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Detected {
    /// The topology of this process.
    pub topology: ProcessTopology,
    /// All sources, in order of precedence.
    pub sources: Vec<SourceReport>,
}

type Read = fn(&Input<'_>) -> Result<Reading, Faults>;

/// The sources in order of precedence, and whether each of them is a launcher. Only the first launcher that is present
/// is used. The values of the other sources are merged, because each of them provides only some values of a topology.
const SOURCES: [(Source, Read, bool); 9] = [
    (Source::Jax, source::jax::read, false),
    (Source::PjrtLocal, source::pjrt_local::read, false),
    (Source::Torchrun, source::torchrun::read, true),
    (Source::OpenMpi, source::open_mpi::read, true),
    (Source::Slurm, source::slurm::read, true),
    (Source::TpuVariables, source::tpu_variables::read, true),
    (Source::TpuMetadata, source::tpu_metadata::read, true),
    (Source::Kubernetes, source::kubernetes::read, true),
    (Source::Neuron, source::neuron::read, true),
];

/// Detects the topology of this process, first from the values in `explicit`, which the program passes, and then from
/// the environment. Without `host`, reads only the variables in `environment`. If `host` is given, also reads its files
/// and metadata.
///
/// The order of precedence is JAX's: explicit values, then JAX's own variables, then the first launcher that is present
/// among Open MPI, Slurm, TPU variables, TPU metadata and Kubernetes. Detection also reads three sources that JAX does
/// not read:
///
/// - `PJRT_LOCAL_PROCESS_RANK` and `PJRT_LOCAL_PROCESS_COUNT` come after JAX's variables. They describe only the
///   position of the process on its host.
/// - torchrun comes before the other launchers. It can run inside a job of another launcher, and then only torchrun
///   describes the individual process.
/// - Neuron's variables come after the other launchers, because a process plan can also set them.
///
/// A value that none of these sources provides is derived from the other values. If no source describes how processes
/// share hosts, each process has its own host. If no source describes the processes, this process is the only one.
///
/// # Errors
///
/// Returns an error if values of the used sources are malformed or contradictory, or if a missing value cannot be
/// derived. Each fault contains the variable, its value and the remedy. Malformed values of unused sources are ignored.
pub fn detect(environment: &Environment, host: Option<&dyn Host>, explicit: &Explicit) -> Result<Detected, Faults> {
    let input = |source| Input { environment, host, source };
    let mut known = explicit.partial();
    let state = if known == Partial::default() { SourceState::Absent } else { SourceState::Used };
    let mut sources = vec![SourceReport { source: Source::Explicit, state }];
    let mut found = false;
    for (source, read, launcher) in SOURCES {
        let state = if found && source == Source::TpuMetadata {
            SourceState::NotAsked
        } else {
            match read(&input(source)) {
                // Another launcher is used, so the faults of this source do not matter.
                Ok(Reading::Present(_)) | Err(_) if found => SourceState::Passed,
                Err(faults) => return Err(faults),
                Ok(Reading::Absent) => SourceState::Absent,
                Ok(Reading::Incomplete(why)) => SourceState::Incomplete(why),
                Ok(Reading::Present(mut partial)) => {
                    found = launcher;
                    // This variable replaces the port of a launcher's coordinator.
                    if launcher
                        && let Some(port) = input(Source::Jax).port(source::jax::PORT)?
                        && let Some(coordinator) = &mut partial.coordinator
                    {
                        coordinator.value = coordinator.value.clone().with_port(port);
                    }
                    known.or(partial);
                    SourceState::Used
                }
            }
        };
        sources.push(SourceReport { source, state });
    }
    let mut topology = known.complete()?;
    topology.device_share = explicit.device_share.unwrap_or(topology.device_share);
    Ok(Detected { topology, sources })
}

impl ProcessTopology {
    /// Detects the topology of this process from environment variables alone. [`detect`](crate::process::detect)
    /// supports further sources.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`detect`](crate::process::detect).
    pub fn detect(environment: &Environment) -> Result<Self, Faults> {
        detect(environment, None, &Explicit::default()).map(|detected| detected.topology)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// A host with fictitious contents, for tests.
    #[derive(Default)]
    struct Made {
        hosts_file: Option<&'static str>,
        metadata: &'static [(&'static str, &'static str)],
    }

    impl Host for Made {
        fn file(&self, path: &str) -> Option<String> {
            (path == "/etc/hosts").then_some(self.hosts_file)?.map(str::to_owned)
        }

        fn metadata(&self, attribute: &str) -> Option<String> {
            self.metadata.iter().find(|(name, _)| *name == attribute).map(|(_, value)| (*value).to_owned())
        }
    }

    fn detect(variables: &[(&str, &str)]) -> Result<Detected, Faults> {
        super::detect(&variables.iter().copied().collect(), None, &Explicit::default())
    }

    fn detect_on(host: &Made, environment: &Environment) -> Result<Detected, Faults> {
        super::detect(environment, Some(host), &Explicit::default())
    }

    /// Formats a topology as `global local host coordinator`, such as `3/4 1/2 1/2 node0:8547`.
    fn shown(topology: &ProcessTopology) -> String {
        let coordinator = topology.coordinator.as_ref().map_or("-".to_owned(), Address::to_string);
        format!(
            "{}/{} {}/{} {}/{} {coordinator}",
            topology.global_rank(),
            topology.world_size(),
            topology.local_rank(),
            topology.local_world_size(),
            topology.host_index(),
            topology.host_count()
        )
    }

    #[track_caller]
    fn found(variables: &[(&str, &str)], expected: &str) -> Detected {
        let detected = detect(variables).unwrap();
        assert_eq!(shown(&detected.topology), expected);
        detected
    }

    /// Checks that detection reports exactly one fault, with the expected message, for the field `field`.
    #[track_caller]
    fn refused(variables: &[(&str, &str)], field: &str, expected: Expect) {
        let faults = detect(variables).unwrap_err();
        let fields: Vec<&str> = faults.all().iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(fields, [field], "{faults}");
        expected.assert_eq(&faults.to_string());
    }

    const TORCHRUN: &[(&str, &str)] = &[
        ("RANK", "3"),
        ("WORLD_SIZE", "4"),
        ("LOCAL_RANK", "1"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("GROUP_RANK", "1"),
        ("GROUP_WORLD_SIZE", "2"),
        ("MASTER_ADDR", "node0"),
        ("MASTER_PORT", "29500"),
    ];

    const SLURM: &[(&str, &str)] = &[
        ("SLURM_JOB_ID", "4097"),
        ("SLURM_STEP_NODELIST", "host[01-02,7]"),
        ("SLURM_STEP_NUM_NODES", "3"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x2),1"),
        ("SLURM_NTASKS", "5"),
        ("SLURM_PROCID", "2"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NODEID", "1"),
    ];

    fn and<'a>(base: &[(&'a str, &'a str)], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        [base, more].concat()
    }

    fn without<'a>(base: &[(&'a str, &'a str)], name: &str) -> Vec<(&'a str, &'a str)> {
        base.iter().copied().filter(|(known, _)| *known != name).collect()
    }

    #[test]
    fn no_variables_single_process() {
        let detected = found(&[], "0/1 0/1 0/1 -");
        assert_eq!(detected.topology, ProcessTopology::single());
        assert!(detected.sources.iter().all(|report| report.state == SourceState::Absent));
        assert_eq!(detected.sources.len(), 10);
    }

    #[test]
    fn torchrun() {
        let detected = found(TORCHRUN, "3/4 1/2 1/2 node0");
        let provenance = detected.topology.provenance();
        assert_eq!(provenance.of(Item::GlobalRank).unwrap().to_string(), "torchrun RANK");
        assert_eq!(provenance.of(Item::SliceIndex).unwrap().source, Source::Assumed);
        found(&and(TORCHRUN, &[("XLA_COORDINATOR_PORT", "1234")]), "3/4 1/2 1/2 node0:1234");
        // The host index and the host count are derived from the ranks.
        let hosts = without(&without(TORCHRUN, "GROUP_RANK"), "GROUP_WORLD_SIZE");
        let detected = found(&hosts, "3/4 1/2 1/2 node0");
        assert_eq!(detected.topology.provenance().of(Item::HostIndex).unwrap().source, Source::Derived);
        // Without a local rank, each process has its own host, as in Kubernetes pods.
        found(&[("RANK", "2"), ("WORLD_SIZE", "3"), ("MASTER_ADDR", "a")], "2/3 0/1 2/3 a");
        found(&[("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")], "1/2 1/2 0/1 -");
        assert_eq!(detect(&[("WORLD_SIZE", "3")]).unwrap().topology, ProcessTopology::single());
        refused(
            &without(TORCHRUN, "WORLD_SIZE"),
            "WORLD_SIZE",
            expect![
                "WORLD_SIZE: the variable is not set, but the source torchrun needs it; start the program with torchrun, or set both RANK and WORLD_SIZE"
            ],
        );
        refused(
            &and(TORCHRUN, &[("RANK", "three")]),
            "RANK",
            expect![[r#"RANK: "three" is not a whole number from 0 to 4294967295; correct it or unset it"#]],
        );
        refused(
            &and(TORCHRUN, &[("RANK", "-1")]),
            "RANK",
            expect![[r#"RANK: "-1" is not a whole number from 0 to 4294967295; correct it or unset it"#]],
        );
        refused(
            &and(TORCHRUN, &[("RANK", "4")]),
            "RANK",
            expect![
                "RANK: the global rank is 4 (torchrun RANK) and the world size is 4 (torchrun WORLD_SIZE); a rank must be below its count, because the first is 0"
            ],
        );
        refused(
            &and(TORCHRUN, &[("WORLD_SIZE", "0")]),
            "WORLD_SIZE",
            expect!["WORLD_SIZE: the world size is 0, but must be at least 1"],
        );
        refused(
            &and(TORCHRUN, &[("LOCAL_WORLD_SIZE", "8")]),
            "LOCAL_WORLD_SIZE",
            expect![
                "LOCAL_WORLD_SIZE: this host has 8 processes, but all hosts together have 4; correct the local world size or the world size"
            ],
        );
        refused(
            &and(TORCHRUN, &[("MASTER_ADDR", "a b")]),
            "MASTER_ADDR",
            expect![[
                r#"MASTER_ADDR: "a b": "a b" is not a valid host; write a name such as node01, or an address such as 10.0.0.1 or [fe80::1]"#
            ]],
        );
        refused(
            &and(TORCHRUN, &[("XLA_COORDINATOR_PORT", "0")]),
            "XLA_COORDINATOR_PORT",
            expect![[r#"XLA_COORDINATOR_PORT: "0" is not a valid port; set it to a port from 1 to 65535"#]],
        );
        refused(
            &[("RANK", "2"), ("WORLD_SIZE", "3"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "2")],
            "LOCAL_RANK",
            expect![
                "LOCAL_RANK: 3 is not a multiple of the 2 processes of this host, so the number of hosts is unknown; set GROUP_WORLD_SIZE, or the host count"
            ],
        );
    }

    #[test]
    fn open_mpi() {
        let base = &[
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        found(base, "2/4 0/2 1/2 -");
        let uri = |uri| and(base, &[("OMPI_MCA_orte_hnp_uri", uri)]);
        // The port is 61440 + 1184, because 1531576320 / 4096 % 4096 = 1184.
        found(&uri("1531576320.0;tcp://10.96.0.1,10.148.0.1:34911"), "2/4 0/2 1/2 10.96.0.1:62624");
        found(&uri("1314521088.0;tcp6://[fe80::b9b:1,2620:10d::2]:43370"), "2/4 0/2 1/2 [fe80::b9b:1]:62880");
        refused(
            &uri("1.0;usock"),
            "OMPI_MCA_orte_hnp_uri",
            expect![[
                r#"OMPI_MCA_orte_hnp_uri: "1.0;usock" has no tcp address; set JAX_COORDINATOR_ADDRESS to host:port of rank 0"#
            ]],
        );
        // Ranks are assigned to the hosts round robin.
        let turns = and(base, &[("OMPI_COMM_WORLD_LOCAL_RANK", "1")]);
        found(&turns, "2/4 1/2 0/2 -");
        refused(
            &without(base, "OMPI_COMM_WORLD_LOCAL_SIZE"),
            "OMPI_COMM_WORLD_LOCAL_SIZE",
            expect![
                "OMPI_COMM_WORLD_LOCAL_SIZE: the variable is not set, but the source Open MPI needs it; start the program with mpirun"
            ],
        );
    }

    #[test]
    fn slurm() {
        // The port is 61440 + 1, because 4097 % 4096 = 1.
        let detected = found(SLURM, "2/5 0/2 1/3 host01:61441");
        assert_eq!(detected.topology.hosts(), ["host01", "host02", "host7"]);
        found(&and(SLURM, &[("JAX_COORDINATOR_PORT", "5")]), "2/5 0/2 1/3 host01:5");
        let last = and(SLURM, &[("SLURM_PROCID", "4"), ("SLURM_NODEID", "2")]);
        found(&last, "4/5 0/1 2/3 host01:61441");
        let even = and(&without(SLURM, "SLURM_STEP_TASKS_PER_NODE"), &[("SLURM_NTASKS", "6")]);
        found(&even, "2/6 0/2 1/3 host01:61441");
        refused(
            &without(SLURM, "SLURM_STEP_TASKS_PER_NODE"),
            "SLURM_LOCALID",
            expect![
                "SLURM_LOCALID: the number of processes on this host is unknown; set LOCAL_WORLD_SIZE, or the local world size"
            ],
        );
        refused(
            &and(SLURM, &[("SLURM_STEP_NODELIST", "host[1")]),
            "SLURM_STEP_NODELIST",
            expect![[r#"SLURM_STEP_NODELIST: "host[1": the closing bracket is missing"#]],
        );
        refused(
            &and(SLURM, &[("SLURM_STEP_NUM_NODES", "2")]),
            "SLURM_STEP_NUM_NODES",
            expect![[
                r#"SLURM_STEP_NUM_NODES: the value is 2, but SLURM_STEP_NODELIST="host[01-02,7]" names 3 nodes; unset the variable that is wrong"#
            ]],
        );
        refused(
            &and(SLURM, &[("SLURM_NODEID", "3")]),
            "SLURM_STEP_TASKS_PER_NODE",
            expect![[
                r#"SLURM_STEP_TASKS_PER_NODE: "2(x2),1" lists 3 nodes, but SLURM_NODEID is 3; correct one of the two"#
            ]],
        );
        let shell = detect(&[("SLURM_JOB_ID", "1"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]).unwrap();
        assert_eq!(shell.topology, ProcessTopology::single());
        let report = shell.sources.iter().find(|report| report.source == Source::Slurm).unwrap();
        assert!(matches!(&report.state, SourceState::Incomplete(why) if why.contains("srun")), "{report}");
    }

    #[test]
    fn tpu_variables() {
        let base = &[("TPU_WORKER_ID", "1"), ("TPU_WORKER_HOSTNAMES", "10.0.0.1,10.0.0.2")];
        let detected = found(base, "1/2 0/1 1/2 10.0.0.1:8482");
        assert_eq!(detected.topology.hosts(), ["10.0.0.1", "10.0.0.2"]);
        found(&[("TPU_WORKER_HOSTNAMES", "localhost")], "0/1 0/1 0/1 localhost:8482");
        let spawned = and(base, &[("PJRT_LOCAL_PROCESS_RANK", "2"), ("PJRT_LOCAL_PROCESS_COUNT", "4")]);
        found(&spawned, "6/8 2/4 1/2 10.0.0.1:8482");
        let slices = and(
            base,
            &[
                ("MEGASCALE_COORDINATOR_ADDRESS", "10.1.0.1:8080"),
                ("MEGASCALE_NUM_SLICES", "3"),
                ("MEGASCALE_SLICE_ID", "2"),
            ],
        );
        let detected = found(&slices, "5/6 0/1 5/6 10.1.0.1:8482");
        let slice = detected.topology.slice();
        assert_eq!((slice.index(), slice.count(), detected.topology.host_in_slice()), (2, 3, 1));
        refused(
            &without(&slices, "MEGASCALE_SLICE_ID"),
            "MEGASCALE_SLICE_ID",
            expect![
                "MEGASCALE_SLICE_ID: the variable is not set, but the source TPU variables needs it; set it together with MEGASCALE_COORDINATOR_ADDRESS"
            ],
        );
        refused(
            &and(base, &[("TPU_WORKER_ID", "2")]),
            "TPU_WORKER_ID",
            expect!["TPU_WORKER_ID: worker 2 does not exist, because TPU_WORKER_HOSTNAMES lists 2; the first is 0"],
        );
        refused(
            &without(base, "TPU_WORKER_ID"),
            "TPU_WORKER_ID",
            expect![
                "TPU_WORKER_ID: the variable is not set, but the source TPU variables needs it; set it to the index of this host in TPU_WORKER_HOSTNAMES"
            ],
        );
        refused(
            &and(base, &[("TPU_WORKER_HOSTNAMES", "a,")]),
            "TPU_WORKER_HOSTNAMES",
            expect![[r#"TPU_WORKER_HOSTNAMES: "a,": the name of worker 1 is empty"#]],
        );
        let configured = [("CLOUD_TPU_TASK_ID", "3"), ("TPU_PROCESS_ADDRESSES", "a:8476,a:8477,b:8476,b:8477")];
        found(&configured, "3/4 0/1 3/4 a:8482");
    }

    #[test]
    fn tpu_metadata() {
        const METADATA: &[(&str, &str)] = &[
            ("agent-worker-number", "1"),
            ("worker-network-endpoints", "a:1:10.0.0.1,b:2:10.0.0.2"),
            (
                "tpu-env",
                "ACCELERATOR_TYPE: 'v4-16'\nTPU_CHIPS_PER_PROCESS_BOUNDS: '2,2,1'\nTPU_PROCESS_BOUNDS: '1,1,2'\n",
            ),
        ];
        let host = Made { metadata: METADATA, ..Made::default() };
        let empty = Environment::new();
        let detected = detect_on(&host, &empty).unwrap();
        assert_eq!(shown(&detected.topology), "1/2 0/1 1/2 10.0.0.1:8482");
        assert_eq!(detected.topology.attributes["TPU_HOST_BOUNDS"], "1,1,2");
        assert_eq!(
            detected.topology.provenance().of(Item::HostIndex).unwrap().to_string(),
            "TPU metadata agent-worker-number"
        );
        // The plan uses the metadata of the slice.
        let four = Environment::from([("PJRT_LOCAL_PROCESS_RANK", "3"), ("PJRT_LOCAL_PROCESS_COUNT", "4")]);
        let topology = detect_on(&host, &four).unwrap().topology;
        let plan = crate::builtin::find("tpu").unwrap().process.resolve(&topology, &four).unwrap();
        assert!(plan.for_child().any(|step| step == ("TPU_PROCESS_BOUNDS", "2,2,2")), "{plan}");
        assert!(plan.for_child().any(|step| step == ("CLOUD_TPU_TASK_ID", "7")), "{plan}");
        let seventh = Made {
            metadata: &[
                ("agent-worker-number", "0"),
                ("worker-network-endpoints", "a:1:10.0.0.1"),
                ("tpu-env", "ACCELERATOR_TYPE: 'tpu7x-8'\nCHIPS_PER_HOST_BOUNDS: '2,2,1'\nHOST_BOUNDS: '1,1,1'"),
            ],
            ..Made::default()
        };
        let topology = detect_on(&seventh, &four).unwrap().topology;
        let plan = crate::builtin::find("tpu").unwrap().process.resolve(&topology, &four).unwrap();
        assert!(plan.for_child().any(|step| step == ("TPU_PROCESS_BOUNDS", "2,2,1,2")), "{plan}");
        let skip = Environment::from([("TPU_SKIP_MDS_QUERY", "1")]);
        assert_eq!(detect_on(&host, &skip).unwrap().topology, ProcessTopology::single());
        let broken =
            Made { metadata: &[("agent-worker-number", "0"), ("worker-network-endpoints", "a")], ..Made::default() };
        let faults = detect_on(&broken, &empty).unwrap_err();
        assert_eq!(faults.all()[0].field, "worker-network-endpoints", "{faults}");
        expect![[
            r#"worker-network-endpoints: "a" does not have the form name:id:address,…; set TPU_WORKER_HOSTNAMES"#
        ]]
        .assert_eq(&faults.to_string());
    }

    #[test]
    fn kubernetes() {
        let pod: &[(&str, &str)] = &[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("HOSTNAME", "train-3")];
        assert_eq!(detect(pod).unwrap().topology, ProcessTopology::single());
        let indexed = and(pod, &[("JOB_COMPLETION_INDEX", "3")]);
        refused(
            &indexed,
            "WORLD_SIZE",
            expect![
                "WORLD_SIZE: the variable is not set, but the source Kubernetes needs it; JOB_COMPLETION_INDEX is 3, and only the API server knows the number of pods of the Job; set WORLD_SIZE in the pod to the Job's parallelism, or to 1 if each pod works alone"
            ],
        );
        let sized = and(&indexed, &[("WORLD_SIZE", "4")]);
        refused(
            &sized,
            "JAX_COORDINATOR_ADDRESS",
            expect![
                "JAX_COORDINATOR_ADDRESS: the variable is not set, and /etc/hosts contains no name of this pod that other pods can resolve; set it to host:55527 of the pod with index 0. Such a name needs a headless service, which the pods name as their `subdomain`"
            ],
        );
        found(&and(&sized, &[("JAX_COORDINATOR_ADDRESS", "train-0.w:1")]), "3/4 0/1 3/4 train-0.w:1");
        found(&and(&sized, &[("MASTER_ADDR", "train-0.w")]), "3/4 0/1 3/4 train-0.w:55527");
        found(&and(&indexed, &[("WORLD_SIZE", "1")]), "0/1 0/1 0/1 -");
        let host = Made {
            hosts_file: Some("127.0.0.1 localhost\n# train-3.no\n10.1.2.3\ttrain-3.workers.default.svc\ttrain-3\n"),
            ..Made::default()
        };
        let detected = detect_on(&host, &sized.iter().copied().collect()).unwrap();
        assert_eq!(shown(&detected.topology), "3/4 0/1 3/4 train-0.workers.default.svc:55527");
    }

    #[test]
    fn neuron() {
        let base = &[("NEURON_PJRT_PROCESS_INDEX", "1"), ("NEURON_RT_ROOT_COMM_ID", "10.0.0.1:62182")];
        found(&and(base, &[("NEURON_PJRT_WORLD_SIZE", "2")]), "1/2 0/1 1/2 10.0.0.1");
        found(&and(base, &[("NEURON_PJRT_PROCESSES_NUM_DEVICES", "32,32,32")]), "1/3 0/1 1/3 10.0.0.1");
        refused(
            base,
            "NEURON_PJRT_WORLD_SIZE",
            expect![
                "NEURON_PJRT_WORLD_SIZE: the variable is not set, but the source Neuron needs it; set it or NEURON_PJRT_PROCESSES_NUM_DEVICES together with NEURON_PJRT_PROCESS_INDEX"
            ],
        );
    }

    #[test]
    fn documented_order() {
        let state = |detected: &Detected, source| {
            detected.sources.iter().find(|report| report.source == source).unwrap().state.clone()
        };
        // Here torchrun runs within a Slurm job step. Malformed values of Slurm, which is not used, are not an error.
        let detected = found(&and(TORCHRUN, SLURM), "3/4 1/2 1/2 node0");
        assert_eq!(state(&detected, Source::Torchrun), SourceState::Used);
        assert_eq!(state(&detected, Source::Slurm), SourceState::Passed);
        found(&[TORCHRUN, SLURM, &[("SLURM_PROCID", "x")]].concat(), "3/4 1/2 1/2 node0");
        let jax = and(TORCHRUN, &[("JAX_COORDINATOR_ADDRESS", "other:9"), ("JAX_COORDINATOR_PORT", "7")]);
        let detected = found(&jax, "3/4 1/2 1/2 other:9");
        assert_eq!(state(&detected, Source::Jax), SourceState::Used);
        // Explicit values take precedence, and the launcher provides the other values.
        let environment: Environment = TORCHRUN.iter().copied().collect();
        let explicit = Explicit {
            coordinator: Some("mine:1".parse().unwrap()),
            device_share: Some(DeviceShare::All),
            ..Explicit::default()
        };
        let detected = super::detect(&environment, None, &explicit).unwrap();
        assert_eq!(shown(&detected.topology), "3/4 1/2 1/2 mine:1");
        assert_eq!(detected.topology.device_share, DeviceShare::All);
        assert_eq!(state(&detected, Source::Explicit), SourceState::Used);
        let explicit = Explicit { global_rank: Some(9), ..Explicit::default() };
        let error = super::detect(&environment, None, &explicit).unwrap_err();
        assert_eq!(error.all()[0].field, "process topology (explicit)", "{error}");
    }

    #[test]
    fn completes_explicit_values() {
        let empty = Environment::new();
        let run = |explicit: Explicit| super::detect(&empty, None, &explicit);
        let two = Explicit { global_rank: Some(1), world_size: Some(2), ..Explicit::default() };
        assert_eq!(shown(&run(two.clone()).unwrap().topology), "1/2 0/1 1/2 -");
        let one_host = Explicit { host_count: Some(1), ..two };
        assert_eq!(shown(&run(one_host).unwrap().topology), "1/2 1/2 0/1 -");
        for explicit in [
            Explicit { global_rank: Some(1), ..Explicit::default() },
            Explicit { world_size: Some(2), ..Explicit::default() },
            Explicit { local_rank: Some(1), ..Explicit::default() },
            Explicit { host_index: Some(1), ..Explicit::default() },
            Explicit { host_count: Some(0), ..Explicit::default() },
        ] {
            assert_eq!(run(explicit).unwrap_err().all().len(), 1);
        }
    }

    #[test]
    fn table_of_values_and_origins() {
        let detected = found(TORCHRUN, "3/4 1/2 1/2 node0");
        expect![[r#"
            global rank       3      torchrun RANK
            world size        4      torchrun WORLD_SIZE
            local rank        1      torchrun LOCAL_RANK
            local world size  2      torchrun LOCAL_WORLD_SIZE
            host index        1      torchrun GROUP_RANK
            host count        2      torchrun GROUP_WORLD_SIZE
            slice index       0      assumed
            slice count       1      assumed
            coordinator       node0  torchrun MASTER_ADDR"#]]
        .assert_eq(&detected.topology.to_string());
        let json = serde_json::to_value(&detected).unwrap();
        assert_eq!(json["topology"]["provenance"]["global_rank"]["name"], "RANK");
        assert_eq!(json["sources"][3]["state"], "used");
    }
}
