//! `PJRT_Plugin_*`: loading, initializing and describing plugins.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pjrt_sys::*;
use pjrt_types::{ApiVersion, NamedValue};
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind};
use crate::objects::owners::{Plugin, PluginInner};
use crate::table::api::Api;
use crate::table::library::{self, Mapped};
use crate::table::load_error::{LoadError, LoadErrorKind, LoaderError};
use crate::table::named_value;
use crate::table::send_ptr::SendPtr;

/// Result of a plugin's initialization. The initialization runs only once.
type Loaded = Arc<OnceLock<Result<Plugin, LoadError>>>;

/// The loaded plugins of this process.
#[derive(Default)]
struct Registry {
    /// Plugins by canonical path. A lookup finds a loaded plugin without opening its file.
    by_path: HashMap<PathBuf, (Loaded, Mapped, SendPtr<*const PJRT_Api>)>,
    /// Plugins by the address of their function table, because one file may have several paths.
    by_table: HashMap<usize, Loaded>,
    /// Number of calls of [`Plugin::load_replacement`]. Each call opens the file under a new spelling of its path.
    replacements: usize,
}

fn registry() -> std::sync::MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns another path to the same file, with `dots` components `.` before the file name, such as
/// `/folder/././library.so` for 2. Returns a path without a file name unchanged.
fn spelled_anew(path: &Path, dots: usize) -> PathBuf {
    let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    let mut spelling = folder.to_owned();
    (0..dots).for_each(|_| spelling.push("."));
    spelling.push(file);
    spelling
}

impl Plugin {
    /// Loads a plugin from a shared library, and initializes it if it is not initialized yet.
    ///
    /// Loading the same file again returns the same plugin. The library is never unloaded, because threads and exit
    /// handlers of the plugin run its code.
    ///
    /// Windows searches for the plugin's dependencies in the folder of the plugin, the folder of the program, the
    /// system folder and the folders that were added with `AddDllDirectory`. Windows does not search the current folder
    /// or the folders in `PATH`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be loaded, if it is not a supported PJRT plugin, or if the initialization
    /// fails. [`LoadError::kind`] returns the reason for the failure.
    ///
    /// # Safety
    ///
    /// The library is a PJRT plugin that keeps [contracts](crate::contracts) C1 to C11. In short, its function table
    /// and functions match the header of its API version, and its objects live until they are destroyed. Any thread may
    /// call these functions. The plugin does not use host memory after it has reported the end of the operation that
    /// uses the memory, and it throws no exceptions to its caller. The safe functions of this crate rely on this
    /// promise.
    #[doc(alias = "GetPjrtApi")]
    #[doc(alias = "PJRT_Plugin_Initialize")]
    pub unsafe fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let fail = |kind| LoadError::new(Some(path), kind);
        let canonical = path.canonicalize().map_err(|error| fail(LoadErrorKind::File(error.into())))?;
        let known = registry().by_path.get(&canonical).cloned();
        let (loaded, library, table) = match known {
            Some(known) => known,
            None => {
                // Hold no lock while the library's initializers run, because they may load plugins themselves.
                // SAFETY: this function's contract: the library keeps C1 to C11.
                let (library, table) = unsafe { library::get_pjrt_api(&canonical) }.map_err(fail)?;
                let table = SendPtr(table);
                // Reject null before the lookup. Otherwise all libraries that return null would count as one plugin.
                if table.0.is_null() {
                    return Err(fail(LoadErrorKind::NullTable));
                }
                let mut registry = registry();
                let loaded = registry.by_table.entry(table.0.addr()).or_default().clone();
                registry.by_path.entry(canonical.clone()).or_insert((loaded, library, table)).clone()
            }
        };
        // SAFETY: this function's contract: the function table keeps C1 to C11.
        unsafe { Self::initialize(&loaded, table.0, Some((canonical, library)), true) }
    }

    /// Loads a plugin from a file that replaced the file of a loaded plugin at the same path. Both plugins stay usable,
    /// and [`Plugin::load`] still returns the first plugin.
    ///
    /// If the file was not replaced, this function returns the plugin that is already loaded. The dynamic loaders of
    /// Linux and macOS identify files by device and inode. The new file must therefore have been renamed to the path. A
    /// file that was overwritten in place is not detected.
    ///
    /// # Errors
    ///
    /// The errors of [`Plugin::load`] apply.
    ///
    /// # Safety
    ///
    /// The requirements of [`Plugin::load`] apply.
    pub unsafe fn load_replacement(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let fail = |kind| LoadError::new(Some(path), kind);
        let canonical = path.canonicalize().map_err(|error| fail(LoadErrorKind::File(error.into())))?;
        let number = {
            let mut registry = registry();
            registry.replacements += 1;
            registry.replacements
        };
        // If the spelling of the path is the same, the loader returns the old library without checking the file.
        let spelling = spelled_anew(&canonical, number);
        // SAFETY: this function's contract: the library keeps C1 to C11.
        let (library, table) = unsafe { library::get_pjrt_api(&spelling) }.map_err(fail)?;
        if table.is_null() {
            return Err(fail(LoadErrorKind::NullTable));
        }
        let loaded = registry().by_table.entry(table.addr()).or_default().clone();
        // SAFETY: this function's contract: the function table keeps C1 to C11.
        unsafe { Self::initialize(&loaded, table, Some((canonical, library)), true) }
    }

    /// Opens a library and calls its exported function `function`. This function returns a pointer, for example to a
    /// description of the plugin. Does not call `GetPjrtApi`. Returns `None` if the library does not export the
    /// function. The library stays loaded until the process ends.
    ///
    /// # Errors
    ///
    /// Returns an error if the library cannot be opened.
    ///
    /// # Safety
    ///
    /// The library's initializers may run. An exported function of this name takes no arguments, returns a pointer, and
    /// may be called at any time.
    pub unsafe fn description(path: impl AsRef<Path>, function: &str) -> Result<Option<*const c_void>, LoadError> {
        let path = path.as_ref();
        // SAFETY: this function's contract: a function of this name has this type.
        unsafe { library::get_pointer(path, function) }.map_err(|kind| LoadError::new(Some(path), kind))
    }

    /// Wraps a function table that is linked into the program, such as the table of a device written with the crate
    /// `device-plugin`. Initializes the plugin if it is not initialized yet. Wrapping the same table again returns the
    /// same plugin.
    ///
    /// # Errors
    ///
    /// Returns an error if the table is null or not supported, or if the initialization fails.
    pub fn from_static(table: StaticApi) -> Result<Self, LoadError> {
        let table = table.as_raw();
        if table.is_null() {
            return Err(LoadError::new(None, LoadErrorKind::NullTable));
        }
        let loaded = registry().by_table.entry(table.addr()).or_default().clone();
        // SAFETY: the creator of the `StaticApi` promised C1 to C11.
        unsafe { Self::initialize(&loaded, table, None, true) }
    }

    /// Wraps the function table of a plugin. Other code of the process has already initialized this plugin.
    ///
    /// # Safety
    ///
    /// The requirements of [`Api::from_raw`] apply.
    pub(crate) unsafe fn adopt(table: *const PJRT_Api) -> Result<Self, LoadError> {
        if table.is_null() {
            return Err(LoadError::new(None, LoadErrorKind::NullTable));
        }
        let loaded = registry().by_table.entry(table.addr()).or_default().clone();
        // SAFETY: this function's contract: the function table keeps C1 to C11.
        unsafe { Self::initialize(&loaded, table, None, false) }
    }

    /// Returns the plugin of a function table. The first call for a table creates the plugin, and calls
    /// `PJRT_Plugin_Initialize` if `is_new` is `true` and the table contains this function. Later calls return the same
    /// result. `file` contains the path and the library of a plugin that this crate loaded from a file.
    ///
    /// # Safety
    ///
    /// The requirements of [`Api::from_raw`] apply.
    unsafe fn initialize(
        loaded: &Loaded,
        table: *const PJRT_Api,
        file: Option<(PathBuf, Mapped)>,
        is_new: bool,
    ) -> Result<Self, LoadError> {
        let initialize = || {
            let (path, library) = file.clone().unzip();
            let fail = |kind| LoadError::new(path.as_deref(), kind);
            // SAFETY: this function's contract: the function table keeps C1 to C11.
            let api = unsafe { Api::from_raw(table) }.map_err(fail)?;
            if is_new && api.supports::<slot::PJRT_Plugin_Initialize>() {
                let mut args = PJRT_Plugin_Initialize_Args::new();
                // SAFETY: C2 (calls): the function takes no input, and `loaded` ensures that this closure runs only
                // once.
                let done = unsafe { api.call::<slot::PJRT_Plugin_Initialize>(&mut args) };
                done.map_err(|error| fail(LoadErrorKind::Initialize(error)))?;
            }
            let extensions = api.extensions();
            let fingerprint = path.as_deref().and_then(fingerprint);
            tracing::debug!(version = %api.version(), path = ?path, "plugin initialized");
            Ok(Self(Arc::new(PluginInner { api, path, library, extensions, fingerprint })))
        };
        loaded.get_or_init(initialize).clone()
    }

    /// Returns the API version that the plugin was built with.
    #[doc(alias = "PJRT_Api_Version")]
    pub fn api_version(&self) -> ApiVersion {
        self.0.api.version()
    }

    /// Returns the canonical path of the plugin's file, or `None` for a plugin that this crate did not load from a
    /// file.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the plugin's attributes. Common names are `xla_version`, `stablehlo_current_version` and
    /// `stablehlo_minimum_version`. Returns an empty vector if the plugin does not support attributes.
    #[doc(alias = "PJRT_Plugin_Attributes")]
    pub fn attributes(&self) -> Result<Vec<NamedValue>, Error> {
        let mut args = PJRT_Plugin_Attributes_Args::new();
        // SAFETY: C2 (calls): the function takes no input besides the size of its arguments.
        match unsafe { self.0.api.call::<slot::PJRT_Plugin_Attributes>(&mut args) } {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        // SAFETY: C3 (objects): the attributes live as long as the process.
        unsafe { named_value::read(args.attributes, args.num_attributes) }
            .map_err(|broken| Error::malformed(slot::PJRT_Plugin_Attributes::NAME, broken))
    }

    /// Calls the exported function `function` of the loaded library. This function returns a pointer, for example to a
    /// description of the plugin. Returns `None` if the library does not export the function, or if this crate did not
    /// load the plugin from a file. Unlike [`Plugin::description`], this function does not open the file, because the
    /// file may have been replaced since it was loaded.
    ///
    /// # Safety
    ///
    /// An exported function of this name takes no arguments, returns a pointer, and may be called at any time.
    pub unsafe fn own_description(&self, function: &str) -> Option<*const c_void> {
        // SAFETY: this function's contract: a function of this name has this type.
        unsafe { self.0.library?.pointer(function) }
    }

    /// Calls the exported function `name` of the plugin's library, for example to shut down the plugin. The function
    /// takes no arguments and returns nothing.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`LoadErrorKind::NoFunction`] if the library does not export the function, or if this
    /// crate did not load the plugin from a file.
    ///
    /// # Safety
    ///
    /// An exported function of this name has the C type `void (void)` and may be called now. After the call, the plugin
    /// still keeps [contracts](crate::contracts) C1 to C11.
    pub unsafe fn call_function(&self, name: &str) -> Result<(), LoadError> {
        let fail = |kind| LoadError::new(self.path(), kind);
        let Some(library) = self.0.library else {
            let why = LoaderError::new("the plugin is part of the program");
            return Err(fail(LoadErrorKind::NoFunction { function: name.to_owned(), why }));
        };
        // SAFETY: this function's contract: the function has this type and may be called now.
        unsafe { library.call(name) }.map_err(fail)
    }
}

/// Number of bytes that [`fingerprint`] reads at each end of a plugin's file.
const ENDS: usize = 64 << 10;

/// Returns an identifier of a plugin's build. It consists of the size of the file and a hash of the file's first and
/// last bytes. These bytes contain the headers and section tables. Returns `None` if the file cannot be read. Hashing a
/// whole file of hundreds of megabytes would take longer than loading the plugin.
pub(crate) fn fingerprint(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    let mut hash = Sha256::new();
    let mut ends = Vec::with_capacity(2 * ENDS);
    (&mut file).take(ENDS as u64).read_to_end(&mut ends).ok()?;
    file.seek(SeekFrom::Start(size.saturating_sub(ENDS as u64))).ok()?;
    file.take(ENDS as u64).read_to_end(&mut ends).ok()?;
    hash.update(&ends);
    let hash: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{size} bytes, {hash}"))
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("path", &self.0.path).field("api_version", &self.api_version()).finish()
    }
}
