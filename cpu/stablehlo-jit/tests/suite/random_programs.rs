//! Compares generated code with an interpreter, for programs made from random bytes and for all ops.

use crate::oracle::{self, ops};
use stablehlo::ir::{Binary, Unary};
use stablehlo_jit::{Access, Block, Code, Element, Expression, Host, Program, Statement, Value, has_binary, has_unary};

/// Returns random bytes.
fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let byte = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(byte).collect()
}

#[test]
fn random_programs_run_as_interpreted() {
    let mut outcomes = [0; 3];
    for seed in 0..600 {
        let bytes = random(seed, 20 + seed as usize % 300);
        match oracle::check(&bytes) {
            Ok(outcome) => outcomes[outcome as usize] += 1,
            Err(what) => panic!("program {seed}: {what}"),
        }
    }
    let [rejected, checked, compared] = outcomes;
    assert!(rejected > 50 && checked > 20 && compared > 100, "{outcomes:?}");
}

struct NoSteps;

impl Host for NoSteps {
    fn call(&mut self, _: u32, _: &[&[u8]], _: &mut [&mut [u8]]) -> bool {
        false
    }
}

/// Compiles an expression of two operands, runs it for all pairs of boundary values, and compares the results.
fn compare_at_boundaries(
    from: Element,
    to: Element,
    expression: &dyn Fn(Value, Value) -> Expression,
    expected: &dyn Fn(u64, u64) -> u64,
) {
    let mut program = Program::new();
    let (operands, result) = (program.array(16, false), program.array(8, true));
    let (a, b, c) = (program.value(from), program.value(from), program.value(to));
    let at = |array, offset| Access { array, offset, terms: Vec::new() };
    let set = |result, expression| Statement::Let { result, expression };
    let statements = vec![
        set(a, Expression::Load(at(operands, 0))),
        set(b, Expression::Load(at(operands, 8))),
        set(c, expression(a, b)),
        Statement::Store { to: at(result, 0), value: c },
    ];
    program.body = Block::new(statements, Vec::new()).unwrap();
    let code = Code::compile(&program).unwrap();
    let values = boundaries(from);
    compare_as_vectors(from, to, expression, expected, &values);
    for &x in &values {
        for &y in &values {
            let mut bytes = [0; 8];
            let operands = [x.to_le_bytes(), y.to_le_bytes()].concat();
            code.run(&[&operands], &mut [&mut bytes], None, &mut NoSteps).unwrap();
            let (got, expected) = (u64::from_le_bytes(bytes), expected(x, y));
            let same = got == expected || ops::is_nan(to, got) && ops::is_nan(to, expected);
            assert!(same, "{:?} of {x:#x} and {y:#x}: {got:#x} in place of {expected:#x}", expression(a, b));
        }
    }
}

/// Compares the results for all pairs of values in one loop, which is computed with vectors if vectors have the op.
fn compare_as_vectors(
    from: Element,
    to: Element,
    expression: &dyn Fn(Value, Value) -> Expression,
    expected: &dyn Fn(u64, u64) -> u64,
    values: &[u64],
) {
    let pairs: Vec<(u64, u64)> = values.iter().flat_map(|&x| values.iter().map(move |&y| (x, y))).collect();
    let bytes = |element: Element, numbers: &mut dyn Iterator<Item = u64>| -> Vec<u8> {
        numbers.flat_map(|x| x.to_le_bytes()[..element.size()].to_vec()).collect()
    };
    let mut program = Program::new();
    let count = pairs.len();
    let [left, right] = [(); 2].map(|()| program.array(count * from.size(), false));
    let result = program.array(count * to.size(), true);
    let (index, a, b, c) = (program.value(Element::I64), program.value(from), program.value(from), program.value(to));
    let at = |array, size| Access { array, offset: 0, terms: vec![(index, size as isize)] };
    let set = |result, expression| Statement::Let { result, expression };
    let statements = vec![
        set(a, Expression::Load(at(left, from.size()))),
        set(b, Expression::Load(at(right, from.size()))),
        set(c, expression(a, b)),
        Statement::Store { to: at(result, to.size()), value: c },
    ];
    let body = Block::new(statements, Vec::new()).unwrap();
    program.body = Block::new(vec![Statement::For { count, index, body }], Vec::new()).unwrap();
    let code = Code::compile(&program).unwrap();
    let left = bytes(from, &mut pairs.iter().map(|pair| pair.0));
    let right = bytes(from, &mut pairs.iter().map(|pair| pair.1));
    let mut results = vec![0; count * to.size()];
    code.run(&[&left, &right], &mut [&mut results], None, &mut NoSteps).unwrap();
    for (&(x, y), got) in pairs.iter().zip(results.chunks(to.size())) {
        let mut wide = [0; 8];
        wide[..to.size()].copy_from_slice(got);
        let (got, expected) = (u64::from_le_bytes(wide), expected(x, y));
        let same = got == expected || ops::is_nan(to, got) && ops::is_nan(to, expected);
        assert!(same, "{:?} of {x:#x} and {y:#x} in a loop: {got:#x}, not {expected:#x}", expression(a, b));
    }
}

/// Returns the bits of the smallest and largest numbers of a type, of numbers near powers of two, and of special
/// floats.
fn boundaries(element: Element) -> Vec<u64> {
    let mut values: Vec<u64> = match element {
        Element::Bool => vec![0, 1],
        Element::F32 => {
            let powers = [7, 8, 15, 16, 24, 31, 32, 63, 64].map(|n| 2f32.powi(n));
            let near = powers.iter().flat_map(|&x| [x, -x, x.next_down(), -x.next_up(), x - 1.0]);
            let special = [
                0.0,
                -0.0,
                0.5,
                -1.5,
                2.5,
                f32::MAX,
                f32::MIN_POSITIVE,
                1e-45,
                f32::INFINITY,
                -f32::INFINITY,
                f32::NAN,
            ];
            near.chain(special).map(|x| u64::from(x.to_bits())).collect()
        }
        Element::F64 => {
            let powers = [7, 8, 15, 16, 31, 32, 53, 63, 64].map(|n| 2f64.powi(n));
            let near = powers.iter().flat_map(|&x| [x, -x, x.next_down(), -x.next_up(), x - 1.0]);
            let special = [0.0, -0.0, 0.5, -1.5, 2.5, f64::MAX, 5e-324, 1e39, f64::INFINITY, -f64::INFINITY, f64::NAN];
            near.chain(special).map(f64::to_bits).collect()
        }
        _ => {
            let powers = (0..element.size() as u32 * 8).map(|n| 1i128 << n);
            powers.flat_map(|x| [x - 1, x, x + 1, -x]).map(|n| ops::bits_of(element, n)).collect()
        }
    };
    values.sort_unstable();
    values.dedup();
    values
}

#[test]
fn ops_are_exact_at_boundaries() {
    for element in Element::ALL {
        for &op in Unary::ALL.iter().filter(|&&op| has_unary(op, element)) {
            let to = if op == Unary::IsFinite { Element::Bool } else { element };
            compare_at_boundaries(element, to, &|a, _| Expression::Unary(op, a), &|x, _| ops::unary(op, element, x));
        }
        for &op in Binary::ALL.iter().filter(|&&op| has_binary(op, element)) {
            let expected = |x, y| ops::binary(op, element, x, y);
            compare_at_boundaries(element, element, &|a, b| Expression::Binary(op, a, b), &expected);
        }
        for to in Element::ALL {
            compare_at_boundaries(element, to, &|a, _| Expression::Convert(a), &|x, _| ops::convert(element, to, x));
        }
    }
}
