//! The result of each algorithm, compared with a plain definition, and the bytes that the members receive.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use device_runtime::collectives::Schedule;

use crate::queue::{Done, Log, Queue, add, arrays};
use crate::succeed;

/// The input of a member: different bytes at each position.
fn input(rank: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from((rank * 89 + at * 31 + at / 7 + 1) % 251).unwrap()).collect()
}

/// Runs a schedule. `inputs` contains the input of each member, and `outputs` the size of each output. Returns the
/// outputs, and the number of bytes that each member received.
fn outputs(
    schedule: Schedule,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<usize>,
    element: usize,
) -> (Vec<Vec<u8>>, Vec<usize>) {
    let (count, log) = (inputs.len(), Log::new(inputs.len()));
    assert_eq!(schedule.members(), count);
    // The ranks are in another order than the ids.
    let group: Vec<usize> = (0..count).rev().collect();
    let of_members = Arc::clone(&log);
    let mut results = succeed(count, move |member| {
        let rank = count - 1 - member.id();
        let mut queue = Queue::new(&member, count, element, &of_members);
        let arrays = arrays(&member, inputs[rank].clone(), outputs[rank], &schedule);
        let (input, output) = (arrays.input.clone(), arrays.output.clone());
        let completions = member.run(5, &group, &schedule, arrays, &mut queue)?;
        member.finish();
        completions.iter().for_each(Done::wait);
        assert_eq!(*input.bytes.lock().unwrap(), inputs[rank], "the input has changed");
        let output = output.bytes.lock().unwrap().clone();
        Ok(output)
    });
    results.reverse();
    log.check_order();
    let mut received = log.received();
    received.reverse();
    (results, received)
}

fn concat(parts: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    parts.into_iter().flatten().collect()
}

/// The sum of arrays of integers with `element` bytes.
fn sum(inputs: &[Vec<u8>], element: usize) -> Vec<u8> {
    let mut sum = inputs[0].clone();
    for input in &inputs[1..] {
        sum.chunks_mut(element).zip(input.chunks(element)).for_each(|(sum, other)| add(sum, other));
    }
    sum
}

#[test]
fn all_gather() {
    for count in 1..=9 {
        for size in [0, 1, 5, 64] {
            // The sizes differ, and some are 0.
            let sizes: Vec<usize> = (0..count).map(|rank| size * (rank % 3)).collect();
            let inputs: Vec<_> = sizes.iter().enumerate().map(|(rank, bytes)| input(rank, *bytes)).collect();
            let total: usize = sizes.iter().sum();
            let schedule = Schedule::all_gather(&sizes).unwrap();
            let (got, received) = outputs(schedule, inputs.clone(), vec![total; count], 1);
            assert_eq!(got, vec![concat(inputs); count]);
            assert!(received.iter().zip(&sizes).all(|(received, own)| *received == total - own));
        }
    }
}

#[test]
fn reduce_scatter() {
    for count in 1..=9 {
        for (size, element) in [(0, 1), (1, 1), (3, 2), (7, 4)] {
            let elements: Vec<usize> = (0..count).map(|rank| size + rank % 2).collect();
            let bytes: Vec<usize> = elements.iter().map(|count| count * element).collect();
            let total: usize = bytes.iter().sum();
            let inputs: Vec<_> = (0..count).map(|rank| input(rank, total)).collect();
            let schedule = Schedule::reduce_scatter(&elements, element).unwrap();
            let (got, received) = outputs(schedule, inputs.clone(), bytes.clone(), element);
            assert_eq!(concat(got.clone()), sum(&inputs, element));
            assert!(got.iter().zip(&bytes).all(|(got, bytes)| got.len() == *bytes));
            for (rank, received) in received.into_iter().enumerate() {
                assert_eq!(received, total - bytes[(rank + count - 1) % count]);
            }
        }
    }
}

#[test]
fn all_reduce() {
    for count in 1..=9 {
        for (elements, element) in [(0, 4), (1, 1), (3, 2), (8, 4), (37, 4), (100, 1)] {
            let inputs: Vec<_> = (0..count).map(|rank| input(rank, elements * element)).collect();
            let (expected, bytes) = (sum(&inputs, element), elements * element);
            let ring = Schedule::ring_all_reduce(count, elements, element).unwrap();
            let (got, received) = outputs(ring, inputs.clone(), vec![bytes; count], element);
            assert_eq!(got, vec![expected.clone(); count]);
            assert_eq!(received.iter().sum::<usize>(), 2 * (count - 1) * bytes);
            // A member receives at most two elements more than `2 (n - 1) / n` of the array.
            assert!(
                received.iter().all(|received| received * count <= (2 * (count - 1) * bytes) + 2 * count * element)
            );
            let tree = Schedule::tree_all_reduce(count, elements, element).unwrap();
            let (got, received) = outputs(tree, inputs, vec![bytes; count], element);
            assert_eq!(got, vec![expected; count]);
            assert_eq!(received.iter().sum::<usize>(), 2 * (count - 1) * bytes);
        }
    }
}

#[test]
fn broadcast() {
    for count in 1..=9 {
        for root in 0..count {
            let inputs: Vec<_> = (0..count).map(|rank| input(rank, 13)).collect();
            let schedule = Schedule::broadcast(count, root, 13).unwrap();
            let (got, received) = outputs(schedule, inputs.clone(), vec![13; count], 1);
            assert_eq!(got, vec![inputs[root].clone(); count]);
            assert!(received.iter().enumerate().all(|(rank, bytes)| *bytes == if rank == root { 0 } else { 13 }));
        }
    }
}

#[test]
fn all_to_all() {
    for count in 1..=9 {
        let sizes: Vec<Vec<usize>> =
            (0..count).map(|source| (0..count).map(|target| (source * 3 + target) % 5).collect()).collect();
        let inputs: Vec<_> = sizes.iter().enumerate().map(|(rank, row)| input(rank, row.iter().sum())).collect();
        let part = |source: usize, target: usize| {
            let start: usize = sizes[source][..target].iter().sum();
            inputs[source][start..start + sizes[source][target]].to_vec()
        };
        let expected: Vec<_> = (0..count).map(|target| concat((0..count).map(|source| part(source, target)))).collect();
        let lengths = expected.iter().map(Vec::len).collect();
        let schedule = Schedule::all_to_all(&sizes).unwrap();
        let (got, received) = outputs(schedule, inputs.clone(), lengths, 1);
        assert_eq!(got, expected);
        for (rank, received) in received.into_iter().enumerate() {
            assert_eq!(received, expected[rank].len() - sizes[rank][rank]);
        }
    }
}

#[test]
fn permute() {
    for count in 1..=9 {
        // A shift, a reversal, the identity, and a part of a shift.
        let shift: Vec<_> = (0..count).map(|rank| (rank, (rank + 1) % count)).collect();
        let reversal = (0..count).map(|rank| (rank, count - 1 - rank)).collect();
        let identity = (0..count).map(|rank| (rank, rank)).collect();
        for pairs in [shift[..count / 2].to_vec(), shift, reversal, identity, Vec::new()] {
            let inputs: Vec<_> = (0..count).map(|rank| input(rank, 11)).collect();
            let mut expected = vec![vec![0xee; 11]; count];
            pairs.iter().for_each(|&(source, target)| expected[target] = inputs[source].clone());
            let schedule = Schedule::permute(count, &pairs, 11).unwrap();
            let (got, received) = outputs(schedule, inputs, vec![11; count], 1);
            assert_eq!(got, expected);
            let moved = pairs.iter().filter(|(source, target)| source != target).count();
            assert_eq!(received.iter().sum::<usize>(), 11 * moved);
        }
    }
}

/// The arrays of one collective are those of the next one, so each must wait for the other members' reads.
#[test]
fn same_memory_in_many_collectives() {
    for schedule in [Schedule::ring_all_reduce(5, 12, 1).unwrap(), Schedule::tree_all_reduce(5, 12, 1).unwrap()] {
        let log = Log::new(5);
        let of_members = Arc::clone(&log);
        let results = succeed(5, move |member| {
            let group = [0, 1, 2, 3, 4];
            let mut queue = Queue::new(&member, 5, 1, &of_members);
            let mut arrays = arrays(&member, vec![u8::try_from(member.id()).unwrap(); 12], 12, &schedule);
            for _ in 0..20 {
                arrays.ready = member.run(0, &group, &schedule, arrays.clone(), &mut queue)?;
                std::mem::swap(&mut arrays.input, &mut arrays.output);
            }
            member.finish();
            arrays.ready.iter().for_each(Done::wait);
            let result = arrays.input.bytes.lock().unwrap().clone();
            Ok(result)
        });
        log.check_order();
        // The first sum is 10. Each later one is five times the one before.
        let expected = (1..20).fold(10u8, |sum, _| sum.wrapping_mul(5));
        assert_eq!(results, vec![vec![expected; 12]; 5]);
    }
}

/// The output of one permutation is the input of the next one. Only the completions order the reads of a member's
/// memory before the next write.
#[test]
fn same_memory_in_many_permutations() {
    let log = Log::new(3);
    let of_members = Arc::clone(&log);
    let schedule = Schedule::permute(3, &[(0, 1), (1, 2), (2, 0)], 4).unwrap();
    let results = succeed(3, move |member| {
        let mut queue = Queue::new(&member, 3, 1, &of_members);
        let mut arrays = arrays(&member, vec![u8::try_from(member.id()).unwrap(); 4], 4, &schedule);
        for _ in 0..50 {
            arrays.ready = member.run(0, &[0, 1, 2], &schedule, arrays.clone(), &mut queue)?;
            std::mem::swap(&mut arrays.input, &mut arrays.output);
        }
        member.finish();
        arrays.ready.iter().for_each(Done::wait);
        let result = arrays.input.bytes.lock().unwrap().clone();
        Ok(result)
    });
    log.check_order();
    assert_eq!(results, [[1; 4], [2; 4], [0; 4]]);
}

/// Each input is written by an operation of another queue, which has not ended when the collective begins.
#[test]
fn inputs_that_are_not_ready() {
    let log = Log::new(3);
    let schedule = Schedule::all_gather(&[2; 3]).unwrap();
    let results = succeed(3, move |member| {
        let mut queue = Queue::new(&member, 3, 1, &log);
        let mut arrays = arrays(&member, vec![0xcc; 2], 6, &schedule);
        let (ready, output) = (Done::pending(3), arrays.output.clone());
        arrays.ready = vec![ready.clone()];
        let (input, value) = (arrays.input.clone(), u8::try_from(member.id()).unwrap());
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            input.bytes.lock().unwrap().fill(value);
            ready.set();
        });
        let completions = member.run(0, &[0, 1, 2], &schedule, arrays, &mut queue)?;
        member.finish();
        completions.iter().for_each(Done::wait);
        writer.join().unwrap();
        let output = output.bytes.lock().unwrap().clone();
        Ok(output)
    });
    assert_eq!(results, [[0, 0, 1, 1, 2, 2]; 3]);
}
