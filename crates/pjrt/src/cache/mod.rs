//! A cache of compiled programs, in memory and in a directory.

mod directory;
mod key;
mod slots;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pjrt_types::{CompileOptions, Program};

use self::directory::{Directory, Found};
use self::key::{Environment, Key};
use self::slots::Slots;
use crate::error::{Error, ErrorKind};
use crate::objects::loaded_executable::LoadedExecutable;
use crate::objects::owners::{Client, ClientInner};

/// Default of [`ExecutableCache::with_max_executables`].
const MAX_EXECUTABLES: usize = 1024;
/// Default of [`ExecutableCache::with_max_bytes`].
const MAX_BYTES: u64 = 4 << 30;

/// A cache of compiled programs. Several threads can use a cache at the same time through shared references.
///
/// The cache keeps executables in memory, separately for each client. A cache with a directory also stores them as
/// files, so that a later process loads them instead of compiling again. Several processes may use the same directory.
///
/// The cache treats two compilations as the same if all of these are equal:
/// - the program's bytes and format, the compile options, and the salt of the cache ([`Self::with_salt`])
/// - the plugin's API version and attributes, and the size, the modification time and a hash of the first and last
///   bytes of the plugin's file (or of the process's executable file if this crate did not load the plugin from a file)
/// - the client's platform, options and process index, and the ids, kinds and attributes of the client's devices
/// - the environment variables `XLA_FLAGS` and `LIBTPU_INIT_ARGS`, and on Linux the processor's instruction sets
///
/// If the machine code depends on other inputs, pass a description of these inputs to [`Self::with_salt`].
///
/// If several threads compile the same program at the same time, one thread compiles it and the other threads wait for
/// the executable. The cache does not keep failed compilations.
///
/// Do not use a directory for programs that contain memory addresses of this process, such as the address of a
/// callback, because other processes load the executables from the directory.
///
/// # Directories
///
/// The directory contains machine code, so it belongs to one user ([contract](crate::contracts) P2). The cache signs
/// each file with a random key of the user, and ignores and replaces files without a valid signature. The key is the
/// file `pjrt/file-key` in `XDG_STATE_HOME`, or in `.local/state` in the home folder. On Windows, it is in
/// `LOCALAPPDATA`. The cache creates the key at its first use, for this user only. If the key is lost, the cache
/// compiles all programs again. Machines that share a directory share its executables if they also share the key.
///
/// On Unix, the cache also rejects a directory that another user can replace, prepare or write to: this user must own
/// it, and this user or root must own the folders and links on the way. The cache keeps the directory open, so that no
/// other user can replace it later. It ignores files that are links, that belong to another user or that other users
/// may write to. On Windows, the cache does not check who may write to the directory, and relies on the signatures.
///
/// A process with elevated privileges, such as a set-user-ID program, cannot use a directory, because the user who
/// started it may control the directory or the key.
///
/// ```
/// use pjrt::{CompileOptions, ExecutableCache, Program};
/// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
///
/// let program = Program::mlir("func.func @main() -> tensor<f32> {
///   %one = stablehlo.constant dense<1.0> : tensor<f32>
///   return %one : tensor<f32>
/// }");
/// let cache = ExecutableCache::in_directory(folder)?;
/// let first = cache.compile(&client, &program, &CompileOptions::default())?;
/// let again = cache.compile(&client, &program, &CompileOptions::default())?;
/// assert!(std::sync::Arc::ptr_eq(&first, &again));
///
/// // A later process finds the file.
/// let later = ExecutableCache::in_directory(folder)?;
/// later.compile(&client, &program, &CompileOptions::default())?;
/// assert_eq!((later.statistics().directory_hits, later.statistics().compilations), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExecutableCache {
    slots: Slots,
    directory: Option<Directory>,
    salt: Vec<u8>,
    /// The environments of the clients that have used this cache. Entries of destroyed clients are removed when another
    /// client is added.
    environments: Mutex<Vec<(Weak<ClientInner>, Environment)>>,
    counters: Counters,
}

/// Counts of the events of a cache since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatistics {
    /// Calls that found the executable in memory, or waited for another thread that compiled or loaded it.
    pub memory_hits: u64,
    /// Calls that loaded the executable from the directory.
    pub directory_hits: u64,
    /// Calls that compiled the program, successfully or not.
    pub compilations: u64,
    /// Files that were damaged or that the plugin rejected. The cache removed them and compiled the programs again.
    pub rejected_files: u64,
    /// Executables that were not stored in the directory, because the plugin cannot serialize them, because they exceed
    /// the size limit, or because writing the file failed. A `tracing` event contains the reason.
    pub not_stored: u64,
    /// Files that this cache removed to keep the directory within its limit.
    pub evicted_files: u64,
}

#[derive(Default)]
struct Counters {
    memory_hits: AtomicU64,
    directory_hits: AtomicU64,
    compilations: AtomicU64,
    rejected_files: AtomicU64,
    not_stored: AtomicU64,
    evicted_files: AtomicU64,
}

/// Returns an address that identifies the client as long as the client lives.
fn address(client: &Client) -> usize {
    Arc::as_ptr(client.inner()).addr()
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl ExecutableCache {
    /// Creates a cache that keeps executables only in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            slots: Slots::new(MAX_EXECUTABLES),
            directory: None,
            salt: Vec::new(),
            environments: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// Creates a cache that also stores executables in `directory`. If the directory does not exist, this function
    /// creates it, on Unix with access for its owner only.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created or written to, or if the user's key cannot be read or
    /// created. Also returns an error if this process has elevated privileges. On Unix, also returns an error if
    /// another user can replace the directory, prepare its files or write to it.
    pub fn in_directory(directory: impl AsRef<Path>) -> Result<Self, Error> {
        let directory = Directory::open(directory.as_ref(), MAX_BYTES)?;
        Ok(Self { directory: Some(directory), ..Self::in_memory() })
    }

    /// Sets how many executables the cache keeps in memory. It drops the least recently used executables first. The
    /// default is 1024. With 0, the cache keeps no executables in memory, but concurrent calls still share one
    /// compilation.
    #[must_use]
    pub fn with_max_executables(mut self, count: usize) -> Self {
        self.slots = Slots::new(count);
        self
    }

    /// Sets the maximum total size of the executables in the directory, in bytes, including executables of other
    /// processes. The cache removes the least recently used executables first. The default is 4 GiB.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: u64) -> Self {
        if let Some(directory) = &mut self.directory {
            directory.set_max_bytes(bytes);
        }
        self
    }

    /// Sets the salt. The key of each compilation contains the salt, so compilations with different salts do not share
    /// executables.
    #[must_use]
    pub fn with_salt(mut self, salt: impl Into<Vec<u8>>) -> Self {
        self.salt = salt.into();
        self
    }

    /// Returns the executable of `program` from memory or from the directory, or compiles it with [`Client::compile`].
    /// If reading or writing the directory fails, the call still returns the compiled program. [`Self::statistics`]
    /// counts such failures.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::compile`] apply. Threads that wait for the same compilation get the same error.
    pub fn compile(
        &self,
        client: &Client,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Arc<LoadedExecutable>, Error> {
        let key = self.environment(client).key(&self.salt, program, options);
        let (result, shared) = self.slots.get_or_create((address(client), key), || {
            let load = |directory: &Directory| self.load(directory, client, &key);
            if let Some(executable) = self.directory.as_ref().and_then(load) {
                return Ok(executable);
            }
            add(&self.counters.compilations, 1);
            let executable = client.compile(program, options)?;
            if let Some(directory) = &self.directory {
                self.store(directory, &executable, &key);
            }
            Ok(executable)
        });
        if shared {
            add(&self.counters.memory_hits, 1);
        }
        result
    }

    /// Drops the executables in memory, so that they no longer keep their clients alive. The files in the directory
    /// remain.
    pub fn clear_memory(&self) {
        self.slots.clear();
    }

    /// Returns counts of this cache's events since it was created. Other caches of the same directory count their own
    /// events.
    pub fn statistics(&self) -> CacheStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStatistics {
            memory_hits: read(&self.counters.memory_hits),
            directory_hits: read(&self.counters.directory_hits),
            compilations: read(&self.counters.compilations),
            rejected_files: read(&self.counters.rejected_files),
            not_stored: read(&self.counters.not_stored),
            evicted_files: read(&self.counters.evicted_files),
        }
    }

    /// Returns the hash of the environment of `client`. The hash is computed at the client's first compilation with
    /// this cache.
    fn environment(&self, client: &Client) -> Environment {
        let lock = || self.environments.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |(other, _): &&(Weak<ClientInner>, Environment)| other.as_ptr().addr() == address(client);
        if let Some((_, environment)) = lock().iter().find(known) {
            return *environment;
        }
        // Do not hold the lock while calling the plugin, because the plugin's code may also use this cache.
        let environment = Environment::of(client);
        let mut environments = lock();
        // The weak reference keeps the client's memory allocated, so no other client can get the same address while the
        // reference is in the list.
        environments.retain(|(other, _)| other.strong_count() > 0);
        environments.push((Arc::downgrade(client.inner()), environment));
        environment
    }

    fn load(&self, directory: &Directory, client: &Client, key: &Key) -> Option<LoadedExecutable> {
        let reject = |reason: &dyn fmt::Display| {
            tracing::warn!(%key, %reason, "a cached executable is rejected, and the program compiled again");
            directory.remove(key);
            add(&self.counters.rejected_files, 1);
        };
        let executable = match directory.read(key) {
            Found::Executable(executable) => executable,
            Found::Nothing => return None,
            Found::Damaged(reason) => {
                reject(&reason);
                return None;
            }
        };
        match client.deserialize_and_load(&executable) {
            Ok(loaded) => {
                directory.mark_used(key);
                add(&self.counters.directory_hits, 1);
                Some(loaded)
            }
            Err(error) => {
                reject(&error);
                None
            }
        }
    }

    fn store(&self, directory: &Directory, executable: &LoadedExecutable, key: &Key) {
        let stored = executable.executable().serialize().map_err(|error| match error.kind() {
            ErrorKind::Unsupported => "the plugin cannot serialize executables".to_owned(),
            _ => error.to_string(),
        });
        let stored = stored.and_then(|bytes| directory.write(key, &bytes).map_err(|error| error.to_string()));
        match stored {
            Ok(evicted) => add(&self.counters.evicted_files, evicted),
            Err(reason) => {
                tracing::warn!(%key, %reason, "an executable is not stored in the cache directory");
                add(&self.counters.not_stored, 1);
            }
        }
    }
}

impl fmt::Debug for ExecutableCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutableCache")
            .field("directory", &self.directory.as_ref().map(Directory::path))
            .field("executables", &self.slots.len())
            .field("statistics", &self.statistics())
            .finish()
    }
}
