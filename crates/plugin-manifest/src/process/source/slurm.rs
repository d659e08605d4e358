//! The variables of a Slurm job step, which `srun` starts.

use super::input::{Input, Reading, about, number, port_of_job};
use crate::process::address::Address;
use crate::process::node_list;
use crate::process::partial_topology::Partial;
use crate::process::provenance::Item;
use crate::{Fault, Faults};

const JOB: &str = "SLURM_JOB_ID";
const NODES: &str = "SLURM_STEP_NODELIST";
const RANK: &str = "SLURM_PROCID";
const SIZE: &str = "SLURM_NTASKS";
const LOCAL_RANK: &str = "SLURM_LOCALID";
const NODE: &str = "SLURM_NODEID";
const NODE_COUNT: &str = "SLURM_STEP_NUM_NODES";
const TASKS: &str = "SLURM_STEP_TASKS_PER_NODE";

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    let Some(job) = input.text(JOB) else { return Ok(Reading::Absent) };
    let Some(nodes) = input.text(NODES) else {
        return Ok(Reading::Incomplete(format!(
            "{JOB} is set without {NODES}, so this process belongs to a job but not to a job step; start it with srun"
        )));
    };
    let job: u64 = job.trim().parse().map_err(|_| {
        Fault::new(JOB, format!("{job:?} is not the number of a job; start the program with srun, or unset it"))
    })?;
    let hosts = node_list::expand(nodes).map_err(|problem| Fault::new(NODES, format!("{nodes:?}: {problem}")))?;
    let first = hosts.first().map_or("", String::as_str);
    let coordinator = Address::new(first, None).map_err(|faults| about(NODES, nodes, &faults))?;
    let remedy = "start the program with srun";
    let host_index = input.required(NODE, remedy)?;
    let count =
        u32::try_from(hosts.len()).map_err(|_| Fault::new(NODES, "the list names more than 4294967295 hosts"))?;
    if let Some(stated) = input.number(NODE_COUNT)?
        && stated.value != count
    {
        let message = format!(
            "the value is {}, but {NODES}={nodes:?} names {count} nodes; unset the variable that is wrong",
            stated.value
        );
        return Err(Fault::new(NODE_COUNT, message).into());
    }
    let tasks = input.text(TASKS).map(|tasks| tasks_of(tasks, host_index.value)).transpose()?;
    let numbers = [(Item::GlobalRank, RANK), (Item::WorldSize, SIZE), (Item::LocalRank, LOCAL_RANK)];
    let partial = input.all(&numbers, remedy)?.with([
        (Item::LocalWorldSize, tasks.map(|tasks| input.known(TASKS, tasks))),
        (Item::HostIndex, Some(host_index)),
        (Item::HostCount, Some(input.known(NODES, count))),
    ]);
    let coordinator = Some(input.known(NODES, coordinator.with_port(port_of_job(job))));
    Ok(Reading::Present(Partial { coordinator, hosts: Some(input.known(NODES, hosts)), ..partial }))
}

/// Returns the number of tasks on the node with the index `node`. `text` is the list for all nodes, such as `4(x2),2`.
fn tasks_of(text: &str, node: u32) -> Result<u32, Faults> {
    let mut passed = 0u64;
    for group in text.split(',') {
        let (tasks, times) = match group.trim().split_once("(x") {
            None => (group.trim(), "1"),
            Some((tasks, times)) => {
                let times = times.strip_suffix(')').ok_or_else(|| {
                    Fault::new(
                        TASKS,
                        format!("{group:?} in {text:?} lacks its closing bracket; write a list such as 4(x2),2"),
                    )
                })?;
                (tasks, times)
            }
        };
        let tasks = number(TASKS, tasks)?;
        passed += u64::from(number(TASKS, times)?);
        if u64::from(node) < passed {
            return Ok(tasks);
        }
    }
    Err(Fault::new(TASKS, format!("{text:?} lists {passed} nodes, but {NODE} is {node}; correct one of the two"))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_each_node() {
        for (text, expected) in [("4", &[4][..]), ("4(x2),2", &[4, 4, 2]), ("1,3(x2), 2", &[1, 3, 3, 2])] {
            for (node, tasks) in (0u32..).zip(expected) {
                assert_eq!(tasks_of(text, node).unwrap(), *tasks, "{text} {node}");
            }
            assert!(tasks_of(text, u32::try_from(expected.len()).unwrap()).is_err());
        }
        for text in ["", "x", "4(x2", "4(x)", "-1"] {
            assert!(tasks_of(text, 0).is_err(), "{text}");
        }
    }
}
