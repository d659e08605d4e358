//! Passes that simplify programs, before and after.

use stablehlo::VerifyLevel;
use stablehlo::ir::Module;
use stablehlo_passes::{canonicalize, eliminate_common_subexpressions, fold_constants};

use crate::oracle::{becomes, parsed};

fn folded(module: &Module) -> Option<Module> {
    fold_constants(module).expect("a valid program")
}

fn canonical(module: &Module) -> Option<Module> {
    canonicalize(module).expect("a valid program")
}

/// Returns a program whose function has these arguments, ops and results. `%c` is a predicate.
fn program(ops: &str, returned: &str, types: &str) -> String {
    format!(
        "func.func @main(%c: tensor<i1>, %x: tensor<4xf32>, %i: tensor<4xi32>) -> ({types}) {{
           {ops}
           return {returned} : {types}
         }}"
    )
}

#[test]
fn equal_ops_are_merged_across_regions() {
    let before = r#"
      %0 = stablehlo.sine %x : tensor<4xf32>
      %1 = stablehlo.sine %x : tensor<4xf32>
      %2 = "stablehlo.if"(%c) ({
        %3 = stablehlo.sine %x : tensor<4xf32>
        %4 = stablehlo.cosine %x : tensor<4xf32>
        %5 = stablehlo.add %3, %4 : tensor<4xf32>
        stablehlo.return %5 : tensor<4xf32>
      }, {
        %6 = stablehlo.cosine %x : tensor<4xf32>
        stablehlo.return %6 : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32>
      %7 = stablehlo.cosine %x : tensor<4xf32>
      %8 = stablehlo.add %1, %7 : tensor<4xf32>"#;
    let after = r#"
      %0 = stablehlo.sine %x : tensor<4xf32>
      %2 = "stablehlo.if"(%c) ({
        %4 = stablehlo.cosine %x : tensor<4xf32>
        %5 = stablehlo.add %0, %4 : tensor<4xf32>
        stablehlo.return %5 : tensor<4xf32>
      }, {
        %6 = stablehlo.cosine %x : tensor<4xf32>
        stablehlo.return %6 : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32>
      %7 = stablehlo.cosine %x : tensor<4xf32>
      %8 = stablehlo.add %0, %7 : tensor<4xf32>"#;
    let types = "tensor<4xf32>, tensor<4xf32>";
    becomes(eliminate_common_subexpressions, &program(before, "%2, %8", types), &program(after, "%2, %8", types));
}

#[test]
fn equal_regions_are_merged() {
    let reduce = |name: &str, op: &str| {
        format!(
            r#"%{name} = "stablehlo.reduce"(%x, %z) ({{
              ^bb0(%p{name}: tensor<f32>, %q{name}: tensor<f32>):
                %s{name} = stablehlo.{op} %p{name}, %q{name} : tensor<f32>
                stablehlo.return %s{name} : tensor<f32>
            }}) {{dimensions = array<i64: 0>}} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
            "#
        )
    };
    let zero = "%z = stablehlo.constant dense<0.0> : tensor<f32>\n";
    let types = "tensor<f32>, tensor<f32>, tensor<f32>";
    let before = [zero, &reduce("a", "add"), &reduce("b", "add"), &reduce("d", "multiply")].concat();
    let after = [zero, &reduce("a", "add"), &reduce("d", "multiply")].concat();
    becomes(
        eliminate_common_subexpressions,
        &program(&before, "%a, %b, %d", types),
        &program(&after, "%a, %a, %d", types),
    );
}

#[test]
fn ops_that_differ_are_not_merged() {
    let text = program(
        r#"%0 = stablehlo.constant dense<0.0> : tensor<f32>
        %1 = stablehlo.constant dense<-0.0> : tensor<f32>
        %2 = stablehlo.iota dim = 0 : tensor<4x4xf32>
        %3 = stablehlo.iota dim = 1 : tensor<4x4xf32>
        %4 = stablehlo.custom_call @draw(%x) : (tensor<4xf32>) -> tensor<4xf32>
        %5 = stablehlo.custom_call @draw(%x) : (tensor<4xf32>) -> tensor<4xf32>
        %6 = stablehlo.optimization_barrier %x : tensor<4xf32>
        %7 = stablehlo.optimization_barrier %x : tensor<4xf32>
        %8 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf64>
        %9 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf16>
        %10 = stablehlo.create_token : !stablehlo.token
        %11 = stablehlo.create_token : !stablehlo.token
        %n = stablehlo.constant dense<4> : tensor<1xi64>
        %12 = stablehlo.rng %0, %0, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
        %13 = stablehlo.rng %0, %0, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
        %14 = "stablehlo.reduce"(%x, %0) ({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %15 = stablehlo.constant dense<0.0> : tensor<f32>
            %16 = stablehlo.add %p, %15 : tensor<f32>
            stablehlo.return %16 : tensor<f32>
        }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"#,
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9",
        "tensor<f32>, tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, \
         tensor<4xf32>, tensor<4xf64>, tensor<4xf16>",
    );
    assert!(eliminate_common_subexpressions(&parsed(&text)).is_none());
}

/// Checks that the last line of the ops becomes a constant.
#[track_caller]
fn folds_to(ops: &str, constant: &str) {
    let ty = constant.rsplit(" : ").next().expect("a type");
    let (rest, last) = ops.rsplit_once('\n').unwrap_or(("", ops));
    let name = last.trim().split(' ').next().expect("a name");
    let done = folded(&parsed(&program(ops, name, ty))).expect("an op to fold");
    let after = parsed(&program(&format!("{rest}\n{name} = stablehlo.constant {constant}"), name, ty));
    let value = |module: &Module| {
        let ops = &module.funcs[0].body.ops;
        let op = ops[ops.len() - 2].clone();
        format!("{:?} {}", op.kind, module.to_string().lines().rev().nth(3).unwrap_or_default())
    };
    assert_eq!(value(&done), value(&after));
    assert!(folded(&done).is_none());
}

const INTS: &str = "%0 = stablehlo.constant dense<[7, -7, 5, -128]> : tensor<4xi8>
  %1 = stablehlo.constant dense<[2, 2, -3, 1]> : tensor<4xi8>
  ";

#[test]
fn integers() {
    let two = |op: &str| format!("{INTS}%2 = stablehlo.{op} %0, %1 : tensor<4xi8>");
    folds_to(&two("add"), "dense<[9, -5, 2, -127]> : tensor<4xi8>");
    folds_to(&two("subtract"), "dense<[5, -9, 8, 127]> : tensor<4xi8>");
    folds_to(&two("multiply"), "dense<[14, -14, -15, -128]> : tensor<4xi8>");
    folds_to(&two("divide"), "dense<[3, -3, -1, -128]> : tensor<4xi8>");
    folds_to(&two("remainder"), "dense<[1, -1, 2, 0]> : tensor<4xi8>");
    folds_to(&two("maximum"), "dense<[7, 2, 5, 1]> : tensor<4xi8>");
    folds_to(&format!("{INTS}%2 = stablehlo.popcnt %0 : tensor<4xi8>"), "dense<[3, 6, 2, 1]> : tensor<4xi8>");
    folds_to(
        &format!("{INTS}%2 = stablehlo.count_leading_zeros %0 : tensor<4xi8>"),
        "dense<[5, 0, 5, 0]> : tensor<4xi8>",
    );
    let shifted = "%0 = stablehlo.constant dense<[-8, 7]> : tensor<2xi4>
      %1 = stablehlo.constant dense<[1, 2]> : tensor<2xi4>
      ";
    let shift = |op: &str| format!("{shifted}%2 = stablehlo.{op} %0, %1 : tensor<2xi4>");
    folds_to(&shift("shift_left"), "dense<[0, -4]> : tensor<2xi4>");
    folds_to(&shift("shift_right_logical"), "dense<[4, 1]> : tensor<2xi4>");
    folds_to(&shift("shift_right_arithmetic"), "dense<[-4, 1]> : tensor<2xi4>");
}

#[test]
fn floats() {
    let two = |op: &str, a: &str, b: &str, element: &str| {
        format!(
            "%0 = stablehlo.constant dense<{a}> : tensor<{element}>
             %1 = stablehlo.constant dense<{b}> : tensor<{element}>
             %2 = stablehlo.{op} %0, %1 : tensor<{element}>"
        )
    };
    folds_to(&two("add", "0.1", "0.2", "f32"), "dense<0x3E99999A> : tensor<f32>");
    folds_to(&two("multiply", "1.1", "1.1", "bf16"), "dense<1.210000e+00> : tensor<bf16>");
    folds_to(&two("maximum", "-0.0", "0.0", "f64"), "dense<0.0> : tensor<f64>");
    folds_to(&two("minimum", "0.0", "-0.0", "f64"), "dense<-0.0> : tensor<f64>");
    folds_to(&two("divide", "1.0", "-0.0", "f32"), "dense<0xFF800000> : tensor<f32>");
    folds_to(&two("remainder", "-5.5", "2.0", "f32"), "dense<-1.5> : tensor<f32>");
    folds_to(
        "%0 = stablehlo.constant dense<16777217> : tensor<i64>
         %1 = stablehlo.convert %0 : (tensor<i64>) -> tensor<f32>",
        "dense<16777216.0> : tensor<f32>",
    );
    folds_to(
        "%0 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
         %1 = stablehlo.compare NE, %0, %0 : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        "dense<true> : tensor<i1>",
    );
}

#[test]
fn shapes() {
    let dense = "%0 = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
      %9 = stablehlo.constant dense<9> : tensor<i32>
      ";
    let case = |op: &str, result: &str| {
        let ty = result.rsplit(" : ").next().expect("a type");
        folds_to(&format!("{dense}%1 = stablehlo.{op} : (tensor<2x3xi32>) -> {ty}"), result);
    };
    case("transpose %0, dims = [1, 0]", "dense<[[1, 4], [2, 5], [3, 6]]> : tensor<3x2xi32>");
    case("reshape %0", "dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi32>");
    case("slice %0 [0:2, 0:3:2]", "dense<[[1, 3], [4, 6]]> : tensor<2x2xi32>");
    case("broadcast_in_dim %0, dims = [2, 1]", "dense<0> : tensor<0x3x2xi32>");
    folds_to(
        &format!(
            "{dense}%1 = stablehlo.pad %0, %9, low = [0, -1], high = [1, 0], interior = [0, 1]
              : (tensor<2x3xi32>, tensor<i32>) -> tensor<3x4xi32>"
        )
        .replace("\n              :", " :"),
        "dense<[[9, 2, 9, 3], [9, 5, 9, 6], [9, 9, 9, 9]]> : tensor<3x4xi32>",
    );
    folds_to(
        &format!(
            "{dense}%1 = stablehlo.dynamic_slice %0, %9, %9, sizes = [1, 2] : (tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> tensor<1x2xi32>"
        ),
        "dense<[[5, 6]]> : tensor<1x2xi32>",
    );
    folds_to(
        "%0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<4xf32>) -> tensor<i32>",
        "dense<4> : tensor<i32>",
    );
}

#[test]
fn results_that_depend_on_the_device_remain() {
    let program = |ops: &str| program(ops, "%x", "tensor<4xf32>");
    for (op, a, b) in [
        ("divide", "1", "0"),
        ("remainder", "1", "0"),
        ("divide", "-2147483648", "-1"),
        ("shift_left", "1", "32"),
        ("shift_right_logical", "1", "-1"),
    ] {
        let text = format!(
            "%0 = stablehlo.constant dense<{a}> : tensor<i32>
             %1 = stablehlo.constant dense<{b}> : tensor<i32>
             %2 = stablehlo.{op} %0, %1 : tensor<i32>"
        );
        assert!(folded(&parsed(&program(&text))).is_none(), "{op}");
    }
    for op in [
        "subtract %0, %0 : tensor<f32>",
        "convert %0 : (tensor<f32>) -> tensor<i8>",
        "convert %1 : (tensor<f32>) -> tensor<i8>",
        "exponential %1 : tensor<f32>",
        "iota dim = 0 : tensor<4xf32>",
    ] {
        let text = format!(
            "%0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
             %1 = stablehlo.constant dense<128.0> : tensor<f32>
             %2 = stablehlo.{op}"
        );
        assert!(folded(&parsed(&program(&text))).is_none(), "{op}");
    }
    // Large results remain, unless their elements are equal.
    let large = "%0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
      %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<2xi32>) -> tensor<1024x2xi32>";
    assert!(folded(&parsed(&program(large))).is_none());
    folds_to(
        "%0 = stablehlo.constant dense<7> : tensor<i32>
         %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<1024x2xi32>",
        "dense<7> : tensor<1024x2xi32>",
    );
}

/// Checks that the last value of the ops is replaced by `value`, or by the op in `value`.
#[track_caller]
fn is_canonical(ops: &str, ty: &str, value: &str) {
    let name = ops.lines().last().and_then(|line| line.trim().split(' ').next()).expect("a name");
    let done = canonical(&parsed(&program(ops, name, ty))).expect("the pass applies");
    stablehlo::verify(&done, VerifyLevel::FULL).expect("a valid result");
    let rest = ops.rsplit_once('\n').map_or("", |(rest, _)| rest);
    let (line, returned) = match value.starts_with('%') {
        true => (String::new(), value),
        false => (format!("\n{name} = {value}"), name),
    };
    assert_eq!(done.to_string(), parsed(&program(&format!("{rest}{line}"), returned, ty)).to_string());
    assert!(canonical(&done).is_none());
}

#[test]
fn identities_of_numbers() {
    let float = |constant: &str, op: &str| {
        format!("%k = stablehlo.constant dense<{constant}> : tensor<4xf32>\n%0 = stablehlo.{op} : tensor<4xf32>")
    };
    let int = |constant: &str, op: &str| {
        format!("%k = stablehlo.constant dense<{constant}> : tensor<4xi32>\n%0 = stablehlo.{op} : tensor<4xi32>")
    };
    is_canonical(&float("-0.0", "add %k, %x"), "tensor<4xf32>", "%x");
    is_canonical(&float("0.0", "subtract %x, %k"), "tensor<4xf32>", "%x");
    is_canonical(&float("1.0", "multiply %k, %x"), "tensor<4xf32>", "%x");
    is_canonical(&float("1.0", "divide %x, %k"), "tensor<4xf32>", "%x");
    is_canonical(&float("0.0", "maximum %x, %x"), "tensor<4xf32>", "%x");
    // The results differ for -0.0, for NaN, or for infinities.
    for (constant, op) in [
        ("0.0", "add %x, %k"),
        ("-0.0", "subtract %x, %k"),
        ("0.0", "multiply %x, %k"),
        ("0.0", "subtract %k, %x"),
        ("0.0", "subtract %x, %x"),
        ("0.0", "divide %x, %x"),
    ] {
        let text = program(&float(constant, op), "%0", "tensor<4xf32>");
        assert!(canonical(&parsed(&text)).is_none(), "{op} {constant}");
    }
    is_canonical(&int("0", "add %k, %i"), "tensor<4xi32>", "%i");
    is_canonical(&int("0", "multiply %i, %k"), "tensor<4xi32>", "stablehlo.constant dense<0> : tensor<4xi32>");
    is_canonical(&int("-1", "and %i, %k"), "tensor<4xi32>", "%i");
    is_canonical(&int("-1", "or %k, %i"), "tensor<4xi32>", "stablehlo.constant dense<-1> : tensor<4xi32>");
    is_canonical(&int("5", "xor %i, %i"), "tensor<4xi32>", "stablehlo.constant dense<0> : tensor<4xi32>");
    is_canonical(&int("5", "subtract %i, %i"), "tensor<4xi32>", "stablehlo.constant dense<0> : tensor<4xi32>");
    is_canonical(&int("0", "shift_left %i, %k"), "tensor<4xi32>", "%i");
    is_canonical(&int("1", "remainder %i, %k"), "tensor<4xi32>", "stablehlo.constant dense<0> : tensor<4xi32>");
    is_canonical(&int("5", "add %k, %i"), "tensor<4xi32>", "stablehlo.add %i, %k : tensor<4xi32>");
    is_canonical(
        "%k = stablehlo.constant dense<5> : tensor<4xi32>
         %0 = stablehlo.compare LT, %k, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>",
        "tensor<4xi1>",
        "stablehlo.compare GT, %i, %k : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>",
    );
    is_canonical(
        "%0 = stablehlo.convert %i : (tensor<4xi32>) -> tensor<4xf64>
         %1 = stablehlo.convert %0 : (tensor<4xf64>) -> tensor<4xi32>",
        "tensor<4xi32>",
        "%i",
    );
    let rounded = "%0 = stablehlo.convert %i : (tensor<4xi32>) -> tensor<4xf32>
      %1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xi32>";
    assert!(canonical(&parsed(&program(rounded, "%1", "tensor<4xi32>"))).is_none());
}

#[test]
fn identities_of_shapes() {
    is_canonical(
        "%0 = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
         %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
         %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>",
        "tensor<2x2xf32>",
        "%0",
    );
    is_canonical(
        "%0 = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<4x1xf32>
         %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x3xf32>",
        "tensor<4x3xf32>",
        "stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<4xf32>) -> tensor<4x3xf32>",
    );
    is_canonical(
        "%0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>",
        "tensor<4x1xf32>",
        "stablehlo.reshape %x : (tensor<4xf32>) -> tensor<4x1xf32>",
    );
    is_canonical(
        "%0 = stablehlo.iota dim = 0 : tensor<4xi32>
         %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<4xi32>) -> tensor<3x4xi32>",
        "tensor<3x4xi32>",
        "stablehlo.iota dim = 1 : tensor<3x4xi32>",
    );
    is_canonical(
        "%0 = stablehlo.constant dense<7> : tensor<i32>
         %1 = stablehlo.dynamic_slice %x, %0, sizes = [3] : (tensor<4xf32>, tensor<i32>) -> tensor<3xf32>",
        "tensor<3xf32>",
        "stablehlo.slice %x [1:4] : (tensor<4xf32>) -> tensor<3xf32>",
    );
}

#[test]
fn constant_predicates() {
    becomes(
        canonical,
        &program(
            r#"%t = stablehlo.constant dense<true> : tensor<i1>
            %n = stablehlo.constant dense<-5> : tensor<i32>
            %0 = "stablehlo.if"(%t) ({
              %1 = stablehlo.sine %x : tensor<4xf32>
              stablehlo.return %1 : tensor<4xf32>
            }, {
              stablehlo.return %x : tensor<4xf32>
            }) : (tensor<i1>) -> tensor<4xf32>
            %2 = "stablehlo.case"(%n) ({
              stablehlo.return %x : tensor<4xf32>
            }, {
              %3 = stablehlo.add %0, %x : tensor<4xf32>
              stablehlo.return %3 : tensor<4xf32>
            }) : (tensor<i32>) -> tensor<4xf32>
            %4 = "stablehlo.while"(%2) ({
              ^bb0(%p: tensor<4xf32>):
                %f = stablehlo.constant dense<false> : tensor<i1>
                stablehlo.return %f : tensor<i1>
            }, {
              ^bb0(%p: tensor<4xf32>):
                stablehlo.return %p : tensor<4xf32>
            }) : (tensor<4xf32>) -> tensor<4xf32>
            %5 = stablehlo.select %t, %4, %x : tensor<i1>, tensor<4xf32>"#,
            "%5",
            "tensor<4xf32>",
        ),
        &program(
            "%t = stablehlo.constant dense<true> : tensor<i1>
            %n = stablehlo.constant dense<-5> : tensor<i32>
            %1 = stablehlo.sine %x : tensor<4xf32>
            %3 = stablehlo.add %1, %x : tensor<4xf32>",
            "%3",
            "tensor<4xf32>",
        ),
    );
}

/// Values of another static shape do not replace results of dynamic shape.
#[test]
fn dynamic_shapes() {
    let text = r#"func.func @main(%x: tensor<4xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
      %t = stablehlo.constant dense<true> : tensor<i1>
      %0 = "stablehlo.if"(%t) ({
        stablehlo.return %x : tensor<4xf32>
      }, {
        stablehlo.return %y : tensor<?xf32>
      }) : (tensor<i1>) -> tensor<?xf32>
      %1 = stablehlo.add %x, %y : (tensor<4xf32>, tensor<?xf32>) -> tensor<?xf32>
      %2 = stablehlo.add %x, %y : (tensor<4xf32>, tensor<?xf32>) -> tensor<4xf32>
      %3 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<?xf32>
      return %0, %1, %3 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
    }"#;
    let module = parsed(text);
    assert!(canonical(&module).is_none());
    assert!(folded(&module).is_none());
    assert!(eliminate_common_subexpressions(&module).is_none());
}
