//! Compares programs that are partitioned over several devices with the same programs on one device.

mod manual;
mod maximal;
mod outside;
mod placement;
mod round_trip;
mod sharding_groups;
mod traffic;
mod uneven;
mod unreduced;

use std::thread;

use crate::sharding::OpSharding;
use crate::{Communicator, CompileSettings, DType, Pool, Program, Tensor, compile_with};

/// Parses the text of a function, with a 2 by 2 mesh `@mesh` that has the axes x and y.
fn module(text: &str) -> stablehlo::ir::Module {
    let text = format!("sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n{text}");
    stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("the test's program parses")
}

fn compiled(text: &str, partitions: usize) -> Program {
    let settings = CompileSettings::new(1, partitions);
    compile_with(&module(text), &settings, Pool::global()).expect("the test's program compiles")
}

/// Returns a tensor whose elements vary with the position. They are small integers or truth values, so that results are
/// exact.
fn sample(dtype: DType, dims: &[usize], seed: usize) -> Tensor {
    let n: usize = dims.iter().product();
    let small = |i: usize| i32::try_from((i * 7 + seed * 5) % 11).unwrap_or(0) - 4;
    match dtype {
        DType::F32 => {
            let elements: Vec<f32> = (0..n).map(|i| f32::from(i16::try_from(small(i)).unwrap_or(0))).collect();
            Tensor::from_slice(dtype, dims, &elements).expect("a tensor")
        }
        DType::I32 => Tensor::from_slice(dtype, dims, &(0..n).map(small).collect::<Vec<i32>>()).expect("a tensor"),
        DType::Bool => Tensor::from_slice(dtype, dims, &(0..n).map(|i| u8::from(i % 3 == 0)).collect::<Vec<u8>>())
            .expect("a tensor"),
        other => panic!("no sample of {other:?}"),
    }
}

/// Splits a tensor into the parts of four partitions, and joins them again.
struct Tiles {
    /// Number of parts along each dimension.
    tiles: Vec<usize>,
    /// The partitions that hold each part.
    holders: Vec<Vec<usize>>,
}

impl Tiles {
    fn of(sharding: &OpSharding, rank: usize) -> Self {
        match sharding {
            OpSharding::Replicated | OpSharding::Unreduced | OpSharding::Maximal { .. } => {
                Self { tiles: vec![1; rank], holders: vec![(0..4).collect()] }
            }
            OpSharding::Tiled { tiles, partitions, .. } => {
                let tiles: Vec<usize> = tiles[..rank].iter().map(|&t| usize::try_from(t).unwrap()).collect();
                let copies = 4 / tiles.iter().product::<usize>();
                let holders =
                    partitions.chunks(copies).map(|c| c.iter().map(|&p| usize::try_from(p).unwrap()).collect());
                Self { holders: holders.collect(), tiles }
            }
        }
    }

    /// Calls `f(part, offset in the whole tensor, offset in the part)` for every element.
    fn for_each(&self, dims: &[usize], mut f: impl FnMut(usize, usize, usize)) {
        let n: usize = dims.iter().product();
        for whole in 0..n {
            let (mut rest, mut part, mut within, mut parts, mut size) = (whole, 0, 0, 1, 1);
            for (&dim, &tiles) in dims.iter().zip(&self.tiles).rev() {
                let (at, local) = (rest % dim, dim.div_ceil(tiles));
                part += at / local * parts;
                within += at % local * size;
                (rest, parts, size) = (rest / dim, parts * tiles, size * local);
            }
            f(part, whole, within);
        }
    }

    fn cut(&self, whole: &Tensor) -> Vec<Tensor> {
        let size = whole.dtype().size();
        let dims: Vec<usize> = whole.dims().iter().zip(&self.tiles).map(|(d, &t)| d.div_ceil(t)).collect();
        // Bytes that are not overwritten remain as padding, which must not affect the result. As floats, these bytes
        // are NaN.
        let mut parts = vec![vec![0xffu8; dims.iter().product::<usize>() * size]; self.holders.len()];
        self.for_each(whole.dims(), |part, from, to| {
            parts[part][to * size..(to + 1) * size].copy_from_slice(&whole.bytes()[from * size..(from + 1) * size]);
        });
        let part = |id: usize| self.holders.iter().position(|h| h.contains(&id)).expect("every partition has a part");
        let tensor = |id| Tensor::from_bytes(Pool::global(), whole.dtype(), &dims, &parts[part(id)]).expect("a part");
        (0..4).map(tensor).collect()
    }

    /// Returns the bytes of the whole tensor, after checking that all copies of each part agree.
    fn join(&self, parts: &[Tensor], dims: &[usize]) -> Vec<u8> {
        let size = parts[0].dtype().size();
        let mut whole = vec![0; dims.iter().product::<usize>() * size];
        self.for_each(dims, |part, to, from| {
            let element = |holder: usize| &parts[holder].bytes()[from * size..(from + 1) * size];
            let holders = &self.holders[part];
            assert!(holders.iter().all(|&h| element(h) == element(holders[0])), "copies differ: {holders:?}");
            whole[to * size..(to + 1) * size].copy_from_slice(element(holders[0]));
        });
        whole
    }
}

/// Runs `text` on one device and on four devices, and compares the results. Returns the partitioned program.
fn same(text: &str) -> Program {
    let (one, four) = (compiled(text, 1), compiled(text, 4));
    let inputs: Vec<Tensor> =
        one.parameters().iter().enumerate().map(|(i, p)| sample(p.ty.dtype, &p.ty.dims, i)).collect();
    let want = one.run(inputs.clone()).expect("the whole program runs");
    let shardings = four.parameter_shardings().expect("a split program has shardings");
    let mut per_member: Vec<Vec<Tensor>> = vec![Vec::new(); 4];
    for (input, sharding) in inputs.iter().zip(shardings) {
        for (member, part) in per_member.iter_mut().zip(Tiles::of(sharding, input.dims().len()).cut(input)) {
            member.push(part);
        }
    }
    let communicator = Communicator::new(1, 4);
    let got: Vec<Vec<Tensor>> = thread::scope(|scope| {
        let run = |(member, inputs)| {
            let four = &four;
            scope.spawn(move || {
                let member: crate::Member = member;
                four.run_in(inputs, Pool::global(), Some(&member), None).expect("a member runs")
            })
        };
        let threads: Vec<_> = communicator.members().into_iter().zip(per_member).map(run).collect();
        threads.into_iter().map(|t| t.join().expect("no member panics")).collect()
    });
    for (i, (want, sharding)) in want.iter().zip(four.output_shardings().expect("shardings")).enumerate() {
        let parts: Vec<Tensor> = got.iter().map(|outputs| outputs[i].clone()).collect();
        let whole = Tiles::of(sharding, want.dims().len()).join(&parts, want.dims());
        let difference = want.bytes().iter().zip(&whole).position(|(a, b)| a != b);
        assert_eq!(difference, None, "output {i} of {text}\nwant {:?}\ngot {:?}", floats(want.bytes()), floats(&whole));
    }
    four
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).take(32).collect()
}

/// Returns a function with one result. Arguments and the result are annotated with dimensions such as `{"x"}, {}`, or
/// not annotated if the dimensions are `-`.
fn function(args: &[(&str, &str)], result: (&str, &str), body: &str) -> String {
    let annotated = |(ty, dims): &(&str, &str)| match *dims {
        "-" => (*ty).to_owned(),
        dims => format!("{ty} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}"),
    };
    let args: Vec<String> = args
        .iter()
        .enumerate()
        .map(|(i, arg)| format!("%{}: {}", char::from(b'a' + u8::try_from(i).unwrap()), annotated(arg)))
        .collect();
    format!("func.func @main({}) -> ({}) {{\n{body}\nreturn %r : {}\n}}", args.join(", "), annotated(&result), result.0)
}

const X: &str = "{\"x\"}";
const Y: &str = "{\"y\"}";
const N: &str = "{}";

fn dims(list: &[&str]) -> String {
    list.join(", ")
}

/// Returns the annotations for all ways to shard a matrix, and `-` for no annotation.
fn cuts() -> Vec<String> {
    let all = [N, X, Y, "{\"x\", \"y\"}", "{\"y\", \"x\"}"];
    let mut cuts = vec!["-".to_owned()];
    for a in all {
        for b in all {
            let names = format!("{a}{b}");
            if names.matches("\"x\"").count() < 2 && names.matches("\"y\"").count() < 2 {
                cuts.push(dims(&[a, b]));
            }
        }
    }
    cuts
}

#[test]
fn any_sharding_to_any_other() {
    let cuts = cuts();
    assert_eq!(cuts.len(), 12);
    for from in &cuts {
        for to in &cuts {
            same(&function(
                &[("tensor<4x8xf32>", from)],
                ("tensor<4x8xf32>", to),
                "%r = stablehlo.negate %a : tensor<4x8xf32>",
            ));
        }
    }
}

#[test]
fn fused_multiply_adds_of_any_sharding() {
    let cuts = cuts();
    for (i, from) in cuts.iter().enumerate() {
        for to in &cuts {
            let args = [("tensor<4x8xf32>", &**from), ("tensor<4x8xf32>", to), ("tensor<4x8xf32>", &cuts[i / 2])];
            same(&function(&args, ("tensor<4x8xf32>", "-"), "%r = stablehlo.fma %a, %b, %c : tensor<4x8xf32>"));
        }
    }
}

#[test]
fn contractions_of_any_sharding() {
    let cuts = cuts();
    let body = "%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>";
    for a in &cuts {
        for b in &cuts {
            same(&function(&[("tensor<4x8xf32>", a), ("tensor<8x4xf32>", b)], ("tensor<4x4xf32>", "-"), body));
        }
    }
}

#[test]
fn shape_ops_of_any_sharding() {
    let bodies = [
        ("tensor<8x4xf32>", "%r = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>"),
        ("tensor<32xf32>", "%r = stablehlo.reshape %a : (tensor<4x8xf32>) -> tensor<32xf32>"),
        ("tensor<2x2x8xf32>", "%r = stablehlo.reshape %a : (tensor<4x8xf32>) -> tensor<2x2x8xf32>"),
        ("tensor<4x2x4xf32>", "%r = stablehlo.reshape %a : (tensor<4x8xf32>) -> tensor<4x2x4xf32>"),
        ("tensor<8x4xf32>", "%r = stablehlo.reshape %a : (tensor<4x8xf32>) -> tensor<8x4xf32>"),
        ("tensor<3x4x8xf32>", "%r = stablehlo.broadcast_in_dim %a, dims = [1, 2] : (tensor<4x8xf32>) -> tensor<3x4x8xf32>"),
        ("tensor<2x8xf32>", "%r = stablehlo.slice %a [1:3, 0:8] : (tensor<4x8xf32>) -> tensor<2x8xf32>"),
        ("tensor<8x8xf32>", "%r = stablehlo.concatenate %a, %a, dim = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>"),
        ("tensor<4x8xf32>", "%r = stablehlo.reverse %a, dims = [1] : tensor<4x8xf32>"),
        (
            "tensor<4x12xf32>",
            "%z = stablehlo.constant dense<9.0> : tensor<f32>
            %r = stablehlo.pad %a, %z, low = [0, 1], high = [0, 3], interior = [0, 0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x12xf32>",
        ),
        (
            "tensor<4x8xf32>",
            "%i = stablehlo.iota dim = 1 : tensor<4x8xf32>
            %c = stablehlo.constant dense<2.0> : tensor<4x8xf32>
            %s = stablehlo.multiply %i, %c : tensor<4x8xf32>
            %r = stablehlo.add %a, %s : tensor<4x8xf32>",
        ),
        (
            "tensor<4x4xf32>",
            "%c = stablehlo.constant dense<3> : tensor<i32>
            %r = stablehlo.dynamic_slice %a, %c, %c, sizes = [4, 4] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>",
        ),
        (
            "tensor<4x8xf32>",
            "%c = stablehlo.constant dense<1> : tensor<i32>
            %u = stablehlo.constant dense<[[5.0, 6.0], [7.0, 8.0], [9.0, 1.0], [2.0, 3.0]]> : tensor<4x2xf32>
            %r = stablehlo.dynamic_update_slice %a, %u, %c, %c : (tensor<4x8xf32>, tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>",
        ),
    ];
    for (ty, body) in bodies {
        for cut in cuts() {
            same(&function(&[("tensor<4x8xf32>", &cut)], (ty, "-"), body));
        }
    }
}

#[test]
fn reductions_of_any_sharding() {
    let reduce = |op: &str, init: &str, dims: &str, ty: &str| {
        format!(
            "%z = stablehlo.constant dense<{init}> : tensor<f32>
            %r = stablehlo.reduce(%a init: %z) applies stablehlo.{op} across dimensions = [{dims}] : (tensor<4x8xf32>, tensor<f32>) -> {ty}"
        )
    };
    for cut in cuts() {
        for (op, init) in [("add", "0.0"), ("add", "3.0"), ("multiply", "1.0"), ("maximum", "1.0"), ("minimum", "0.0")]
        {
            for (dims, ty) in [("0", "tensor<8xf32>"), ("1", "tensor<4xf32>"), ("0, 1", "tensor<f32>")] {
                same(&function(&[("tensor<4x8xf32>", &cut)], (ty, "-"), &reduce(op, init, dims, ty)));
            }
        }
    }
}

#[test]
fn indexing_and_sorting_of_any_sharding() {
    let gather = "%c = stablehlo.constant dense<[3, 0, 1, 1]> : tensor<4xi32>
        %r = \"stablehlo.gather\"(%a, %c) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>";
    let scatter = "%c = stablehlo.constant dense<[[3], [0], [1], [1]]> : tensor<4x1xi32>
        %r = \"stablehlo.scatter\"(%a, %c, %a) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %s = stablehlo.add %p, %q : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) : (tensor<4x8xf32>, tensor<4x1xi32>, tensor<4x8xf32>) -> tensor<4x8xf32>";
    let sort = "%r = \"stablehlo.sort\"(%a) <{dimension = 1 : i64, is_stable = true}> ({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %s = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %s : tensor<i1>
        }) : (tensor<4x8xf32>) -> tensor<4x8xf32>";
    for body in [gather, scatter, sort] {
        for cut in cuts() {
            same(&function(&[("tensor<4x8xf32>", &cut)], ("tensor<4x8xf32>", "-"), body));
        }
    }
}

#[test]
fn loops_branches_and_calls() {
    let text = format!(
        "func.func @main(%a: tensor<4x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{X}, {N}]>}}) -> (tensor<4x8xf32>, tensor<8xf32>) {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %n = stablehlo.constant dense<3> : tensor<i32>
          %0:2 = stablehlo.while(%i = %zero, %v = %a) : tensor<i32>, tensor<4x8xf32>
            cond {{
              %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            }} do {{
              %w = func.call @twice(%v) : (tensor<4x8xf32>) -> tensor<4x8xf32>
              %m = func.call @center(%w) : (tensor<4x8xf32>) -> tensor<4x8xf32>
              %j = stablehlo.add %i, %one : tensor<i32>
              stablehlo.return %j, %m : tensor<i32>, tensor<4x8xf32>
            }}
          %k = stablehlo.slice %a [0:1, 0:1] : (tensor<4x8xf32>) -> tensor<1x1xf32>
          %s = stablehlo.reshape %k : (tensor<1x1xf32>) -> tensor<f32>
          %t = stablehlo.convert %s : (tensor<f32>) -> tensor<i32>
          %r = \"stablehlo.case\"(%t) ({{
              %f = stablehlo.constant dense<0.0> : tensor<f32>
              %1 = stablehlo.reduce(%0#1 init: %f) applies stablehlo.add across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
              stablehlo.return %1 : tensor<8xf32>
            }}, {{
              %2 = stablehlo.constant dense<5.0> : tensor<8xf32>
              stablehlo.return %2 : tensor<8xf32>
            }}) : (tensor<i32>) -> tensor<8xf32>
          return %0#1, %r : tensor<4x8xf32>, tensor<8xf32>
        }}
        func.func private @twice(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
          %0 = stablehlo.add %x, %x : tensor<4x8xf32>
          return %0 : tensor<4x8xf32>
        }}
        func.func private @center(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
          %f = stablehlo.constant dense<0.0> : tensor<f32>
          %0 = stablehlo.reduce(%x init: %f) applies stablehlo.add across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
          %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
          %2 = stablehlo.subtract %x, %1 : tensor<4x8xf32>
          return %2 : tensor<4x8xf32>
        }}"
    );
    let program = same(&text);
    // The loop's carried value remains sharded.
    let cut = OpSharding::Tiled {
        tiles: vec![2, 1, 2],
        partitions: vec![0, 1, 2, 3],
        replicated_last: true,
        unreduced_last: false,
    };
    assert_eq!(program.output_shardings().unwrap()[0], cut);
}

#[test]
fn unknown_shardings() {
    let program = same(
        "func.func @main(%a: tensor<4x8xf32> {mhlo.sharding = \"{devices=[4,1]<=[4]}\"}, %b: tensor<4x8xf32> {mhlo.sharding = \"{unknown}\"})
            -> (tensor<4x8xf32> {mhlo.sharding = \"{unknown}\"}) {
          %0 = stablehlo.add %a, %b : tensor<4x8xf32>
          %1 = stablehlo.custom_call @Sharding(%0) {backend_config = \"\", mhlo.sharding = \"{unknown}\"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
          return %1 : tensor<4x8xf32>
        }",
    );
    let cut = OpSharding::Tiled {
        tiles: vec![4, 1],
        partitions: vec![0, 1, 2, 3],
        replicated_last: false,
        unreduced_last: false,
    };
    assert_eq!(program.parameter_shardings().unwrap(), [cut.clone(), OpSharding::Replicated]);
    assert_eq!(program.output_shardings().unwrap(), [cut]);
}
