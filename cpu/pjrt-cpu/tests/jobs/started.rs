//! Starts the processes of a test, and reads their output.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use device_plugin_testing::Server;
use pjrt::{Client, ClientOptions, KeyValueStore};

use crate::file_store::{FileStore, Folder, temporary};
use crate::{plugin, servers, wait_for_end_of_input};

/// The environment variable with the role of a started process: its rank, the number of processes, its number of
/// devices and the directory of the store.
const ROLE: &str = "PJRT_CPU_JOBS_TEST_ROLE";

/// The environment variable with the address of a server. Without it, the processes find each other through files.
const SERVER: &str = "PJRT_CPU_JOBS_TEST_SERVER";

/// The role of a process that a test started.
pub(crate) struct Role {
    pub(crate) rank: u32,
    size: u32,
    devices: i64,
    folder: String,
}

impl Role {
    /// Returns the role of this process, or `None` in the process of the test itself.
    pub(crate) fn of_this_process() -> Option<Self> {
        let role = std::env::var(ROLE).ok()?;
        let parts: Vec<&str> = role.splitn(4, ' ').collect();
        let [rank, size, devices, folder] = parts[..] else { panic!("{ROLE} is {role}") };
        Some(Self {
            rank: rank.parse().unwrap(),
            size: size.parse().unwrap(),
            devices: devices.parse().unwrap(),
            folder: folder.to_owned(),
        })
    }

    /// Creates the client of the process.
    pub(crate) fn client(&self, options: &[(&str, i64)]) -> Result<Client, pjrt::Error> {
        match std::env::var(SERVER) {
            Ok(address) => self.client_with(options, servers::open(&address)),
            Err(_) => self.client_with(options, self.store()),
        }
    }

    /// Creates the client of the process. The client finds the other processes through the given store.
    pub(crate) fn client_with(
        &self,
        options: &[(&str, i64)],
        store: Arc<dyn KeyValueStore>,
    ) -> Result<Client, pjrt::Error> {
        let mut all = ClientOptions::new()
            .with("device_count", self.devices)
            .with("deterministic", true)
            .with("node_id", i64::from(self.rank))
            .with("num_nodes", i64::from(self.size));
        for (name, value) in options {
            all = all.with(*name, *value);
        }
        plugin().client(&all.with_key_value_store(store))
    }

    pub(crate) fn store(&self) -> Arc<FileStore> {
        FileStore::open(&self.folder)
    }

    /// Removes the store for all processes.
    pub(crate) fn remove_store(&self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }

    /// Waits until these processes have also called this method, so that no process ends while another process needs
    /// it.
    pub(crate) fn meet(&self, ranks: &[u32]) {
        let store = self.store();
        store.put(&format!("met/{}", self.rank), b"").unwrap();
        for rank in ranks {
            store.get(&format!("met/{rank}"), Duration::from_secs(100)).unwrap();
        }
    }

    /// Waits until the test no longer needs this process.
    pub(crate) fn wait_for_parent(&self) {
        wait_for_end_of_input();
    }
}

/// The processes of a test. They are killed if the test ends before the processes.
pub(crate) struct Started {
    test: &'static str,
    size: usize,
    folder: Folder,
    server: Option<String>,
    processes: Vec<Option<Child>>,
}

impl Started {
    /// Creates the state without starting a process.
    pub(crate) fn new(test: &str, size: usize) -> Self {
        let (folder, _) = temporary(test);
        Self { test: test.to_owned().leak(), size, folder, server: None, processes: Vec::new() }
    }

    /// Starts one process for each element of `devices`. The element is the number of devices of the process.
    pub(crate) fn all(test: &str, devices: &[i64]) -> Self {
        Self::all_through(test, None, devices)
    }

    /// Starts one process for each number of devices. The processes find each other on the server, if one is given.
    pub(crate) fn all_through(test: &str, server: Option<&Server>, devices: &[i64]) -> Self {
        let mut all = Self::new(test, devices.len());
        all.server = server.map(Server::address);
        devices.iter().enumerate().for_each(|(rank, devices)| all.start(rank, *devices));
        all
    }

    pub(crate) fn start(&mut self, rank: usize, devices: i64) {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", self.test, "--nocapture"])
            .envs(self.server.iter().map(|address| (SERVER, address)))
            .env(ROLE, format!("{rank} {} {devices} {}", self.size, self.folder.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        self.processes.push(Some(child));
    }

    /// Waits for a process. Returns the lines that it reported.
    pub(crate) fn finish_one(&mut self, index: usize) -> Vec<String> {
        let Some(child) = self.processes[index].take() else { return Vec::new() };
        // This also closes the standard input of the process.
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        // The harness prints the name of the test on the same line.
        let said = text.lines().filter_map(|line| Some(&line[line.find("SAID ")? + 5..]));
        said.map(str::to_owned).collect()
    }

    /// Waits for all processes. Returns the lines that each process reported.
    pub(crate) fn finish(&mut self) -> Vec<Vec<String>> {
        for child in self.processes.iter_mut().flatten() {
            drop(child.stdin.take());
        }
        (0..self.processes.len()).map(|index| self.finish_one(index)).collect()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for mut child in self.processes.drain(..).flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
