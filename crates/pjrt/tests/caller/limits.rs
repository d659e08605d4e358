//! Tests out-of-memory errors, the out-of-memory hook, and [`InFlightLimiter`](pjrt::InFlightLimiter).

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]
#![allow(clippy::disallowed_methods, reason = "a test of panics")]

use expect_test::expect;
use std::time::Duration;

use crate::fake::{Fake, make_error, plugin_of, table};
use pjrt::{
    Buffer, Client, ClientOptions, CompileOptions, ErrorKind, ExecuteOptions, Input, LoadedExecutable, Program,
};
use pjrt_sys::*;

/// A timeout that no operation of these tests exceeds.
const LONG: Duration = Duration::from_secs(600);

fn compile(client: &Client) -> Result<LoadedExecutable, pjrt::Error> {
    client.compile(&Program::mlir(""), &CompileOptions::default())
}

fn upload(client: &Client) -> Result<Buffer, pjrt::Error> {
    client.buffer_from_host(&[1u8, 2], &[2])
}

mod out_of_memory {
    use std::cell::Cell;
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Mutex};

    use pjrt::{
        AsyncHostToDeviceTransferManager, ElementType, Error, ErrorCode, HostBufferSemantics, Layout, Shape, Upload,
    };

    use super::*;

    // The variables are thread-local, so that tests on other threads do not change them. The plugin's functions run on
    // the thread of the test that calls them.
    thread_local! {
        /// How many of the next allocating calls will fail.
        static FAILURES: Cell<usize> = const { Cell::new(0) };
        /// Number of allocating calls since a test last reset this counter.
        static CALLS: Cell<usize> = const { Cell::new(0) };
        /// Whether a failed run deletes its first input.
        static CONSUMES: Cell<bool> = const { Cell::new(false) };
    }

    fn exhausted() -> bool {
        CALLS.set(CALLS.get() + 1);
        let failures = FAILURES.get();
        FAILURES.set(failures.saturating_sub(1));
        failures > 0
    }

    macro_rules! limited {
        ($($name:ident: $function:ident($args:ident);)*) => {
            $(
                unsafe extern "C" fn $name(args: *mut $args) -> *mut PJRT_Error {
                    if exhausted() {
                        return make_error(Some(8));
                    }
                    unsafe { table().$function.unwrap()(args) }
                }
            )*
        };
    }

    limited! {
        compile_limited: PJRT_Client_Compile(PJRT_Client_Compile_Args);
        upload_limited: PJRT_Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args);
        copy_limited: PJRT_Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args);
        copy_to_memory_limited: PJRT_Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args);
        uninitialized_limited: PJRT_Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args);
    }

    unsafe extern "C" fn load_limited(args: *mut PJRT_Client_Load_Args) -> *mut PJRT_Error {
        if exhausted() {
            // A failed call may leave arbitrary values in its outputs.
            unsafe { (*args).loaded_executable = std::ptr::without_provenance_mut(1) };
            return make_error(Some(8));
        }
        unsafe { (*args).loaded_executable = loaded((*args).client) };
        null_mut()
    }

    unsafe extern "C" fn deserialize_limited(args: *mut PJRT_Executable_DeserializeAndLoad_Args) -> *mut PJRT_Error {
        if exhausted() {
            unsafe { (*args).loaded_executable = std::ptr::without_provenance_mut(1) };
            return make_error(Some(8));
        }
        unsafe { (*args).loaded_executable = loaded((*args).client) };
        null_mut()
    }

    /// Returns a newly compiled executable, because the fake plugin cannot load a serialized one.
    unsafe fn loaded(client: *mut PJRT_Client) -> *mut PJRT_LoadedExecutable {
        let mut args = PJRT_Client_Compile_Args::new();
        args.client = client;
        assert!(unsafe { table().PJRT_Client_Compile.unwrap()(&raw mut args) }.is_null());
        args.executable
    }

    unsafe extern "C" fn manager_limited(
        args: *mut PJRT_Client_CreateBuffersForAsyncHostToDevice_Args,
    ) -> *mut PJRT_Error {
        if exhausted() {
            unsafe { (*args).transfer_manager = std::ptr::without_provenance_mut(1) };
            return make_error(Some(8));
        }
        unsafe { (*args).transfer_manager = Box::into_raw(Box::new(0u8)).cast() };
        null_mut()
    }

    unsafe extern "C" fn manager_destroy(
        args: *mut PJRT_AsyncHostToDeviceTransferManager_Destroy_Args,
    ) -> *mut PJRT_Error {
        drop(unsafe { Box::from_raw((*args).transfer_manager.cast::<u8>()) });
        null_mut()
    }

    unsafe extern "C" fn execute_limited(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
        if !exhausted() {
            return unsafe { table().PJRT_LoadedExecutable_Execute.unwrap()(args) };
        }
        // A failed call may leave arbitrary values in its outputs.
        unsafe { **(*args).output_lists = std::ptr::without_provenance_mut(1) };
        if CONSUMES.get() {
            let mut delete = PJRT_Buffer_Delete_Args::new();
            delete.buffer = unsafe { **(*args).argument_lists };
            assert!(unsafe { table().PJRT_Buffer_Delete.unwrap()(&raw mut delete) }.is_null());
        }
        make_error(Some(8))
    }

    unsafe extern "C" fn stats(args: *mut PJRT_Device_MemoryStats_Args) -> *mut PJRT_Error {
        unsafe {
            (*args).bytes_in_use = 100;
            ((*args).bytes_limit, (*args).bytes_limit_is_set) = (200, true.into());
        }
        null_mut()
    }

    unsafe extern "C" fn description(args: *mut PJRT_Device_GetDescription_Args) -> *mut PJRT_Error {
        unsafe { (*args).device_description = (*args).device.cast() };
        null_mut()
    }

    /// Returns the device's own address as the address of its memory. [`memory_devices`] can then convert the address
    /// of a memory to that of its device.
    unsafe extern "C" fn default_memory(args: *mut PJRT_Device_DefaultMemory_Args) -> *mut PJRT_Error {
        unsafe { (*args).memory = (*args).device.cast() };
        null_mut()
    }

    unsafe extern "C" fn memory_devices(args: *mut PJRT_Memory_AddressableByDevices_Args) -> *mut PJRT_Error {
        // One array per thread is enough, because `pjrt` reads the array before the thread makes the next call.
        thread_local! {
            static DEVICES: Cell<[*mut PJRT_Device; 1]> = const { Cell::new([null_mut()]) };
        }
        DEVICES.set([unsafe { (*args).memory }.cast()]);
        unsafe {
            (*args).devices = DEVICES.with(Cell::as_ptr).cast();
            (*args).num_devices = 1;
        }
        null_mut()
    }

    unsafe extern "C" fn device_id(args: *mut PJRT_DeviceDescription_Id_Args) -> *mut PJRT_Error {
        unsafe { (*args).id = 7 };
        null_mut()
    }

    fn limited_table() -> PJRT_Api {
        let mut table = table();
        table.PJRT_Client_Compile = Some(compile_limited);
        table.PJRT_Client_BufferFromHostBuffer = Some(upload_limited);
        table.PJRT_Buffer_CopyToDevice = Some(copy_limited);
        table.PJRT_Buffer_CopyToMemory = Some(copy_to_memory_limited);
        table.PJRT_Device_DefaultMemory = Some(default_memory);
        table.PJRT_Memory_AddressableByDevices = Some(memory_devices);
        table.PJRT_Client_CreateUninitializedBuffer = Some(uninitialized_limited);
        table.PJRT_Client_Load = Some(load_limited);
        table.PJRT_Executable_DeserializeAndLoad = Some(deserialize_limited);
        table.PJRT_Client_CreateBuffersForAsyncHostToDevice = Some(manager_limited);
        table.PJRT_AsyncHostToDeviceTransferManager_Destroy = Some(manager_destroy);
        table.PJRT_LoadedExecutable_Execute = Some(execute_limited);
        table.PJRT_Device_MemoryStats = Some(stats);
        table.PJRT_Device_GetDescription = Some(description);
        table.PJRT_DeviceDescription_Id = Some(device_id);
        table
    }

    /// The errors that a hook received.
    type Seen = Arc<Mutex<Vec<Error>>>;

    /// Creates a client whose hook returns `answer`. Also returns the errors that the hook receives.
    fn client(answer: bool) -> (Client, Seen) {
        let seen = Seen::default();
        let theirs = seen.clone();
        let options = Fake::new().options().with_out_of_memory_hook(move |error| {
            theirs.lock().unwrap().push(error.clone());
            answer
        });
        (plugin_of(limited_table()).unwrap().client(&options).unwrap(), seen)
    }

    /// Runs an operation whose first `failures` allocating calls fail. Returns the operation's result and the number of
    /// allocating calls.
    fn failing<T>(failures: usize, operation: impl FnOnce() -> Result<T, Error>) -> (Result<T, Error>, usize) {
        FAILURES.set(failures);
        CALLS.set(0);
        let result = operation();
        FAILURES.set(0);
        (result, CALLS.get())
    }

    fn check_error(error: &Error) {
        assert!(error.is_out_of_memory(), "{error}");
        let [memory] = error.device_memory() else { panic!("{error:?}") };
        assert_eq!((memory.device_id, memory.stats.bytes_in_use, memory.stats.bytes_limit), (7, 100, Some(200)));
    }

    type Operation<'a> = (&'a str, Box<dyn Fn() -> Result<Vec<Buffer>, Error> + 'a>);

    fn operations<'a>(client: &'a Client, program: &'a LoadedExecutable, x: &'a Buffer) -> Vec<Operation<'a>> {
        let options = ExecuteOptions::new();
        let donate = {
            let options = options.clone();
            move || {
                // The fake plugin does not consume donated inputs unless `Fake::donate` is set, so the run can be
                // repeated.
                let own = fake_upload(client);
                program.execute_with([Input::Donate(own)], &options).map(|run| run.outputs.into_vec())
            }
        };
        vec![
            ("upload", Box::new(|| upload(client).map(|buffer| vec![buffer]))),
            (
                "upload of owned data",
                Box::new(|| client.upload(Upload::owned(vec![1u8, 2]).dims(&[2])).map(|x| vec![x])),
            ),
            (
                "upload until the transfer completes",
                Box::new(|| {
                    let semantics = HostBufferSemantics::ImmutableUntilTransferCompletes;
                    client.upload(Upload::owned(vec![1u8, 2]).dims(&[2]).semantics(semantics)).map(|x| vec![x])
                }),
            ),
            ("copy", Box::new(|| x.copy_to(&client.default_device()?).map(|copy| vec![copy]))),
            (
                "copy to a memory",
                Box::new(|| {
                    let memory = client.default_device()?.default_memory()?;
                    x.copy_to(&memory).map(|copy| vec![copy])
                }),
            ),
            (
                "uninitialized buffer",
                Box::new(|| {
                    let shape = Shape::new(ElementType::U8, [2]);
                    let memory = client.default_device()?.default_memory()?;
                    memory.buffer(&shape).uninitialized().map(|_| vec![])
                }),
            ),
            (
                "transfer manager",
                Box::new(|| {
                    let shape = Shape::new(ElementType::U8, [2]);
                    let memory = client.default_device()?.default_memory()?;
                    AsyncHostToDeviceTransferManager::new(&memory, &[shape]).map(|_| vec![])
                }),
            ),
            (
                "transfer manager with layouts",
                Box::new(|| {
                    let buffers = [(Shape::new(ElementType::U8, [2, 1]), Layout::row_major(2))];
                    let memory = client.default_device()?.default_memory()?;
                    AsyncHostToDeviceTransferManager::with_layouts(&memory, &buffers).map(|_| vec![])
                }),
            ),
            ("compile", Box::new(|| compile(client).map(|_| vec![]))),
            (
                "compile with raw options",
                Box::new(|| {
                    let options = CompileOptions::default().encode();
                    client.compile_with_raw_options(&Program::mlir(""), &options).map(|_| vec![])
                }),
            ),
            (
                "load",
                Box::new(|| client.load_executable(program.executable(), &CompileOptions::default()).map(|_| vec![])),
            ),
            (
                "deserialize",
                Box::new(|| {
                    let bytes = b"a program";
                    unsafe { client.deserialize_and_load_unchecked(bytes) }.map(|_| vec![])
                }),
            ),
            ("execute", Box::new(|| program.execute(&[x]).map(Vec::from))),
            (
                "execute with options",
                Box::new(move || program.execute_with([Input::Borrow(x)], &options).map(|run| run.outputs.into_vec())),
            ),
            ("execute with a donated input", Box::new(donate)),
        ]
    }

    /// Uploads an array without failing or counting the call.
    fn fake_upload(client: &Client) -> Buffer {
        let (failures, calls) = (FAILURES.replace(0), CALLS.get());
        let buffer = upload(client).unwrap();
        FAILURES.set(failures);
        CALLS.set(calls);
        buffer
    }

    #[test]
    fn is_retried_once_after_the_hook() {
        let (client, seen) = client(true);
        let (program, x) = (compile(&client).unwrap(), upload(&client).unwrap());
        for (name, operation) in operations(&client, &program, &x) {
            let (result, calls) = failing(1, &operation);
            let outputs = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(calls, 2, "{name}");
            for output in outputs {
                assert_eq!(output.to_host::<u8>().unwrap(), [1, 2], "{name}");
            }
            let errors = std::mem::take(&mut *seen.lock().unwrap());
            assert_eq!(errors.len(), 1, "{name}");
            check_error(&errors[0]);

            let (result, calls) = failing(usize::MAX, &operation);
            check_error(&result.map(drop).unwrap_err());
            assert_eq!((calls, seen.lock().unwrap().drain(..).count()), (2, 1), "{name}");
        }
    }

    #[test]
    fn is_an_error_if_nothing_was_freed() {
        let (client, seen) = client(false);
        let (program, x) = (compile(&client).unwrap(), upload(&client).unwrap());
        let plain = Fake::new().client_of(&plugin_of(limited_table()).unwrap());
        let (others, y) = (compile(&plain).unwrap(), upload(&plain).unwrap());
        let with = operations(&client, &program, &x).into_iter().map(|operation| (operation, 1));
        let without = operations(&plain, &others, &y).into_iter().map(|operation| (operation, 0));
        for ((name, operation), hooks) in with.chain(without) {
            let (result, calls) = failing(1, operation);
            check_error(&result.map(drop).unwrap_err());
            assert_eq!((calls, seen.lock().unwrap().drain(..).count()), (1, hooks), "{name}");
        }
    }

    #[test]
    fn consumed_inputs_are_not_used_again() {
        let (client, seen) = client(true);
        let (program, x) = (compile(&client).unwrap(), upload(&client).unwrap());
        CONSUMES.set(true);
        let (result, calls) =
            failing(1, || program.execute_with([Input::Donate(x)], &ExecuteOptions::new()).map(|run| run.outputs));
        CONSUMES.set(false);
        check_error(&result.map(drop).unwrap_err());
        assert_eq!((calls, seen.lock().unwrap().len()), (1, 0));
    }

    #[test]
    fn runs_with_callbacks_are_not_repeated() {
        let (client, seen) = client(true);
        let (program, x) = (compile(&client).unwrap(), upload(&client).unwrap());
        let options = ExecuteOptions::new().with_send_callback(1, |_| Ok(()));
        let (result, calls) = failing(1, || program.execute_with([Input::Borrow(&x)], &options).map(drop));
        check_error(&result.unwrap_err());
        assert_eq!((calls, seen.lock().unwrap().len()), (1, 0));
    }

    #[test]
    fn other_errors_are_not_retried() {
        let (client, seen) = client(true);
        let error = client.lookup_device(3).map(drop).unwrap_err();
        assert!(!error.is_out_of_memory() && error.device_memory().is_empty());
        let error = client.lookup_device(8).map(drop).unwrap_err();
        assert!(error.is_out_of_memory(), "{error}");
        assert!(seen.lock().unwrap().is_empty(), "a lookup allocates nothing");
    }

    #[test]
    fn hooks_do_not_nest() {
        static DEPTH: AtomicUsize = AtomicUsize::new(0);
        let own = Arc::new(Mutex::new(None::<Client>));
        let theirs = own.clone();
        let options = Fake::new().options().with_out_of_memory_hook(move |_| {
            DEPTH.fetch_add(1, SeqCst);
            let client = theirs.lock().unwrap().take().unwrap();
            upload(&client).map(drop).unwrap_err();
            true
        });
        let client = plugin_of(limited_table()).unwrap().client(&options).unwrap();
        *own.lock().unwrap() = Some(client.clone());
        let (result, calls) = failing(2, || upload(&client));
        result.unwrap();
        assert_eq!((calls, DEPTH.load(SeqCst)), (3, 1));
    }

    #[test]
    fn hook_may_panic() {
        let options = Fake::new().options().with_out_of_memory_hook(|_| panic!("from the hook"));
        let client = plugin_of(limited_table()).unwrap().client(&options).unwrap();
        for _ in 0..2 {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| failing(1, || upload(&client))));
            assert_eq!(*panicked.map(drop).unwrap_err().downcast::<&str>().unwrap(), "from the hook");
            FAILURES.set(0);
            assert!(upload(&client).is_ok());
        }
    }

    #[test]
    fn event_reports_all_devices() {
        let fake = Fake::new();
        fake.event_error.store(8, SeqCst);
        let client = fake.client_of(&plugin_of(limited_table()).unwrap());
        let buffer = upload(&client).unwrap();
        check_error(&buffer.ready_event().unwrap().wait().unwrap_err());
        check_error(&buffer.wait().unwrap_err());
    }

    /// Tests on the embedded device, whose memory limit is 1.5 times the size of one array.
    mod embedded {
        use super::*;

        const COUNT: i64 = 1 << 18;
        const BYTES: i64 = COUNT * 4;
        /// A program that may write its output into its argument's memory, and a program whose output exceeds the
        /// memory limit.
        const PROGRAMS: [&str; 2] = [
            "func.func @main(%x: tensor<262144xf32> {tf.aliasing_output = 0 : i32}) -> tensor<262144xf32> {
               %y = stablehlo.negate %x : tensor<262144xf32>
               return %y : tensor<262144xf32>
             }",
            "func.func @main(%x: tensor<262144xf32>) -> tensor<524288xf32> {
               %y = stablehlo.concatenate %x, %x, dim = 0
                   : (tensor<262144xf32>, tensor<262144xf32>) -> tensor<524288xf32>
               return %y : tensor<524288xf32>
             }",
        ];

        type Allocate<'a> = &'a dyn Fn() -> Result<(), Error>;

        fn limited() -> (Client, Arc<Mutex<Vec<Buffer>>>) {
            let cache = Arc::new(Mutex::new(Vec::<Buffer>::new()));
            let weak = Arc::downgrade(&cache);
            let options = ClientOptions::new().with("memory_limit", "1536KiB").with_out_of_memory_hook(move |error| {
                assert_eq!(error.device_memory()[0].stats.bytes_in_use, BYTES);
                weak.upgrade().is_some_and(|cache| cache.lock().unwrap().pop().is_some())
            });
            (plugin_registry::open("cpu").unwrap().client(&options).unwrap(), cache)
        }

        fn array(client: &Client) -> Result<Buffer, Error> {
            client.buffer_from_host(&vec![1.0f32; 1 << 18], &[COUNT])
        }

        #[test]
        fn cached_buffers_make_room() {
            let (client, cache) = limited();
            let memory = client.default_device().unwrap().default_memory().unwrap();
            let shape = Shape::new(ElementType::F32, [COUNT]);
            let operations: [(&str, Allocate<'_>); 2] = [
                ("upload", &|| array(&client).map(drop)),
                ("create_uninitialized_buffer", &|| memory.buffer(&shape).uninitialized().map(drop)),
            ];
            for (name, operation) in operations {
                cache.lock().unwrap().push(array(&client).unwrap());
                operation().unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(cache.lock().unwrap().is_empty(), "{name} needs the room of the cached buffer");
            }
            let _kept = array(&client).unwrap();
            let error = array(&client).unwrap_err();
            assert_eq!(error.device_memory()[0].stats.bytes_limit, Some(BYTES + BYTES / 2), "{error}");
        }

        /// A run with a donated input either succeeds or reports exhausted memory. In particular, it is not repeated
        /// with an input that a failed run has consumed.
        #[test]
        fn runs_either_succeed_or_report_the_memory() {
            for (text, fits) in PROGRAMS.into_iter().zip([true, false]) {
                let (client, _cache) = limited();
                let program = client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap();
                let x = array(&client).unwrap();
                let run = program.execute(&[&x]).and_then(|outputs| outputs[0].wait());
                assert!(run.unwrap_err().is_out_of_memory(), "a borrowed input and an output need two places");
                let run = program.execute_with([Input::Donate(x)], &ExecuteOptions::new());
                let run = run.and_then(|run| run.outputs[0].to_host::<f32>());
                match run {
                    Ok(result) => assert!(fits && result.iter().all(|value| *value == -1.0)),
                    Err(error) => assert!(!fits && error.code() == ErrorCode::RESOURCE_EXHAUSTED, "{error}"),
                }
            }
        }
    }
}

mod in_flight_limiter {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;

    use pjrt::InFlightLimiter;

    use super::*;
    use crate::block_on::block_on;

    #[test]
    fn runs_in_flight_are_bounded() {
        let fake = Fake::new();
        let client = fake.client();
        let (program, x) = (compile(&client).unwrap(), upload(&client).unwrap());
        fake.manual.store(true, SeqCst);
        let limiter = InFlightLimiter::operations(2);
        for _ in 0..2 {
            let permit = limiter.acquire(0).wait().unwrap();
            let run = program.execute_with([Input::Borrow(&x)], &ExecuteOptions::new()).unwrap();
            permit.release_after(&run.done);
        }
        assert!(limiter.try_acquire(0).is_none());
        assert!(client.synchronize(Duration::ZERO).is_err(), "it waits for the permits");
        fake.finish();
        client.synchronize(LONG).unwrap();
        assert_eq!(limiter.operations_in_flight(), 0);
        assert!(limiter.try_acquire(0).is_some());
    }

    #[test]
    fn bytes_are_bounded() {
        let limiter = InFlightLimiter::bytes(100);
        let first = limiter.try_acquire(60).unwrap();
        assert!(limiter.try_acquire(41).is_none());
        let second = limiter.try_acquire(40).unwrap();
        assert_eq!((limiter.operations_in_flight(), limiter.bytes_in_flight()), (2, 100));
        drop((first, second));
        let large = limiter.try_acquire(1000).expect("an operation above the limit runs alone");
        assert!(limiter.try_acquire(0).is_none());
        drop(large);
        assert_eq!(limiter.bytes_in_flight(), 0);
        let most = limiter.try_acquire(u64::MAX).unwrap();
        assert!(limiter.try_acquire(u64::MAX).is_none());
        drop(most);
        assert!(InFlightLimiter::new(0, 0).try_acquire(1).is_some());
    }

    /// Waiting requests are granted in order, even if there is already room for a later, smaller request.
    #[test]
    fn permits_are_granted_in_order() {
        let limiter = InFlightLimiter::bytes(100);
        let held = limiter.try_acquire(50).unwrap();
        let large = limiter.acquire(80);
        let small = limiter.acquire(10);
        assert!(limiter.try_acquire(1).is_none(), "others wait");
        let (sender, receiver) = mpsc::channel();
        let waiting = std::thread::spawn(move || sender.send(small.wait().unwrap()).unwrap());
        assert!(receiver.try_recv().is_err());
        drop(held);
        let large = large.wait().unwrap();
        let _small = receiver.recv_timeout(LONG).unwrap();
        waiting.join().unwrap();
        assert_eq!(limiter.bytes_in_flight(), 90);
        drop(large);
    }

    /// Dropping a request removes it from the queue, or releases its permit if it was already granted.
    #[test]
    fn requests_may_be_dropped() {
        let limiter = InFlightLimiter::bytes(100);
        let held = limiter.try_acquire(50).unwrap();
        let (large, small) = (limiter.acquire(80), limiter.acquire(10));
        drop(large);
        assert_eq!(limiter.bytes_in_flight(), 60, "the small one was granted");
        drop(small);
        assert_eq!(limiter.bytes_in_flight(), 50);
        drop(limiter.acquire(10));
        drop(held);
        assert_eq!((limiter.operations_in_flight(), limiter.bytes_in_flight()), (0, 0));
    }

    #[test]
    fn requests_are_futures() {
        let limiter = InFlightLimiter::operations(1);
        let held = block_on(limiter.acquire(0));
        let next = limiter.acquire(0);
        let thread = std::thread::spawn(move || drop(block_on(next)));
        drop(held);
        thread.join().unwrap();
        assert!(limiter.try_acquire(0).is_some());
    }

    #[test]
    fn request_polled_again_requests_another_permit() {
        let limiter = InFlightLimiter::operations(2);
        let mut request = limiter.acquire(5);
        let first = block_on(&mut request);
        let second = block_on(&mut request);
        assert_eq!((limiter.operations_in_flight(), limiter.bytes_in_flight()), (2, 10));
        drop((request, first, second));
        assert_eq!((limiter.operations_in_flight(), limiter.bytes_in_flight()), (0, 0));
    }

    #[test]
    fn callbacks_cannot_wait() {
        let client = Fake::new().client();
        let limiter = InFlightLimiter::operations(1);
        let held = limiter.try_acquire(0).unwrap();
        let theirs = limiter.clone();
        let (sender, receiver) = mpsc::channel();
        let event = upload(&client).unwrap().ready_event().unwrap();
        event.on_ready(move |_| sender.send(theirs.acquire(0).wait().map(drop)).unwrap()).unwrap();
        let error = receiver.recv_timeout(LONG).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        expect!["a callback cannot wait for a permit; use `try_acquire`, or another thread"].assert_eq(error.message());
        drop(held);
        assert_eq!(limiter.operations_in_flight(), 0, "the request was dropped");
    }

    /// Eight threads together never have more operations in flight than the limit.
    #[test]
    fn threads_share_the_limit() {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let limiter = InFlightLimiter::operations(3);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let permit = limiter.acquire(0).wait().unwrap();
                        MOST.fetch_max(NOW.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        NOW.fetch_sub(1, SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        assert!((1..=3).contains(&MOST.load(SeqCst)), "{MOST:?}");
        assert_eq!(limiter.operations_in_flight(), 0);
    }
}
