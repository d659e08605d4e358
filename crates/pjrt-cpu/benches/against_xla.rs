//! Compares the embedded device with XLA's CPU plugin. Both run the same programs for the same caller, alternately and
//! in one process.
//!
//! `PJRT_TEST_PLUGINS=… cargo bench -p pjrt-cpu --bench against_xla [-- FILTER]`. The first library in the variable is
//! the plugin to compare with. Prints the median time from the call of execute until the last output is ready, for both
//! plugins, and the ratio. Also prints the ratio of the processor time of all threads, which other work on the machine
//! disturbs far less, and the target ratio. Then prints the same for compiling. Compares the outputs first, so that a
//! fast wrong answer does not count.

use std::time::{Duration, Instant};

use pjrt::{Buffer, Client, CompileOptions, ElementType, LoadedExecutable, Outputs, Program, Shape};

/// A program and the target for its ratio to XLA's time.
struct Case {
    name: &'static str,
    text: &'static str,
    aim: f64,
}

macro_rules! cases {
    ($($name:literal $aim:literal)*) => {
        &[$(Case { name: $name, text: include_str!(concat!("../../stablehlo-cpu/benches/programs/", $name, ".mlir")), aim: $aim }),*]
    };
}

const CASES: &[Case] = cases! {
    "add_one" 0.5
    "elementwise_chain" 0.4
    "tanh_chain" 0.4
    "gelu" 0.4
    "softmax" 0.5
    "layer_norm" 0.5
    "sum" 1.0
    "column_sums" 1.0
    "transpose" 1.0
    "matmul_64" 1.0
    "matmul_1024" 1.0
    "matmul_2048" 1.0
    "conv" 1.5
    "mlp_step" 1.0
    "transformer_block" 1.2
    "loop_scalar" 1.5
    "loop_branch" 1.5
    "loop_update" 1.5
    "loop_runge_kutta" 1.5
    "loop_newton" 1.5
};

/// The target ratio for compiling.
const COMPILE: f64 = 0.1;

/// One program on one plugin.
struct Side {
    client: Client,
    executable: LoadedExecutable,
    inputs: Vec<Buffer>,
}

impl Side {
    fn new(client: &Client, text: &str, shapes: &[Shape]) -> Self {
        let executable =
            client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        let device = client.addressable_devices().expect("devices").remove(0);
        let upload = |(shape, seed): (&Shape, u64)| {
            let bytes: Vec<u8> = random(shape, seed).iter().flat_map(|x| x.to_ne_bytes()).collect();
            client.buffer_from_bytes(&bytes, shape, &device).expect("a buffer")
        };
        let inputs = shapes.iter().zip(1..).map(upload).collect();
        Self { client: client.clone(), executable, inputs }
    }

    fn run(&self) -> Outputs {
        let inputs: Vec<&Buffer> = self.inputs.iter().collect();
        let outputs = self.executable.execute(&inputs).expect("an execution");
        outputs.iter().for_each(|output| output.wait().expect("an output"));
        outputs
    }

    fn compile(&self, text: &str) {
        let program = Program::mlir(text);
        drop(self.client.compile(&program, &CompileOptions::default()).expect("a program"));
    }
}

/// Numbers between -0.5 and 0.5.
fn random(shape: &Shape, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let count: i64 = shape.dimensions.iter().product();
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from((state >> 48) as u16) / 65536.0 - 0.5
    };
    (0..count).map(next).collect()
}

/// Shapes of the entry's arguments.
fn shapes(text: &str) -> Vec<Shape> {
    let module = stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::FULL).expect("a program");
    let main = module.entry().expect("an entry");
    let shape = |&value| {
        let tensor = main.ty(value).as_tensor().expect("a tensor");
        Shape::new(ElementType::F32, tensor.shape.clone())
    };
    main.args().iter().map(shape).collect()
}

/// Wall time, and processor time of all threads together, in seconds.
#[derive(Clone, Copy, Default)]
struct Spent {
    wall: f64,
    processors: f64,
}

/// Processor time that this process has used so far. Constant if the system does not measure it.
fn processors() -> Duration {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::try_from(now).unwrap_or_default()
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

fn time(mut work: impl FnMut()) -> Spent {
    let (start, before) = (Instant::now(), processors());
    work();
    Spent { wall: start.elapsed().as_secs_f64(), processors: (processors() - before).as_secs_f64() }
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// The times of several runs: the median wall time and the mean processor time.
#[derive(Default)]
struct Samples {
    wall: Vec<f64>,
    processors: f64,
    runs: f64,
}

impl Samples {
    fn add(&mut self, runs: u32, mut work: impl FnMut()) {
        let spent = time(|| (0..runs).for_each(|_| work()));
        self.wall.push(spent.wall / f64::from(runs));
        self.processors += spent.processors;
        self.runs += f64::from(runs);
    }

    fn per_run(mut self) -> Spent {
        Spent { wall: median(&mut self.wall), processors: self.processors / self.runs }
    }
}

/// Measures both sides alternately, for about `length` in total.
fn in_turns(length: Duration, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> (Spent, Spent) {
    // A batch takes long compared with the clock's resolution.
    let batch = |work: &mut dyn FnMut()| {
        let once = time(&mut *work).wall.min(time(&mut *work).wall);
        (1..1000).find(|&count| f64::from(count) * once >= 20e-6).unwrap_or(1000)
    };
    let (a, b) = (batch(&mut ours), batch(&mut theirs));
    let (mut mine, mut others) = (Samples::default(), Samples::default());
    let start = Instant::now();
    while start.elapsed() < length || mine.wall.len() < 7 {
        mine.add(a, &mut ours);
        others.add(b, &mut theirs);
    }
    (mine.per_run(), others.per_run())
}

fn compare(name: &str, ours: &[Buffer], theirs: &[Buffer]) {
    assert_eq!(ours.len(), theirs.len(), "{name}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        let read = |buffer: &Buffer| -> Vec<f32> {
            let array = buffer.to_host_array().expect("an array");
            array.bytes().chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
        };
        let (ours, theirs) = (read(ours), read(theirs));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        let scale = theirs.iter().fold(0f32, |most, x| most.max(x.abs()));
        let worst = ours.iter().zip(&theirs).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
        assert!(worst <= scale * 1e-4 + 1e-6, "{name}: off by {worst}, the largest value is {scale}");
    }
}

fn row(name: &str, (ours, theirs): (Spent, Spent), aim: f64) {
    let (unit, scale) = if theirs.wall < 1e-3 { ("us", 1e6) } else { ("ms", 1e3) };
    let ratio = ours.wall / theirs.wall;
    let verdict = if ratio <= aim { "" } else { "  MISSED" };
    println!(
        "{name:28} {:>10.3} {unit} {:>10.3} {unit}   x{ratio:<6.3} x{:<6.3} aim x{aim}{verdict}",
        ours.wall * scale,
        theirs.wall * scale,
        ours.processors / theirs.processors
    );
}

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let named = std::env::var("PJRT_TEST_PLUGINS").unwrap_or_default();
    let Some(path) = named.split(':').find(|path| !path.is_empty()) else {
        println!("SKIPPED: PJRT_TEST_PLUGINS names no library of XLA's CPU plugin");
        return;
    };
    let client = |name: &str| {
        let plugin = plugin_registry::open(name).unwrap_or_else(|error| panic!("{error}"));
        plugin.client(&pjrt::ClientOptions::new()).unwrap_or_else(|error| panic!("{error}"))
    };
    let (ours, theirs) = (client("cpu"), client(path));
    println!("{:28} {:>13} {:>13}   {:7} {:7}", "program", "pjrt-cpu", "XLA CPU", "time", "CPU time");
    for case in CASES.iter().filter(|case| case.name.contains(&filter)) {
        let shapes = shapes(case.text);
        let (ours, theirs) = (Side::new(&ours, case.text, &shapes), Side::new(&theirs, case.text, &shapes));
        compare(case.name, &ours.run(), &theirs.run());
        row(case.name, in_turns(Duration::from_secs(2), || drop(ours.run()), || drop(theirs.run())), case.aim);
        let compile = in_turns(Duration::from_millis(500), || ours.compile(case.text), || theirs.compile(case.text));
        row("  compile", compile, COMPILE);
    }
}
