//! The variables of torchrun, which other launchers such as Kubeflow's training operator also set.

use super::input::{Input, Reading};
use crate::Faults;
use crate::process::partial_topology::Partial;

/// Variable with the coordinator's port. `MASTER_PORT` does not contain this port, because PyTorch's own store listens
/// there.
const PORT: &str = "XLA_COORDINATOR_PORT";

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    let names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"];
    if !(input.has("RANK") || input.has("LOCAL_RANK")) {
        let found = names.iter().chain(&["MASTER_ADDR"]).find(|name| input.has(name));
        return Ok(found.map_or(Reading::Absent, |name| Reading::Incomplete(format!("{name} is set without RANK"))));
    }
    let port = input.port(PORT)?;
    let coordinator = input.address("MASTER_ADDR")?.map(|mut known| {
        known.value = match port {
            Some(port) => known.value.with_port(port),
            None => known.value,
        };
        known
    });
    let local = |name: &str| {
        let remedy = "start the program with torchrun, or set RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE";
        if input.has("LOCAL_RANK") || input.has("LOCAL_WORLD_SIZE") { input.required(name, remedy) } else { Ok(None) }
    };
    let world = |name: &str| {
        let remedy = "start the program with torchrun, or set both RANK and WORLD_SIZE";
        if input.has("RANK") || input.has("WORLD_SIZE") { input.required(name, remedy) } else { Ok(None) }
    };
    // Unless both `GROUP_RANK` and `GROUP_WORLD_SIZE` are set, the host index and host count are derived later.
    Reading::present(Partial {
        global_rank: world("RANK")?,
        world_size: world("WORLD_SIZE")?,
        local_rank: local("LOCAL_RANK")?,
        local_world_size: local("LOCAL_WORLD_SIZE")?,
        host_index: if input.has("GROUP_WORLD_SIZE") { input.number("GROUP_RANK")? } else { None },
        host_count: if input.has("GROUP_RANK") { input.number("GROUP_WORLD_SIZE")? } else { None },
        coordinator,
        ..Partial::default()
    })
}
