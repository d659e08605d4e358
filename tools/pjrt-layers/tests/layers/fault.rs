//! Tests of the layer `fault`: rules select calls by their number and by a seed, and do not affect other calls.

use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use expect_test::expect;
use pjrt::{ClientOptions, CompileOptions, ErrorCode, Plugin, Program};
use pjrt_layers::compat::Compat;
use pjrt_layers::fault::{Fault, Rules};
use pjrt_layers::{Instance, Layer, Stack, instance};
use pjrt_sys::{
    AbiStruct, PJRT_Api, PJRT_Buffer, PJRT_Buffer_Delete_Args, PJRT_Client_BufferFromHostBuffer_Args, PJRT_Error,
    PJRT_Error_Destroy_Args, PJRT_Error_GetCode_Args, PJRT_Error_Message_Args, StaticApi,
};

use crate::setup::{self, embedded};

/// Returns the number of calls that reached the fake plugin in this thread.
fn reached() -> u64 {
    REACHED.with(|count| count.load(Ordering::Relaxed))
}

thread_local! {
    static REACHED: AtomicU64 = const { AtomicU64::new(0) };
}

/// The handle that the fake plugin returns.
const HANDLE: usize = 0x40;
/// Value of the output fields before a call.
const UNTOUCHED: usize = 0x77;

fakes! {
    upload(args: PJRT_Client_BufferFromHostBuffer_Args) {
        REACHED.with(|count| count.fetch_add(1, Ordering::Relaxed));
        args.buffer = without_provenance_mut(HANDLE);
        args.done_with_host_buffer = without_provenance_mut(HANDLE);
    }
    delete(_args: PJRT_Buffer_Delete_Args) { REACHED.with(|count| count.fetch_add(1, Ordering::Relaxed)); }
}

/// A fake framework that calls the fake plugin through layers.
#[derive(Clone, Copy)]
struct Framework(StaticApi);

fn fault(rules: &str, seed: u64) -> Box<dyn Layer> {
    Box::new(Fault::new(rules.parse::<Rules>().unwrap(), seed))
}

impl Framework {
    fn new<I: Instance>(layers: Vec<Box<dyn Layer>>) -> Self {
        // The fake plugin does not create errors. The layers handle the errors that they create.
        let plugin = setup::fake(117, |table| {
            table.PJRT_Client_BufferFromHostBuffer = Some(upload);
            table.PJRT_Buffer_Delete = Some(delete);
        });
        Self(Stack::start::<I>(plugin, layers))
    }

    fn table(&self) -> &'static PJRT_Api {
        setup::table(self.0)
    }

    /// Uploads with an args struct that announces `size` bytes. Returns the two output fields, and the error if the
    /// call fails.
    fn upload(&self, size: usize) -> (*mut PJRT_Buffer, usize, Result<(), (ErrorCode, String)>) {
        let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
        args.struct_size = size;
        args.buffer = without_provenance_mut(UNTOUCHED);
        args.done_with_host_buffer = without_provenance_mut(UNTOUCHED);
        // SAFETY: C2: the struct's size is set, and the fake plugin reads no handle.
        let error = unsafe { self.table().PJRT_Client_BufferFromHostBuffer.unwrap()(&raw mut args) };
        assert_eq!(args.struct_size, size);
        (args.buffer, args.done_with_host_buffer.addr(), self.take(error))
    }

    fn uploads(&self, count: usize) -> Vec<Result<(), (ErrorCode, String)>> {
        (0..count).map(|_| self.upload(PJRT_Client_BufferFromHostBuffer_Args::STRUCT_SIZE).2).collect()
    }

    /// Returns the numbers of the uploads that fail. The first upload has the number 1.
    fn failing(&self, count: usize) -> Vec<usize> {
        let results = self.uploads(count).into_iter().enumerate();
        results.filter(|(_, result)| result.is_err()).map(|(at, _)| at + 1).collect()
    }

    fn delete(&self) -> Result<(), (ErrorCode, String)> {
        let mut args = PJRT_Buffer_Delete_Args::new();
        // SAFETY: C2: `new` has set the struct's size, and the fake plugin reads no handle.
        self.take(unsafe { self.table().PJRT_Buffer_Delete.unwrap()(&raw mut args) })
    }

    /// Destroys an error, and returns its code and message. Returns `Ok` if the error is null.
    #[expect(clippy::disallowed_methods, reason = "a test reads the text as a framework does")]
    fn take(&self, error: *mut PJRT_Error) -> Result<(), (ErrorCode, String)> {
        if error.is_null() {
            return Ok(());
        }
        let mut code = PJRT_Error_GetCode_Args::new();
        code.error = error;
        // SAFETY: C2: the error is live.
        assert!(unsafe { self.table().PJRT_Error_GetCode.unwrap()(&raw mut code) }.is_null());
        let mut text = PJRT_Error_Message_Args::new();
        text.error = error;
        // SAFETY: C2: the error is live.
        unsafe { self.table().PJRT_Error_Message.unwrap()(&raw mut text) };
        // SAFETY: the message is readable for its length.
        let bytes = unsafe { std::slice::from_raw_parts(text.message.cast::<u8>(), text.message_size) };
        let message = String::from_utf8(bytes.to_vec()).unwrap();
        let mut destroy = PJRT_Error_Destroy_Args::new();
        destroy.error = error;
        // SAFETY: C2: the error is live, and this is its last use.
        unsafe { self.table().PJRT_Error_Destroy.unwrap()(&raw mut destroy) };
        Err((ErrorCode::from_raw(code.code.0), message))
    }
}

mod calls {
    use super::*;

    #[test]
    fn only_the_nth_fails() {
        instance!(Own);
        let f = Framework::new::<Own>(vec![fault("PJRT_Client_BufferFromHostBuffer call=3 oom", 0)]);
        let results = f.uploads(5);
        let message = "Out of memory: injected into PJRT_Client_BufferFromHostBuffer by the layer `fault`, \
                       rule 1 `PJRT_Client_BufferFromHostBuffer call=3 oom`, at its call 3";
        let expected = Err((ErrorCode::RESOURCE_EXHAUSTED, message.to_owned()));
        assert_eq!(results, [Ok(()), Ok(()), expected, Ok(()), Ok(())]);
        assert_eq!(reached(), 4);
        assert_eq!(f.delete(), Ok(()));
    }

    #[test]
    fn ranges_are_inclusive() {
        instance!(Closed);
        instance!(Open);
        instance!(Every);
        let closed = Framework::new::<Closed>(vec![fault("memory call=2-3 error=INTERNAL", 0)]);
        assert_eq!(closed.failing(5), [2, 3]);
        let open = Framework::new::<Open>(vec![fault("memory call=4- error=INTERNAL", 0)]);
        assert_eq!(open.failing(5), [4, 5]);
        let every = Framework::new::<Every>(vec![fault("memory error=INTERNAL", 0)]);
        assert_eq!(every.failing(2), [1, 2]);
        assert_eq!(reached(), 3 + 3);
    }

    #[test]
    fn functions_of_a_rule_share_its_numbers() {
        instance!(Shared);
        let f = Framework::new::<Shared>(vec![fault("PJRT_* call=2 error=UNAVAILABLE", 0)]);
        assert_eq!(f.failing(1), [0; 0]);
        let (code, message) = f.delete().unwrap_err();
        assert_eq!(code, ErrorCode::UNAVAILABLE);
        let expected = "Injected into PJRT_Buffer_Delete by the layer `fault`, rule 1 `PJRT_* call=2 error=UNAVAILABLE`, \
                        at its call 2";
        assert_eq!(message, expected);
        assert_eq!(f.failing(1), [0; 0]);
    }

    #[test]
    fn first_rule_with_an_error_decides() {
        instance!(Two);
        let rules = "memory call=2 error=ABORTED; transfer call=2-3 error=DATA_LOSS";
        let f = Framework::new::<Two>(vec![fault(rules, 0)]);
        let codes = f.uploads(4).into_iter().map(|result| result.err().map(|(code, _)| code));
        let expected = [None, Some(ErrorCode::ABORTED), Some(ErrorCode::DATA_LOSS), None];
        assert_eq!(codes.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn threads_share_the_numbers() {
        instance!(Threads);
        let f = Framework::new::<Threads>(vec![fault("memory call=500 oom", 0)]);
        let failed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| f.failing(250).len())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(failed, 1);
    }

    #[test]
    fn delay_precedes_the_call() {
        instance!(Slow);
        let f = Framework::new::<Slow>(vec![fault("memory call=1 delay=30ms; memory call=1 delay=5ms", 0)]);
        let start = Instant::now();
        assert_eq!(f.failing(1), [0; 0]);
        // A thread may sleep for longer than the delay, but never for less.
        assert!(start.elapsed() >= Duration::from_millis(35));
        assert_eq!(reached(), 1);
    }
}

mod seed {
    use super::*;

    #[test]
    fn same_seed_gives_same_faults() {
        instance!(First);
        instance!(Second);
        instance!(Other);
        let rules = "memory chance=0.25 oom";
        let first = Framework::new::<First>(vec![fault(rules, 7)]).failing(400);
        let second = Framework::new::<Second>(vec![fault(rules, 7)]).failing(400);
        let other = Framework::new::<Other>(vec![fault(rules, 8)]).failing(400);
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert!((50..150).contains(&first.len()), "{first:?}");
    }

    #[test]
    fn message_names_the_seed() {
        instance!(Named);
        let f = Framework::new::<Named>(vec![fault("memory chance=1 oom", 7)]);
        let (_, message) = f.uploads(1).remove(0).unwrap_err();
        expect!["Out of memory: injected into PJRT_Client_BufferFromHostBuffer by the layer `fault`, rule 1 `memory chance=1 oom`, at its call 1 with the seed 7"]
            .assert_eq(&message);
    }

    #[test]
    fn bounds_are_never_and_always() {
        instance!(Never);
        instance!(Always);
        assert_eq!(Framework::new::<Never>(vec![fault("memory chance=0 oom", 1)]).failing(100), [0; 0]);
        assert_eq!(Framework::new::<Always>(vec![fault("memory chance=1 oom", 1)]).failing(100).len(), 100);
    }
}

mod outputs {
    use super::*;

    const SIZE: usize = PJRT_Client_BufferFromHostBuffer_Args::STRUCT_SIZE;

    #[test]
    fn failed_call_leaves_them() {
        instance!(Plain);
        let f = Framework::new::<Plain>(vec![fault("memory call=1 oom", 0)]);
        let (buffer, done, result) = f.upload(SIZE);
        assert!(result.is_err());
        assert_eq!((buffer.addr(), done), (UNTOUCHED, UNTOUCHED));
        let (buffer, done, result) = f.upload(SIZE);
        assert!(result.is_ok());
        assert_eq!((buffer.addr(), done), (HANDLE, HANDLE));
    }

    /// Output fields also keep their values if a layer in front of `fault` copies the arguments to a struct of another
    /// size.
    #[test]
    fn copied_arguments_too() {
        instance!(Copied);
        let f = Framework::new::<Copied>(vec![Box::new(Resize), fault("memory call=1 oom", 0)]);
        let (buffer, done, result) = f.upload(SIZE);
        assert!(result.is_err());
        assert_eq!((buffer.addr(), done), (UNTOUCHED, UNTOUCHED));
        let (buffer, done, result) = f.upload(SIZE);
        assert!(result.is_ok());
        assert_eq!((buffer.addr(), done), (HANDLE, HANDLE));
    }

    /// Replaces the arguments with a larger copy for the later layers.
    #[derive(Debug)]
    struct Resize;

    impl Layer for Resize {
        fn name(&self) -> &'static str {
            "resize"
        }

        fn wants(&self, _: &pjrt_layers::Function) -> bool {
            true
        }

        fn before(&self, call: &mut pjrt_layers::Call) -> pjrt_layers::Step {
            call.resize(call.announced() + 8);
            pjrt_layers::Step::Continue(0)
        }
    }
}

/// A framework recovers from an injected error, even if another layer is in front of `fault`.
#[test]
fn framework_recovers() {
    instance!(Embedded);
    let plugin = embedded();
    let rules = "PJRT_Client_Compile call=1 oom; PJRT_LoadedExecutable_Execute call=2 error=INTERNAL";
    let api = Stack::start::<Embedded>(plugin, vec![Box::new(Compat::default()), fault(rules, 0)]);
    let client = Plugin::from_static(api).unwrap().client(&ClientOptions::default()).unwrap();
    let program = Program::mlir(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.add %x, %x : tensor<2xf32>
            return %0 : tensor<2xf32>
        }",
    );
    let error = client.compile(&program, &CompileOptions::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
    assert!(error.to_string().contains("Out of memory: injected into PJRT_Client_Compile"), "{error}");
    let executable = client.compile(&program, &CompileOptions::default()).unwrap();
    let input = client.buffer_from_host(&[1_f32, 2.0], &[2]).unwrap();
    let run = || executable.execute(&[&input]).map(|outputs| outputs[0].to_host::<f32>().unwrap());
    assert_eq!(run().unwrap(), [2.0, 4.0]);
    assert_eq!(run().unwrap_err().code(), ErrorCode::INTERNAL);
    assert_eq!(run().unwrap(), [2.0, 4.0]);
}

mod events {
    use std::sync::mpsc::channel;

    use super::*;

    /// Uploads a buffer to the embedded device. The rules affect the ready events of the buffer.
    fn buffer<I: Instance>(rules: &str) -> pjrt::Buffer {
        let plugin = embedded();
        let api = Stack::start::<I>(plugin, vec![fault(rules, 0)]);
        let client = Plugin::from_static(api).unwrap().client(&ClientOptions::default()).unwrap();
        client.buffer_from_host(&[1_f32, 2.0], &[2]).unwrap()
    }

    #[test]
    fn lost_event_is_never_ready() {
        instance!(Lost);
        let buffer = buffer::<Lost>("PJRT_Buffer_ReadyEvent call=2 lost");
        let events: Vec<_> = (0..3).map(|_| buffer.ready_event().unwrap()).collect();
        events[0].wait().unwrap();
        events[2].wait().unwrap();
        let ready: Vec<bool> = events.iter().map(|event| event.is_ready().unwrap()).collect();
        assert_eq!(ready, [true, false, true]);
        let (sender, receiver) = channel::<()>();
        events[1].on_ready(move |_| drop(sender)).unwrap();
        // An event that never becomes ready keeps its callback until the process ends.
        assert_eq!(receiver.recv_timeout(Duration::from_millis(50)), Err(std::sync::mpsc::RecvTimeoutError::Timeout));
        assert_eq!(buffer.to_host::<f32>().unwrap(), [1.0, 2.0]);
    }

    #[test]
    fn late_event_follows_the_next_one() {
        instance!(Late);
        let buffer = buffer::<Late>("PJRT_Buffer_ReadyEvent late");
        let mut fast = 0;
        let mut last = buffer.ready_event().unwrap();
        for _ in 0..10 {
            assert!(!last.is_ready().unwrap());
            let (sender, receiver) = channel();
            last.on_ready(move |result| sender.send(result.is_ok()).unwrap()).unwrap();
            let next = buffer.ready_event().unwrap();
            let start = Instant::now();
            last.wait().unwrap();
            assert_eq!(receiver.recv(), Ok(true));
            assert!(last.is_ready().unwrap());
            // Without the next event, the wait would take one second.
            fast += u32::from(start.elapsed() < Duration::from_millis(500));
            last = next;
        }
        assert!(fast > 0);
    }

    #[test]
    fn late_event_does_not_wait_forever() {
        instance!(Alone);
        let buffer = buffer::<Alone>("PJRT_Buffer_ReadyEvent call=1 late");
        let start = Instant::now();
        buffer.ready_event().unwrap().wait().unwrap();
        // The wait may take longer than the limit of one second, but must not end much earlier.
        assert!(start.elapsed() >= Duration::from_millis(900));
    }
}

mod rules {
    use super::*;

    fn fault(text: &str) -> String {
        text.parse::<Rules>().unwrap_err().to_string()
    }

    #[test]
    fn unknown_functions_name_the_nearest() {
        assert_eq!(
            fault("memory oom; PJRT_Client_Compil oom"),
            "rule 2 `PJRT_Client_Compil oom`: unknown function `PJRT_Client_Compil`; the nearest one is \
             PJRT_Client_Compile; write a function of pjrt_c_api.h, the beginning of its name and `*`, or one of \
             `memory`, `compile`, `transfer`"
        );
        assert_eq!(
            fault("PJRT_Bufer_* oom"),
            "rule 1 `PJRT_Bufer_* oom`: no function begins with `PJRT_Bufer_` and can fail without a leak; take the \
             names from pjrt_c_api.h"
        );
    }

    #[test]
    fn functions_that_cannot_fail_are_refused() {
        for name in ["PJRT_Error_Destroy", "PJRT_Error_Message", "PJRT_Error_GetCode"] {
            let text = format!("{name} oom");
            let reason = format!("{name} cannot return an error; use `delay=TIME`, or another function");
            assert_eq!(fault(&text), format!("rule 1 `{text}`: {reason}"));
            assert!(format!("{name} delay=1us").parse::<Rules>().is_ok());
        }
    }

    /// A function that destroys an object fails only if the rule contains its full name.
    #[test]
    fn patterns_spare_destroying_functions() {
        assert!(fault("PJRT_Buffer_Destroy* oom").contains("without a leak"));
        assert!("PJRT_Buffer_Destroy oom".parse::<Rules>().is_ok());
        assert!("PJRT_Buffer_Destroy* delay=1ms".parse::<Rules>().is_ok());
    }

    #[test]
    fn wrong_words_name_the_right_ones() {
        let mut messages = String::new();
        for rule in [
            "compile",
            "compile now",
            "compile oom error=INTERNAL",
            "compile oom call=1 call=2",
            "memory lost oom",
            "memory lost late",
            "compile lost",
            "compile delay=5",
            "compile delay=1.5s",
            "compile oom chance=2",
            "compile oom chance=NaN",
            "compile error=OUT_OF_MEMORY",
            "compile error=OK",
            " ; ",
        ] {
            messages += &format!("`{rule}`: {}\n", fault(rule));
        }
        expect![[r#"
            `compile`: rule 1 `compile`: it has no effect: add `oom`, `error=CODE`, `delay=TIME`, `lost` or `late`
            `compile now`: rule 1 `compile now`: unknown word `now`; behind the function, a rule has `oom`, `error=CODE`, `delay=TIME`, `lost`, `late`, `call=NUMBER` and `chance=NUMBER`
            `compile oom error=INTERNAL`: rule 1 `compile oom error=INTERNAL`: it has two errors: remove one of them
            `compile oom call=1 call=2`: rule 1 `compile oom call=1 call=2`: it has `call` twice: remove one of them
            `memory lost oom`: rule 1 `memory lost oom`: a call that fails returns no events: remove the error, or `lost` or `late`
            `memory lost late`: rule 1 `memory lost late`: it has `lost` or `late` twice: remove one of them
            `compile lost`: rule 1 `compile lost`: `compile` selects no function that returns an event; use `transfer`, PJRT_LoadedExecutable_Execute or PJRT_Buffer_ReadyEvent
            `compile delay=5`: rule 1 `compile delay=5`: `delay=5` is not a time; write a whole number and `us`, `ms` or `s`
            `compile delay=1.5s`: rule 1 `compile delay=1.5s`: `delay=1.5s` is not a time; write a whole number and `us`, `ms` or `s`
            `compile oom chance=2`: rule 1 `compile oom chance=2`: `chance=2` is not a probability; write a number from 0 to 1
            `compile oom chance=NaN`: rule 1 `compile oom chance=NaN`: `chance=NaN` is not a probability; write a number from 0 to 1
            `compile error=OUT_OF_MEMORY`: rule 1 `compile error=OUT_OF_MEMORY`: unknown code `OUT_OF_MEMORY`; the codes are CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED
            `compile error=OK`: rule 1 `compile error=OK`: unknown code `OK`; the codes are CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED
            ` ; `: there is no rule: write one, such as `memory call=3 oom`
        "#]].assert_eq(&messages);
        let mut messages = String::new();
        for call in ["0", "x", "3-2", "-", "-3", ""] {
            let rule = format!("compile oom call={call}");
            messages += &format!("`{rule}`: {}\n", fault(&rule));
        }
        expect![[r#"
            `compile oom call=0`: rule 1 `compile oom call=0`: `call=0` does not select a call; the first call is 1, so write `call=3`, `call=3-5`, or `call=3-` for all from the third on
            `compile oom call=x`: rule 1 `compile oom call=x`: `call=x` does not select a call; the first call is 1, so write `call=3`, `call=3-5`, or `call=3-` for all from the third on
            `compile oom call=3-2`: rule 1 `compile oom call=3-2`: `call=3-2` does not select a call; the first call is 1, so write `call=3`, `call=3-5`, or `call=3-` for all from the third on
            `compile oom call=-`: rule 1 `compile oom call=-`: `call=-` does not select a call; the first call is 1, so write `call=3`, `call=3-5`, or `call=3-` for all from the third on
            `compile oom call=-3`: rule 1 `compile oom call=-3`: `call=-3` does not select a call; the first call is 1, so write `call=3`, `call=3-5`, or `call=3-` for all from the third on
            `compile oom call=`: rule 1 `compile oom call=`: `call=` does not select a call; the first call is 1, so write `call=3`, `call=3-5`, or `call=3-` for all from the third on
        "#]].assert_eq(&messages);
    }
}
