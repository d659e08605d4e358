//! Tests of transfers of arrays between devices of different processes.

use std::time::{Duration, Instant};

use pjrt::extensions::{CrossHostTransfers, Receive, Send};
use pjrt::{Buffer, Client, ElementType, ErrorCode, Shape, Upload};

use crate::programs::{ALL_REDUCE, LENGTH, inputs};
use crate::started::{Role, Started};
use crate::{alone, compile, expect_error, hex, plugin, report};

/// Starts to receive arrays on a device of this process. The arrays have the shape of a program's argument.
fn receive(client: &Client, device: i32, transfers: &[(i32, i64)]) -> Result<Vec<Buffer>, pjrt::Error> {
    let shape = |length| Shape::new(ElementType::F32, [length]);
    let receive = |(from, key): &(i32, i64)| Receive { shape: shape(LENGTH), from: *from, key: *key };
    let device = client.lookup_device(device).unwrap();
    let extension = plugin().extension::<CrossHostTransfers>().unwrap();
    extension.receive(&device, &transfers.iter().map(receive).collect::<Vec<_>>(), &[])
}

/// Sends a buffer, and waits until it has been sent.
fn send(client: &Client, buffer: &Buffer, to: i32, key: i64) -> Result<(), pjrt::Error> {
    let extension = plugin().extension::<CrossHostTransfers>().unwrap();
    let sent = extension.send(client, &[Send { buffer, to, key }], &[])?;
    sent.iter().try_for_each(|event| event.wait())
}

fn put(client: &Client, device: i32) -> Buffer {
    let at = client.lookup_device(device).unwrap();
    client.upload(Upload::of(&inputs(device)).dims(&[LENGTH]).to(&at)).unwrap()
}

/// Prints an array when it arrives, or its error.
fn report_arrival(arrived: &Buffer) {
    report(arrived.download().bytes().map(|bytes| vec![bytes]));
}

fn bytes_of(device: i32) -> String {
    hex(&inputs(device).iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

#[test]
fn arrays_move_in_both_directions() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        if role.rank == 0 {
            // Both arrays have the same key, and are distinguished by their devices.
            let (first, second) = (put(&client, 0), put(&client, 1));
            send(&client, &first, 2, 7).unwrap();
            send(&client, &second, 2, 7).unwrap();
            send(&client, &second, 2, 8).unwrap();
            drop((first, second));
            receive(&client, 1, &[(3, 9)]).unwrap().iter().for_each(report_arrival);
        } else {
            let arrived = receive(&client, 2, &[(1, 8), (1, 7), (0, 7)]).unwrap();
            send(&client, &put(&client, 3), 1, 9).unwrap();
            arrived.iter().for_each(report_arrival);
        }
        role.meet(&[0, 1]);
        return;
    }
    let said = Started::all("transfers::arrays_move_in_both_directions", &[2, 2]).finish();
    assert_eq!(said[0], [bytes_of(3)]);
    assert_eq!(said[1], [bytes_of(1), bytes_of(1), bytes_of(0)]);
}

#[test]
fn results_of_programs_move_before_they_exist() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        let program = compile(&client, ALL_REDUCE);
        // The program of this process waits for the other process. The other process starts to receive first.
        let mut early = (role.rank == 1).then(|| receive(&client, 1, &[(0, 5)]).unwrap());
        let input = put(&client, i32::try_from(role.rank).unwrap());
        let launched = program.execute_sharded(vec![vec![pjrt::Input::Borrow(&input)]], &Default::default()).unwrap();
        if role.rank == 0 {
            send(&client, &launched.outputs[0][0], 1, 5).unwrap();
        }
        early.take().into_iter().flatten().for_each(|arrived| report_arrival(&arrived));
        role.meet(&[0, 1]);
        return;
    }
    let said = Started::all("transfers::results_of_programs_move_before_they_exist", &[1, 1]).finish();
    assert_eq!(said[1], alone(2, ALL_REDUCE)[..1]);
}

#[test]
fn shapes_and_devices_are_compared() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        if role.rank == 0 {
            let short = client.buffer_from_host(&[1.0f32], &[1]).unwrap();
            send(&client, &short, 1, 1).unwrap();
            for to in [0, 2] {
                report(send(&client, &short, to, 2).map(|()| Vec::new()));
            }
        } else {
            receive(&client, 1, &[(0, 1)]).unwrap().iter().for_each(report_arrival);
            report(receive(&client, 1, &[(1, 2)]).map(|_| Vec::new()));
        }
        role.meet(&[0, 1]);
        return;
    }
    let said = Started::all("transfers::shapes_and_devices_are_compared", &[1, 1]).finish();
    let invalid = format!("{} ", ErrorCode::INVALID_ARGUMENT.as_raw());
    assert_eq!(said[0].len(), 2);
    assert!(said[0].iter().chain(&said[1][1..]).all(|said| said.starts_with(&invalid)), "{said:?}");
    expect_error(&said[1][0], &[ErrorCode::ABORTED], 0);
}

#[test]
fn killed_sender_is_named() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        role.meet(&[0, 1]);
        if role.rank == 0 {
            std::process::abort();
        }
        receive(&client, 1, &[(0, 1)]).unwrap().iter().for_each(report_arrival);
        return;
    }
    let said = Started::all("transfers::killed_sender_is_named", &[1, 1]).finish_one(1);
    expect_error(&said[0], &[ErrorCode::ABORTED], 0);
}

#[test]
fn late_sender_is_named_after_the_timeout() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[("collective_timeout_ms", 300)]).unwrap();
        if role.rank == 1 {
            receive(&client, 1, &[(0, 1)]).unwrap().iter().for_each(report_arrival);
        }
        role.meet(&[0, 1]);
        return;
    }
    let said = Started::all("transfers::late_sender_is_named_after_the_timeout", &[1, 1]).finish();
    expect_error(&said[1][0], &[ErrorCode::ABORTED], 0);
}

#[test]
fn destroyed_client_does_not_wait_for_arrays() {
    if let Some(role) = Role::of_this_process() {
        let client = role.client(&[]).unwrap();
        if role.rank == 1 {
            let start = Instant::now();
            drop(receive(&client, 1, &[(0, 1)]).unwrap());
            drop(client);
            println!("SAID {}", start.elapsed() < Duration::from_secs(20));
        }
        role.meet(&[0, 1]);
        return;
    }
    assert_eq!(Started::all("transfers::destroyed_client_does_not_wait_for_arrays", &[1, 1]).finish()[1], ["true"]);
}
