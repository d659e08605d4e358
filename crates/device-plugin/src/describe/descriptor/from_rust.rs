//! The C description of a plugin written in Rust.

use std::ffi::{CStr, c_void};

use pjrt_sys::PJRT_Api;

use crate::contain::contain;
use crate::describe::capabilities::{CCapabilities, dp_string};
use crate::describe::descriptor::{
    DP_LIBRARY_BESIDE, DP_LIBRARY_COMPUTED, DP_LIBRARY_PATH, DP_LIBRARY_THIS, dp_descriptor, dp_sink, dp_topology,
    dp_variable, plan, strings,
};
use crate::per_type::PerType;
use crate::{Descriptor, DevicePlugin, Environment, Error, Library, ProcessTopology, Result};

/// A descriptor of this library.
struct Made(dp_descriptor);

// SAFETY: D1 and D2 as this module upholds them: what a descriptor points to is never written again.
unsafe impl Send for Made {}
// SAFETY: as above.
unsafe impl Sync for Made {}

/// One for each plugin. They live as long as the process.
static MADE: PerType<Made> = PerType::new();

/// For a plugin whose error cannot be described either.
static SPEECHLESS: Made = {
    const REASON: &CStr = c"the plugin cannot be described";
    Made(dp_descriptor {
        error: dp_string { data: REASON.as_ptr(), size: REASON.count_bytes() },
        ..dp_descriptor::new()
    })
};

/// The description of `P` for C; the same each time and never null. Faults in the plugin's own description are in its
/// `error`.
pub(crate) fn c_descriptor<P: DevicePlugin>() -> *const dp_descriptor {
    &contain(|| Ok(made::<P>())).unwrap_or(&SPEECHLESS).0
}

fn made<P: DevicePlugin>() -> &'static Made {
    MADE.get_or_make::<P>(|| {
        Made(contain(describe::<P>).unwrap_or_else(|error| dp_descriptor {
            name: strings::leak(P::NAME),
            error: strings::leak(error.message()),
            ..dp_descriptor::new()
        }))
    })
}

fn describe<P: DevicePlugin>() -> Result<dp_descriptor> {
    let mut descriptor = Descriptor::unchecked::<P>()?;
    // Readers always check a manifest. This check is for vendors, whose tests run with assertions. A release build of
    // the library is smaller without it.
    if cfg!(debug_assertions) {
        descriptor = descriptor.checked()?;
    }
    let mut made = dp_descriptor {
        configure: if P::CONFIGURES { Some(configure::<P>) } else { None },
        shutdown: Some(shutdown::<P>),
        supports: Some(supports::<P>),
        ..dp_descriptor::new()
    };
    let mut library = None;
    match descriptor.library() {
        Library::This | Library::Static(_) => {
            made.library_kind = DP_LIBRARY_THIS;
            made.get_pjrt_api = Some(get_pjrt_api::<P>);
        }
        Library::Beside(file) => {
            made.library_kind = DP_LIBRARY_BESIDE;
            library = Some(file_name(file)?);
        }
        Library::Path(path) => {
            made.library_kind = DP_LIBRARY_PATH;
            let path = path
                .to_str()
                .ok_or_else(|| Error::invalid_argument(format!("library: the path {} is not UTF-8", path.display())))?;
            library = Some(file_name(path)?);
        }
        Library::Computed(_) => {
            made.library_kind = DP_LIBRARY_COMPUTED;
            made.library_path = Some(library_path::<P>);
        }
    }
    let capabilities = CCapabilities::new(&descriptor.manifest().capabilities)?;
    // Nothing fails from here on, so all leaked memory becomes part of a descriptor.
    made.capabilities = Box::leak(Box::new(capabilities)).as_ptr();
    made.name = strings::leak(P::NAME);
    made.manifest = strings::leak(&descriptor.manifest().to_json());
    made.library = library.map_or(dp_string::EMPTY, strings::leak);
    Ok(made)
}

fn file_name(path: &str) -> Result<&str> {
    if path.is_empty() || path.contains('\0') {
        return Err(Error::invalid_argument(format!("library: {path:?} is no file; write its name or path")));
    }
    Ok(path)
}

unsafe extern "C" fn get_pjrt_api<P: DevicePlugin>() -> *const PJRT_Api {
    let table = contain(|| {
        Ok(match P::library() {
            Library::Static(table) => table.as_raw(),
            _ => crate::abi::shared_api::<P>().as_raw(),
        })
    });
    table.unwrap_or(std::ptr::null())
}

unsafe extern "C" fn library_path<P: DevicePlugin>(sink: dp_sink, user: *mut c_void) -> u32 {
    let path = || {
        let Library::Computed(path) = P::library() else {
            return Err(Error::internal("the plugin now says that its library is elsewhere"));
        };
        path()?
            .into_os_string()
            .into_string()
            .map_err(|path| Error::invalid_argument(format!("the library's path {} is not UTF-8", path.display())))
    };
    // SAFETY: D5 is the caller's.
    unsafe { strings::answer(sink, user, path) }
}

unsafe extern "C" fn configure<P: DevicePlugin>(
    topology: *const dp_topology,
    environment: *const dp_variable,
    num_environment: usize,
    sink: dp_sink,
    user: *mut c_void,
) -> u32 {
    let plan = || {
        // SAFETY: D4 is the caller's.
        let topology = unsafe { ProcessTopology::from_raw(topology) }?;
        // SAFETY: D4 is the caller's.
        let environment = unsafe { strings::variables(environment, num_environment, "environment") }?;
        let environment: Environment = environment.into_iter().collect();
        plan::to_json(&P::configure(&topology, &environment)?)
    };
    // SAFETY: D5 is the caller's.
    unsafe { strings::answer(sink, user, plan) }
}

unsafe extern "C" fn supports<P: DevicePlugin>(
    format: dp_string,
    code: dp_string,
    effort: u32,
    sink: dp_sink,
    user: *mut c_void,
) -> u32 {
    let support = || {
        // SAFETY: D4 is the caller's.
        let program = unsafe { strings::program(format, code) }?;
        let effort = super::effort_of(effort)?;
        let answer = P::supports(&program, effort);
        let answer =
            answer.ok_or_else(|| Error::unimplemented("the plugin's manifest says all it knows of programs"))?;
        serde_json::to_string(&answer).map_err(|error| Error::internal(error.to_string()))
    };
    // SAFETY: D5 is the caller's.
    unsafe { strings::answer(sink, user, support) }
}

unsafe extern "C" fn shutdown<P: DevicePlugin>() {
    // The panic's message was printed when it began, and there is no caller to return the error to.
    let _ = contain(|| {
        P::shutdown();
        Ok(())
    });
}
