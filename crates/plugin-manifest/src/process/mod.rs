//! Processes, hosts and ranks: the position of a process in a job, and the set-up that a plugin needs for the process.
//!
//! [`ProcessTopology`] describes the position of the process. [`ProcessPlan`] describes, as data, the requirements of a
//! plugin for each process: environment variables, create options and a coordinator. [`ProcessPlan::resolve`] computes
//! the values of the plan for one process. The result is an [`EnvPlan`], which is also data. A program can inspect and
//! print this plan, and applies it before it loads the plugin's library.
//!
//! ```
//! use plugin_manifest::process::{EnvRule, Position, When};
//! use plugin_manifest::{Environment, ProcessPlan, ProcessTopology};
//!
//! let rule = EnvRule {
//!     when: vec![When::OneDevice],
//!     reason: "the device of this process".to_owned(),
//!     ..EnvRule::new("EXAMPLE_VISIBLE_DEVICES", "{local_rank}")
//! };
//! let plan = ProcessPlan { environment: vec![rule], ..ProcessPlan::default() };
//! // The second of two processes on the only host.
//! let place = Position::new(1, 2)?;
//! let topology = ProcessTopology::new(place, place, Position::SOLE)?;
//! let steps = plan.resolve(&topology, &Environment::new())?;
//! assert_eq!(steps.for_child().collect::<Vec<_>>(), [("EXAMPLE_VISIBLE_DEVICES", "1")]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Templates
//!
//! A value of a plan is text with slots in braces. A slot is a list of choices separated by `|`. The first choice whose
//! value is known replaces the slot:
//!
//! | choice | value |
//! |---|---|
//! | `local_rank`, `local_world_size`, `global_rank`, `world_size`, `host_index`, `host_count`, `host_in_slice`, `hosts_per_slice`, `slice_index`, `slice_count` | an integer of the topology |
//! | `host_in_slice*local_world_size+local_rank`, `8476+local_rank` | a sum of products of such integers and of constants |
//! | `'text'` | the quoted text |
//! | `env:NAME` | the value of a nonempty environment variable, or else the topology's attribute of this name |
//! | `env:NAME[local_rank]` | one element of the list in a variable, such as `0,4-7`, with an index from 0 |
//! | `coordinator`, `coordinator_host`, `coordinator_port` | the address of the coordinator |
//! | `hosts` | names of the slice's hosts, separated by commas |
//! | `process_addresses:8476` | `host:port` of each process of the slice; the ports on each host ascend from this port |
//! | `mesh_product:A,B` | axis-by-axis product of two meshes, such as `2,2,1`, in variables |
//!
//! `{{` and `}}` produce literal braces.
//!
//! [`EnvPlan`]: crate::EnvPlan
//! [`ProcessPlan`]: crate::ProcessPlan
//! [`ProcessPlan::resolve`]: crate::ProcessPlan::resolve
//! [`ProcessTopology`]: crate::ProcessTopology

mod address;
mod chips;
mod detect;
pub(crate) mod env_plan;
pub(crate) mod environment;
mod node_list;
mod partial_topology;
pub(crate) mod plan;
mod probe;
mod provenance;
mod rank;
mod resolve;
mod source;
mod template;
pub(crate) mod topology;
mod validate;

pub use address::Address;
pub use detect::{Detected, Explicit, SourceReport, SourceState, detect};
pub use env_plan::{Effect, EnvStep, PlannedOption};
pub use environment::{Host, ThisHost};
pub use plan::{Before, Coordinator, CoordinatorNeed, EnvRule, OptionRule, SetMode, When};
pub use probe::{ChipProbe, HostIndex};
pub use provenance::Source;
pub use rank::Position;
pub(crate) use template::is_variable;
pub use topology::DeviceShare;
pub(crate) use validate::not_a_variable;
