//! Compares the plugin `remote` with the plugin that it forwards to, in this process, and transfers with a plain copy.
//!
//! ```sh
//! cargo bench -p pjrt-remote
//! ```
//!
//! Prints a table in Markdown. The rounds alternate between the transports and the copy, and the medians count.
//! `PJRT_REMOTE_BENCH_PLUGIN` names the library of another plugin to serve.

use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use pjrt::{Client, ClientOptions, CompileOptions, LoadedExecutable, Plugin, Program};
use pjrt_remote::{Address, Limits, Server, Token};

/// The variable with the address of the server that this program becomes.
const SERVE: &str = "PJRT_REMOTE_BENCH_SERVE";
const TOKEN: &str = "PJRT_REMOTE_BENCH_TOKEN";
const PLUGIN: &str = "PJRT_REMOTE_BENCH_PLUGIN";
/// Number of launches in a chain.
const LAUNCHES: u32 = 10_000;
/// Size of a large array, and of one that the server reads to memory that it keeps.
const LARGE: usize = 256 << 20;
const MEDIUM: usize = 32 << 20;
const ROUNDS: usize = 7;

type AnyError = Box<dyn std::error::Error>;

fn local() -> Result<Client, AnyError> {
    let plugin = match std::env::var_os(PLUGIN) {
        // SAFETY: R1 (the library is trusted): the user who names the library trusts it.
        Some(path) => unsafe { Plugin::load(path) }?,
        None => Plugin::from_static(pjrt_cpu::Cpu::api())?,
    };
    Ok(plugin.client(&ClientOptions::new())?)
}

fn serve(address: &str) -> Result<(), AnyError> {
    let address: Address = address.parse()?;
    let server = Server::new(local()?, Limits::default())?;
    let token = std::env::var_os(TOKEN).map(|path| Token::in_file(path.as_ref())).transpose()?;
    let listener = server.bind(&address, token)?;
    println!("{}", listener.address());
    listener.run();
    Ok(())
}

/// A client of the plugin `remote`, and the process of its server.
struct Remote {
    client: Client,
    process: Child,
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn remote(address: &str, token: &std::path::Path) -> Result<Remote, AnyError> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut process = command.env(SERVE, address).env(TOKEN, token).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let options = ClientOptions::new().with("address", line.trim()).with("token_file", token.to_str().ok_or("UTF-8")?);
    Ok(Remote { client: Plugin::from_static(pjrt_remote::Remote::api())?.client(&options)?, process })
}

fn add_one(client: &Client) -> Result<LoadedExecutable, AnyError> {
    let program = Program::mlir(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
           %one = stablehlo.constant dense<1.0> : tensor<4xf32>
           %y = stablehlo.add %x, %one : tensor<4xf32>
           return %y : tensor<4xf32>
         }",
    );
    Ok(client.compile(&program, &CompileOptions::default())?)
}

/// Returns the time of each launch in a chain, in microseconds. The chain ends with a read.
fn chain(client: &Client, add_one: &LoadedExecutable) -> Result<f64, AnyError> {
    let mut x = client.buffer_from_host(&[0.0f32; 4], &[4])?;
    let begin = Instant::now();
    for _ in 0..LAUNCHES {
        x = add_one.execute(&[&x])?.into_iter().next().ok_or("no output")?;
    }
    let values = x.to_host::<f32>()?;
    let elapsed = begin.elapsed().as_secs_f64();
    assert_eq!(values, [10_000.0; 4]);
    Ok(elapsed * 1e6 / f64::from(LAUNCHES))
}

/// Returns the time of one launch with its read, in microseconds.
fn single(client: &Client, add_one: &LoadedExecutable) -> Result<f64, AnyError> {
    let x = client.buffer_from_host(&[0.0f32; 4], &[4])?;
    x.wait()?;
    let begin = Instant::now();
    for _ in 0..100 {
        black_box(add_one.execute(&[&x])?[0].to_host::<f32>()?);
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / 100.0)
}

/// Returns the times of an upload and of a download of an array, in seconds.
fn transfers(client: &Client, data: &[u8], to: &mut [u8]) -> Result<(f64, f64), AnyError> {
    let begin = Instant::now();
    let buffer = client.buffer_from_host(data, &[i64::try_from(data.len())?])?;
    buffer.wait()?;
    let upload = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    buffer.download().copy_bytes_to(to)?;
    Ok((upload, begin.elapsed().as_secs_f64()))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the rate of a transfer in GiB/s, with its ratio to the rate of a copy.
fn rate(size: usize, seconds: f64, copy: f64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a size for display")]
    let size = size as f64 / f64::from(1 << 30);
    #[expect(clippy::cast_precision_loss, reason = "a size for display")]
    let large = LARGE as f64 / f64::from(1 << 30);
    let (rate, copied) = (size / seconds, large / copy);
    format!("{rate:.2} GiB/s ({:.0} %)", 100.0 * rate / copied)
}

fn main() -> Result<(), AnyError> {
    if let Ok(address) = std::env::var(SERVE) {
        return serve(&address);
    }
    let folder = tempfile::tempdir()?;
    let token = folder.path().join("token");
    let unix = remote(&format!("unix:{}", folder.path().join("socket").display()), &token)?;
    let tcp = remote("127.0.0.1:0", &token)?;
    let clients = [("same process", local()?), ("Unix socket", unix.client.clone()), ("TCP", tcp.client.clone())];
    let programs = clients.iter().map(|(_, client)| add_one(client)).collect::<Result<Vec<_>, _>>()?;
    let mut times = vec![[const { Vec::new() }; 6]; clients.len()];
    let (data, mut to) = (vec![1u8; LARGE], vec![2u8; LARGE]);
    let mut copies = Vec::new();
    for _ in 0..ROUNDS {
        for (((_, client), program), times) in clients.iter().zip(&programs).zip(&mut times) {
            let begin = Instant::now();
            to.copy_from_slice(black_box(&data));
            copies.push(begin.elapsed().as_secs_f64());
            times[0].push(chain(client, program)?);
            times[1].push(single(client, program)?);
            let (upload, download) = transfers(client, &data, &mut to)?;
            times[2].push(upload);
            times[3].push(download);
            assert_eq!(to[LARGE - 1], 1);
            let (upload, download) = transfers(client, &data[..MEDIUM], &mut to[..MEDIUM])?;
            times[4].push(upload);
            times[5].push(download);
        }
    }
    let copy = median(&mut copies);
    println!(
        "| transport | launch in a chain | launch and read | upload of 256 MiB | download | upload of 32 MiB | download |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    println!("| plain copy | | | {} | | | |", rate(LARGE, copy, copy));
    for ((name, _), times) in clients.iter().zip(&mut times) {
        let [chain, single, up, down, medium_up, medium_down] =
            [0, 1, 2, 3, 4, 5].map(|index| median(&mut times[index]));
        println!(
            "| {name} | {chain:.2} µs | {single:.1} µs | {} | {} | {} | {} |",
            rate(LARGE, up, copy),
            rate(LARGE, down, copy),
            rate(MEDIUM, medium_up, copy),
            rate(MEDIUM, medium_down, copy)
        );
    }
    drop((unix, tcp));
    Ok(())
}
