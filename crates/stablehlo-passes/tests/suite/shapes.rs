//! `refine_shapes`: programs of unknown sizes with arguments of known sizes.

use stablehlo::ir::{Module, Type};
use stablehlo::{ErrorKind, Result, VerifyLevel};
use stablehlo_passes::{eliminate_dead_code, refine_shapes};

use crate::oracle::{becomes, parsed, same_values};

fn ty(text: &str) -> Type {
    let module = parsed(&format!("func.func @main(%x: {text}) -> {text} {{ return %x : {text} }}"));
    module.funcs[0].results[0].clone()
}

fn refined(module: &Module, arguments: &[&str]) -> Result<Option<Module>> {
    refine_shapes(module, &arguments.iter().map(|text| ty(text)).collect::<Vec<_>>())
}

#[test]
fn shapes_are_computed() {
    let pass = |module: &Module| {
        let done = refined(module, &["tensor<2x3xf32>"]).expect("a valid program")?;
        Some(eliminate_dead_code(&done).unwrap_or(done))
    };
    becomes(
        pass,
        "func.func @main(%x: tensor<?x3xf32>) -> tensor<?xf32> {
           %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
           %c = stablehlo.constant dense<3> : tensor<i32>
           %1 = stablehlo.multiply %0, %c : tensor<i32>
           %2 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
           %3 = stablehlo.dynamic_reshape %x, %2 : (tensor<?x3xf32>, tensor<1xi32>) -> tensor<?xf32>
           %4 = stablehlo.sine %3 : tensor<?xf32>
           return %4 : tensor<?xf32>
         }",
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
           %3 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
           %4 = stablehlo.sine %3 : tensor<6xf32>
           return %4 : tensor<6xf32>
         }",
    );
}

/// Functions of `%x: tensor<?x?xf32>` and `%n: tensor<?xi32>`, and the type of the results.
const FUNCTIONS: [(&str, &str); 11] = [
    (
        "%e = stablehlo.constant dense<2> : tensor<1xi32>
         %a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
         %b = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
         %c = stablehlo.reshape %a : (tensor<i32>) -> tensor<1xi32>
         %d = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
         %s = stablehlo.concatenate %e, %c, %d, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>
         %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] : (tensor<?x?xf32>, tensor<3xi32>) -> tensor<2x?x?xf32>",
        "tensor<2x?x?xf32>",
    ),
    (
        "%a = stablehlo.get_dimension_size %n, dim = 0 : (tensor<?xi32>) -> tensor<i32>
         %s = stablehlo.reshape %a : (tensor<i32>) -> tensor<1xi32>
         %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
         %0 = stablehlo.add %i, %n : tensor<?xi32>",
        "tensor<?xi32>",
    ),
    (
        "%z = stablehlo.constant dense<1.5> : tensor<f32>
         %l = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
         %0 = stablehlo.dynamic_pad %x, %z, %l, %l, %l
           : (tensor<?x?xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>",
        "tensor<?x?xf32>",
    ),
    (
        "%l = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
         %u = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
         %t = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
         %0 = stablehlo.real_dynamic_slice %x, %l, %u, %t
           : (tensor<?x?xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>",
        "tensor<?x?xf32>",
    ),
    (
        "%z = stablehlo.constant dense<0.0> : tensor<f32>
         %r = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
         %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
         %t = stablehlo.dot_general %d, %r, contracting_dims = [1] x [0] : (tensor<?x?xf32>, tensor<?xf32>) -> tensor<?xf32>
         %0 = stablehlo.convert %t : (tensor<?xf32>) -> tensor<?xf64>",
        "tensor<?xf64>",
    ),
    (
        "%k = stablehlo.constant dense<3> : tensor<i32>
         %o = stablehlo.constant dense<1> : tensor<i32>
         %z = stablehlo.constant dense<0> : tensor<i32>
         %w:2 = stablehlo.while(%i = %z, %v = %x) : tensor<i32>, tensor<?x?xf32>
           cond { %1 = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
                  stablehlo.return %1 : tensor<i1> }
           do { %2 = stablehlo.add %i, %o : tensor<i32>
                %3 = stablehlo.multiply %v, %x : tensor<?x?xf32>
                stablehlo.return %2, %3 : tensor<i32>, tensor<?x?xf32> }
         %0 = stablehlo.negate %w#1 : tensor<?x?xf32>",
        "tensor<?x?xf32>",
    ),
    (
        "%a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
         %k = stablehlo.constant dense<2> : tensor<i32>
         %p = stablehlo.compare EQ, %a, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
         stablehlo.custom_call @shape_assertion(%p) {error_message = \"wrong\", has_side_effect = true} : (tensor<i1>) -> ()
         %0 = \"stablehlo.if\"(%p) ({
           %1 = stablehlo.sine %x : tensor<?x?xf32>
           stablehlo.return %1 : tensor<?x?xf32>
         }, {
           stablehlo.return %x : tensor<?x?xf32>
         }) : (tensor<i1>) -> tensor<?x?xf32>",
        "tensor<?x?xf32>",
    ),
    (
        "%a = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
         %y = stablehlo.set_dimension_size %x, %a, dim = 1 : (tensor<?x?xf32>, tensor<i32>) -> tensor<?x?xf32>
         %t = stablehlo.transpose %y, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>
         %0 = stablehlo.concatenate %t, %t, dim = 0 : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>",
        "tensor<?x?xf32>",
    ),
    (
        "%u = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
         %i = stablehlo.constant dense<[[1], [0]]> : tensor<2x1xi32>
         %0 = \"stablehlo.dynamic_gather\"(%x, %i, %u) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}
           : (tensor<?x?xf32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x?xf32>",
        "tensor<2x?xf32>",
    ),
    (
        "%m = stablehlo.constant dense<[1, 2, 3, 1]> : tensor<4xi32>
         %y = stablehlo.dynamic_reshape %x, %m : (tensor<?x?xf32>, tensor<4xi32>) -> tensor<1x?x?x1xf32>
         %k = stablehlo.constant dense<0.5> : tensor<2x2x1x1xf32>
         %p = stablehlo.constant dense<[[1, 0], [0, 1]]> : tensor<2x2xi32>
         %0 = \"stablehlo.dynamic_conv\"(%y, %k, %p) {dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
             feature_group_count = 1 : i64, batch_group_count = 1 : i64}
           : (tensor<1x?x?x1xf32>, tensor<2x2x1x1xf32>, tensor<2x2xi32>) -> tensor<1x?x?x1xf32>",
        "tensor<1x?x?x1xf32>",
    ),
    // A size that a loop and a barrier pass on.
    (
        "%a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
         %b = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
         %k = stablehlo.constant dense<3> : tensor<i32>
         %o = stablehlo.constant dense<1> : tensor<i32>
         %z = stablehlo.constant dense<0> : tensor<i32>
         %w:4 = stablehlo.while(%i = %z, %c = %a, %d = %b, %v = %x) : tensor<i32>, tensor<i32>, tensor<i32>, tensor<?x?xf32>
           cond { %1 = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
                  stablehlo.return %1 : tensor<i1> }
           do { %2 = stablehlo.add %i, %o : tensor<i32>
                %3 = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>
                %4 = stablehlo.reshape %d : (tensor<i32>) -> tensor<1xi32>
                %5 = stablehlo.concatenate %3, %4, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
                %6 = stablehlo.constant dense<1.5> : tensor<f32>
                %7 = stablehlo.dynamic_broadcast_in_dim %6, %5, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x?xf32>
                %8 = stablehlo.add %v, %7 : tensor<?x?xf32>
                %9 = stablehlo.dynamic_reshape %8, %5 : (tensor<?x?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
                stablehlo.return %2, %c, %d, %9 : tensor<i32>, tensor<i32>, tensor<i32>, tensor<?x?xf32> }
         %e:2 = stablehlo.optimization_barrier %w#2, %w#3 : tensor<i32>, tensor<?x?xf32>
         %s = stablehlo.reshape %e#0 : (tensor<i32>) -> tensor<1xi32>
         %t = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
         %0 = stablehlo.dot_general %e#1, %t, contracting_dims = [1] x [0] : (tensor<?x?xf32>, tensor<?xf32>) -> tensor<?xf32>",
        "tensor<?xf32>",
    ),
];

/// The CPU device computes the sizes itself, if a function of static shape calls the one of unknown sizes.
#[test]
fn values_stay() {
    for (ops, result) in FUNCTIONS {
        let body = format!("{ops}\nreturn %0 : {result}");
        let dynamic =
            parsed(&format!("func.func @main(%x: tensor<?x?xf32>, %n: tensor<?xi32>) -> {result} {{ {body} }}"));
        let after = refined(&dynamic, &["tensor<2x3xf32>", "tensor<4xi32>"]).expect(ops).expect("it applies");
        stablehlo::verify(&after, VerifyLevel::FULL).unwrap_or_else(|error| panic!("{error}\n{after}"));
        assert!(!after.to_string().contains('?'), "{after}");
        let known = &after.funcs[0].results[0];
        let before = parsed(&format!(
            "func.func @main(%x: tensor<2x3xf32>, %n: tensor<4xi32>) -> {known} {{
               %0 = func.call @f(%x, %n) : (tensor<2x3xf32>, tensor<4xi32>) -> {known}
               return %0 : {known}
             }}
             func.func private @f(%x: tensor<?x?xf32>, %n: tensor<?xi32>) -> {result} {{ {body} }}"
        ));
        same_values(ops, &before, &after, &[], 0.0);
        let again = refined(&after, &["tensor<2x3xf32>", "tensor<4xi32>"]).expect("a valid program");
        assert!(again.is_none());
    }
}

#[test]
fn faults_name_the_op() {
    let text = |body: &str| format!("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {{ {body} }}");
    let fault = |body: &str, ty: &str| refined(&parsed(&text(body)), &[ty]).expect_err(body);
    let error = fault("return %x : tensor<?xf32>", "tensor<2xi32>");
    assert_eq!(error.message(), "argument 0 is tensor<?xf32>, and cannot become tensor<2xi32>");
    let error = fault(
        "%a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
         %k = stablehlo.constant dense<2> : tensor<i32>
         %p = stablehlo.compare EQ, %a, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
         stablehlo.custom_call @shape_assertion(%p) {error_message = \"wrong\", has_side_effect = true} : (tensor<i1>) -> ()
         return %x : tensor<?xf32>",
        "tensor<3xf32>",
    );
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert_eq!((error.op(), error.func()), (Some("stablehlo.custom_call"), Some("main")));
    assert_eq!((error.signature(), error.location()), (Some("(tensor<i1>) -> ()"), Some("line 4:10")));
    let error = fault(
        "%t = stablehlo.constant dense<true> : tensor<i1>
         %0 = stablehlo.while(%v = %x) : tensor<?xf32>
           cond { stablehlo.return %t : tensor<i1> }
           do { %1 = stablehlo.concatenate %v, %v, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
                stablehlo.return %1 : tensor<?xf32> }
         return %0 : tensor<?xf32>",
        "tensor<3xf32>",
    );
    assert!(error.message().starts_with("the loop changes value 0 from tensor<3xf32> to tensor<6xf32>"), "{error}");
}

#[test]
fn contradictory_sizes_are_faults() {
    for (result, ops, op) in [
        (
            "tensor<?x?xf32>",
            "%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
             %0 = stablehlo.dynamic_reshape %x, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>",
            "stablehlo.reshape",
        ),
        ("tensor<?xf32>", "%0 = stablehlo.add %x, %y : tensor<?xf32>", "stablehlo.add"),
        (
            "tensor<4x?xf32>",
            "%m = stablehlo.dot_general %x, %y, contracting_dims = [] x [] : (tensor<?xf32>, tensor<?xf32>) -> tensor<?x?xf32>
             %0 = stablehlo.transpose %m, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<4x?xf32>",
            "stablehlo.transpose",
        ),
    ] {
        let text = format!("func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> {result} {{ {ops} return %0 : {result} }}");
        let error = refined(&parsed(&text), &["tensor<5xf32>", "tensor<3xf32>"]).expect_err(ops);
        assert_eq!(error.op(), Some(op), "{error}");
    }
}

/// The number of elements must be a multiple of that of the known sizes, whose product may overflow.
#[test]
fn sizes_that_do_not_divide_are_faults() {
    let refine = |from: &str, to: &str| {
        let text = format!(
            "func.func @main(%x: tensor<?xf32>) -> {to} {{
               %0 = stablehlo.reshape %x : (tensor<?xf32>) -> {to}
               return %0 : {to}
             }}"
        );
        refined(&parsed(&text), &[from]).map(|module| module.expect("it applies").funcs[0].results[0].to_string())
    };
    let huge = "tensor<?x1099511627776x1099511627776xf32>";
    for (from, to) in [("tensor<1024xf32>", huge), ("tensor<7xf32>", "tensor<?x2xf32>")] {
        let error = refine(from, to).expect_err(to);
        assert_eq!((error.kind(), error.op()), (ErrorKind::Shape, Some("stablehlo.reshape")), "{error}");
        assert!(error.message().contains("is not a multiple"), "{error}");
    }
    assert_eq!(refine("tensor<0xf32>", huge).expect("no elements"), huge.replace('?', "0"));
    assert_eq!(refine("tensor<6xf32>", "tensor<?x2xf32>").expect("three rows"), "tensor<3x2xf32>");
}

/// The layouts and aliases of a custom call follow its remaining operands.
#[test]
fn shape_operands_of_custom_calls_are_removed() {
    const RESULT: &str = "result_layouts = [dense<0> : tensor<1xindex>]";
    let alias = |operand: i64| {
        format!(
            "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = {operand}, operand_tuple_indices = []>]"
        )
    };
    let before = |operand: i64| {
        format!(
        "func.func @main(%x: tensor<?xf32>, %y: tensor<2x3xf32>) -> tensor<?xf32> {{
           %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
           %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
           %2 = stablehlo.custom_call @f(%y, %1, %x) {{indices_of_shape_operands = dense<1> : tensor<1xi64>,
               operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>],
               {RESULT}, {}}} : (tensor<2x3xf32>, tensor<1xi32>, tensor<?xf32>) -> tensor<?xf32>
           return %2 : tensor<?xf32>
         }}",
        alias(operand)
    )
    };
    let pass = |module: &Module| {
        let done = refined(module, &["tensor<5xf32>", "tensor<2x3xf32>"]).expect("a valid program")?;
        Some(eliminate_dead_code(&done).unwrap_or(done))
    };
    becomes(
        pass,
        &before(2),
        &format!(
            "func.func @main(%x: tensor<5xf32>, %y: tensor<2x3xf32>) -> tensor<5xf32> {{
               %0 = stablehlo.custom_call @f(%y, %x) {{
                   operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>],
                   {RESULT}, {}}} : (tensor<2x3xf32>, tensor<5xf32>) -> tensor<5xf32>
               return %0 : tensor<5xf32>
             }}",
            alias(1)
        ),
    );
    // `VerifyLevel::FULL` rejects this index.
    let far = stablehlo::parse(before(i64::MAX), VerifyLevel::STRUCTURE).expect("a valid structure");
    let far = pass(&far).expect("it applies").to_string();
    assert!(far.contains(&format!("operand_index = {}", i64::MAX - 1)), "{far}");
    let text = format!(
        "func.func @main() -> tensor<1xi32> {{
           %0 = stablehlo.constant dense<1> : tensor<1xi32>
           %1 = stablehlo.custom_call @f(%0) {{indices_of_shape_operands = dense<0> : tensor<1xi64>, {}}}
             : (tensor<1xi32>) -> tensor<1xi32>
           return %1 : tensor<1xi32>
         }}",
        alias(0)
    );
    assert_eq!(refined(&parsed(&text), &[]).expect_err("a removed operand").kind(), ErrorKind::Attribute);
}

/// Programs without `?` have dynamic ops and assertions, too.
#[test]
fn static_types_are_refined() {
    let pass = |module: &Module| {
        let done = refined(module, &["tensor<6xf32>"]).expect("a valid program")?;
        Some(eliminate_dead_code(&done).unwrap_or(done))
    };
    let program = |size: u32| {
        format!(
            "func.func @main(%x: tensor<6xf32>) -> tensor<2x3xf32> {{
               %a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<6xf32>) -> tensor<i32>
               %k = stablehlo.constant dense<{size}> : tensor<i32>
               %p = stablehlo.compare EQ, %a, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.custom_call @shape_assertion(%p) {{error_message = \"wrong\", has_side_effect = true}} : (tensor<i1>) -> ()
               %s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
               %0 = stablehlo.dynamic_reshape %x, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x3xf32>
               return %0 : tensor<2x3xf32>
             }}"
        )
    };
    becomes(
        pass,
        &program(6),
        "func.func @main(%x: tensor<6xf32>) -> tensor<2x3xf32> {
           %0 = stablehlo.reshape %x : (tensor<6xf32>) -> tensor<2x3xf32>
           return %0 : tensor<2x3xf32>
         }",
    );
    let error = refined(&parsed(&program(5)), &["tensor<6xf32>"]).expect_err("a false assertion");
    assert_eq!(error.kind(), ErrorKind::Shape);
    let error = refined(&parsed(&program(6)), &["tensor<7xf32>"]).expect_err("a wrong argument");
    assert_eq!(error.kind(), ErrorKind::Type);
}

#[test]
fn calls_of_unknown_sizes_are_refused() {
    let text = "func.func @main(%x: tensor<?xf32>) -> tensor<3xf32> {
        %0 = func.call @f(%x) : (tensor<?xf32>) -> tensor<3xf32>
        return %0 : tensor<3xf32>
      }
      func.func private @f(%x: tensor<?xf32>) -> tensor<3xf32> {
        %s = stablehlo.constant dense<3> : tensor<1xi32>
        %0 = stablehlo.dynamic_reshape %x, %s : (tensor<?xf32>, tensor<1xi32>) -> tensor<3xf32>
        return %0 : tensor<3xf32>
      }";
    let module = parsed(text);
    assert_eq!(refined(&module, &["tensor<3xf32>"]).expect_err("a call").kind(), ErrorKind::Unsupported);
    let inlined = stablehlo::inline(&module, &[]).expect("a valid program");
    assert!(refined(&inlined, &["tensor<3xf32>"]).expect("a valid program").is_some());
}
