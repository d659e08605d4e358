//! A device that keeps the order of submission itself: executions are given what is under way, and everything else is
//! told of a buffer only when it is there.

use std::collections::VecDeque;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use device_plugin::*;
use pjrt_sys::*;

use crate::framework::{self, Answer, Framework};

struct Queued;

impl DevicePlugin for Queued {
    const NAME: &'static str = "queued";
    type Backend = Board;
}

/// Two devices; the second one has no room for copies.
struct Board;

/// Filled in its turn.
type Cell = Arc<OnceLock<Vec<u8>>>;

type Work = Box<dyn FnOnce() + Send>;
/// What the device is to do; the tests let it.
static QUEUE: Mutex<VecDeque<Work>> = Mutex::new(VecDeque::new());
/// The queue is that of one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn submit(work: impl FnOnce() + Send + 'static) {
    QUEUE.lock().unwrap().push_back(Box::new(work));
}

/// Does the first piece of work; false when there is none.
fn step() -> bool {
    let work = QUEUE.lock().unwrap().pop_front();
    work.map(|work| work()).is_some()
}

impl Backend for Board {
    type Buffer = Cell;
    type Executable = ();

    const QUEUED: bool = true;

    fn create(_: &CreateOptions) -> Result<Self> {
        Ok(Self)
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::new(0, "Queued"), DeviceInfo::new(1, "Full")]
    }

    fn memories(&self) -> Vec<MemoryInfo> {
        vec![MemoryInfo::new("device", 0, [0]).on_host(), MemoryInfo::new("device", 0, [1]).on_host()]
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Cell> {
        Ok(Arc::new(OnceLock::from(host.into_bytes())))
    }

    fn read(&self, buffer: &Cell, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(buffer.get().expect("read before it was there"));
        Ok(())
    }

    fn host_bytes<'a>(&self, buffer: &'a Cell) -> Option<&'a [u8]> {
        Some(buffer.get().expect("seen before it was there"))
    }

    fn copy(&self, buffer: &Cell, _: &Shape, to: Placement) -> Result<Cell> {
        let copy = move |from: &Cell| match to.device {
            0 => Ok(from.get().expect("copied before its turn").clone()),
            _ => Err(Error::resource_exhausted("no room for a copy")),
        };
        if buffer.get().is_some() {
            return Ok(Arc::new(OnceLock::from(copy(buffer)?)));
        }
        // In its turn, and what happens then is told to nobody.
        let (from, made) = (buffer.clone(), Cell::default());
        let fill = Arc::clone(&made);
        submit(move || {
            if let Ok(bytes) = copy(&from) {
                let _ = fill.set(bytes);
            }
        });
        Ok(made)
    }

    fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
        let shape = Shape::new(ElementType::U8, [2]);
        Ok(Compiled { executable: (), info: ExecutableInfo::new("next", [shape.clone()], [shape]) })
    }

    /// Adds one to each byte, in its turn.
    fn execute(&self, _: &Arc<()>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let (from, made) = (launch.inputs[0].clone(), Cell::default());
        launch.outputs.push(Arc::clone(&made))?;
        let (event, completer) = Event::pending();
        submit(move || {
            let bytes = from.get().expect("executed before its turn");
            let _ = made.set(bytes.iter().map(|byte| byte + 1).collect());
            completer.complete(Ok(()));
        });
        Ok(event)
    }
}

fn plugin() -> Framework {
    Framework(api::<Queued>())
}

/// A client, its program, an argument, and the output of an execution that the device has not begun.
struct World {
    client: framework::Client,
    program: framework::Loaded,
    input: framework::Buffer,
    output: framework::Buffer,
    event: framework::Event,
}

impl World {
    fn new() -> Self {
        let client = plugin().client(&[]).unwrap();
        let program = plugin().compile(client, "").unwrap();
        let input = plugin().put(client, &Shape::new(ElementType::U8, [2]), &[3, 4], 0).unwrap();
        let (outputs, event) = plugin().execute(program, &[input], 1).unwrap();
        Self { client, program, input, output: outputs[0], event }
    }

    fn copy(&self, device: usize) -> Answer<framework::Buffer> {
        let device = plugin().devices(self.client)[device];
        let copy = plugin()
            .ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (self.output, device));
        copy.map(|args| args.dst_buffer)
    }

    fn end(self) {
        assert!(!step(), "the device has more to do");
        plugin().wait(self.event).unwrap();
        plugin().destroy(&[self.input, self.output]);
        plugin().destroy_loaded(self.program);
        plugin().destroy_client(self.client);
    }
}

#[test]
fn a_copy_of_what_is_under_way_is_ready_when_it_is_made() {
    let _alone = alone();
    let world = World::new();
    let copy = world.copy(0).unwrap();
    let ready = plugin().ready_event(copy);
    assert!(!plugin().is_ready(ready));
    // The execution is over. Whoever is told that the copy is ready may use its memory.
    assert!(step());
    plugin().wait(ready).unwrap();
    let pointer = plugin().ask::<slot::PJRT_Buffer_UnsafePointer>(|args| args.buffer = copy).unwrap().buffer_pointer;
    let bytes: *const u8 = std::ptr::with_exposed_provenance(pointer);
    assert_eq!(unsafe { framework::slice(bytes, 2) }, [4, 5]);
    assert_eq!(plugin().read(copy).unwrap(), [4, 5]);
    plugin().destroy(&[copy]);
    world.end();
}

#[test]
fn a_copy_that_fails_in_the_end_tells_so() {
    let _alone = alone();
    let world = World::new();
    let copy = world.copy(1).unwrap();
    let ready = plugin().ready_event(copy);
    while step() {}
    let fault = plugin().wait(ready).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::RESOURCE_EXHAUSTED, "no room for a copy"));
    assert!(plugin().read(copy).unwrap_err().message.contains("no room for a copy"));
    // Of what is there already, the call says it at once.
    assert!(world.copy(1).unwrap_err().message.contains("no room for a copy"));
    plugin().destroy(&[copy]);
    world.end();
}

#[test]
fn executions_are_given_what_is_under_way_and_wait_for_copies_of_it() {
    let _alone = alone();
    let world = World::new();
    // Nobody waits for the first execution here.
    let (outputs, event) = plugin().execute(world.program, &[world.output], 1).unwrap();
    let copy = world.copy(0).unwrap();
    let (program, argument) = (world.program.expose_provenance(), copy.expose_provenance());
    let third = std::thread::scope(|scope| {
        let third = scope.spawn(move || {
            let program = std::ptr::with_exposed_provenance_mut(program);
            let argument = std::ptr::with_exposed_provenance_mut(argument);
            let (outputs, event) = plugin().execute(program, &[argument], 1).unwrap();
            plugin().destroy_event(event);
            outputs[0].expose_provenance()
        });
        assert!(step(), "the first execution makes the copy, which the third one waits for");
        std::ptr::with_exposed_provenance_mut(third.join().unwrap())
    });
    while step() {}
    plugin().wait(event).unwrap();
    assert_eq!(plugin().read(outputs[0]).unwrap(), [5, 6]);
    assert_eq!(plugin().read(third).unwrap(), [5, 6]);
    assert_ne!(third, null_mut());
    plugin().destroy(&[outputs[0], copy, third]);
    world.end();
}
