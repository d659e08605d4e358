//! Creates the C description of a plugin in Rust, for the library or program that contains the plugin.

use std::ffi::{CStr, c_void};

use pjrt_sys::PJRT_Api;

use crate::c_view::capabilities::{CCapabilities, dp_string};
use crate::c_view::descriptor::{
    DP_LIBRARY_BESIDE, DP_LIBRARY_COMPUTED, DP_LIBRARY_PATH, DP_LIBRARY_THIS, dp_descriptor, dp_sink, dp_topology,
    dp_variable, plan, strings,
};
use crate::contain::contain;
use crate::{Descriptor, Environment, Error, Faults, Hooks, Library, ProcessTopology, Result};

/// A plugin in Rust that is described to other programs through C. Other programs may call the functions of its
/// [`CDescriptor`] at any time, on any thread. These functions catch panics. After a panic, `get_pjrt_api` returns
/// null, `shutdown` returns as usual, and the other functions return an error.
pub trait ExportedPlugin: Hooks + Sized {
    /// Returns the name by which frameworks register the plugin.
    fn name() -> &'static str;

    /// Whether the plugin implements [`Hooks::configure`]. If it does not, the descriptor's `configure` is null, and
    /// readers use the plan in the manifest.
    const CONFIGURES: bool;

    /// The plugin's hooks.
    const HOOKS: Self;

    /// Returns the location of the PJRT library. Returns [`Library::Static`] if the PJRT table is in the same library
    /// as the description.
    fn library() -> Library;

    /// Returns the plugin's description. An implementation need not check the manifest, because readers check it.
    ///
    /// # Errors
    ///
    /// Returns an error with the faults of the description if the plugin cannot be described.
    fn descriptor() -> Result<Descriptor, Faults>;
}

/// The C description of a plugin, as `DevicePlugin_GetDescriptor` returns it. All memory that it points to remains
/// valid until the process ends.
#[derive(Debug)]
pub struct CDescriptor(dp_descriptor);

// SAFETY: D1 (structs) and D2 (referenced memory): the data that a descriptor points to never changes.
unsafe impl Send for CDescriptor {}
// SAFETY: D1 (structs) and D2 (referenced memory): the data never changes, so several threads can read it.
unsafe impl Sync for CDescriptor {}

impl CDescriptor {
    /// The descriptor to return if neither the description of a plugin nor an error message can be created.
    pub const UNDESCRIBED: Self = {
        const REASON: &CStr = c"the plugin cannot be described";
        Self(dp_descriptor {
            error: dp_string { data: REASON.as_ptr(), size: REASON.count_bytes() },
            ..dp_descriptor::EMPTY
        })
    };

    /// Creates the description of the plugin `E`. The strings of the description are never freed, so call this function
    /// once for each plugin. If the plugin cannot be described, the `error` of the description contains the reason.
    pub fn leak<E: ExportedPlugin>() -> Self {
        Self(contain(describe::<E>).unwrap_or_else(|error| dp_descriptor {
            name: strings::leak(E::name()),
            error: strings::leak(error.message()),
            ..dp_descriptor::EMPTY
        }))
    }

    /// Returns a pointer to the C struct. The pointer is valid until this value is moved or dropped.
    pub fn as_ptr(&self) -> *const dp_descriptor {
        &raw const self.0
    }
}

fn describe<E: ExportedPlugin>() -> Result<dp_descriptor> {
    let mut descriptor = E::descriptor()?;
    // This check reports faults in the vendor's tests, which run with debug assertions. Release builds omit the check
    // to make the library smaller, because readers always check the manifest.
    if cfg!(debug_assertions) {
        descriptor = descriptor.checked()?;
    }
    let mut made = dp_descriptor {
        configure: if E::CONFIGURES { Some(configure::<E>) } else { None },
        shutdown: Some(shutdown::<E>),
        supports: Some(supports::<E>),
        ..dp_descriptor::EMPTY
    };
    let mut library = None;
    match descriptor.library() {
        Library::This | Library::Static(_) => {
            made.library_kind = DP_LIBRARY_THIS;
            made.get_pjrt_api = Some(get_pjrt_api::<E>);
        }
        Library::Beside { file } => {
            made.library_kind = DP_LIBRARY_BESIDE;
            library = Some(file_name(file)?);
        }
        Library::Path { path } => {
            made.library_kind = DP_LIBRARY_PATH;
            let path = path
                .to_str()
                .ok_or_else(|| Error::invalid_argument(format!("library: the path {} is not UTF-8", path.display())))?;
            library = Some(file_name(path)?);
        }
        Library::Computed { .. } => {
            made.library_kind = DP_LIBRARY_COMPUTED;
            made.library_path = Some(library_path::<E>);
        }
    }
    let capabilities = CCapabilities::new(&descriptor.manifest().capabilities)?;
    // The steps below cannot fail, so all leaked memory becomes part of a descriptor.
    made.capabilities = Box::leak(Box::new(capabilities)).as_ptr();
    made.name = strings::leak(E::name());
    made.manifest = strings::leak(&descriptor.manifest().to_json());
    made.library = library.map_or(dp_string::EMPTY, strings::leak);
    Ok(made)
}

fn file_name(path: &str) -> Result<&str> {
    if path.is_empty() || path.contains('\0') {
        return Err(Error::invalid_argument(format!(
            "library: {path:?} is not a file name; write the name or path of the library"
        )));
    }
    Ok(path)
}

unsafe extern "C" fn get_pjrt_api<E: ExportedPlugin>() -> *const PJRT_Api {
    let table = contain(|| {
        Ok(match E::library() {
            Library::Static(table) => table.as_raw(),
            _ => std::ptr::null(),
        })
    });
    table.unwrap_or(std::ptr::null())
}

unsafe extern "C" fn library_path<E: ExportedPlugin>(sink: dp_sink, user: *mut c_void) -> u32 {
    let path = || {
        let Library::Computed { path } = E::library() else {
            return Err(Error::internal("the location of the plugin's library has changed since it was described"));
        };
        path()?
            .into_os_string()
            .into_string()
            .map_err(|path| Error::invalid_argument(format!("the library's path {} is not UTF-8", path.display())))
    };
    // SAFETY: D5 (sinks): the sink may be called with `user` on this thread.
    unsafe { strings::answer(sink, user, path) }
}

unsafe extern "C" fn configure<E: ExportedPlugin>(
    topology: *const dp_topology,
    environment: *const dp_variable,
    num_environment: usize,
    sink: dp_sink,
    user: *mut c_void,
) -> u32 {
    let plan = || {
        // SAFETY: D4 (arguments of hooks): the topology keeps D1 and D2.
        let topology = unsafe { ProcessTopology::from_raw(topology) }?;
        // SAFETY: D4 (arguments of hooks): the array is readable for its length.
        let environment = unsafe { strings::variables(environment, num_environment, "environment") }?;
        let environment: Environment = environment.into_iter().collect();
        match E::HOOKS.configure(&topology, &environment) {
            Some(plan) => plan::to_json(&plan?),
            None => Err(Error::unimplemented("the plan in the plugin's manifest is complete")),
        }
    };
    // SAFETY: D5 (sinks): the sink may be called with `user` on this thread.
    unsafe { strings::answer(sink, user, plan) }
}

unsafe extern "C" fn supports<E: ExportedPlugin>(
    format: dp_string,
    code: dp_string,
    depth: u32,
    sink: dp_sink,
    user: *mut c_void,
) -> u32 {
    let support = || {
        // SAFETY: D4 (arguments of hooks): the array is readable for its length.
        let program = unsafe { strings::program(format, code) }?;
        let depth = super::depth_from_raw(depth)?;
        match E::HOOKS.supports(&program, depth) {
            Some(support) => serde_json::to_string(&support?).map_err(|error| Error::internal(error.to_string())),
            None => Err(Error::unimplemented("only the plugin's manifest describes which programs it supports")),
        }
    };
    // SAFETY: D5 (sinks): the sink may be called with `user` on this thread.
    unsafe { strings::answer(sink, user, support) }
}

unsafe extern "C" fn shutdown<E: ExportedPlugin>() {
    // The panic hook has already printed the message, and there is no caller that could receive the error.
    let _ = contain(|| {
        E::HOOKS.shutdown();
        Ok(())
    });
}
