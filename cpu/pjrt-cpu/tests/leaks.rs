//! Tests that programs on the embedded device leak no allocations, however often they run.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::alloc::System;

use pjrt::{ClientOptions, CompileOptions, Plugin, Program};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Returns the number of allocations in use. The engine's threads may hold a few for a moment after the work is done.
fn in_use() -> isize {
    let stats = ALLOCATOR.stats();
    isize::try_from(stats.allocations).unwrap() - isize::try_from(stats.deallocations).unwrap()
}

/// Returns the size of the process's physical memory in bytes, or `None` if the system does not report it.
fn resident() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<usize>().ok()? * 4096)
}

/// Runs `work` several times to warm up, then `count` more times, and compares the numbers of allocations and the sizes
/// of the physical memory.
fn flat(name: &str, count: usize, mut work: impl FnMut()) {
    (0..(count / 5).clamp(20, 2_000)).for_each(|_| work());
    let (before, memory) = (in_use(), resident());
    (0..count).for_each(|_| work());
    // The limit is far below one allocation per repetition.
    let room = isize::try_from(count / 20).unwrap().min(40);
    let start = std::time::Instant::now();
    while in_use() > before + room && start.elapsed().as_secs() < 5 {
        std::thread::yield_now();
    }
    let grown = resident().zip(memory).map(|(after, before)| after.saturating_sub(before) / 1024);
    println!("{name}: {count} times, {} allocations more, grown by {grown:?} KiB", in_use() - before);
    assert!(in_use() <= before + room, "{name}: {} allocations are left", in_use() - before);
    assert!(grown.is_none_or(|grown| grown < 8192), "{name}: the process grew by {grown:?} KiB");
}

/// Returns a program that adds one to each of `width` arrays.
fn program(width: usize) -> String {
    let list = |item: &dyn Fn(usize) -> String| (0..width).map(item).collect::<Vec<_>>().join(", ");
    let ty = "tensor<4xf32>";
    let body: String = (0..width).map(|i| format!("  %r{i} = stablehlo.add %a{i}, %one : {ty}\n")).collect();
    let (parameters, results) = (list(&|i| format!("%a{i}: {ty}")), list(&|i| format!("%r{i}")));
    let types = list(&|_| ty.to_owned());
    format!(
        "func.func @main({parameters}) -> ({types}) {{\n  %one = stablehlo.constant dense<1.0> : {ty}\n{body}  \
         return {results} : {types}\n}}"
    )
}

/// Returns a program that differs from all others in its constant, and often in its shape and its operation. Also
/// returns the extent of its dimensions.
fn distinct(number: usize) -> (String, usize) {
    let n = 8 + number % 61;
    let ty = format!("tensor<{n}x{n}xf32>");
    let body = match number % 4 {
        0 => format!("%r = stablehlo.add %x, %c : {ty}"),
        1 => format!("%r = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty}"),
        2 => format!(
            "%zero = stablehlo.constant dense<0> : tensor<i32>
             %one = stablehlo.constant dense<1> : tensor<i32>
             %three = stablehlo.constant dense<3> : tensor<i32>
             %l:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, {ty}
               cond {{ %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
                      stablehlo.return %p : tensor<i1> }}
               do {{ %b = stablehlo.multiply %a, %c : {ty}
                    %j = stablehlo.add %i, %one : tensor<i32>
                    stablehlo.return %j, %b : tensor<i32>, {ty} }}
             %r = stablehlo.tanh %l#1 : {ty}"
        ),
        _ => format!(
            "%r = \"stablehlo.sort\"(%x) ({{
               ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                 %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
                 stablehlo.return %p : tensor<i1>
             }}) {{dimension = 0 : i64}} : ({ty}) -> {ty}"
        ),
    };
    let text = format!(
        "module @program_{number} {{
           func.func @main(%x: {ty}) -> {ty} {{
             %c = stablehlo.constant dense<{number}.5> : {ty}
             {body}
             return %r : {ty}
           }}
         }}"
    );
    (text, n)
}

#[test]
fn nothing_is_left() {
    let plugin = Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap();
    flat("clients", 1_000, || drop(plugin.client(&ClientOptions::new()).unwrap()));
    let client = plugin.client(&ClientOptions::new()).unwrap();
    for (width, count) in [(1, 100_000), (32, 5_000)] {
        let executable = client.compile(&Program::mlir(program(width)), &CompileOptions::default()).unwrap();
        let buffers: Vec<_> = (0..width).map(|_| client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap()).collect();
        let inputs: Vec<_> = buffers.iter().collect();
        flat(&format!("executions of {width} in and {width} out"), count, || {
            let outputs = executable.execute(&inputs).unwrap();
            outputs.iter().for_each(|output| output.wait().unwrap());
        });
        let outputs = executable.execute(&inputs).unwrap();
        assert_eq!(outputs[width - 1].to_host::<f32>().unwrap(), [2.0; 4]);
    }
    flat("transfers", 5_000, || {
        let buffer = client.buffer_from_host(&[1.0f32; 64], &[64]).unwrap();
        assert_eq!(buffer.to_host::<f32>().unwrap(), [1.0; 64]);
    });
    flat("errors", 2_000, || {
        assert!(client.compile(&Program::mlir("func.func @main("), &CompileOptions::default()).is_err());
    });
    let mut number = 0;
    flat("distinct programs, compiled and run", 1_000, || {
        number += 1;
        let (text, n) = distinct(number);
        let executable = client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap();
        let x = client.buffer_from_host(&vec![1.0f32; n * n], &[n as i64, n as i64]).unwrap();
        executable.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap();
    });
    let text = program(2);
    flat("programs", 1_000, || {
        drop(client.compile(&Program::mlir(text.clone()), &CompileOptions::default()).unwrap());
    });
}
