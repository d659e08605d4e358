//! A plugin as a shared library: what it exports, and that it works from there.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "loads a library and calls it"
)]

use std::path::PathBuf;

use pjrt_sys::{AbiStruct, PJRT_Api, PJRT_Client_Create_Args, PJRT_Client_Destroy_Args, PJRT_Client_PlatformName_Args};

/// Built by cargo together with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let name = format!("{}echo_plugin{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is missing; `cargo build -p device-plugin --examples` makes it", path.display());
    path
}

#[test]
fn the_library_hands_out_its_table() {
    let library = unsafe { libloading::Library::new(library()) }.unwrap();
    let get: libloading::Symbol<'_, unsafe extern "C" fn() -> *const PJRT_Api> =
        unsafe { library.get(b"GetPjrtApi") }.unwrap();
    let (first, second) = unsafe { (get(), get()) };
    assert_eq!(first, second);
    let api = unsafe { &*first };
    assert_eq!(api.struct_size, PJRT_Api::STRUCT_SIZE);
    let mut create = PJRT_Client_Create_Args::new();
    assert!(unsafe { api.PJRT_Client_Create.unwrap()(&raw mut create) }.is_null());
    let mut name = PJRT_Client_PlatformName_Args::new();
    name.client = create.client;
    assert!(unsafe { api.PJRT_Client_PlatformName.unwrap()(&raw mut name) }.is_null());
    let text = unsafe { std::slice::from_raw_parts(name.platform_name.cast::<u8>(), name.platform_name_size) };
    assert_eq!(text, b"echo");
    let mut destroy = PJRT_Client_Destroy_Args::new();
    destroy.client = create.client;
    assert!(unsafe { api.PJRT_Client_Destroy.unwrap()(&raw mut destroy) }.is_null());
}
