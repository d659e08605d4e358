//! Compares the ring with the tree for an all-reduce of floats in host memory, and prints the times with the choice of
//! `Schedule::all_reduce`. Copies and reductions end before their call returns.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use device_plugin::Result;
use device_runtime::collectives::{Arrays, Member, Place, Schedule, Transport};

const MEMBERS: [usize; 5] = [2, 3, 4, 6, 8];
/// Sizes of the arrays in bytes.
const SIZES: [usize; 9] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// The least time for which a schedule is repeated.
const LEAST: Duration = Duration::from_millis(150);

type Memory = Arc<Mutex<Vec<f32>>>;

/// The memory of the devices. The ranges of a schedule are whole elements.
struct Host;

impl Transport for Host {
    type Memory = Memory;
    type Completion = ();

    fn copy(&mut self, from: Place<'_, Memory>, to: Place<'_, Memory>, bytes: usize, _: &[()]) -> Result<()> {
        let [first, target, count] = [from.offset, to.offset, bytes].map(|bytes| bytes / 4);
        let source = from.memory.lock().unwrap();
        to.memory.lock().unwrap()[target..][..count].copy_from_slice(&source[first..][..count]);
        Ok(())
    }

    fn reduce(&mut self, from: Place<'_, Memory>, into: Place<'_, Memory>, bytes: usize, _: &[()]) -> Result<()> {
        let [first, target, count] = [from.offset, into.offset, bytes].map(|bytes| bytes / 4);
        let source = from.memory.lock().unwrap();
        let mut sums = into.memory.lock().unwrap();
        sums[target..][..count].iter_mut().zip(&source[first..][..count]).for_each(|(sum, value)| *sum += value);
        Ok(())
    }
}

/// Runs a schedule several times in one launch. Returns the shortest time of a run.
fn time(schedule: &Schedule, elements: usize) -> Duration {
    let memory = |elements: usize| Arc::new(Mutex::new(vec![1.0; elements]));
    let members = schedule.members();
    let group: Vec<usize> = (0..members).collect();
    let part = |member: Member| {
        let arrays = Arrays {
            input: memory(elements),
            output: memory(elements),
            scratch: Some(memory(schedule.scratch_bytes() / 4)),
            ready: Vec::new(),
        };
        let (begun, mut best) = (Instant::now(), Duration::MAX);
        for round in 0.. {
            // All members repeat the schedule as often as the first one.
            let goes_on = member.exchange(1, &group, round < 3 || begun.elapsed() < LEAST).unwrap()[0];
            if !goes_on {
                break;
            }
            let start = Instant::now();
            member.run(0, &group, schedule, arrays.clone(), &mut Host).unwrap();
            best = best.min(start.elapsed());
        }
        member.finish();
        best
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = Member::create(members).into_iter().map(|member| scope.spawn(|| part(member))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    })
}

fn main() {
    println!("| members | bytes | ring, µs | tree, µs | tree / ring | chosen |");
    println!("|--:|--:|--:|--:|--:|---|");
    for members in MEMBERS {
        for bytes in SIZES {
            let elements = bytes / 4;
            let ring = Schedule::ring_all_reduce(members, elements, 4).unwrap();
            let tree = Schedule::tree_all_reduce(members, elements, 4).unwrap();
            let chosen = Schedule::all_reduce(members, elements, 4).unwrap();
            let [ring_time, tree_time] = [&ring, &tree].map(|schedule| time(schedule, elements).as_secs_f64() * 1e6);
            let ratio = tree_time / ring_time;
            let chosen = if chosen == ring { "ring" } else { "tree" };
            println!("| {members} | {bytes} | {ring_time:.0} | {tree_time:.0} | {ratio:.2} | {chosen} |");
        }
    }
}
