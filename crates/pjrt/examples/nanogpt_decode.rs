//! Generate text with a small GPT that is built in Rust. The key-value cache is donated, so that each step updates the
//! cache in place.
//!
//! The weights are pseudorandom, so the text has no meaning, but it is the same in each run. One function builds all
//! programs. The program `prefill` reads the whole prompt, and the program `decode` generates one token. At the end,
//! the example reads the whole text in one step and compares the scores of the next token with those of the last
//! incremental step. If the cache were written or masked wrongly, the scores would differ.
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers are small constants")]

use pjrt::stablehlo::ForPlugin;
use pjrt::stablehlo::builder::{Argument, DotGeneral, FunctionBuilder, ModuleBuilder, Value};
use pjrt::stablehlo::ir::{ComparisonDirection, ElementType, TensorType};
use pjrt::{Buffer, Client, ClientOptions, CompileOptions, Error, ExecuteOptions, Input, LoadedExecutable, Program};

const VOCABULARY: i64 = 65;
const LAYERS: usize = 2;
const HEADS: i64 = 4;
const WIDTH: i64 = 32;
const HEAD: i64 = WIDTH / HEADS;
/// Maximum number of tokens of a text.
const CONTEXT: i64 = 24;
const CACHE: [i64; 4] = [LAYERS as i64, HEADS, CONTEXT, HEAD];

type Built<T> = Result<T, pjrt::stablehlo::ProgramError>;

/// Returns the shapes of the weights: the token and position embeddings, and for each layer the projections of queries,
/// keys, values and attention outputs, and the two matrices of the MLP.
fn weight_shapes() -> Vec<[i64; 2]> {
    let layer =
        [[WIDTH, WIDTH], [WIDTH, WIDTH], [WIDTH, WIDTH], [WIDTH, WIDTH], [WIDTH, 4 * WIDTH], [4 * WIDTH, WIDTH]];
    let embeddings = [[VOCABULARY, WIDTH], [CONTEXT, WIDTH]];
    embeddings.into_iter().chain((0..LAYERS).flat_map(|_| layer)).collect()
}

fn f32s(shape: &[i64]) -> TensorType {
    TensorType::new(shape.to_vec(), ElementType::F32)
}

/// Multiplies the rows of `x` by a matrix.
fn linear(f: &FunctionBuilder, x: Value, matrix: Value) -> Built<Value> {
    f.dot_general(x, matrix, DotGeneral::new().contracting([1], [0]))
}

/// Shifts and scales each of the `rows` rows to mean 0 and variance 1.
fn normalize(f: &FunctionBuilder, x: Value, rows: i64) -> Built<Value> {
    let mean = |x| {
        let sum = f.reduce(x, f.constant(0f32)?, &[1], |a, b| f.add(a, b))?;
        f.reshape(f.multiply(sum, f.constant(1.0 / WIDTH as f32)?)?, &[rows, 1])
    };
    let centred = f.subtract(x, mean(x)?)?;
    let variance = mean(f.multiply(centred, centred)?)?;
    f.multiply(centred, f.rsqrt(f.add(variance, f.constant(1e-5f32)?)?)?)
}

/// Computes the attention of `rows` queries over all positions of the cache. The mask excludes positions after a
/// query's own position.
fn attend(f: &FunctionBuilder, queries: Value, keys: Value, values: Value, mask: Value, rows: i64) -> Built<Value> {
    let scores = f.dot_general(queries, keys, DotGeneral::new().batching([0], [0]).contracting([2], [2]))?;
    let scores = f.multiply(scores, f.constant(1.0 / (HEAD as f32).sqrt())?)?;
    let scores = f.select(mask, scores, f.splat(-1e9f32, &[HEADS, rows, CONTEXT])?)?;
    let most = f.reduce(scores, f.constant(f32::NEG_INFINITY)?, &[2], |a, b| f.maximum(a, b))?;
    let exponentials = f.exponential(f.subtract(scores, f.reshape(most, &[HEADS, rows, 1])?)?)?;
    let sum = f.reduce(exponentials, f.constant(0f32)?, &[2], |a, b| f.add(a, b))?;
    let weights = f.divide(exponentials, f.reshape(sum, &[HEADS, rows, 1])?)?;
    f.dot_general(weights, values, DotGeneral::new().batching([0], [0]).contracting([2], [1]))
}

/// Builds a program that reads `rows` consecutive tokens of a text. Its argument `position` is the index of the first
/// of these tokens in the text. The program returns the caches with the keys and values of these tokens, the most
/// likely next token, and a score for each token of the vocabulary.
fn step(name: &str, rows: i64) -> Built<pjrt::stablehlo::ir::Module> {
    let module = ModuleBuilder::new(name);
    module.function("main", |f| {
        f.numpy_broadcasting(true);
        // Outputs 0 and 1 reuse the memory of the two caches.
        let mut keys = f.argument(Argument::new(f32s(&CACHE)).donated_to(0))?;
        let mut values = f.argument(Argument::new(f32s(&CACHE)).donated_to(1))?;
        let tokens = f.argument(TensorType::new([rows], ElementType::I32))?;
        let position = f.argument(TensorType::new([], ElementType::I32))?;
        let weights = weight_shapes().iter().map(|shape| f.argument(f32s(shape))).collect::<Built<Vec<_>>>()?;
        let (embeddings, positions) = (weights[0], weights[1]);
        let zero = f.constant(0i32)?;

        // Look up the embeddings by multiplying one-hot rows by the embedding matrix.
        let numbers = f.iota(TensorType::new([rows, VOCABULARY], ElementType::I32), 1)?;
        let chosen = f.compare(numbers, ComparisonDirection::Eq, f.reshape(tokens, &[rows, 1])?)?;
        let embedded = linear(f, f.convert(chosen, ElementType::F32)?, embeddings)?;
        let mut x = f.add(embedded, f.dynamic_slice(positions, &[position, zero], &[rows, WIDTH])?)?;

        let scores = TensorType::new([HEADS, rows, CONTEXT], ElementType::I32);
        let own = f.add(f.iota(scores.clone(), 1)?, position)?;
        let mask = f.compare(f.iota(scores, 2)?, ComparisonDirection::Le, own)?;

        for (layer, matrices) in weights[2..].chunks(6).enumerate() {
            let at = layer as i64;
            let heads = |x| f.transpose(f.reshape(x, &[rows, HEADS, HEAD])?, &[1, 0, 2]);
            let normal = normalize(f, x, rows)?;
            let place = [f.constant(layer as i32)?, zero, position, zero];
            // Writes the rows into the cache, and returns this layer's slice of the cache.
            let write = |cache: &mut Value, x| {
                let rows = f.reshape(heads(x)?, &[1, HEADS, rows, HEAD])?;
                *cache = f.dynamic_update_slice(*cache, rows, &place)?;
                let part = f.slice(*cache, &[at, 0, 0, 0], &[at + 1, HEADS, CONTEXT, HEAD], &[1, 1, 1, 1])?;
                f.reshape(part, &[HEADS, CONTEXT, HEAD])
            };
            let queries = heads(linear(f, normal, matrices[0])?)?;
            let cached_keys = write(&mut keys, linear(f, normal, matrices[1])?)?;
            let cached_values = write(&mut values, linear(f, normal, matrices[2])?)?;
            let attended = attend(f, queries, cached_keys, cached_values, mask, rows)?;
            let attended = f.reshape(f.transpose(attended, &[1, 0, 2])?, &[rows, WIDTH])?;
            x = f.add(x, linear(f, attended, matrices[3])?)?;
            let hidden = f.tanh(linear(f, normalize(f, x, rows)?, matrices[4])?)?;
            x = f.add(x, linear(f, hidden, matrices[5])?)?;
        }
        // The last row predicts the next token. The output projection reuses the embedding matrix.
        let last = f.slice(normalize(f, x, rows)?, &[rows - 1, 0], &[rows, WIDTH], &[1, 1])?;
        let scores = f.dot_general(last, embeddings, DotGeneral::new().contracting([1], [1]))?;
        let scores = f.reshape(scores, &[VOCABULARY])?;
        let indices = f.iota(TensorType::new([VOCABULARY], ElementType::I32), 0)?;
        let none = (f.constant(f32::NEG_INFINITY)?, zero);
        let (_, best) = f.reduce((scores, indices), none, &[0], |a, b| {
            let first = f.compare(a.0, ComparisonDirection::Ge, b.0)?;
            Ok((f.select(first, a.0, b.0)?, f.select(first, a.1, b.1)?))
        })?;
        Ok((keys, values, f.reshape(best, &[1])?, scores))
    })?;
    module.build()
}

/// Returns the next pseudorandom number from -1 to 1.
fn noise(seed: &mut u32) -> f32 {
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*seed >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// The caches of a text, and the model's prediction of the next token.
struct State {
    keys: Buffer,
    values: Buffer,
    next: Buffer,
    scores: Buffer,
}

struct Model {
    weights: Vec<Buffer>,
}

impl Model {
    fn new(client: &Client) -> Result<Self, Error> {
        let mut seed = 1;
        let upload = |shape: [i64; 2]| {
            let scale = 2.0 / (shape[0] as f32).sqrt();
            let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| scale * noise(&mut seed)).collect();
            client.buffer_from_host(&values, &shape)
        };
        Ok(Self { weights: weight_shapes().into_iter().map(upload).collect::<Result<_, _>>()? })
    }

    /// Runs a step. The caches are donated, and the updated caches are outputs of the program.
    fn run(
        &self,
        step: &LoadedExecutable,
        keys: Buffer,
        values: Buffer,
        tokens: &Buffer,
        at: i64,
    ) -> Result<State, Error> {
        let position = step.client().buffer_from_host(&[at as i32], &[])?;
        let mut inputs = vec![Input::Donate(keys), Input::Donate(values), tokens.into(), (&position).into()];
        inputs.extend(self.weights.iter().map(Input::Borrow));
        let outputs = step.execute_with(inputs, &ExecuteOptions::new())?.outputs;
        let [keys, values, next, scores] = outputs.into_array()?;
        Ok(State { keys, values, next, scores })
    }
}

fn empty(client: &Client) -> Result<Buffer, Error> {
    client.buffer_from_host(&vec![0f32; CACHE.iter().product::<i64>() as usize], &CACHE)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    let compile = |name: &str, rows| -> Result<LoadedExecutable, Box<dyn std::error::Error>> {
        let program = Program::for_plugin(&step(name, rows)?, &client.plugin())?;
        Ok(client.compile(&program, &CompileOptions::default())?)
    };
    let prompt: [i32; 4] = [20, 43, 50, 53];
    let (prefill, decode) = (compile("prefill", 4)?, compile("decode", 1)?);
    let model = Model::new(&client)?;

    let tokens = client.buffer_from_host(&prompt, &[4])?;
    let mut state = model.run(&prefill, empty(&client)?, empty(&client)?, &tokens, 0)?;
    let place = state.keys.unsafe_pointer().ok();
    let mut text = Vec::from(prompt);
    for at in 4..CONTEXT {
        // The token stays on the device as the input of the next step. Start its copy to the host here, and wait for
        // the copy after the next step has started.
        let token = state.next.download().start::<i32>()?;
        state = model.run(&decode, state.keys, state.values, &state.next, at)?;
        text.extend(token.wait()?);
    }
    println!("{text:?}");
    if place.is_some() && state.keys.unsafe_pointer().ok() == place {
        println!("{} steps updated one cache in place", CONTEXT - 4);
    }

    // Read the whole text in one step, starting with empty caches.
    let whole = compile("whole", CONTEXT)?;
    let tokens = client.buffer_from_host(&text, &[CONTEXT])?;
    let checked = model.run(&whole, empty(&client)?, empty(&client)?, &tokens, 0)?;
    let (expected, found) = (checked.scores.to_host::<f32>()?, state.scores.to_host::<f32>()?);
    let worst = expected.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    // Some devices multiply matrices with reduced precision by default. For example, GPUs use TF32.
    assert!(worst < 1e-2, "the scores differ by {worst}");
    assert!(text[4..].iter().any(|token| *token != text[4]), "the model repeats one token");
    Ok(())
}
