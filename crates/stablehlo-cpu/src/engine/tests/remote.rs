//! Tests of launches whose members run in several processes. Each process is simulated by a communicator in this
//! process.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::collectives::{all_reduce, groups, program};
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

    fn exchange(&self, collective: u32, group: &[usize], sent: &[Message<'_>]) -> Result<Vec<Vec<u8>>, String> {
        let mut messages = self.mail.messages.lock().unwrap();
        for Message { to, parts } in sent {
            let mut bytes = parts.concat();
            bytes.truncate(bytes.len() - self.cut);
            messages.entry((*to, self.rank, collective, group[0])).or_default().push(bytes);
        }
        self.mail.changed.notify_all();
        let mut received = Vec::new();
        for Message { to: from, .. } in sent {
            let bytes = loop {
                if let Some(why) = &*self.mail.failure.lock().unwrap() {
                    return Err(why.clone());
                }
                let queue = messages.entry((self.rank, *from, collective, group[0])).or_default();
                if !queue.is_empty() {
                    break queue.remove(0);
                }
                messages = self.mail.changed.wait(messages).unwrap();
            };
            received.push(bytes);
        }
        Ok(received)
    }

    fn fail(&self, why: &str) {
        let _messages = self.mail.messages.lock().unwrap();
        self.mail.failure.lock().unwrap().get_or_insert_with(|| why.to_owned());
        self.mail.changed.notify_all();
    }
}

/// Runs a program for four members in two processes. `cut` bytes are missing in messages of the second process.
fn launch(program: &Program, cut: usize, input: fn(usize) -> Tensor) -> Vec<Result<Vec<Tensor>, RunError>> {
    let mail = Arc::new(Mail::default());
    let mut members = Vec::new();
    for rank in 0..2 {
        let process = Process { rank, mail: mail.clone(), cut: cut * rank };
        let communicator = Communicator::across(4, 1, Arc::new(process));
        members.extend([2 * rank, 2 * rank + 1].map(|id| communicator.member(id, 0)));
    }
    thread::scope(|scope| {
        let run = |(id, member): (usize, crate::Member)| {
            scope.spawn(move || program.run_in(vec![input(id)], Pool::global(), Some(&member), None))
        };
        let threads: Vec<_> = members.into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no member panics")).collect()
    })
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
