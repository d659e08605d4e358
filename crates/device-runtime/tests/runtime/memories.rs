//! Devices with several memories.

use device_runtime::QueueKind::Compute;
use pjrt::{Buffer, ErrorCode, ExecuteOptions, Input, Upload};

use crate::dummy::control::Settings;
use crate::fixture::{Fixture, bytes, run, with_settings};

const LIMIT: usize = 4096;

fn with_memories(test: impl FnOnce(&Fixture) + Send + 'static) {
    with_settings(Settings { pinned_limit: Some(LIMIT), ..Settings::default() }, test);
}

fn kind(buffer: &Buffer) -> String {
    buffer.memory().unwrap().kind().unwrap()
}

/// Uploads to the memory `pinned_host` of a device.
fn pin(fixture: &Fixture, device: usize, bytes: &[u8]) -> Result<Buffer, pjrt::Error> {
    let memory = fixture.device(device).memories().unwrap().swap_remove(1);
    fixture.client.upload(Upload::of(bytes).to(&memory))
}

#[test]
fn list() {
    with_memories(|fixture| {
        for (index, device) in fixture.client.addressable_devices().unwrap().iter().enumerate() {
            let memories = device.memories().unwrap();
            let kinds: Vec<_> =
                memories.iter().map(|memory| (memory.kind().unwrap(), memory.kind_id().unwrap())).collect();
            assert_eq!(kinds, [("device".to_owned(), 0), ("pinned_host".to_owned(), 1)]);
            assert_eq!(device.default_memory().unwrap().id().unwrap(), memories[0].id().unwrap());
            for memory in &memories {
                let devices: Vec<_> = memory.devices().unwrap().iter().map(|of| of.id().unwrap()).collect();
                assert_eq!(devices, [i32::try_from(index).unwrap()]);
            }
        }
        assert_eq!(fixture.client.memories().unwrap().len(), 4);
    });
}

#[test]
fn copies_between_all_memories() {
    with_memories(|fixture| {
        let all = fixture.client.memories().unwrap();
        for from in &all {
            let x = fixture.client.upload(Upload::of(&[1u8, 2, 3]).to(from)).unwrap();
            assert_eq!(kind(&x), from.kind().unwrap());
            for to in &all {
                let y = x.copy_to(to).unwrap();
                assert_eq!(y.memory().unwrap().id().unwrap(), to.id().unwrap());
                assert_eq!(bytes(&y).unwrap(), [1, 2, 3]);
            }
        }
    });
}

#[test]
fn limits_and_statistics_of_each_memory() {
    with_memories(|fixture| {
        let x = pin(fixture, 0, &[1; 3000]).unwrap();
        // The statistics of a device are those of its default memory.
        assert_eq!(fixture.used(0), 0);
        let error = pin(fixture, 0, &[1; 3000]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(
            error.message(),
            "3000 bytes needed in the memory \"pinned_host\" of device 0, but 1024 of 4096 bytes are free: the limit is \
             reached"
        );
        let y = fixture.put(&[1; 3000]);
        assert_eq!(fixture.used(0), 3072);
        pin(fixture, 1, &[1; 3000]).unwrap();
        drop((x, y));
        // A block never serves a request of the other memory.
        assert_eq!(kind(&pin(fixture, 0, &[1; 3000]).unwrap()), "pinned_host");
        assert_eq!(fixture.used(0), 0);
    });
}

/// A memory gets the spare blocks of another one that uses the same physical memory.
#[test]
fn memories_share_physical_memory() {
    let settings = Settings { pinned_limit: Some(LIMIT), limit: LIMIT, physical: LIMIT, ..Settings::default() };
    with_settings(settings, |fixture| {
        for _ in 0..2 {
            pin(fixture, 0, &[1; 3000]).unwrap().wait().unwrap();
            fixture.put_ready(&[2; 3000]);
        }
        let x = fixture.put_ready(&[2; 3000]);
        assert_eq!(pin(fixture, 0, &[1; 3000]).unwrap_err().code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(bytes(&x).unwrap(), [2; 3000]);
    });
}

#[test]
fn programs_choose_memories_of_outputs() {
    with_memories(|fixture| {
        let text = "name=p size=3 inputs=1 donated=0 alias=0:0 out=x0+1 out=x0+2 memory=pinned_host memory=device";
        let program = fixture.compile(text);
        let run_with = |input: Input<'_>| {
            let outputs = program.execute_with([input], &ExecuteOptions::new()).unwrap().outputs.into_vec();
            let kinds: Vec<_> = outputs.iter().map(kind).collect();
            assert_eq!(kinds, ["pinned_host", "device"]);
            assert_eq!((bytes(&outputs[0]).unwrap(), bytes(&outputs[1]).unwrap()), (vec![2; 3], vec![3; 3]));
            let state = fixture.control.state();
            (state.kinds.last().unwrap().clone(), *state.in_place.last().unwrap())
        };
        let x = fixture.put(&[1; 3]);
        let outputs = vec!["pinned_host", "device"];
        assert_eq!(run_with(Input::Borrow(&x)), ([vec!["device"], outputs.clone()], false));
        // An output cannot use an argument of the other memory.
        assert_eq!(run_with(Input::Donate(x)), ([vec!["device"], outputs.clone()], false));
        let pinned = pin(fixture, 0, &[1; 3]).unwrap();
        assert_eq!(run_with(Input::Donate(pinned)), ([vec!["pinned_host"], outputs], true));
    });
}

/// A copy from another memory waits for the launch that writes it.
#[test]
fn copy_waits_for_launch() {
    with_memories(|fixture| {
        let program = fixture.compile("name=p size=3 inputs=1 out=x0+1 memory=pinned_host");
        let x = fixture.put_ready(&[1; 3]);
        fixture.control.hold(0, Compute);
        let y = run(&program, &[&x]).unwrap();
        let z = y.copy_to(&fixture.device(0)).unwrap();
        assert!(!z.ready_event().unwrap().is_ready().unwrap());
        fixture.control.release(0, Compute);
        assert_eq!((kind(&y), kind(&z), bytes(&z).unwrap()), ("pinned_host".into(), "device".into(), vec![2; 3]));
    });
}
