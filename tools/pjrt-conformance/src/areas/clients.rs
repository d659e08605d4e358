//! Cases for clients: creation, options, and clients that form one distributed program.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use pjrt::extensions::{CrossHostTransfers, Receive, Send as SendBuffer};
use pjrt::{Client, ClientOptions, ElementType, ErrorCode, KeyValueStore, Value};

use crate::case::Profiles;
use crate::context::{Context, floats, shape};
use crate::stop::Stop;
use crate::suite::Suite;

pub(crate) fn declare(suite: &mut Suite) {
    client(suite);
    gpu_options(suite);
    nodes(suite);
}

fn client(suite: &mut Suite) {
    suite
        .case(
            "client.query.platform_name",
            "pjrt_c_api.h, PJRT_Client_PlatformName: a string that identifies the platform (cpu, gpu, tpu)",
            "JAX selects lowering rules by this name",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let name = cx.client()?.platform_name()?;
            ensure!(!name.is_empty() && name.chars().all(|c| c.is_ascii_graphic()), "the platform's name is {name:?}");
            ensure_eq!(cx.client()?.platform_name()?, name, "the name that the second call returned");
            Ok(())
        });
    suite
        .case(
            "client.query.platform_version",
            "pjrt_c_api.h, PJRT_Client_PlatformVersion: a human-readable version",
            "the key of a compilation cache contains it",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            ensure!(!cx.client()?.platform_version()?.is_empty(), "the platform's version is empty");
            Ok(())
        });
    suite
        .case(
            "client.query.process_index",
            "pjrt_c_api.h, PJRT_Client_ProcessIndex: 0 for a client of one process",
            "frameworks distribute data by process index",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            ensure_eq!(cx.client()?.process_index()?, 0, "process index");
            Ok(())
        });
    suite
        .case(
            "client.create.first",
            "pjrt_c_api.h, PJRT_Client_Create: creates a client",
            "without a client, nothing else can be checked",
        )
        .profiles(Profiles::MINIMAL)
        .without_client()
        .check(|cx| match cx.client() {
            // Without a client, the other cases that use the shared client are skipped. Only this case reports the
            // reason as a failure.
            Err(Stop::Skip(reason)) => Err(Stop::Fail(reason)),
            other => other.map(drop),
        });
    suite
        .case(
            "client.create.second",
            "pjrt_c_api.h, PJRT_Client_Create: creates a client",
            "tests and notebooks create one client after another",
        )
        .isolated()
        .check(|cx| {
            let data: Vec<f32> = vec![1.0, 2.0];
            for _ in 0..3 {
                let client = cx.new_client()?;
                let buffer = client.buffer_from_host(&data, &[2])?;
                ensure_eq!(floats(&buffer)?, data, "contents");
            }
            Ok(())
        });
    suite
        .case(
            "client.create.two_at_once",
            "pjrt_c_api.h, PJRT_Client_Create: creates a client",
            "two libraries in a process may use the same device",
        )
        .isolated()
        .check(|cx| {
            let first = cx.new_client()?;
            let second = match cx.new_client() {
                Ok(second) => second,
                Err(stop) => return Err(Stop::Unsupported(format!("a second client at the same time: {stop:?}"))),
            };
            let (a, b) = (first.buffer_from_host(&[1.0f32], &[1])?, second.buffer_from_host(&[2.0f32], &[1])?);
            drop(first);
            ensure_eq!((floats(&b)?, floats(&a)?), (vec![2.0], vec![1.0]), "contents");
            Ok(())
        });
    suite
        .case(
            "client.create.unknown_option",
            "pjrt_c_api.h, PJRT_Client_Create: create_options are named values that the plugin defines; an error does \
             not end the process",
            "users misspell options",
        )
        .isolated()
        .check(|cx| {
            let options = cx.options().clone().with("pjrt_conformance_no_such_option", 1i64);
            // A plugin may ignore or reject an unknown option, but must not crash.
            if let Ok(client) = cx.plugin().client(&options) {
                client.platform_name()?;
            }
            Ok(())
        });
    suite
        .case(
            "client.create.wrong_option_type",
            "pjrt_c_api.h, PJRT_Client_Create: each of create_options has a type, which the plugin checks",
            "XLA aborts if some options have the wrong type, which ends the user's session",
        )
        .isolated()
        .check(|cx| {
            for name in ["num_devices", "device_count", "allocator", "memory_fraction"] {
                let options = cx.options().clone().with(name, "not a number");
                if let Ok(client) = cx.plugin().client(&options) {
                    client.platform_name()?;
                }
            }
            Ok(())
        });
}

/// Names of the platforms of XLA's GPU plugins.
const GPU_PLATFORMS: [&str; 4] = ["cuda", "rocm", "oneapi", "sycl"];

/// Returns [`Stop::Unsupported`] unless `platform` is a platform of XLA's GPU plugins.
pub(super) fn requires_gpu_platform(platform: &str) -> Result<(), Stop> {
    if GPU_PLATFORMS.contains(&platform) {
        return Ok(());
    }
    Err(Stop::Unsupported(format!("the option belongs to XLA's GPU plugins, and the platform is {platform}")))
}

fn gpu_options(suite: &mut Suite) {
    /// The name and the value in the case's id, the options of the client, and whether the plugin must accept these
    /// options.
    type Options = (&'static str, &'static str, Vec<(&'static str, Value)>, bool);
    let text = |text: &str| Value::String(text.to_owned());
    let options: [Options; 9] = [
        ("allocator", "default", vec![("allocator", text("default"))], true),
        ("allocator", "platform", vec![("allocator", text("platform"))], true),
        ("allocator", "bfc", vec![("allocator", text("bfc")), ("memory_fraction", Value::Float(0.5))], true),
        (
            "allocator",
            "cuda_async",
            vec![
                ("allocator", text("cuda_async")),
                ("memory_fraction", Value::Float(0.5)),
                ("preallocate", Value::Bool(true)),
            ],
            true,
        ),
        ("allocator", "unknown", vec![("allocator", text("pjrt_conformance_no_such_allocator"))], false),
        ("platform_name", "gpu", vec![("platform_name", text("gpu"))], true),
        ("platform_name", "unknown", vec![("platform_name", text("pjrt_conformance_no_such_platform"))], false),
        ("stage_transfers", "true", vec![("should_stage_host_to_device_transfers", Value::Bool(true))], true),
        ("stage_transfers", "false", vec![("should_stage_host_to_device_transfers", Value::Bool(false))], true),
    ];
    for (name, value, values, accepted) in options {
        suite
            .case(
                format!("client.create.gpu_option[{name}={value}]"),
                "pjrt_c_api_gpu_test: a client accepts the known values of the options of XLA's GPU plugins, and rejects \
                 others",
                "JAX passes these options to every GPU plugin",
            )
            .profiles(Profiles::JAX)
            .without_client()
            .isolated()
            .check(move |cx| {
                let platform = cx.new_client()?.platform_name()?;
                requires_gpu_platform(&platform)?;
                if value == "cuda_async" && platform != "cuda" {
                    return Err(Stop::Unsupported("only CUDA has this allocator".to_owned()));
                }
                let options = values.iter().fold(cx.options().clone(), |options, (name, value)| {
                    options.with(*name, value.clone())
                });
                match cx.plugin().client(&options) {
                    Err(_) if !accepted => Ok(()),
                    Err(error) => Err(Stop::Fail(error.to_string())),
                    Ok(_) if !accepted => fail!("the plugin accepted a value that it does not know"),
                    Ok(client) => {
                        let buffer = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
                        ensure_eq!(floats(&buffer)?, vec![1.0, 2.0], "contents");
                        Ok(())
                    }
                }
            });
    }
}

/// A key-value store in memory, for clients in this process.
#[derive(Default)]
struct InProcess {
    values: Mutex<HashMap<String, Vec<u8>>>,
    changed: Condvar,
}

impl KeyValueStore for InProcess {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, (ErrorCode, String)> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let absent = |values: &mut HashMap<String, Vec<u8>>| !values.contains_key(key);
        let (values, _) =
            self.changed.wait_timeout_while(values, timeout, absent).unwrap_or_else(PoisonError::into_inner);
        values.get(key).cloned().ok_or_else(|| (ErrorCode::DEADLINE_EXCEEDED, format!("no value for {key} in time")))
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, (ErrorCode, String)> {
        Ok(self.values.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), (ErrorCode, String)> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), value.to_vec());
        self.changed.notify_all();
        Ok(())
    }
}

/// Creates the two clients of a distributed program with two nodes. Both clients are in this process.
fn two_nodes(cx: &Context) -> Result<[Client; 2], Stop> {
    let store: Arc<InProcess> = Arc::default();
    let options = |node: i64| -> ClientOptions {
        cx.options().clone().with("num_nodes", 2i64).with("node_id", node).with_key_value_store(store.clone())
    };
    let (plugin, of_first, of_second) = (cx.plugin(), options(0), options(1));
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| plugin.client(&of_first));
        let second = plugin.client(&of_second);
        (first.join(), second)
    });
    let first = first.map_err(|_| Stop::Fail("the creation of a client panicked".to_owned()))?;
    let refused = |error: pjrt::Error| match error.code() {
        ErrorCode::INVALID_ARGUMENT | ErrorCode::UNIMPLEMENTED => {
            Stop::Unsupported(format!("the plugin rejects the options num_nodes and node_id: {error}"))
        }
        _ => Stop::Fail(error.to_string()),
    };
    let clients = [first.map_err(refused)?, second.map_err(refused)?];
    if clients[0].devices()?.len() == clients[0].addressable_devices()?.len() {
        return Err(Stop::Unsupported("the plugin ignores the options num_nodes and node_id".to_owned()));
    }
    Ok(clients)
}

fn nodes(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Client_Create: the clients of a distributed program exchange data through \
                  kv_get_callback, kv_try_get_callback and kv_put_callback";
    suite
        .case(
            "client.create.key_value_store",
            clause,
            "frameworks pass the callbacks to every client, also to those of one process",
        )
        .profiles(Profiles::JAX)
        .without_client()
        .isolated()
        .check(|cx| {
            let store: Arc<InProcess> = Arc::default();
            let client = cx.plugin().client(&cx.options().clone().with_key_value_store(store))?;
            let buffer = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
            ensure_eq!(floats(&buffer)?, vec![1.0, 2.0], "contents");
            Ok(())
        });
    suite
        .case("client.create.two_nodes", clause, "programs on several machines see the devices of all processes")
        .without_client()
        .isolated()
        .check(|cx| {
            let clients = two_nodes(cx)?;
            let mut own = 0;
            for (client, index) in clients.iter().zip(0..) {
                ensure_eq!(client.process_index()?, index, "process index of node {index}");
                own += client.addressable_devices()?.len();
            }
            for client in &clients {
                ensure_eq!(client.devices()?.len(), own, "number of all devices");
            }
            Ok(())
        });
    for count in 1..=3i64 {
        suite
            .case(
                format!("extensions.cross_host_transfers.between_clients[arrays={count}]"),
                "pjrt_c_api_cross_host_transfers_extension.h: sends buffers to devices of another process, which \
                 receives them by their keys",
                "disaggregated inference moves caches between processes",
            )
            .extension(12)
            .without_client()
            .isolated()
            .check(move |cx| move_between(cx, count));
    }
}

/// Sends `count` arrays from the client of the first node to a device of the second node, and checks the arrays that
/// arrive.
fn move_between(cx: &Context, count: i64) -> Result<(), Stop> {
    let [sender, receiver] = two_nodes(cx)?;
    let transfers = cx
        .plugin()
        .extension::<CrossHostTransfers>()
        .ok_or_else(|| Stop::Fail("the plugin lists the extension, but its table cannot be used".to_owned()))?;
    let (from, to) = (sender.default_device()?.id()?, receiver.default_device()?);
    let data = |key: i64| vec![1.0f32, 2.0, f32::from(u8::try_from(key).unwrap_or(0))];
    let receives: Vec<Receive> =
        (0..count).map(|key| Receive { shape: shape(ElementType::F32, &[3]), from, key }).collect();
    let arrived = transfers.receive(&to, &receives, &[])?;
    let buffers = (0..count).map(|key| sender.buffer_from_host(&data(key), &[3])).collect::<Result<Vec<_>, _>>()?;
    let to = to.id()?;
    let sends: Vec<SendBuffer<'_>> =
        buffers.iter().zip(0..).map(|(buffer, key)| SendBuffer { buffer, to, key }).collect();
    for sent in transfers.send(&sender, &sends, &[])? {
        sent.wait()?;
    }
    for (buffer, key) in arrived.iter().zip(0..) {
        ensure_eq!(floats(buffer)?, data(key), "array {key}");
    }
    Ok(())
}
