//! Tests of the first word of a client, which refers to the layers' table while the client lives.

use std::cell::Cell;
use std::ptr::{null_mut, with_exposed_provenance_mut};

use pjrt_layers::compat::Compat;
use pjrt_layers::{Instance, Layer, Stack, instance};
use pjrt_sys::{AbiStruct, PJRT_Client_Create_Args, PJRT_Client_Destroy_Args, PJRT_Error, StaticApi};

use crate::setup::{self, embedded, table};

thread_local! {
    /// The handle that the fake plugin returns for the next client in this thread.
    static CLIENT: Cell<usize> = const { Cell::new(0) };
    /// The first word of the last destroyed client at its destruction. `None` if the client's memory is not readable.
    static AT_DESTRUCTION: Cell<Option<usize>> = const { Cell::new(None) };
    static IS_READABLE: Cell<bool> = const { Cell::new(true) };
}

unsafe extern "C" fn create(args: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
    // SAFETY: V1: the test passes arguments of this size, which only this call uses.
    let args = unsafe { &mut *args };
    args.client = with_exposed_provenance_mut(CLIENT.get());
    null_mut()
}

unsafe extern "C" fn destroy(args: *mut PJRT_Client_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: V1: the test passes arguments of this size, which only this call uses.
    let client = unsafe { (*args).client };
    let word = IS_READABLE.get().then(|| first_word(client.expose_provenance()));
    AT_DESTRUCTION.set(word);
    null_mut()
}

fn fake() -> StaticApi {
    setup::fake(117, |table| {
        table.PJRT_Client_Create = Some(create);
        table.PJRT_Client_Destroy = Some(destroy);
    })
}

fn first_word(client: usize) -> usize {
    // SAFETY: V2: the tests call this function only with the address of a readable word.
    unsafe { *std::ptr::with_exposed_provenance::<usize>(client) }
}

fn address(api: StaticApi) -> usize {
    api.as_raw().expose_provenance()
}

fn start<I: Instance>(plugin: StaticApi) -> StaticApi {
    Stack::start::<I>(plugin, Vec::new())
}

/// Creates a client. `client` is the handle that the fake plugin returns.
fn create_client(api: StaticApi, client: usize) {
    CLIENT.set(client);
    let mut args = PJRT_Client_Create_Args::new();
    // SAFETY: C2: the arguments are valid.
    let error = unsafe { table(api).PJRT_Client_Create.unwrap()(&raw mut args) };
    assert!(error.is_null());
    assert_eq!(args.client.addr(), client);
}

/// Destroys a client. Returns the client's first word at the time of the plugin's call, or `None` if the memory is not
/// readable.
fn destroy_client(api: StaticApi, client: usize) -> Option<usize> {
    let mut args = PJRT_Client_Destroy_Args::new();
    args.client = with_exposed_provenance_mut(client);
    // SAFETY: C2: the arguments are valid.
    let error = unsafe { table(api).PJRT_Client_Destroy.unwrap()(&raw mut args) };
    assert!(error.is_null());
    AT_DESTRUCTION.get()
}

/// Returns the address of a fake client whose first word is `word`.
fn client_with(word: usize) -> usize {
    std::ptr::from_mut(Box::leak(Box::new([word, 7]))).expose_provenance()
}

#[test]
fn refers_to_the_layers_until_destruction() {
    instance!(Simple);
    let plugin = fake();
    let api = start::<Simple>(plugin);
    let client = client_with(address(plugin));
    create_client(api, client);
    assert_eq!(first_word(client), address(api));
    assert_eq!(destroy_client(api, client), Some(address(plugin)));
}

#[test]
fn layers_of_two_libraries_stack() {
    instance!(Inner);
    instance!(Outer);
    let plugin = fake();
    let inner = start::<Inner>(plugin);
    let outer = start::<Outer>(inner);
    let client = client_with(address(plugin));
    create_client(outer, client);
    assert_eq!(first_word(client), address(outer));
    assert_eq!(destroy_client(outer, client), Some(address(plugin)));
}

#[test]
fn other_words_stay() {
    instance!(Other);
    let plugin = fake();
    let api = start::<Other>(plugin);
    let client = client_with(0x1234);
    create_client(api, client);
    assert_eq!(first_word(client), 0x1234);
    assert_eq!(destroy_client(api, client), Some(0x1234));
}

#[test]
fn client_of_the_plugin_itself_stays() {
    instance!(Adopted);
    let plugin = fake();
    let api = start::<Adopted>(plugin);
    let client = client_with(address(plugin));
    create_client(plugin, client);
    assert_eq!(first_word(client), address(plugin));
    assert_eq!(destroy_client(api, client), Some(address(plugin)));
}

#[test]
fn client_need_not_be_an_address() {
    instance!(Number);
    let api = start::<Number>(fake());
    IS_READABLE.set(false);
    create_client(api, 1);
    assert_eq!(destroy_client(api, 1), None);
}

#[test]
fn memory_may_be_read_only() {
    instance!(ReadOnly);
    let plugin = fake();
    let api = start::<ReadOnly>(plugin);
    let client = client_with(address(plugin));
    // Use a separate page, because `mprotect` would also protect other objects in the page of the client.
    let size = 4096;
    // SAFETY: the system provides a new page.
    let page = unsafe {
        libc::mmap(null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    assert_ne!(page, libc::MAP_FAILED);
    // SAFETY: the page is writable, and has more than one word.
    unsafe { page.cast::<usize>().write(first_word(client)) };
    // SAFETY: the page belongs to this test.
    assert_eq!(unsafe { libc::mprotect(page, size, libc::PROT_READ) }, 0);
    let client = page.expose_provenance();
    create_client(api, client);
    assert_eq!(first_word(client), address(plugin));
    assert_eq!(destroy_client(api, client), Some(address(plugin)));
}

#[test]
fn short_table_keeps_the_plugins_functions() {
    instance!(Short);
    let plugin = embedded();
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(Compat { minor: Some(60), ..Compat::default() })];
    let api = Stack::start::<Short>(plugin, layers);
    let (announced, whole) = (table(api).struct_size, table(plugin).struct_size);
    assert!(announced < whole, "{announced} {whole}");
    let last = |api: StaticApi| first_word(address(api) + whole - size_of::<usize>());
    // The plugin may use the table in a client up to the plugin's own table size.
    assert_ne!(last(plugin), 0);
    assert_eq!(last(api), last(plugin));
}

#[test]
fn embedded_device_shows_the_layers() {
    instance!(Embedded);
    let plugin = embedded();
    let api = start::<Embedded>(plugin);
    let mut args = PJRT_Client_Create_Args::new();
    // SAFETY: C2: the arguments are valid.
    assert!(unsafe { table(api).PJRT_Client_Create.unwrap()(&raw mut args) }.is_null());
    let client = args.client.expose_provenance();
    assert_eq!(first_word(client), address(api));
    let mut args = PJRT_Client_Destroy_Args::new();
    args.client = with_exposed_provenance_mut(client);
    // SAFETY: C2: the arguments are valid.
    assert!(unsafe { table(api).PJRT_Client_Destroy.unwrap()(&raw mut args) }.is_null());
}
