//! The key-value store through which the clients of a distributed program exchange set-up data.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use pjrt_sys::*;
use pjrt_types::ErrorCode;

use crate::table::callback::contain;
use crate::table::read;

/// A key-value store that the processes of a distributed program share.
///
/// The plugin calls the store from any thread, until the client is destroyed. If several plugins share one store, their
/// keys must not collide.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::{Arc, Condvar, Mutex};
/// use std::time::Duration;
///
/// use pjrt::{ClientOptions, ErrorCode, KeyValueStore};
///
/// /// A store for clients of one process.
/// #[derive(Default)]
/// struct InProcess {
///     values: Mutex<HashMap<String, Vec<u8>>>,
///     changed: Condvar,
/// }
///
/// impl KeyValueStore for InProcess {
///     fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, (ErrorCode, String)> {
///         let absent = |values: &mut HashMap<String, Vec<u8>>| !values.contains_key(key);
///         let values = self.values.lock().unwrap();
///         let (values, _) = self.changed.wait_timeout_while(values, timeout, absent).unwrap();
///         values.get(key).cloned().ok_or_else(|| (ErrorCode::DEADLINE_EXCEEDED, format!("no value for {key} in time")))
///     }
///
///     fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, (ErrorCode, String)> {
///         Ok(self.values.lock().unwrap().get(key).cloned())
///     }
///
///     fn put(&self, key: &str, value: &[u8]) -> Result<(), (ErrorCode, String)> {
///         self.values.lock().unwrap().insert(key.to_owned(), value.to_vec());
///         self.changed.notify_all();
///         Ok(())
///     }
/// }
///
/// let options = ClientOptions::new().with_key_value_store(Arc::new(InProcess::default()));
/// let client = plugin_registry::open("cpu")?.client(&options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyValueStore: Send + Sync + 'static {
    /// Returns the value of a key. If the key is absent, waits until the key is set, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// Returns an error of code `DEADLINE_EXCEEDED` if the key is still absent after `timeout`.
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, (ErrorCode, String)>;

    /// Returns the value of a key without waiting, or `None` if the key is absent.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, (ErrorCode, String)>;

    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), (ErrorCode, String)>;
}

/// A store at a fixed address. The plugin uses the address until its client is destroyed.
pub(crate) struct Store(Box<Arc<dyn KeyValueStore>>);

impl Store {
    pub(crate) fn new(store: Arc<dyn KeyValueStore>) -> Self {
        Self(Box::new(store))
    }

    /// Sets the callbacks in the arguments. The client must be destroyed before `self` is dropped.
    pub(crate) fn fill(&self, args: &mut PJRT_Client_Create_Args) {
        let user_arg = (&raw const *self.0).cast_mut().cast::<c_void>();
        args.kv_get_callback = Some(get);
        args.kv_get_user_arg = user_arg;
        args.kv_put_callback = Some(put);
        args.kv_put_user_arg = user_arg;
        args.kv_try_get_callback = Some(try_get);
        args.kv_try_get_user_arg = user_arg;
    }
}

/// Returns the store that was registered with a callback.
///
/// # Safety
///
/// `user_arg` is the pointer that [`Store::fill`] registered, and the store is alive.
unsafe fn store<'a>(user_arg: *mut c_void) -> &'a Arc<dyn KeyValueStore> {
    // SAFETY: this function's contract: `user_arg` is the pointer that `Store::fill` registered, and the store is
    // alive.
    unsafe { &*user_arg.cast::<Arc<dyn KeyValueStore>>() }
}

/// Creates a `PJRT_Error` with `make`, the function that the plugin passed to the callback. Returns null if the plugin
/// passed no function.
///
/// # Safety
///
/// `make` is null or the pointer that the plugin passed to the callback.
unsafe fn fail(make: *mut PJRT_CallbackError, code: ErrorCode, message: &str) -> *mut PJRT_Error {
    // SAFETY: this function's contract: `make` is null or valid.
    let Some(make) = (unsafe { make.as_ref() }).copied().flatten() else {
        tracing::error!("a callback of the key-value store failed, and the plugin cannot receive its error: {message}");
        return std::ptr::null_mut();
    };
    // SAFETY: C9 (callbacks of a client): the function copies the message.
    unsafe { make(PJRT_Error_Code(code.as_raw()), message.as_ptr().cast::<c_char>(), message.len()) }
}

/// Returns a pointer to a copy of `value` for the plugin. The length of the value is stored in front of the copy.
/// [`delete`] frees both.
fn allocate_value(value: &[u8]) -> *mut c_char {
    let mut bytes = Vec::with_capacity(value.len() + size_of::<usize>());
    bytes.extend_from_slice(&value.len().to_ne_bytes());
    bytes.extend_from_slice(value);
    let bytes = Box::into_raw(bytes.into_boxed_slice());
    bytes.cast::<c_char>().wrapping_add(size_of::<usize>())
}

unsafe extern "C" fn delete(value: *mut c_char) {
    if value.is_null() {
        return;
    }
    let start = value.cast::<u8>().wrapping_sub(size_of::<usize>());
    // SAFETY: C9 (callbacks of a client): `value` came from `allocate_value`, which stores the length in front of the
    // bytes.
    let len = unsafe { start.cast::<usize>().read_unaligned() };
    let bytes = std::ptr::slice_from_raw_parts_mut(start, len + size_of::<usize>());
    // SAFETY: C9 (callbacks of a client): `value` came from `allocate_value` and is deleted once.
    drop(unsafe { Box::from_raw(bytes) });
}

pub(crate) type Answer<T> = Result<T, (ErrorCode, String)>;

/// Calls a function of the store and converts a panic to an error.
fn run<T>(f: impl FnOnce() -> Answer<T>) -> Answer<T> {
    let mut answer = Err((ErrorCode::INTERNAL, "the key-value store panicked".to_owned()));
    contain(|| answer = f());
    answer
}

/// Converts the result of a callback to a `PJRT_Error`, or to null if the callback succeeded.
///
/// # Safety
///
/// The requirements of [`fail`] apply.
pub(crate) unsafe fn finish(make: *mut PJRT_CallbackError, answer: Answer<()>) -> *mut PJRT_Error {
    match answer {
        Ok(()) => std::ptr::null_mut(),
        // SAFETY: this function's contract: `make` is valid.
        Err((code, message)) => unsafe { fail(make, code, &message) },
    }
}

unsafe extern "C" fn get(args: *mut PJRT_KeyValueGetCallback_Args) -> *mut PJRT_Error {
    // SAFETY: C9 (callbacks of a client): the arguments are valid during the callback.
    let args = unsafe { &mut *args };
    let answer = run(|| {
        // SAFETY: C9 (callbacks of a client): the key is valid during the callback.
        let key = unsafe { read::text(args.key, args.key_size) }.map_err(broken)?;
        let timeout = Duration::from_millis(u64::try_from(args.timeout_in_ms).unwrap_or(0));
        // SAFETY: C9 (callbacks of a client): the callback receives its registered argument, and runs while the client
        // lives.
        unsafe { store(args.user_arg) }.get(&key, timeout)
    });
    let answer = answer.map(|value| {
        args.value = allocate_value(&value);
        args.value_size = value.len();
        args.value_deleter_callback = Some(delete);
    });
    // SAFETY: C9 (callbacks of a client): the plugin passed this function to create errors.
    unsafe { finish(args.callback_error, answer) }
}

unsafe extern "C" fn try_get(args: *mut PJRT_KeyValueTryGetCallback_Args) -> *mut PJRT_Error {
    // SAFETY: C9 (callbacks of a client): the arguments are valid during the callback.
    let args = unsafe { &mut *args };
    let answer = run(|| {
        // SAFETY: C9 (callbacks of a client): the key is valid during the callback.
        let key = unsafe { read::text(args.key, args.key_size) }.map_err(broken)?;
        // SAFETY: C9 (callbacks of a client): the callback receives its registered argument, and runs while the client
        // lives.
        let found = unsafe { store(args.user_arg) }.try_get(&key)?;
        found.ok_or_else(|| (ErrorCode::NOT_FOUND, format!("the key-value store has no key {key:?}")))
    });
    let answer = answer.map(|value| {
        args.value = allocate_value(&value);
        args.value_size = value.len();
        args.value_deleter_callback = Some(delete);
    });
    // SAFETY: C9 (callbacks of a client): the plugin passed this function to create errors.
    unsafe { finish(args.callback_error, answer) }
}

unsafe extern "C" fn put(args: *mut PJRT_KeyValuePutCallback_Args) -> *mut PJRT_Error {
    // SAFETY: C9 (callbacks of a client): the arguments are valid during the callback.
    let args = unsafe { &*args };
    let answer = run(|| {
        // SAFETY: C9 (callbacks of a client): the key is valid during the callback.
        let key = unsafe { read::text(args.key, args.key_size) }.map_err(broken)?;
        // SAFETY: C9 (callbacks of a client): the value is valid during the callback.
        let value = unsafe { read::slice(args.value.cast::<u8>(), args.value_size) }.map_err(broken)?;
        // SAFETY: C9 (callbacks of a client): the callback receives its registered argument, and runs while the client
        // lives.
        unsafe { store(args.user_arg) }.put(&key, value)
    });
    // SAFETY: C9 (callbacks of a client): the plugin passed this function to create errors.
    unsafe { finish(args.callback_error, answer) }
}

fn broken(broken: read::Malformed) -> (ErrorCode, String) {
    (ErrorCode::INVALID_ARGUMENT, broken.0.to_owned())
}
