//! Serve requests from asynchronous tasks. Requests for permits, events of runs, and downloads are futures, so no task
//! blocks a thread while it waits for the device.
//!
//! Any executor can await these futures. This example uses tokio. It runs on the embedded CPU device, or on the plugin
//! that the environment variable `PJRT_PLUGIN` names.

use std::sync::Arc;

use pjrt::{
    Client, ClientOptions, CompileOptions, Error, ExecuteOptions, InFlightLimiter, Input, LoadedExecutable, Program,
};

const MODEL: &str = "func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {
    %y = stablehlo.tanh %x : tensor<256xf32>
    return %y : tensor<256xf32>
}";

struct Server {
    client: Client,
    model: LoadedExecutable,
    limiter: InFlightLimiter,
}

impl Server {
    async fn answer(&self, input: Vec<f32>) -> Result<Vec<f32>, Error> {
        // If the task is cancelled while it waits here, its request is removed from the queue.
        let permit = self.limiter.acquire(4 * input.len() as u64).await;
        // Uploading this input and launching the run take microseconds. Run longer calls, such as compilations, in
        // `spawn_blocking`.
        let x = self.client.buffer_from_host(&input, &[256])?;
        let run = self.model.execute_with([Input::Donate(x)], &ExecuteOptions::new())?;
        permit.release_after(&run.done);
        // The download owns the memory that it writes to, so the task may be cancelled while it waits here.
        run.outputs[0].download().start::<f32>()?.await
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    let model = client.compile(&Program::mlir(MODEL), &CompileOptions::default())?;
    let server = Arc::new(Server { client, model, limiter: InFlightLimiter::operations(4) });

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for number in 0..100u8 {
            let server = Arc::clone(&server);
            let input = vec![f32::from(number) / 100.0; 256];
            tasks.push(tokio::spawn(async move { server.answer(input).await }));
        }
        for (number, task) in (0..100u8).zip(tasks) {
            let answer = task.await??;
            let expected = (f32::from(number) / 100.0).tanh();
            assert!(answer.iter().all(|value| (value - expected).abs() < 1e-5));
        }
        println!("100 tasks were answered on 2 threads");
        Ok(())
    })
}
