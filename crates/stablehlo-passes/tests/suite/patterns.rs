//! `recognize_patterns` on programs of JAX, on the forms of PyTorch/XLA, and values of the composites.

use std::path::Path;

use stablehlo::ir::{Attribute, Module, OpKind};
use stablehlo_passes::{
    Pattern, canonicalize, eliminate_common_subexpressions, eliminate_dead_code, expand_batch_norm, expand_chlo,
    expand_composites, fold_constants, recognize_patterns,
};

use crate::oracle::{applied, parsed, programs, random, same_values};

/// Applies the passes that must run before.
fn prepared(module: &Module) -> Module {
    let module = stablehlo::inline(module, &["chlo.erf", "chlo.erfc"]).expect("a valid program");
    let keep = |name: &str| matches!(name, "chlo.erf" | "chlo.erfc");
    let module = expand_batch_norm(&module).expect("a valid program").unwrap_or(module);
    let mut module = expand_chlo(&module, keep).expect("a valid program").unwrap_or(module);
    for _ in 0..2 {
        module = fold_constants(&module).expect("a valid program").unwrap_or(module);
        module = canonicalize(&module).expect("a valid program").unwrap_or(module);
        module = eliminate_common_subexpressions(&module).unwrap_or(module);
        module = eliminate_dead_code(&module).unwrap_or(module);
    }
    module
}

fn pass(module: &Module) -> Option<Module> {
    recognize_patterns(module, Pattern::ALL).expect("a valid program")
}

fn program(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name).with_extension("mlir");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parsed(&text)
}

fn composites(module: &Module) -> Vec<(String, String)> {
    let ops = module.funcs.iter().flat_map(|func| func.body.all_ops());
    let composite = |op: &stablehlo::ir::Op| match &op.kind {
        OpKind::Composite { name, composite_attributes, .. } => {
            let values = composite_attributes.iter().map(|(name, value)| match value {
                Attribute::String(text) => format!("{name}={}", String::from_utf8_lossy(text)),
                other => format!("{name}={other}"),
            });
            let text: Vec<String> = values.collect();
            Some((name.clone(), format!("{} operands, {}", op.operands.len(), text.join(", "))))
        }
        _ => None,
    };
    ops.filter_map(composite).collect()
}

/// Checks the composites of a program of JAX, and that the program without them gives the same values.
#[track_caller]
fn finds(name: &str, wanted: &[(&str, &str)]) {
    let before = prepared(&program(name));
    let after = applied(name, &before, pass);
    let found = after.as_ref().map_or(Vec::new(), composites);
    let found: Vec<(&str, &str)> = found.iter().map(|(name, text)| (&**name, &**text)).collect();
    assert_eq!(found, wanted, "{before}");
    if let Some(after) = after {
        same_values(name, &before, &after, &[], 0.0);
        let expanded = expand_composites(&after, |_, _| false).expect("a valid program").expect("a composite");
        assert!(!expanded.to_string().contains("@pjrt."), "{expanded}");
        same_values(name, &before, &expanded, &[], 0.0);
    }
}

#[test]
fn softmax() {
    for (name, dimension) in [("softmax", 1), ("softmax_first", 0), ("softmax_bf16", 1)] {
        finds(name, &[("pjrt.softmax", &format!("1 operands, dimension={dimension} : i64"))]);
    }
    finds("torch_softmax", &[("pjrt.softmax", "1 operands, dimension=2 : i64")]);
    finds("log_softmax", &[]);
}

#[test]
fn norms() {
    for (name, epsilon) in [
        ("layer_norm", "9.9999997473787516E-6"),
        ("torch_layer_norm", "9.9999997473787516E-6"),
        ("layer_norm_var", "9.9999997473787516E-6"),
        ("layer_norm_flax", "9.9999999747524271E-7"),
    ] {
        let text = format!("3 operands, dimensions=[1], epsilon={epsilon} : f64, has_scale=true, has_bias=true");
        finds(name, &[("pjrt.layer_norm", &text)]);
    }
    let text = "2 operands, dimensions=[1], epsilon=9.9999999747524271E-7 : f64, has_scale=true";
    finds("rms_norm", &[("pjrt.rms_norm", text)]);
    finds("rms_norm_bf16", &[("pjrt.rms_norm", text)]);
}

#[test]
fn activations() {
    for (name, activation) in [
        ("torch_gelu", "gelu_tanh"),
        ("torch_gelu_exact", "gelu"),
        ("relu", "relu"),
        ("gelu", "gelu_tanh"),
        ("gelu_exact", "gelu"),
        ("silu", "silu"),
        ("tanh", "tanh"),
        ("sigmoid", "sigmoid"),
    ] {
        let text = format!("2 operands, dimension=1 : i64, activation={activation}");
        finds(name, &[("pjrt.bias_activation", &text)]);
    }
}

#[test]
fn attention() {
    let text = |operands: usize, scale: &str, mask: &str, rest: &str| {
        format!("{operands} operands, scale={scale} : f64, mask={mask} : f64, {rest}")
    };
    let plain = "scores=[[0, 1], [0, 1], [3], [3]], key_first=false, output=[[0, 1], [0, 1], [3], [2]], value_first=false, weights=[1, 2, 4, 6]";
    let none = "none, mask_value=0.000000e+00";
    finds("attention", &[("pjrt.attention", &text(3, "1.250000e-01", none, plain))]);
    let masked = "scores=[[0, 2], [0, 2], [3], [3]], key_first=false, output=[[0, 2], [0, 1], [1], [3]], value_first=true, weights=[1, 2, 4, 4]";
    let select = "select, mask_value=-1.0000000150474662E+30";
    finds("masked_attention", &[("pjrt.attention", &text(4, "0.35355339664408242", select, masked))]);
    let jax = "scores=[[0, 2], [0, 2], [4], [3]], key_first=false, output=[[0, 2], [1, 2], [1], [4]], value_first=true, weights=[1, 1, 2, 4, 4]";
    finds("dot_product_attention", &[("pjrt.attention", &text(3, "0.35355338454246521", none, jax))]);
    let causal = "select, mask_value=-2.381976325057654E+38";
    finds("causal_attention", &[("pjrt.attention", &text(4, "0.35355338454246521", causal, jax))]);
    let merged = "scores=[[0], [0], [2], [1]], key_first=false, output=[[0], [0], [2], [1]], value_first=false, weights=[6, 4, 5]";
    let add = "add, mask_value=0.000000e+00";
    finds("torch_attention", &[("pjrt.attention", &text(4, "2.500000e-01", add, merged))]);
    let select = "select, mask_value=-1.000000e+09";
    finds("torch_masked_attention", &[("pjrt.attention", &text(4, "2.500000e-01", select, merged))]);
}

/// An array of numbers.
#[derive(Clone)]
struct Array {
    shape: Vec<usize>,
    data: Vec<f64>,
}

impl Array {
    /// Computes each element from its coordinates.
    fn new(shape: &[usize], element: impl Fn(&[usize]) -> f64) -> Self {
        let count: usize = shape.iter().product();
        let mut coordinates = vec![0; shape.len()];
        let mut data = Vec::with_capacity(count);
        for _ in 0..count {
            data.push(element(&coordinates));
            for (at, &extent) in coordinates.iter_mut().zip(shape).rev() {
                *at += 1;
                if *at < extent {
                    break;
                }
                *at = 0;
            }
        }
        Self { shape: shape.to_vec(), data }
    }

    fn at(&self, coordinates: &[usize]) -> f64 {
        self.data[coordinates.iter().zip(&self.shape).fold(0, |index, (at, extent)| index * extent + at)]
    }

    /// Returns the elements that have the same other coordinates.
    fn row(&self, dimensions: &[usize], at: &[usize]) -> Vec<f64> {
        let row = Array::new(&self.shape, |coordinates| {
            let is_same = (0..at.len()).all(|d| dimensions.contains(&d) || coordinates[d] == at[d]);
            if is_same { self.at(coordinates) } else { f64::NAN }
        });
        row.data.into_iter().filter(|x| !x.is_nan()).collect()
    }

    fn sum(&self, dimensions: &[usize], at: &[usize], f: impl Fn(f64) -> f64) -> f64 {
        self.row(dimensions, at).into_iter().map(f).sum()
    }

    fn softmax(&self, dimension: usize) -> Self {
        Self::new(&self.shape, |at| {
            let largest = self.row(&[dimension], at).into_iter().fold(f64::MIN, f64::max);
            (self.at(at) - largest).exp() / self.sum(&[dimension], at, |x| (x - largest).exp())
        })
    }

    /// `dot_general` with these lists of batching and contracting dimensions.
    fn dot(&self, other: &Self, dims: &[Vec<usize>]) -> Self {
        let free = |array: &Self, lists: [&Vec<usize>; 2]| -> Vec<usize> {
            (0..array.shape.len()).filter(|d| lists.iter().all(|list| !list.contains(d))).collect()
        };
        let (left, right) = (free(self, [&dims[0], &dims[2]]), free(other, [&dims[1], &dims[3]]));
        let batch = dims[0].iter().map(|&d| self.shape[d]);
        let shape: Vec<usize> =
            batch.chain(left.iter().map(|&d| self.shape[d])).chain(right.iter().map(|&d| other.shape[d])).collect();
        let summed: Vec<usize> = dims[2].iter().map(|&d| self.shape[d]).collect();
        Self::new(&shape, |at| {
            let (batch, rest) = at.split_at(dims[0].len());
            let (l, r) = rest.split_at(left.len());
            let place = |rank: usize, b: &[usize], f: &[usize], c: &[usize], free: &[usize], k: &[usize]| {
                let mut place = vec![0; rank];
                b.iter().zip(batch).for_each(|(&d, &x)| place[d] = x);
                free.iter().zip(f).for_each(|(&d, &x)| place[d] = x);
                c.iter().zip(k).for_each(|(&d, &x)| place[d] = x);
                place
            };
            let products = Array::new(&summed, |k| {
                self.at(&place(self.shape.len(), &dims[0], l, &dims[2], &left, k))
                    * other.at(&place(other.shape.len(), &dims[1], r, &dims[3], &right, k))
            });
            products.data.iter().sum()
        })
    }
}

/// Computes a composite from its documentation.
fn reference(name: &str, attributes: &[(String, Attribute)], operands: &[Array]) -> Array {
    let find = |name: &str| &attributes.iter().find(|(n, _)| n == name).expect("an attribute").1;
    let number = |name: &str| match find(name) {
        Attribute::Float(number, _) => *number,
        other => panic!("{name} is {other}"),
    };
    let is = |name: &str| *find(name) == Attribute::Bool(true);
    let index = |value: i64| usize::try_from(value).expect("an index");
    let list = |value: &Attribute| value.as_integers().expect("a list").into_iter().map(index).collect::<Vec<usize>>();
    let x = &operands[0];
    match name {
        "pjrt.softmax" => x.softmax(index(find("dimension").as_integer().expect("an integer"))),
        "pjrt.layer_norm" | "pjrt.rms_norm" => {
            let dimensions = list(find("dimensions"));
            let count: usize = dimensions.iter().map(|&d| x.shape[d]).product();
            let parameter =
                |array: &Array, at: &[usize]| array.at(&dimensions.iter().map(|&d| at[d]).collect::<Vec<_>>());
            let is_layer = name == "pjrt.layer_norm";
            Array::new(&x.shape, |at| {
                let mean = if is_layer { x.sum(&dimensions, at, |x| x) / count as f64 } else { 0.0 };
                let variance = x.sum(&dimensions, at, |x| (x - mean).powi(2)) / count as f64;
                let mut y = (x.at(at) - mean) / (variance + number("epsilon")).sqrt();
                let mut rest = operands[1..].iter();
                if is("has_scale") {
                    y *= parameter(rest.next().expect("the scale"), at);
                }
                if is_layer && is("has_bias") {
                    y += parameter(rest.next().expect("the bias"), at);
                }
                y
            })
        }
        "pjrt.bias_activation" => {
            let dimension = index(find("dimension").as_integer().expect("an integer"));
            let activation = find("activation").as_str().expect("a text");
            Array::new(&x.shape, |at| {
                let x = x.at(at) + operands[1].at(&at[dimension..=dimension]);
                let sigmoid = 1.0 / (1.0 + (-x).exp());
                match activation {
                    "relu" => x.max(0.0),
                    "sigmoid" => sigmoid,
                    "silu" => x * sigmoid,
                    "tanh" => x.tanh(),
                    "gelu_tanh" => 0.5 * x * (1.0 + (0.797_884_560_802_865 * (x + 0.044_715 * x.powi(3))).tanh()),
                    // The error function is an integral.
                    "gelu" => {
                        let steps = 4000;
                        let step = x / f64::from(steps);
                        let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
                        x * (0.5 + (0..steps).map(|i| density((f64::from(i) + 0.5) * step) * step).sum::<f64>())
                    }
                    other => panic!("{other}"),
                }
            })
        }
        "pjrt.attention" => {
            let dims = |name: &str| match find(name) {
                Attribute::Array(lists) => lists.iter().map(list).collect::<Vec<_>>(),
                other => panic!("{other}"),
            };
            let (query, key, value) = (&operands[0], &operands[1], &operands[2]);
            let scores_dims = dims("scores");
            let scores = if is("key_first") { key.dot(query, &scores_dims) } else { query.dot(key, &scores_dims) };
            let batch = scores_dims[0].len();
            let free = if is("key_first") { batch } else { scores.shape.len() - 1 };
            let mask = find("mask").as_str().expect("a text");
            let masked = Array::new(&scores.shape, |at| {
                let score = scores.at(at) * number("scale");
                // The mask has the shape of the scores, up to dimensions of extent 1.
                let index = at.iter().zip(&scores.shape).fold(0, |index, (at, extent)| index * extent + at);
                match mask {
                    "none" => score,
                    "select" if operands[3].data[index] != 0.0 => score,
                    "select" => number("mask_value"),
                    "add" => score + operands[3].data[index],
                    other => panic!("{other}"),
                }
            });
            let weights = masked.softmax(free);
            let output_dims = dims("output");
            let side = usize::from(is("value_first"));
            let weights = Array { shape: list(find("weights")), data: weights.data };
            if side == 1 { value.dot(&weights, &output_dims) } else { weights.dot(value, &output_dims) }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn composites_are_what_their_names_say() {
    let mut count = 0;
    for name in [
        "softmax",
        "softmax_first",
        "layer_norm",
        "layer_norm_var",
        "layer_norm_flax",
        "rms_norm",
        "relu",
        "gelu",
        "gelu_exact",
        "silu",
        "tanh",
        "sigmoid",
        "attention",
        "masked_attention",
        "dot_product_attention",
        "causal_attention",
        "torch_attention",
        "torch_masked_attention",
    ] {
        let module = pass(&prepared(&program(name))).expect("a pattern");
        let main = module.entry().expect("main");
        let composite = main.body.all_ops().find_map(|op| match &op.kind {
            OpKind::Composite { name, decomposition, composite_attributes } => {
                Some((name, decomposition, composite_attributes))
            }
            _ => None,
        });
        let (kind, decomposition, attributes) = composite.expect("a composite");
        let func = module.func(decomposition).expect("a function").clone();
        let program = stablehlo_cpu::compile(&stablehlo_passes::extract(&module, func)).expect("a program");
        let (mut bytes, mut operands) = (Vec::new(), Vec::new());
        let mut random = random::Random(3);
        for parameter in program.parameters() {
            let ty = &parameter.ty;
            let is_mask = ty.dtype == stablehlo_cpu::DType::Bool;
            let number = |random: &mut random::Random| {
                let number = random.below(if is_mask { 2 } else { 4001 });
                if is_mask { number as f64 } else { number as f64 / 1000.0 - 2.0 }
            };
            let data: Vec<f64> = (0..ty.elements()).map(|_| number(&mut random)).collect();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
            bytes.extend(
                data.iter().flat_map(|&x| if is_mask { vec![x as u8] } else { (x as f32).to_le_bytes().to_vec() }),
            );
            operands.push(Array { shape: ty.dims.to_vec(), data });
        }
        let results = program.run(crate::oracle::arguments(&program, &bytes)).expect("results");
        let got: Vec<f64> = results[0].as_slice::<f32>().expect("numbers").iter().map(|&x| f64::from(x)).collect();
        let wanted = reference(kind, attributes, &operands);
        assert_eq!(wanted.data.len(), got.len(), "{name}");
        for (wanted, got) in wanted.data.iter().zip(&got) {
            assert!((wanted - got).abs() < 2e-5 * wanted.abs().max(1.0), "{name}: {got} is not {wanted}");
        }
        count += 1;
    }
    assert_eq!(count, 18);
}

/// Programs that are almost a pattern.
#[test]
fn other_computations_are_not_patterns() {
    let text = |name: &str| prepared(&program(name)).to_string();
    let changes = [
        ("softmax", "applies stablehlo.maximum", "applies stablehlo.minimum"),
        ("softmax", "stablehlo.exponential", "stablehlo.exponential_minus_one"),
        ("softmax", "dense<0xFF800000> : tensor<f32>", "dense<0.0> : tensor<f32>"),
        ("softmax", "dense<0xFF800000> : tensor<4xf32>", "dense<1.0> : tensor<4xf32>"),
        ("softmax", "dense<0.000000e+00>", "dense<1.0>"),
        ("rms_norm", "dense<8.000000e+00>", "dense<7.0>"),
        ("rms_norm", "stablehlo.rsqrt", "stablehlo.cbrt"),
        ("layer_norm", "dense<8.000000e+00>", "dense<7.0>"),
        ("layer_norm", "applies stablehlo.add", "applies stablehlo.multiply"),
        ("layer_norm_flax", "stablehlo.subtract %4, %5", "stablehlo.add %4, %5"),
        ("relu", "dense<0.000000e+00>", "dense<-0.0>"),
        ("gelu", "dense<4.471500e-02>", "dense<0.05>"),
        ("silu", "stablehlo.negate", "stablehlo.abs"),
        ("attention", "stablehlo.exponential", "stablehlo.tanh"),
    ];
    for (name, from, to) in changes {
        let before = text(name);
        let changed = before.replace(from, to);
        assert_ne!(before, changed, "{name}: {from}");
        let found = pass(&parsed(&changed)).as_ref().map_or(Vec::new(), composites);
        // The hyperbolic tangent within a changed function is a pattern itself only with a bias.
        assert!(found.is_empty(), "{name}: {from} {to}: {found:?}");
    }
}

#[test]
fn shared_values_remain() {
    // The exponentials are results, too.
    let text = prepared(&program("softmax")).to_string();
    let line = text.lines().find(|line| line.contains("exponential")).expect("an exponential");
    let name = line.trim().split(' ').next().expect("a name");
    let text = text.replace("return ", &format!("return {name}, "));
    let text = text.replace(" : tensor<4x8xf32>\n  }", " : tensor<4x8xf32>, tensor<4x8xf32>\n  }");
    let text =
        text.replace("-> (tensor<4x8xf32> {jax.result_info = \"result\"})", "-> (tensor<4x8xf32>, tensor<4x8xf32>)");
    let before = parsed(&text);
    let after = applied("softmax", &before, pass).expect("a softmax");
    same_values("softmax", &before, &after, &[], 0.0);
    assert!(after.entry().expect("main").body.ops.len() > 3, "{after}");
}

/// The same value may be several operands.
#[test]
fn attention_of_one_value() {
    let text = prepared(&program("attention")).to_string();
    let text = text.replace("%arg1, batching", "%arg0, batching").replace("%arg2, batching", "%arg0, batching");
    let text = text.replace("2x6x8", "2x4x8").replace("2x4x6", "2x4x4");
    let before = parsed(&text);
    let after = applied("attention", &before, pass).expect("attention");
    assert_eq!(composites(&after).len(), 1);
    same_values("attention", &before, &after, &[], 0.0);
}

#[test]
fn values_stay() {
    let mut changed = 0;
    for case in programs() {
        let before = prepared(&case.module);
        if let Some(after) = applied(&case.name, &before, pass) {
            same_values(&case.name, &before, &after, &case.data, 0.0);
            changed += 1;
        }
    }
    // Those of this file, and models of other tests.
    assert!(changed >= 20, "{changed} programs with patterns");
}

/// The maximum and the sum must be over the same dimension.
#[test]
fn softmax_over_two_dimensions() {
    let text = |maximum: usize, sum: usize| {
        let kept = 1 - maximum;
        format!(
            "func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{
               %l = stablehlo.constant dense<0xFF800000> : tensor<f32>
               %z = stablehlo.constant dense<0.0> : tensor<f32>
               %0 = stablehlo.reduce(%x init: %l) applies stablehlo.maximum across dimensions = [{maximum}]
                 : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
               %1 = stablehlo.broadcast_in_dim %0, dims = [{kept}] : (tensor<4xf32>) -> tensor<4x4xf32>
               %2 = stablehlo.subtract %x, %1 : tensor<4x4xf32>
               %3 = stablehlo.exponential %2 : tensor<4x4xf32>
               %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [{sum}]
                 : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
               %5 = stablehlo.broadcast_in_dim %4, dims = [{other}] : (tensor<4xf32>) -> tensor<4x4xf32>
               %6 = stablehlo.divide %3, %5 : tensor<4x4xf32>
               return %6 : tensor<4x4xf32>
             }}",
            other = 1 - sum,
        )
    };
    for (maximum, sum, found) in [(0, 0, true), (1, 1, true), (0, 1, false), (1, 0, false)] {
        assert_eq!(pass(&parsed(&text(maximum, sum))).is_some(), found, "{maximum} {sum}");
    }
    // The sums are broadcast along the wrong dimension.
    let wrong = text(1, 1)
        .replace("%5 = stablehlo.broadcast_in_dim %4, dims = [0]", "%5 = stablehlo.broadcast_in_dim %4, dims = [1]");
    assert!(pass(&parsed(&wrong)).is_none());
}

/// Parts of a pattern that belong to other values or dimensions.
#[test]
fn parts_of_other_values() {
    let text = |name: &str| prepared(&program(name)).to_string();
    let changed = |before: String, from: &str, to: &str| {
        assert!(before.contains(from), "{from}: {before}");
        let after = pass(&parsed(&before.replacen(from, to, 1)));
        after.as_ref().map_or(Vec::new(), composites)
    };
    // The mean, and the mean of the squares, of other numbers.
    let sine = "%s = stablehlo.sine %arg0 : tensor<4x8xf32>\n";
    let mean = changed(
        text("layer_norm"),
        "%0 = stablehlo.reduce(%arg0 init",
        &format!("{sine}%0 = stablehlo.reduce(%s init"),
    );
    // The difference is still divided by the root of the mean of its squares.
    assert!(matches!(&mean[..], [(name, _)] if name == "pjrt.rms_norm"), "{mean:?}");
    let product = "%0 = stablehlo.multiply %arg0, %arg0";
    let squares = changed(text("rms_norm"), product, &format!("{sine}%0 = stablehlo.multiply %s, %s"));
    assert!(squares.is_empty(), "{squares:?}");
    // A factor for each row is not the scale.
    let square = text("rms_norm").replace("4x8x", "8x8x").replace("<4xf32>", "<8xf32>").replace("4x1x", "8x1x");
    let rows = changed(square, "%arg1, dims = [1]", "%arg1, dims = [0]");
    assert!(
        matches!(&rows[..], [(name, text)] if name == "pjrt.rms_norm" && text.ends_with("has_scale=false")),
        "{rows:?}"
    );
    // The product with the values is over the queries.
    let square = text("attention").replace("2x6x8", "2x4x8").replace("2x4x6", "2x4x4");
    let queries = changed(square, "contracting_dims = [3] x [2]", "contracting_dims = [2] x [2]");
    assert!(matches!(&queries[..], [(name, _)] if name == "pjrt.softmax"), "{queries:?}");
}

/// Reshapes of the scores may split and merge dimensions other than the keys.
#[test]
fn attention_over_reshaped_scores() {
    let text = |masked: &str, normalized: &str| {
        let rank = normalized.split('x').count();
        let (m, n) = (format!("tensor<{masked}xf32>"), format!("tensor<{normalized}xf32>"));
        let kept = normalized.rsplit_once('x').expect("two dimensions").0;
        let dims: Vec<usize> = (0..rank - 1).collect();
        format!(
            "func.func @main(%q: tensor<6x4x8xf32>, %k: tensor<6x4x8xf32>, %v: tensor<6x4x8xf32>, %m: {m}) -> tensor<6x4x8xf32> {{
               %0 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2]
                 : (tensor<6x4x8xf32>, tensor<6x4x8xf32>) -> tensor<6x4x4xf32>
               %1 = stablehlo.reshape %0 : (tensor<6x4x4xf32>) -> {m}
               %2 = stablehlo.add %1, %m : {m}
               %3 = stablehlo.reshape %2 : ({m}) -> {n}
               %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
               %4 = stablehlo.reduce(%3 init: %low) applies stablehlo.maximum across dimensions = [{last}]
                 : ({n}, tensor<f32>) -> tensor<{kept}xf32>
               %5 = stablehlo.broadcast_in_dim %4, dims = {dims:?} : (tensor<{kept}xf32>) -> {n}
               %6 = stablehlo.subtract %3, %5 : {n}
               %7 = stablehlo.exponential %6 : {n}
               %zero = stablehlo.constant dense<0.0> : tensor<f32>
               %8 = stablehlo.reduce(%7 init: %zero) applies stablehlo.add across dimensions = [{last}]
                 : ({n}, tensor<f32>) -> tensor<{kept}xf32>
               %9 = stablehlo.broadcast_in_dim %8, dims = {dims:?} : (tensor<{kept}xf32>) -> {n}
               %10 = stablehlo.divide %7, %9 : {n}
               %11 = stablehlo.reshape %10 : ({n}) -> tensor<6x4x4xf32>
               %12 = stablehlo.dot_general %11, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1]
                 : (tensor<6x4x4xf32>, tensor<6x4x8xf32>) -> tensor<6x4x8xf32>
               return %12 : tensor<6x4x8xf32>
             }}",
            last = rank - 1
        )
    };
    for (masked, normalized, wanted) in [
        ("6x4x4", "6x4x4", "pjrt.attention"),
        ("2x3x4x4", "2x3x4x4", "pjrt.attention"),
        ("2x3x4x4", "24x4", "pjrt.attention"),
        ("24x4", "2x3x1x2x2x4", "pjrt.attention"),
        // The mask, or the softmax, is over queries and keys.
        ("6x16", "6x4x4", "pjrt.softmax"),
        ("2x3x4x4", "6x16", "pjrt.softmax"),
        ("6x4x4", "6x2x8", "pjrt.softmax"),
        ("6x4x4", "48x2", "pjrt.softmax"),
        ("96", "6x4x4", "pjrt.softmax"),
    ] {
        let name = format!("{masked} {normalized}");
        let before = prepared(&parsed(&text(masked, normalized)));
        let after = applied(&name, &before, pass).expect("a pattern");
        let found = composites(&after);
        assert!(matches!(&found[..], [(found, _)] if found == wanted), "{name}: {found:?}");
        same_values(&name, &before, &after, &[], 0.0);
    }
    // The weights of the keys are multiplied with the values as if they were those of the queries.
    let swapped = text("6x4x4", "6x4x4").replace("contracting_dims = [2] x [1]", "contracting_dims = [1] x [1]");
    let found = composites(&pass(&prepared(&parsed(&swapped))).expect("a softmax"));
    assert!(matches!(&found[..], [(found, _)] if found == "pjrt.softmax"), "{found:?}");
}

/// A predicate for all scores is not a mask.
#[test]
fn attention_with_a_scalar_predicate() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torch_masked_attention.mlir"))
            .expect("a text");
    let text = text.replace("%m: tensor<2x1x4x5xi1>", "%m: tensor<2x1x4x5xi1>, %all: tensor<i1>");
    let scalar = text.replace(
        "select %7, %5, %other : tensor<2x3x4x5xi1>, tensor<2x3x4x5xf32>",
        "select %all, %5, %other : tensor<i1>, tensor<2x3x4x5xf32>",
    );
    assert_ne!(text, scalar);
    let found = composites(&pass(&prepared(&parsed(&scalar))).expect("a softmax"));
    assert!(matches!(&found[..], [(found, _)] if found == "pjrt.softmax"), "{found:?}");
}
