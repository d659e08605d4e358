//! Tests the key-value callbacks of a client. The test calls them in place of a plugin.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "plays the plugin")]
#![allow(clippy::disallowed_methods, reason = "plays the plugin")]

use std::collections::HashMap;
use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fake::{Fake, plugin};
use pjrt::{ErrorCode, KeyValueStore};
use pjrt_sys::*;

#[derive(Default)]
struct Store(Mutex<HashMap<String, Vec<u8>>>);

impl KeyValueStore for Store {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, (ErrorCode, String)> {
        assert_ne!(key, "panic", "a store that panics");
        let found = self.try_get(key)?;
        found.ok_or_else(|| (ErrorCode::DEADLINE_EXCEEDED, format!("{key} in {timeout:?}")))
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, (ErrorCode, String)> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), (ErrorCode, String)> {
        self.0.lock().unwrap().insert(key.to_owned(), value.to_vec());
        Ok(())
    }
}

/// Code and message of the last error that [`make_error`] created.
static LAST: Mutex<Option<(u32, String)>> = Mutex::new(None);

unsafe extern "C" fn make_error(code: PJRT_Error_Code, message: *const c_char, size: usize) -> *mut PJRT_Error {
    let message = unsafe { std::slice::from_raw_parts(message.cast::<u8>(), size) };
    *LAST.lock().unwrap() = Some((code.0, String::from_utf8(message.to_vec()).unwrap()));
    std::ptr::without_provenance_mut(1)
}

#[test]
fn plugin_reaches_store_during_client() {
    let fake = Fake::new();
    let store = Arc::new(Store::default());
    // The options are dropped before the plugin calls the store, so the client must keep the store alive.
    let client = plugin().client(&fake.options().with_key_value_store(store.clone())).unwrap();
    let create = fake.kv.lock().unwrap().unwrap();
    let mut callback_error: PJRT_CallbackError = Some(make_error);

    let mut put = PJRT_KeyValuePutCallback_Args::new();
    (put.key, put.key_size) = (c"name".as_ptr(), 4);
    (put.value, put.value_size) = (c"value".as_ptr(), 5);
    put.callback_error = &raw mut callback_error;
    put.user_arg = create.kv_put_user_arg;
    assert!(unsafe { create.kv_put_callback.unwrap()(&mut put) }.is_null());
    assert_eq!(store.0.lock().unwrap()["name"], b"value");

    let (callback, address) = (create.kv_get_callback.unwrap(), create.kv_get_user_arg.expose_provenance());
    let get = |key: &std::ffi::CStr| {
        let mut args = PJRT_KeyValueGetCallback_Args::new();
        (args.key, args.key_size) = (key.as_ptr(), key.to_bytes().len());
        args.timeout_in_ms = 250;
        let mut callback_error: PJRT_CallbackError = Some(make_error);
        args.callback_error = &raw mut callback_error;
        args.user_arg = std::ptr::with_exposed_provenance_mut(address);
        let error = unsafe { callback(&mut args) };
        (error, args)
    };
    // Call the callback on another thread, as plugins do.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (error, args) = get(c"name");
            assert!(error.is_null());
            let value = unsafe { std::slice::from_raw_parts(args.value.cast::<u8>(), args.value_size) };
            assert_eq!(value, b"value");
            unsafe { args.value_deleter_callback.unwrap()(args.value) };
        });
    });
    assert!(!get(c"absent").0.is_null());
    assert_eq!(LAST.lock().unwrap().take(), Some((4, "absent in 250ms".to_owned())));
    assert!(!get(c"panic").0.is_null());
    assert_eq!(LAST.lock().unwrap().take(), Some((13, "the key-value store panicked".to_owned())));

    let mut args = PJRT_KeyValueTryGetCallback_Args::new();
    (args.key, args.key_size) = (c"absent".as_ptr(), 6);
    args.callback_error = &raw mut callback_error;
    args.user_arg = create.kv_try_get_user_arg;
    assert!(!unsafe { create.kv_try_get_callback.unwrap()(&mut args) }.is_null());
    assert_eq!(LAST.lock().unwrap().take(), Some((5, "the key-value store has no key \"absent\"".to_owned())));
    // If the plugin passes no function that creates errors, a failed callback returns null.
    args.callback_error = null_mut();
    assert!(unsafe { create.kv_try_get_callback.unwrap()(&mut args) }.is_null());

    assert_eq!(Arc::strong_count(&store), 2);
    drop(client);
    assert_eq!(Arc::strong_count(&store), 1, "let go with the client");
}
