//! Tests of launches whose members run in several processes. Each process is simulated by a communicator in this
//! process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::collectives::{self, all_reduce, groups, program};
use super::tensor;
use crate::{Communicator, DType, Message, Pool, Program, RemoteMembers, RunError, Tensor};

/// The address of a message, which consists of the receiving process, the sending process, the ID of the collective,
/// and the first member of the group.
type Address = (usize, usize, u32, usize);

#[derive(Debug, Default)]
struct Mail {
    messages: Mutex<HashMap<Address, Vec<Vec<u8>>>>,
    failure: Mutex<Option<String>>,
    changed: Condvar,
    /// Number of bytes in all messages.
    bytes: AtomicUsize,
}

/// A process with two members.
#[derive(Debug)]
struct Process {
    rank: usize,
    mail: Arc<Mail>,
    /// Number of bytes that are missing at the end of each message.
    cut: usize,
}

impl RemoteMembers for Process {
    fn own_process(&self) -> usize {
        self.rank
    }

    fn process_of(&self, member: usize) -> Option<usize> {
        Some(member / 2)
    }

    fn send(&self, collective: u32, group: &[usize], message: &Message<'_>) -> Result<(), String> {
        let mut bytes = message.parts.concat();
        bytes.truncate(bytes.len() - self.cut);
        self.mail.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        let mut messages = self.mail.messages.lock().unwrap();
        messages.entry((message.to, self.rank, collective, group[0])).or_default().push(bytes);
        self.mail.changed.notify_all();
        Ok(())
    }

    fn receive(&self, collective: u32, group: &[usize], from: usize) -> Result<Vec<u8>, String> {
        let mut messages = self.mail.messages.lock().unwrap();
        loop {
            if let Some(why) = &*self.mail.failure.lock().unwrap() {
                return Err(why.clone());
            }
            let queue = messages.entry((self.rank, from, collective, group[0])).or_default();
            if !queue.is_empty() {
                return Ok(queue.remove(0));
            }
            messages = self.mail.changed.wait(messages).unwrap();
        }
    }

    fn fail(&self, why: &str) {
        let _messages = self.mail.messages.lock().unwrap();
        self.mail.failure.lock().unwrap().get_or_insert_with(|| why.to_owned());
        self.mail.changed.notify_all();
    }
}

/// Runs a program for four members in two processes. `cut` bytes are missing in messages of the second process.
fn launch(program: &Program, cut: usize, input: fn(usize) -> Tensor) -> Vec<Result<Vec<Tensor>, RunError>> {
    launch_counted(program, cut, input).0
}

/// Runs a program as [`launch`] does. Also returns the number of bytes in all messages.
fn launch_counted(
    program: &Program,
    cut: usize,
    input: fn(usize) -> Tensor,
) -> (Vec<Result<Vec<Tensor>, RunError>>, usize) {
    let mail = Arc::new(Mail::default());
    let mut members = Vec::new();
    for rank in 0..2 {
        let process = Process { rank, mail: mail.clone(), cut: cut * rank };
        let communicator = Communicator::across(4, 1, Arc::new(process));
        members.extend([2 * rank, 2 * rank + 1].map(|id| communicator.member(id, 0)));
    }
    let outputs = thread::scope(|scope| {
        let run = |(id, member): (usize, crate::Member)| {
            scope.spawn(move || program.run_in(vec![input(id)], Pool::global(), Some(&member), None))
        };
        let threads: Vec<_> = members.into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no member panics")).collect()
    });
    (outputs, mail.bytes.load(Ordering::Relaxed))
}

fn power(id: usize) -> Tensor {
    tensor(DType::I32, &[1], &[1i32 << id])
}

fn number(id: usize) -> Tensor {
    tensor(DType::I32, &[], &[i32::try_from(id).unwrap()])
}

#[test]
fn groups_span_processes() {
    let sum = |list: &str| {
        let body = all_reduce("add", "i32", 1, &groups(list, false, false));
        let program = program(4, 1, "%x: tensor<1xi32>", "tensor<1xi32>", &body);
        let outputs = launch(&program, 0, power).into_iter().map(|outputs| outputs.unwrap());
        outputs.map(|outputs| outputs[0].as_slice::<i32>().unwrap()[0]).collect::<Vec<_>>()
    };
    assert_eq!(sum("[[0, 1, 2, 3]]"), [15; 4]);
    assert_eq!(sum("[[0, 1], [2, 3]]"), [3, 3, 12, 12]);
    assert_eq!(sum("[[0, 3], [2, 1]]"), [9, 6, 6, 9]);
}

#[test]
fn contributions_must_have_one_size() {
    let body = all_reduce("add", "i32", 1, &groups("[[0, 1, 2, 3]]", false, false));
    let program = program(4, 1, "%x: tensor<1xi32>", "tensor<1xi32>", &body);
    for got in launch(&program, 1, power).into_iter().take(2) {
        assert!(matches!(got, Err(RunError::Launch(_))), "{got:?}");
    }
}

#[test]
fn members_of_one_process_in_different_collectives() {
    // In both processes, one member waits in the first collective and the other member waits in the second collective.
    let meet = format!(
        "%s = \"stablehlo.collective_broadcast\"(%x) <{{{}}}> : (tensor<i32>) -> tensor<i32>
        stablehlo.return %s : tensor<i32>",
        groups("[[0, 1, 2, 3]]", false, false)
    );
    let body = format!(
        "%two = stablehlo.constant dense<2> : tensor<i32>
        %odd = stablehlo.remainder %x, %two : tensor<i32>
        %0 = \"stablehlo.case\"(%odd) ({{ {meet} }}, {{ {meet} }}) : (tensor<i32>) -> tensor<i32>
        return %0 : tensor<i32>"
    );
    let program = program(4, 1, "%x: tensor<i32>", "tensor<i32>", &body);
    for got in launch(&program, 0, number) {
        assert!(matches!(got, Err(RunError::Launch(_))), "{got:?}");
    }
}

/// Returns a matrix whose elements differ from those of all other members.
fn matrix(id: usize) -> Tensor {
    let values: Vec<i32> = (0..24).map(|at| i32::try_from(100 * id + at).unwrap()).collect();
    tensor(DType::I32, &[4, 6], &values)
}

#[test]
fn all_to_all_sends_only_the_needed_parts() {
    // Two arrays with elements of different sizes are exchanged together.
    for (list, members) in [("[[0, 1, 2, 3]]", 4), ("[[2, 0, 3, 1]]", 4), ("[[0, 2], [3, 1]]", 2)] {
        let (small, large) = (4 / members, 6 * members);
        let body = format!(
            "%h = stablehlo.convert %x : (tensor<4x6xi32>) -> tensor<4x6xi16>
            %0:2 = \"stablehlo.all_to_all\"(%x, %h) <{{split_dimension = 0 : i64, concat_dimension = 1 : i64,
              split_count = {members} : i64, {}}}>
              : (tensor<4x6xi32>, tensor<4x6xi16>) -> (tensor<{small}x{large}xi32>, tensor<{small}x{large}xi16>)
            return %0#0, %0#1 : tensor<{small}x{large}xi32>, tensor<{small}x{large}xi16>",
            groups(list, false, false)
        );
        let results = format!("tensor<{small}x{large}xi32>, tensor<{small}x{large}xi16>");
        let program = program(4, 1, "%x: tensor<4x6xi32>", &results, &body);
        let expected = collectives::launch(&program, |id| vec![matrix(id)]);
        let (got, bytes) = launch_counted(&program, 0, matrix);
        for (got, expected) in got.into_iter().zip(expected) {
            let (got, expected) = (got.unwrap(), expected.unwrap());
            assert_eq!(got.len(), 2);
            assert!(got.iter().zip(&expected).all(|(got, expected)| got.bytes() == expected.bytes()), "{list}");
        }
        // Each of the four members sends half of its elements, with 4 and 2 bytes, to the other process.
        assert_eq!(bytes, 4 * 12 * (4 + 2), "{list}");
        let failed = launch(&program, 1, matrix);
        assert!(failed.into_iter().take(2).all(|got| matches!(got, Err(RunError::Launch(_)))), "{list}");
    }
}

/// Number of elements of [`long`]. Each process reduces several pieces, and the last piece is shorter.
const LONG: usize = 1_500_001;

/// Returns a long vector of fractions. The sum of several such vectors depends on the order of the additions.
fn long(id: usize) -> Tensor {
    let value = |at: usize| f32::from(u16::try_from((at * 31 + id * 7919) % 1009).unwrap()) / 7.0;
    tensor(DType::F32, &[LONG], &(0..LONG).map(value).collect::<Vec<_>>())
}

#[test]
fn long_all_reduce_adds_in_the_order_of_the_group() {
    for list in ["[[0, 1, 2, 3]]", "[[2, 0, 3, 1]]"] {
        let ty = format!("tensor<{LONG}xf32>");
        let body = format!(
            "%y = stablehlo.sine %x : {ty}
            %0:2 = \"stablehlo.all_reduce\"(%x, %y) <{{{}}}> ({{
              ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                %s = stablehlo.add %a, %b : tensor<f32>
                stablehlo.return %s : tensor<f32>
            }}) : ({ty}, {ty}) -> ({ty}, {ty})
            return %0#0, %0#1 : {ty}, {ty}",
            groups(list, false, false)
        );
        let program = program(4, 1, &format!("%x: {ty}"), &format!("{ty}, {ty}"), &body);
        let expected = collectives::launch(&program, |id| vec![long(id)]);
        for (got, expected) in launch(&program, 0, long).into_iter().zip(expected) {
            let (got, expected) = (got.unwrap(), expected.unwrap());
            assert!(got.iter().zip(&expected).all(|(got, expected)| got.bytes() == expected.bytes()), "{list}");
        }
    }
}
