//! Tests that `pjrt` rejects programs that are known to crash XLA's plugins, and that no plugin receives them.

use expect_test::expect;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::fake::{Fake, plugin_of, table};
use crate::real::each_client;
use pjrt::{Client, CompileOptions, ErrorKind, Program};
use pjrt_sys::{PJRT_Client_Compile_Args, PJRT_Error};

const TOP_K: &str = "func.func @main(%x: tensor<8xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = stablehlo.custom_call @TopK(%x) {api_version = 1 : i32} : (tensor<8xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}";

fn dimension_size(size: i64) -> String {
    format!(
        "func.func @main(%x: tensor<8xf32>) -> tensor<?xf32, #stablehlo.bounds<8>> {{
  %n = stablehlo.constant dense<{size}> : tensor<i32>
  %0 = \"stablehlo.set_dimension_size\"(%x, %n) <{{dimension = 0 : i64}}>
    : (tensor<8xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<8>>
  return %0 : tensor<?xf32, #stablehlo.bounds<8>>
}}"
    )
}

fn oversized(array: &str) -> String {
    format!("func.func @main(%x: tensor<{array}>) -> tensor<{array}> {{ return %x : tensor<{array}> }}")
}

fn refused(client: &Client) {
    let mut messages = String::new();
    for (case, program) in [
        ("set_dimension_size 9 of 8", dimension_size(9)),
        ("set_dimension_size -1 of 8", dimension_size(-1)),
        ("TopK with the API version 1", TOP_K.to_owned()),
        ("an empty result of 2^64 bytes", oversized("4611686018427387904x0xf32")),
        ("a result of 2^64 bytes", oversized("4294967296x4294967296xi8")),
    ] {
        let error = client.compile(&Program::mlir(program), &CompileOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        messages += &format!("{case}: {}\n", error.message());
    }
    expect![[r#"
        set_dimension_size 9 of 8: the program would crash XLA's plugins: function main: stablehlo.set_dimension_size has the size 9; it must be from 0 to 8, the extent of the dimension
        set_dimension_size -1 of 8: the program would crash XLA's plugins: function main: stablehlo.set_dimension_size has the size -1; it must be from 0 to 8, the extent of the dimension
        TopK with the API version 1: the program would crash XLA's plugins: function main: stablehlo.custom_call @TopK has api_version 1 and no comparator in called_computations; use chlo.top_k, or a sort and a slice
        an empty result of 2^64 bytes: the program would crash XLA's plugins: tensor<4611686018427387904x0xf32> has more than 2^63 - 1 bytes, not counting extents of 0; use smaller extents
        a result of 2^64 bytes: the program would crash XLA's plugins: tensor<4294967296x4294967296xi8> has more than 2^63 - 1 bytes, not counting extents of 0; use smaller extents
    "#]]
    .assert_eq(&messages);
}

#[test]
fn hazards_never_reach_the_plugin() {
    static COMPILED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn compile(_: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error {
        COMPILED.fetch_add(1, SeqCst);
        null_mut()
    }
    let mut table = table();
    table.PJRT_Client_Compile = Some(compile);
    let client = Fake::new().client_of(&plugin_of(table).unwrap());
    refused(&client);
    assert_eq!(COMPILED.load(SeqCst), 0, "the plugin was asked");
    // `pjrt` checks only programs that it can parse, so it passes other programs to the plugin.
    let unread = client.compile(&Program::mlir("TopK, but not a program"), &CompileOptions::default());
    assert_eq!(unread.map(drop).unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(COMPILED.load(SeqCst), 1);
}

#[test]
fn real_plugins_are_not_ended() {
    each_client("real_plugins_are_not_ended", |client| {
        refused(client);
        // Sizes within the bounds are accepted.
        for program in [dimension_size(3), oversized("2305843009213693951x0xf32")] {
            if let Err(error) = client.compile(&Program::mlir(program), &CompileOptions::default()) {
                assert_ne!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            }
        }
    });
}
