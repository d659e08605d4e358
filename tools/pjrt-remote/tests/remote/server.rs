//! The server of a test: this program in another process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use pjrt::{Client, ClientOptions, CompileOptions, ErrorCode, LoadedExecutable, Plugin, Program};
use pjrt_remote::{Address, Limits, Server, Token};
use tempfile::TempDir;

/// The variable with the address of the server that a process runs instead of the tests.
const SERVE: &str = "PJRT_REMOTE_TEST_SERVE";
/// The variable with the path of the token.
const TOKEN: &str = "PJRT_REMOTE_TEST_TOKEN";
/// Maximum number of clients.
pub(crate) const CLIENTS: usize = 16;
/// Maximum number of bytes of a client's buffers.
pub(crate) const MEMORY: u64 = 64 << 20;

/// A server process. Dropping it ends the process.
pub(crate) struct Started {
    process: Child,
    pub(crate) address: String,
    pub(crate) folder: TempDir,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Started {
    /// Starts a server at a Unix socket.
    pub(crate) fn unix() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("unix:{}", folder.path().join("private/socket").display());
        Self::new(folder, &address)
    }

    /// Starts a server at a TCP port.
    pub(crate) fn tcp() -> Self {
        Self::new(tempfile::tempdir().unwrap(), "127.0.0.1:0")
    }

    fn new(folder: TempDir, address: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "server::serves_until_it_is_killed", "--nocapture"]);
        command.env(SERVE, address).env(TOKEN, folder.path().join("token"));
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address =
            lines.filter_map(|line| line.split_once("serving ").map(|(_, address)| address.to_owned())).next();
        Self { process, address: address.expect("the server ended"), folder }
    }

    pub(crate) fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// Creates a client of the plugin `remote`.
    pub(crate) fn client(&self) -> Client {
        self.connect().unwrap()
    }

    pub(crate) fn connect(&self) -> Result<Client, pjrt::Error> {
        let options = ClientOptions::new().with("address", self.address.as_str());
        let options = match self.token().exists() {
            true => options.with("token_file", self.token().to_str().unwrap()),
            false => options,
        };
        plugin().client(&options)
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends the process with `SIGKILL`.
    pub(crate) fn kill(&mut self) {
        // The process may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Returns the number of bytes in use on the first device.
    pub(crate) fn bytes_in_use(client: &Client) -> i64 {
        client.default_device().unwrap().memory_stats().unwrap().bytes_in_use
    }
}

/// Returns the plugin `remote`.
pub(crate) fn plugin() -> Plugin {
    Plugin::from_static(pjrt_remote::Remote::api()).unwrap()
}

/// Compiles a program that returns `f32[4]`, its argument plus 1.
pub(crate) fn add_one(client: &Client) -> LoadedExecutable {
    let program = Program::mlir(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
           %one = stablehlo.constant dense<1.0> : tensor<4xf32>
           %y = stablehlo.add %x, %one : tensor<4xf32>
           return %y : tensor<4xf32>
         }",
    );
    client.compile(&program, &CompileOptions::default()).unwrap()
}

#[test]
fn serves_until_it_is_killed() {
    if let Ok(address) = std::env::var(SERVE) {
        return serve(&address.parse().unwrap());
    }
    let mut server = Started::unix();
    assert_eq!(server.client().addressable_devices().unwrap().len(), 2);
    assert!(server.process.try_wait().unwrap().is_none(), "the server ended by itself");
    server.kill();
    assert_eq!(server.connect().unwrap_err().code(), ErrorCode::UNAVAILABLE);
}

/// Serves the embedded CPU device. [`Started`] starts a process that calls it.
fn serve(address: &Address) {
    let token = std::env::var(TOKEN).unwrap();
    let plugin = Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap();
    let client = plugin.client(&ClientOptions::new().with("device_count", 2i64)).unwrap();
    let mut limits = Limits::default();
    limits.memory = MEMORY;
    limits.clients = CLIENTS;
    let server = Server::new(client, limits).unwrap();
    let token = matches!(address, Address::Tcp(_)).then(|| Token::in_file(token.as_ref()).unwrap());
    let listener = server.bind(address, token).unwrap();
    println!("serving {}", listener.address());
    listener.run();
}
