//! Builds recordings without a framework.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

use pjrt::CompileOptions;
use pjrt_record::{
    Arguments, ArrayType, Body, BufferList, Call, ClientCreate, ClientDescription, Compile, Contents, Device, Download,
    End, ExecutableDescription, Execute, Memory, Outcome, Process, Stamp, Upload, Writer,
};

const PROGRAM: &[u8] = b"module @twice { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %x : tensor<2xf32>
    return %0 : tensor<2xf32>
} }";

pub(crate) fn bytes(values: [f32; 2]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Builds a recording without a framework. It contains the creation of a client, the compilation of a program, and a
/// run whose result is downloaded.
pub(crate) struct Recording {
    pub(crate) writer: Writer<Vec<u8>>,
    pub(crate) calls: u64,
}

impl Recording {
    pub(crate) fn new() -> Self {
        let mut recording = Self { writer: Writer::new(Vec::new()).unwrap(), calls: 0 };
        let process = Process { recorder: "a test".to_owned(), process: 7, plugin_api_minor: 90, ..Process::default() };
        recording.write(Body::Process(process));
        recording
    }

    pub(crate) fn write(&mut self, body: Body) {
        self.writer.write(Stamp { call: self.calls, thread: 1, nanos: 0 }, &body).unwrap();
    }

    pub(crate) fn call(&mut self, function: &str, arguments: Option<Arguments>, outcome: Option<Outcome>) {
        self.calls += 1;
        self.write(Body::Call(Call { function: function.to_owned(), arguments }));
        if let Some(outcome) = outcome {
            self.write(Body::Outcome(outcome));
        }
    }

    /// Builds a recording that creates client 1 and compiles executable 2, which doubles two numbers.
    pub(crate) fn with_program(devices: i32, options: &CompileOptions) -> Self {
        let mut this = Self::new();
        let array = Some(ArrayType { element_type: 11, dimensions: vec![2] });
        let device = |id| Device { id, kind: "test".to_owned(), process_index: 0, addressable: true };
        let client = ClientDescription {
            platform_name: "test".to_owned(),
            devices: (0..devices).map(device).collect(),
            memories: vec![Memory { id: 4, kind: "unusual".to_owned(), devices: vec![0] }],
            ..ClientDescription::default()
        };
        let made = |object| Outcome { objects: vec![object], ..Outcome::default() };
        let create = Arguments::ClientCreate(ClientCreate::default());
        this.call("PJRT_Client_Create", Some(create), Some(Outcome { client: Some(client), ..made(1) }));
        let (code, options) = (this.writer.store(PROGRAM).unwrap(), this.writer.store(&options.encode()).unwrap());
        let compile = Compile { client: 1, format: "mlir".to_owned(), code: Some(code), options: Some(options) };
        let executable =
            Some(ExecutableDescription { name: "twice".to_owned(), outputs: array.clone().into_iter().collect() });
        this.call("PJRT_Client_Compile", Some(Arguments::Compile(compile)), Some(Outcome { executable, ..made(2) }));
        this
    }

    /// Builds a recording of a run that doubles 1 and 2. `expected` is the recorded result, and `devices` is the number
    /// of the recorded client's devices.
    pub(crate) fn of(expected: [f32; 2], devices: i32) -> Self {
        let mut this = Self::with_program(devices, &CompileOptions::default());
        let array = Some(ArrayType { element_type: 11, dimensions: vec![2] });
        let made = |object| Outcome { objects: vec![object], ..Outcome::default() };
        let data = Some(this.writer.store(&bytes([1.0, 2.0])).unwrap());
        let device = Some(devices - 1);
        let upload = Upload { client: 1, array: array.clone(), device, data, ..Upload::default() };
        this.call("PJRT_Client_BufferFromHostBuffer", Some(Arguments::Upload(upload)), Some(made(3)));
        this.call("PJRT_FFI_Register_Handler", None, None);
        let execute = Execute { executable: 2, arguments: vec![BufferList { buffers: vec![3] }], ..Execute::default() };
        let outputs = vec![BufferList { buffers: vec![4] }];
        let outcome = Outcome { outputs, ..Outcome::default() };
        this.call("PJRT_LoadedExecutable_Execute", Some(Arguments::Execute(execute)), Some(outcome));
        let download = Download { buffer: 4, array: array.clone(), size: 8, ..Download::default() };
        this.call("PJRT_Buffer_ToHostBuffer", Some(Arguments::Download(download)), None);
        let data = Some(this.writer.store(&bytes(expected)).unwrap());
        this.write(Body::Contents(Contents { buffer: 4, array, data, ..Contents::default() }));
        this.write(Body::End(End { calls: this.calls }));
        this
    }

    /// Adds an upload of row-major data as a new object.
    pub(crate) fn upload(&mut self, upload: Upload, object: u64) {
        let outcome = Outcome { objects: vec![object], ..Outcome::default() };
        self.call(
            "PJRT_Client_BufferFromHostBuffer",
            Some(Arguments::Upload(Upload { client: 1, ..upload })),
            Some(outcome),
        );
    }

    /// Adds a download of an object, with the recorded contents.
    pub(crate) fn download(&mut self, buffer: u64, contents: Contents) {
        let download = Download { buffer, ..Download::default() };
        self.call("PJRT_Buffer_ToHostBuffer", Some(Arguments::Download(download)), None);
        self.write(Body::Contents(Contents { buffer, ..contents }));
    }

    /// Adds a run of executable 2 with one argument and one output.
    pub(crate) fn run(&mut self, argument: u64, output: u64) {
        let arguments = vec![BufferList { buffers: vec![argument] }];
        let execute = Execute { executable: 2, arguments, ..Execute::default() };
        let outcome = Outcome { outputs: vec![BufferList { buffers: vec![output] }], ..Outcome::default() };
        self.call("PJRT_LoadedExecutable_Execute", Some(Arguments::Execute(execute)), Some(outcome));
    }

    pub(crate) fn save(&self, name: &str) -> PathBuf {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-{name}-{}.pjrt", std::process::id()));
        fs::write(&path, self.writer.get_ref()).unwrap();
        path
    }
}
