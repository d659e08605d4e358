//! Runs random sequences of operations, and compares the results with a sequential model. The model knows the contents
//! of each buffer, or the errors of which the buffer must report one. The works of the driver have random delays.

use std::collections::BTreeMap;
use std::time::Duration;

use pjrt::{
    Buffer, CompileOptions, Error, ErrorCode, ExecuteOptions, HostRead, Input, LoadedExecutable, Program, Upload,
};

use crate::dummy::control::Settings;
use crate::dummy::program::Kernel;
use crate::fixture::{Fixture, limited};

const DEVICES: usize = 2;
/// Small enough that the pool must return blocks to the driver, and large enough for all buffers that exist.
const LIMIT: usize = 40 << 10;
const SIZES: [usize; 3] = [3, 300, 1000];
const MOST_BUFFERS: usize = 8;
const MOST_READS: usize = 4;
const STEPS: usize = 60;

/// A generator of random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(limit).unwrap()).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// What a buffer must contain or report.
#[derive(Clone, Debug)]
struct Expected {
    /// The bytes, or the messages of the possible errors.
    value: Result<Vec<u8>, Vec<String>>,
    /// For each device, whether the value was computed on it or from a value on it.
    from: [bool; DEVICES],
    /// Whether a device was lost that may have computed the value.
    may_be_lost: bool,
}

impl Expected {
    fn new(value: Vec<u8>, device: usize) -> Self {
        let mut expected = Self { value: Ok(value), from: [false; DEVICES], may_be_lost: false };
        expected.from[device] = true;
        expected
    }

    /// Fails unless the result is an allowed one.
    fn check(&self, result: &Result<Vec<u8>, Error>, context: &str) {
        match (result, &self.value) {
            (Ok(found), Ok(bytes)) => assert_eq!(found, bytes, "{context}"),
            (Ok(_), Err(messages)) => panic!("{context}: no error, but one of {messages:?} expected"),
            (Err(error), _) => assert!(self.allows(error), "{context}: {error}, but expected {self:?}"),
        }
    }

    fn allows(&self, error: &Error) -> bool {
        let is_lost = error.code() == ErrorCode::UNAVAILABLE && self.may_be_lost;
        let code = match error.message().ends_with("cannot be prepared") {
            true => ErrorCode::FAILED_PRECONDITION,
            false => ErrorCode::DATA_LOSS,
        };
        let is_expected = |messages: &Vec<String>| messages.iter().any(|message| message == error.message());
        is_lost || (error.code() == code && self.value.as_ref().is_err_and(is_expected))
    }
}

struct Slot {
    buffer: Buffer,
    device: usize,
    expected: Expected,
}

struct Run {
    random: Random,
    fixture: Fixture,
    programs: BTreeMap<String, LoadedExecutable>,
    slots: Vec<Slot>,
    reads: Vec<(HostRead<u8>, Expected)>,
    /// Whether devices are lost in this run.
    may_lose: bool,
    lost: [bool; DEVICES],
    /// Number of programs so far, which makes their names unique.
    count: usize,
    /// Number of the last injected failure of an allocation or a preparation.
    injected: u64,
    context: String,
}

impl Run {
    fn new(seed: u64) -> Self {
        let (peers, seed_of_delays) = (seed.is_multiple_of(2), Some(seed));
        let settings = Settings { devices: DEVICES, limit: LIMIT, seed: seed_of_delays, peers, ..Settings::default() };
        Self {
            random: Random(seed),
            // A driver with all features also begins transfers of buffers that are not ready.
            fixture: if peers { Fixture::featured(settings) } else { Fixture::new(settings) },
            programs: BTreeMap::new(),
            slots: Vec::new(),
            reads: Vec::new(),
            may_lose: seed % 4 < 2,
            lost: [false; DEVICES],
            count: 0,
            injected: 0,
            context: String::new(),
        }
    }

    fn step(&mut self) {
        while self.slots.len() > MOST_BUFFERS {
            self.slots.swap_remove(self.random.below(self.slots.len()));
        }
        while self.reads.len() > MOST_READS {
            let (read, expected) = self.reads.swap_remove(self.random.below(self.reads.len()));
            expected.check(&read.wait(), &self.context);
        }
        self.inject();
        match self.random.below(100) {
            0..25 => self.upload(),
            25..60 => self.launch(),
            60..72 => self.copy(),
            72..84 => self.read(),
            84..94 => self.drop_buffer(),
            94..97 => self.upload_too_much(),
            97..99 => self.use_nonsense(),
            _ if self.may_lose => self.lose(),
            _ => {}
        }
    }

    /// Makes one of the next allocations or preparations fail. The runtime tries again, so no result changes.
    fn inject(&mut self) {
        let mut state = self.fixture.control.state();
        let next = state.allocations.max(state.prepares) + 1;
        if self.random.chance(20) && next > self.injected + 40 {
            self.injected = next;
            let (allocation, prepare) = (state.allocations + 1, state.prepares + 1);
            state.failing_allocations.push(allocation);
            state.failing_prepares.push(prepare);
        }
    }

    /// Adds a new buffer to the model, or checks that its creation may fail.
    fn add(&mut self, made: Result<Buffer, Error>, device: usize, mut expected: Expected) {
        expected.may_be_lost |= (0..DEVICES).any(|index| expected.from[index] && self.lost[index]);
        match made {
            Ok(buffer) => self.slots.push(Slot { buffer, device, expected }),
            Err(error) => assert!(expected.allows(&error), "{}: {error}, but expected {expected:?}", self.context),
        }
    }

    fn upload(&mut self) {
        let (device, size) = (self.random.below(DEVICES), SIZES[self.random.below(SIZES.len())]);
        let first = self.random.below(256);
        let data: Vec<u8> = (first..first + size).map(|value| u8::try_from(value % 256).unwrap()).collect();
        let to = self.fixture.device(device);
        let made = match self.random.chance(50) {
            true => self.fixture.client.upload(Upload::of(&data).to(&to)),
            false => self.fixture.client.upload(Upload::owned::<u8, _>(data.clone()).to(&to)),
        };
        self.add(made, device, Expected::new(data, device));
    }

    /// Writes a random program for arrays of this size.
    fn program(&mut self, size: usize, inputs: usize) -> String {
        self.count += 1;
        let mut text = format!("name=p{} size={size} inputs={inputs}", self.count);
        let outputs = 1 + self.random.below(2);
        for output in 0..outputs {
            let mut terms = vec![self.random.below(256).to_string()];
            terms.extend((0..inputs).filter(|_| self.random.chance(70)).map(|index| format!("x{index}")));
            text += &format!(" out={}", terms.join("+"));
            if inputs > 0 && self.random.chance(70) {
                text += &format!(" alias={output}:{}", self.random.below(inputs));
            }
        }
        for input in 0..inputs {
            if self.random.chance(50) {
                text += &format!(" donated={input}");
            }
        }
        if self.random.chance(30) {
            text += " scratch=700";
        }
        match self.random.below(100) {
            0..12 => text + " fail=run",
            12..20 => text + " fail=launch",
            20..24 => text + " fail=prepare",
            _ => text,
        }
    }

    fn launch(&mut self) {
        let (device, size) = (self.random.below(DEVICES), SIZES[self.random.below(SIZES.len())]);
        let fits = |slot: &Slot| slot.device == device && slot.buffer.dimensions().unwrap()[0] == size as i64;
        let mut fitting: Vec<usize> = (0..self.slots.len()).filter(|index| fits(&self.slots[*index])).collect();
        let count = self.random.below(4).min(fitting.len());
        // Use a program again sometimes.
        let old = self.programs.keys().find(|text| {
            let kernel = Kernel::read(text).unwrap();
            (kernel.size, kernel.inputs) == (size, count)
        });
        let text = match old.cloned().filter(|_| self.random.chance(50)) {
            Some(text) => text,
            None => self.program(size, count),
        };
        let kernel = Kernel::read(&text).unwrap();
        let client = &self.fixture.client;
        let program = self.programs.entry(text).or_insert_with_key(|text| {
            let mut options = CompileOptions::default();
            options.compile_portable_executable = true;
            client.compile(&Program::mlir(text.as_str()), &options).unwrap()
        });

        // Choose different buffers, and donate some of them.
        let mut chosen = Vec::new();
        for _ in 0..count {
            chosen.push(fitting.swap_remove(self.random.below(fitting.len())));
        }
        let expected: Vec<Expected> = chosen.iter().map(|index| self.slots[*index].expected.clone()).collect();
        let donates: Vec<bool> =
            (0..count).map(|input| kernel.donated.contains(&input) && self.random.chance(70)).collect();
        let mut kept: Vec<Option<Slot>> = self.slots.drain(..).map(Some).collect();
        let taken: Vec<Slot> = chosen.iter().map(|index| kept[*index].take().unwrap()).collect();
        let (mut inputs, mut borrowed) = (Vec::new(), Vec::new());
        for (slot, donates) in taken.into_iter().zip(&donates) {
            match donates {
                true => inputs.push(Ok(slot.buffer)),
                false => {
                    inputs.push(Err(borrowed.len()));
                    borrowed.push(slot);
                }
            }
        }
        let inputs = inputs.into_iter().map(|input| match input {
            Ok(buffer) => Input::Donate(buffer),
            Err(index) => Input::Borrow(&borrowed[index].buffer),
        });
        let options = ExecuteOptions::new().with_device(&self.fixture.device(device));
        let made = program.execute_with(inputs.collect::<Vec<_>>(), &options).map(|run| run.outputs.into_vec());
        self.slots = kept.into_iter().flatten().chain(borrowed).collect();

        // The model.
        let mut messages = Vec::new();
        for (index, expected) in expected.iter().enumerate() {
            let failed = expected.value.as_ref().err().into_iter().flatten();
            messages.extend(failed.map(|message| format!("argument {index} failed: {message}")));
        }
        if kernel.fails_to_run || kernel.fails_to_launch {
            messages.push(format!("launch on device {device}: kernel {} failed", kernel.name));
        }
        let mut model = Expected::new(Vec::new(), device);
        for expected in &expected {
            model.may_be_lost |= expected.may_be_lost;
            (0..DEVICES).for_each(|device| model.from[device] |= expected.from[device]);
        }
        model.may_be_lost |= self.lost[device];
        if kernel.fails_to_prepare {
            // If an argument is still being copied, the SDK prepares the launch later, and the outputs fail.
            messages.push(format!("launch on device {device}: kernel {} cannot be prepared", kernel.name));
        }
        let values = match messages.is_empty() {
            true => {
                kernel.compute(&expected.iter().map(|expected| expected.value.clone().unwrap()).collect::<Vec<_>>())
            }
            false => Vec::new(),
        };
        match made {
            Err(error) => {
                model.value = Err(messages);
                assert!(model.allows(&error), "{}: {error}, but expected {model:?}", self.context);
            }
            Ok(outputs) => {
                assert_eq!(outputs.len(), kernel.output_count());
                for (index, buffer) in outputs.into_iter().enumerate() {
                    let value = values.get(index).cloned().ok_or_else(|| messages.clone());
                    self.add(Ok(buffer), device, Expected { value, ..model.clone() });
                }
            }
        }
    }

    fn copy(&mut self) {
        let Some(index) = self.random.below(MOST_BUFFERS).checked_rem(self.slots.len()) else { return };
        let to = self.random.below(DEVICES);
        let slot = &self.slots[index];
        let made = slot.buffer.copy_to(&self.fixture.device(to));
        let mut expected = slot.expected.clone();
        expected.from[to] = true;
        self.add(made, to, expected);
    }

    fn read(&mut self) {
        let Some(index) = self.random.below(MOST_BUFFERS).checked_rem(self.slots.len()) else { return };
        let (waits, slot) = (self.random.chance(40), &self.slots[index]);
        if waits {
            return slot.expected.check(&slot.buffer.to_host::<u8>(), &self.context);
        }
        match slot.buffer.download().start::<u8>() {
            Ok(read) => self.reads.push((read, slot.expected.clone())),
            Err(error) => slot.expected.check(&Err(error), &self.context),
        }
    }

    fn drop_buffer(&mut self) {
        if let Some(index) = self.random.below(MOST_BUFFERS).checked_rem(self.slots.len()) {
            self.slots.swap_remove(index);
        }
    }

    fn upload_too_much(&mut self) {
        let device = self.random.below(DEVICES);
        let error = self.fixture.put_on(device, &vec![0; LIMIT + 1]).unwrap_err();
        // The runtime may not have called the driver since the device was lost.
        let is_lost = self.lost[device] && error.code() == ErrorCode::UNAVAILABLE;
        assert!(is_lost || error.code() == ErrorCode::RESOURCE_EXHAUSTED, "{}: {error}", self.context);
    }

    fn use_nonsense(&mut self) {
        assert_eq!(self.fixture.try_compile("nonsense").unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
    }

    fn lose(&mut self) {
        let device = self.random.below(DEVICES);
        self.fixture.control.lose(device);
        self.lost[device] = true;
        let all = self.slots.iter_mut().map(|slot| &mut slot.expected);
        for expected in all.chain(self.reads.iter_mut().map(|(_, expected)| expected)) {
            expected.may_be_lost |= expected.from[device];
        }
    }

    fn end(mut self) {
        if self.random.chance(30) {
            // Destroy everything while works are in progress.
            let Self { fixture: Fixture { client, control, .. }, programs, slots, reads, .. } = self;
            match self.random.chance(50) {
                true => drop((client, reads, programs, slots)),
                false => drop((slots, programs, reads, client)),
            }
            control.wait_until(|state| state.closed);
            return control.assert_no_violations();
        }
        for (read, expected) in self.reads.drain(..) {
            expected.check(&read.wait(), &self.context);
        }
        for slot in self.slots.drain(..) {
            slot.expected.check(&slot.buffer.to_host::<u8>(), &self.context);
        }
        self.programs.clear();
        self.fixture.client.synchronize(Duration::from_secs(30)).unwrap();
        for device in 0..DEVICES {
            // A thread of the SDK drops its reference to a buffer after the buffer's last read has ended.
            while self.fixture.used(device) > 0 {
                std::thread::yield_now();
            }
        }
        self.fixture.end();
    }
}

/// Runs 200 seeds. `DEVICE_RUNTIME_SEEDS=FIRST..END` chooses others.
#[test]
fn random_operations() {
    let seeds = std::env::var("DEVICE_RUNTIME_SEEDS").unwrap_or_else(|_| "0..200".to_owned());
    let (first, end) = seeds.split_once("..").expect("a range such as 0..200");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    for seed in number(first)..number(end) {
        limited(move || {
            let mut run = Run::new(seed);
            for step in 0..STEPS {
                run.context = format!("seed {seed}, step {step}");
                run.step();
            }
            run.end();
        });
    }
}
