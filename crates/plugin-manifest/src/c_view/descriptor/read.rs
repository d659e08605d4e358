//! Reads the C descriptor of any plugin library.

use std::path::PathBuf;
use std::sync::Arc;

use crate::c_view::capabilities::dp_string;
use crate::c_view::descriptor::{
    CTopology, DP_DESCRIPTOR_VERSION, DP_LIBRARY_BESIDE, DP_LIBRARY_COMPUTED, DP_LIBRARY_PATH, DP_LIBRARY_THIS,
    dp_configure, dp_descriptor, dp_shutdown, dp_supports, plan, strings,
};
use crate::names::Code;
use crate::rust_view::Hooks;
use crate::{
    Depth, Descriptor, EnvPlan, Environment, Error, ErrorCode, Fault, Faults, Library, Manifest, ProcessTopology,
    Program, Result, StaticApi, Support,
};

impl Descriptor {
    /// Reads a descriptor that a library's `DevicePlugin_GetDescriptor` returned or a C program filled in. The only
    /// function that this method calls is the descriptor's `get_pjrt_api`. The methods of the returned description call
    /// the other functions.
    ///
    /// # Safety
    ///
    /// The pointer and all data that it refers to satisfy D1 to D3 of `docs/safety.md`.
    ///
    /// # Errors
    ///
    /// Returns the error that the plugin reports for its own description, or all faults that this method finds.
    pub unsafe fn from_raw(descriptor: *const dp_descriptor) -> Result<Self, Faults> {
        // SAFETY: D1 (structs): the struct is readable for its `struct_size`.
        let raw = unsafe { strings::local_copy(descriptor) }.map_err(fault)?;
        if raw.version != DP_DESCRIPTOR_VERSION {
            let message = format!(
                "version {} is unknown; this reader supports version {DP_DESCRIPTOR_VERSION}. Build the plugin with a matching SDK",
                raw.version
            );
            return Err(Fault::new("descriptor.version", message).into());
        }
        // SAFETY: D2 (referenced memory): the text is readable for its length.
        let name = unsafe { strings::read(raw.name, "name") }.map_err(fault)?;
        // SAFETY: D2 (referenced memory): the text is readable for its length.
        let error = unsafe { strings::read(raw.error, "error") }.map_err(fault)?;
        if !error.is_empty() {
            return Err(Fault::new("descriptor", format!("the plugin {name:?} reports: {error}")).into());
        }
        let mut faults = Vec::new();
        // SAFETY: D1 (structs) and D2 (referenced memory): the memory that the descriptor points to is readable.
        let manifest = collect(unsafe { manifest(&raw, name) }, &mut faults);
        // SAFETY: D2 (referenced memory) and D3 (functions of a descriptor): the caller of `from_raw` guarantees both.
        let library = collect(unsafe { library(&raw, name) }, &mut faults);
        let hooks =
            CHooks { name: name.to_owned(), configure: raw.configure, supports: raw.supports, shutdown: raw.shutdown };
        match (manifest, library) {
            (Some(manifest), Some(library)) => Self::new(manifest, library, Arc::new(hooks)),
            _ => Err(Faults::check(faults)
                .err()
                .unwrap_or_else(|| Fault::new("descriptor", "the manifest or the library is missing").into())),
        }
    }
}

fn fault(error: Error) -> Fault {
    Fault::new("descriptor", error.message())
}

fn collect<T>(result: Result<T, Faults>, faults: &mut Vec<Fault>) -> Option<T> {
    result.map_err(|more| faults.extend(more.into_vec())).ok()
}

/// # Safety
///
/// All data that the descriptor points to satisfies D1 and D2.
unsafe fn manifest(raw: &dp_descriptor, name: &str) -> Result<Manifest, Faults> {
    // SAFETY: D2 (referenced memory): the text is readable for its length.
    let json = unsafe { strings::read(raw.manifest, "manifest") }.map_err(fault)?;
    let mut manifest = if json.is_empty() { Manifest::new(name) } else { Manifest::from_json(json)? };
    if manifest.name != name {
        let message = format!("the name is {name:?} here and {:?} in the manifest; use one name", manifest.name);
        return Err(Fault::new("descriptor.name", message).into());
    }
    // Prefer the capabilities in the manifest, because a C struct of another version may lack some of them.
    let said = serde_json::from_str::<serde_json::Value>(json).is_ok_and(|json| json.get("capabilities").is_some());
    if !said && !raw.capabilities.is_null() {
        // SAFETY: V8 (descriptors): D2 guarantees that the struct and all data that it points to are readable.
        let read = unsafe { crate::c_view::capabilities::read(raw.capabilities) };
        manifest.capabilities = read.map_err(|error| Fault::new("descriptor.capabilities", error.message()))?;
    }
    Ok(manifest)
}

/// # Safety
///
/// The data and the functions that the descriptor points to satisfy D2 and D3.
unsafe fn library(raw: &dp_descriptor, name: &str) -> Result<Library, Faults> {
    let file = || -> Result<&str, Faults> {
        // SAFETY: D2 (referenced memory): the text is readable for its length.
        let file = unsafe { strings::read(raw.library, "library") }.map_err(fault)?;
        if file.is_empty() || file.contains('\0') {
            let message =
                format!("library_kind is {}, which needs a file name, but library is {file:?}", raw.library_kind);
            return Err(Fault::new("descriptor.library", message).into());
        }
        Ok(file)
    };
    match raw.library_kind {
        DP_LIBRARY_THIS => {
            let Some(get) = raw.get_pjrt_api else {
                let message = "library_kind is DP_LIBRARY_THIS, which needs this function, but it is null";
                return Err(Fault::new("descriptor.get_pjrt_api", message).into());
            };
            // SAFETY: D3 (functions of a descriptor): the function has this type and may be called.
            let table = unsafe { get() };
            if table.is_null() {
                let message = "the function returned null instead of a PJRT table";
                return Err(Fault::new("descriptor.get_pjrt_api", message).into());
            }
            // SAFETY: D3 (functions of a descriptor): the table keeps C1 to C11 as long as the process lives.
            Ok(Library::Static(unsafe { StaticApi::new(table) }))
        }
        DP_LIBRARY_BESIDE => Ok(Library::Beside { file: file()?.to_owned() }),
        DP_LIBRARY_PATH => Ok(Library::Path { path: file()?.into() }),
        DP_LIBRARY_COMPUTED => {
            let Some(function) = raw.library_path else {
                let message = "library_kind is DP_LIBRARY_COMPUTED, which needs this function, but it is null";
                return Err(Fault::new("descriptor.library_path", message).into());
            };
            let name = format!("library_path of {name}");
            Ok(Library::Computed {
                path: Arc::new(move || {
                    // SAFETY: D3 (functions of a descriptor): the function has this type and may be called.
                    let call = |sink, user| unsafe { function(sink, user) };
                    // SAFETY: D3 (functions of a descriptor): the function calls the sink only during the call.
                    let path = unsafe { strings::ask(&name, call) }?;
                    if path.is_empty() || path.contains('\0') {
                        return Err(Error::internal(format!("{name} returned {path:?}, which is not a path")));
                    }
                    Ok(PathBuf::from(path))
                }),
            })
        }
        unknown => {
            let message = format!(
                "unknown value {unknown}; set DP_LIBRARY_THIS, DP_LIBRARY_BESIDE, DP_LIBRARY_PATH or DP_LIBRARY_COMPUTED"
            );
            Err(Fault::new("descriptor.library_kind", message).into())
        }
    }
}

/// Hooks that call the functions of a C descriptor.
struct CHooks {
    name: String,
    configure: dp_configure,
    supports: dp_supports,
    shutdown: dp_shutdown,
}

impl Hooks for CHooks {
    fn configure(&self, process: &ProcessTopology, environment: &Environment) -> Option<Result<EnvPlan>> {
        let function = self.configure?;
        let process = CTopology::new(process);
        let variables = strings::of_variables(environment.iter());
        // SAFETY: D3 (functions of a descriptor): the function has this type and may be called.
        let call = |sink, user| unsafe { function(process.as_ptr(), variables.as_ptr(), variables.len(), sink, user) };
        // SAFETY: D3 (functions of a descriptor): the arguments live until the function returns.
        let plan = unsafe { strings::ask(&format!("configure of {}", self.name), call) };
        Some(plan.and_then(|json| plan::from_json(&json, environment)))
    }

    fn supports(&self, program: &Program, depth: Depth) -> Option<Result<Support>> {
        let function = self.supports?;
        let (format, code) = (dp_string::new(program.format()), strings::of_bytes(program.code()));
        // SAFETY: D3 (functions of a descriptor): the function has this type and may be called.
        let call = |sink, user| unsafe { function(format, code, depth.code(), sink, user) };
        let name = format!("supports of {}", self.name);
        // SAFETY: D3 (functions of a descriptor): the arguments live until the function returns.
        let answer = match unsafe { strings::ask(&name, call) } {
            Err(error) if error.code() == ErrorCode::UNIMPLEMENTED => return None,
            answer => answer,
        };
        let read = |json: String| {
            serde_json::from_str(&json)
                .map_err(|error| Error::internal(format!("{name} returned invalid JSON: {error}")))
        };
        Some(answer.and_then(read))
    }

    fn shutdown(&self) {
        if let Some(function) = self.shutdown {
            // SAFETY: D3 (functions of a descriptor): the function has this type and may be called.
            unsafe { function() };
        }
    }
}
