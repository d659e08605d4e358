//! Serve requests on several threads. The threads share one client and one executable. A limiter bounds the number of
//! runs that are in flight on the device.
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use pjrt::{
    Client, ClientOptions, CompileOptions, Error, ExecuteOptions, InFlightLimiter, Input, LoadedExecutable, Program,
};

/// The model, which computes the sum of the squares of the inputs.
const MODEL: &str = "func.func @main(%x: tensor<64xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %squares = stablehlo.multiply %x, %x : tensor<64xf32>
    %sum = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
    return %sum : tensor<f32>
}";

struct Request {
    input: Vec<f32>,
    answer: Sender<Result<f32, Error>>,
}

struct Server {
    client: Client,
    model: LoadedExecutable,
    /// Permits at most 4 runs on the device at a time.
    limiter: InFlightLimiter,
}

impl Server {
    fn answer(&self, input: Vec<f32>) -> Result<f32, Error> {
        // Acquire the permit before the upload. Otherwise, the uploaded inputs of waiting requests could fill the
        // device's memory.
        let permit = self.limiter.acquire(4 * input.len() as u64).wait()?;
        let x = self.client.buffer_from_host(&input, &[64])?;
        let run = self.model.execute_with([Input::Donate(x)], &ExecuteOptions::new())?;
        permit.release_after(&run.done);
        Ok(run.outputs[0].to_host::<f32>()?[0])
    }

    /// Answers requests until the request channel is closed.
    fn serve(&self, requests: &Mutex<Receiver<Request>>) {
        loop {
            let next = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Request { input, answer }) = next else { return };
            // Sending fails if the client no longer waits for the answer. Ignore this error.
            let _ = answer.send(self.answer(input));
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    let model = client.compile(&Program::mlir(MODEL), &CompileOptions::default())?;
    let server = Server { client, model, limiter: InFlightLimiter::operations(4) };

    let (sender, requests) = mpsc::channel();
    let requests = Mutex::new(requests);
    let answers = std::thread::scope(|scope| -> Result<Vec<f32>, Box<dyn std::error::Error>> {
        for _ in 0..8 {
            scope.spawn(|| server.serve(&requests));
        }
        let mut pending = Vec::new();
        for number in 0..200u16 {
            let (answer, received) = mpsc::channel();
            sender.send(Request { input: vec![f32::from(number); 64], answer })?;
            pending.push(received);
        }
        // Close the request channel, so that the threads end after the last request.
        drop(sender);
        pending.into_iter().map(|answer| Ok(answer.recv()??)).collect()
    })?;
    for (number, answer) in (0..200u16).zip(&answers) {
        assert_eq!(*answer, 64.0 * f32::from(number) * f32::from(number));
    }
    println!("8 threads answered {} requests", answers.len());
    Ok(())
}
