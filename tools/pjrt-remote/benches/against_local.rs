//! Compares the plugin `remote` with the plugin that it forwards to, in this process, and transfers with a plain copy.
//!
//! ```sh
//! cargo bench -p pjrt-remote
//! ```
//!
//! The rounds alternate, and the fastest round of each counts. `PJRT_REMOTE_BENCH_PLUGIN` names the library of another
//! plugin to serve.

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

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
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
    let (mut fresh, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let copy = black_box(data.clone());
        fresh.push(begin.elapsed().as_secs_f64());
        drop(copy);
        let begin = Instant::now();
        to.copy_from_slice(black_box(&data));
        warm.push(begin.elapsed().as_secs_f64());
        for (((_, client), program), times) in clients.iter().zip(&programs).zip(&mut times) {
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
    let (fresh, warm) = (least(&fresh), least(&warm));
    #[expect(clippy::cast_precision_loss, reason = "a size for display")]
    let rate = |size: usize, seconds: f64| size as f64 / seconds / f64::from(1 << 30);
    let gib = |seconds: f64| rate(LARGE, seconds);
    println!("copy of 256 MiB: {:.2} GiB/s to new memory, {:.2} GiB/s to used memory", gib(fresh), gib(warm));
    let (local_chain, local_single) = (least(&times[0][0]), least(&times[0][1]));
    for ((name, _), times) in clients.iter().zip(&times) {
        let [chain, single, upload, download, up, down] = [0, 1, 2, 3, 4, 5].map(|index| least(&times[index]));
        println!(
            "{name:12}: chain {chain:6.2} us a launch (+{:.2}), launch and read {single:6.1} us (+{:.1})",
            chain - local_chain,
            single - local_single
        );
        for (what, size, up, down) in [("256 MiB", LARGE, upload, download), ("32 MiB", MEDIUM, up, down)] {
            let (up, down) = (rate(size, up), rate(size, down));
            println!(
                "  {what:7}: upload {up:6.2} GiB/s ({:4.0} % of a copy), download {down:6.2} GiB/s ({:4.0} % of a copy)",
                100.0 * up / gib(warm),
                100.0 * down / gib(warm)
            );
        }
    }
    drop((unix, tcp));
    Ok(())
}
