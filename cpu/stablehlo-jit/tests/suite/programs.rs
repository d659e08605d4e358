//! Tests of programs that the verifier accepts or rejects, and of their runs.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::atomic::AtomicBool;

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};
use stablehlo_jit::{
    Access, Array, Block, Code, Element, Error, Expression, Host, HostStep, Part, Program, Selector, Statement, Value,
    has_binary, has_compare, has_unary,
};

/// A host whose steps add up the bytes that they read, and write the sum. Step 1 ends the run, and step 2 panics.
#[derive(Default)]
struct Adder {
    calls: usize,
}

impl Host for Adder {
    fn call(&mut self, step: u32, reads: &[&[u8]], writes: &mut [&mut [u8]]) -> bool {
        self.calls += 1;
        assert_ne!(step, 2, "a step that fails");
        let sum = reads.iter().flat_map(|part| part.iter()).fold(0u8, |sum, x| sum.wrapping_add(*x));
        writes.iter_mut().for_each(|part| part.fill(sum));
        step == 0
    }
}

fn access(array: Array, offset: usize, terms: &[(Value, isize)]) -> Access {
    Access { array, offset, terms: terms.to_vec() }
}

fn set(result: Value, expression: Expression) -> Statement {
    Statement::Let { result, expression }
}

/// Returns a block without results.
fn block(statements: Vec<Statement>) -> Block {
    Block::new(statements, Vec::new()).unwrap()
}

fn is_invalid(program: &Program) -> bool {
    matches!(Code::compile(program), Err(Error::Invalid(_)))
}

/// Returns a program that loads element `offset + stride * i` of an array of 8 bytes, for all `i` below `count`.
fn reader(count: usize, offset: usize, stride: isize) -> Program {
    let mut program = Program::new();
    let array = program.array(8, false);
    let (index, x) = (program.value(Element::I64), program.value(Element::U16));
    let load = set(x, Expression::Load(access(array, offset, &[(index, stride)])));
    let body = block(vec![load]);
    program.body = block(vec![Statement::For { count, index, body }]);
    program
}

/// Returns a program that doubles an element repeatedly, so that it has `count` values.
fn doubler(count: usize) -> Program {
    let mut program = Program::new();
    let array = program.array(8, true);
    let whole = access(array, 0, &[]);
    let mut x = program.value(Element::I64);
    let mut statements = vec![set(x, Expression::Load(whole.clone()))];
    for _ in 1..count {
        let next = program.value(Element::I64);
        statements.push(set(next, Expression::Binary(Binary::Add, x, x)));
        x = next;
    }
    statements.push(Statement::Store { to: whole, value: x });
    program.body = block(statements);
    program
}

#[test]
fn large_programs_are_left_to_the_interpreter() {
    let compiled = Code::compile(&doubler(1000));
    assert!(compiled.is_ok(), "{compiled:?}");
    assert!(matches!(Code::compile(&doubler(1 << 20)), Err(Error::TooLarge { what: "values", .. })));
}

#[test]
fn accesses_must_lie_in_their_array() {
    for (count, offset, stride, fits) in [
        (4, 0, 2, true),
        (5, 0, 2, false),
        (4, 1, 2, false),
        (4, 6, -2, true),
        (5, 6, -2, false),
        (1, 7, 0, false),
        (1, usize::MAX, 0, false),
        (usize::MAX, 0, 0, false),
        (1, isize::MAX as usize, 0, false),
        (1, isize::MAX as usize + 1, 0, false),
        (1 << 31, 0, isize::MAX, false),
        (1 << 31, 0, isize::MIN, false),
        (2, 0, isize::MIN, false),
        (1, 0, isize::MIN, true),
        (0, 0, 0, false),
    ] {
        assert_eq!(is_invalid(&reader(count, offset, stride)), !fits, "{count} {offset} {stride}");
    }
}

#[test]
fn indices_must_have_known_ranges() {
    let build = |clamped: bool, most: usize| {
        let mut program = Program::new();
        let array = program.array(8, true);
        let (any, index) = (program.value(Element::I64), program.value(Element::I64));
        let from = if clamped { index } else { any };
        program.body = block(vec![
            set(any, Expression::Constant(5i64.to_ne_bytes())),
            set(index, Expression::Clamped { of: any, most }),
            Statement::Store { to: access(array, 0, &[(from, 1)]), value: any },
        ]);
        program
    };
    assert!(is_invalid(&build(false, 0)) && is_invalid(&build(true, 1)));
    Code::compile(&build(true, 0)).unwrap();
}

#[test]
fn values_must_be_visible_and_defined_once() {
    let mut program = Program::new();
    let (a, b) = (program.value(Element::I32), program.value(Element::I32));
    program.body = block(vec![set(b, Expression::Unary(Unary::Negate, a))]);
    assert!(is_invalid(&program), "used before its definition");
    program.body = block(vec![set(a, Expression::Constant([0; 8])), set(a, Expression::Constant([0; 8]))]);
    assert!(is_invalid(&program), "defined twice");
    let pred = program.value(Element::Bool);
    program.body = block(vec![
        set(pred, Expression::Constant([0; 8])),
        Statement::Choose {
            selector: Selector::Truth,
            value: pred,
            branches: vec![block(vec![set(a, Expression::Constant([0; 8]))]), Block::default()],
            results: Vec::new(),
        },
        set(b, Expression::Unary(Unary::Negate, a)),
    ]);
    assert!(is_invalid(&program), "used after the branch that defines it");
}

#[test]
fn types_must_match() {
    let mut program = Program::new();
    let (a, b, c) = (program.value(Element::I32), program.value(Element::F32), program.value(Element::I32));
    let constants = [set(a, Expression::Constant([0; 8])), set(b, Expression::Constant([0; 8]))];
    for wrong in [
        Expression::Binary(Binary::Add, a, b),
        Expression::Unary(Unary::Negate, b),
        Expression::Unary(Unary::Sine, a),
        Expression::Binary(Binary::Power, a, a),
        Expression::Select(a, a, a),
        Expression::FusedMultiplyAdd(a, a, a),
        Expression::FusedMultiplyAdd(b, b, a),
        Expression::Compare(ComparisonDirection::Eq, ComparisonType::Signed, a, a),
        Expression::Digit { of: a, step: 1, extent: 1 },
        Expression::Load(access(program.clone().array(4, false), 0, &[])),
    ] {
        program.body = block([&constants[..], &[set(c, wrong.clone())]].concat());
        assert!(is_invalid(&program), "{wrong:?}");
    }
}

#[test]
fn only_writable_arrays_are_written() {
    let mut program = Program::new();
    let array = program.array(4, false);
    let x = program.value(Element::I32);
    program.body =
        block(vec![set(x, Expression::Constant([1; 8])), Statement::Store { to: access(array, 0, &[]), value: x }]);
    assert!(is_invalid(&program));
}

#[test]
fn every_listed_op_is_compiled() {
    let mut compiled = 0;
    let mut check = |element: Element, result: Element, expression: &dyn Fn(Value) -> Expression| {
        let mut program = Program::new();
        let array = program.array(16, true);
        let (a, b) = (program.value(element), program.value(result));
        program.body = block(vec![
            set(a, Expression::Load(access(array, 0, &[]))),
            set(b, expression(a)),
            Statement::Store { to: access(array, 8, &[]), value: b },
        ]);
        let code = Code::compile(&program).unwrap_or_else(|error| panic!("{element:?} {:?}: {error}", expression(a)));
        // Divisors of 0 and -1, and shifts by too many bits, must not trap.
        for fill in [0u8, 1, 0x7F, 0x80, 0xFF] {
            let mut bytes = [fill; 16];
            if element == Element::Bool {
                bytes[0] &= 1;
            }
            code.run(&[], &mut [&mut bytes], None, &mut Adder::default()).unwrap();
        }
        compiled += 1;
    };
    for element in Element::ALL {
        for &op in Unary::ALL {
            if has_unary(op, element) {
                let result = if op == Unary::IsFinite { Element::Bool } else { element };
                check(element, result, &|a| Expression::Unary(op, a));
            }
        }
        for &op in Binary::ALL {
            if has_binary(op, element) {
                check(element, element, &|a| Expression::Binary(op, a, a));
            }
        }
        use ComparisonDirection::{Eq, Ge, Gt, Le, Lt, Ne};
        use ComparisonType::{Float, NoType, Signed, TotalOrder, Unsigned, WeakOrder};
        for kind in [Float, NoType, Signed, TotalOrder, Unsigned, WeakOrder] {
            for direction in [Eq, Ge, Gt, Le, Lt, Ne] {
                if has_compare(kind, element) {
                    check(element, Element::Bool, &|a| Expression::Compare(direction, kind, a, a));
                }
            }
        }
        for to in Element::ALL {
            check(element, to, &Expression::Convert);
        }
        if element.is_float() {
            check(element, element, &|a| Expression::FusedMultiplyAdd(a, a, a));
        }
    }
    assert!(compiled > 400, "{compiled}");
}

#[test]
fn runs_check_their_arrays() {
    let code = Code::compile(&reader(4, 0, 2)).unwrap();
    let run = |reads: &[&[u8]], writes: &mut [&mut [u8]]| code.run(reads, writes, None, &mut Adder::default());
    assert_eq!(run(&[&[0; 8]], &mut []), Ok(()));
    for reads in [&[][..], &[&[0u8; 7][..]], &[&[0; 9]], &[&[0; 8], &[0; 8]]] {
        assert!(matches!(run(reads, &mut []), Err(Error::Arrays { .. })));
    }
    assert!(matches!(run(&[&[0; 8]], &mut [&mut [0; 8]]), Err(Error::Arrays { .. })));
}

/// Returns a program that runs step `step` of the host 3 times.
fn hosted(step: u32) -> Program {
    let mut program = Program::new();
    let (from, to) = (program.array(4, false), program.array(8, true));
    for _ in 0..3 {
        let part = |array, start, bytes| Part { array, start, bytes };
        program.host_step(HostStep { reads: vec![part(from, 1, 2), part(to, 0, 2)], writes: vec![part(to, 4, 4)] });
    }
    let index = program.value(Element::I64);
    let body = block(vec![Statement::Host { step }]);
    program.body = block(vec![Statement::For { count: 3, index, body }]);
    program
}

#[test]
fn host_steps_read_and_write_their_parts() {
    for (step, calls, result) in [(0, 3, Ok(())), (1, 1, Err(Error::Stopped))] {
        let (mut host, mut bytes) = (Adder::default(), [7u8; 8]);
        let code = Code::compile(&hosted(step)).unwrap();
        assert_eq!(code.run(&[&[100, 2, 3, 100]], &mut [&mut bytes], None, &mut host), result);
        assert_eq!((host.calls, bytes), (calls, [7, 7, 7, 7, 19, 19, 19, 19]));
    }
}

#[test]
fn panics_of_host_steps_reach_the_caller() {
    let code = Code::compile(&hosted(2)).unwrap();
    let run = move || code.run(&[&[0; 4]], &mut [&mut [0; 8]], None, &mut Adder::default());
    assert!(std::thread::spawn(run).join().is_err());
}

#[test]
fn host_steps_must_not_overlap() {
    let mut program = Program::new();
    let array = program.array(8, true);
    let part = |start, bytes| Part { array, start, bytes };
    for (reads, writes) in [
        (vec![part(0, 4)], vec![part(3, 2)]),
        (vec![], vec![part(0, 4), part(2, 4)]),
        (vec![part(4, 5)], vec![]),
        (vec![part(usize::MAX, 2)], vec![]),
    ] {
        let mut program = program.clone();
        program.host_step(HostStep { reads, writes });
        assert!(is_invalid(&program));
    }
}

#[test]
fn endless_loops_are_stopped() {
    let mut program = Program::new();
    let yes = program.value(Element::Bool);
    let condition = Block::new(vec![set(yes, Expression::Constant([1; 8]))], vec![yes]).unwrap();
    let empty = Vec::new;
    program.body = block(vec![Statement::While {
        parameters: empty(),
        initial: empty(),
        condition,
        body: Block::default(),
        results: empty(),
    }]);
    let code = Code::compile(&program).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| code.run(&[], &mut [], Some(&stop), &mut Adder::default()));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!run.is_finished());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(run.join().unwrap(), Err(Error::Stopped));
    });
}

#[test]
fn paused_loop_continues_from_its_state() {
    // The loop doubles a number until it is at least 1000.
    let mut program = Program::new();
    let number = program.array(8, true);
    let [first, x, limit, next, last] = [0; 5].map(|_| program.value(Element::I64));
    let small = program.value(Element::Bool);
    let place = || Access { array: number, offset: 0, terms: Vec::new() };
    let compare = Expression::Compare(ComparisonDirection::Lt, ComparisonType::Signed, x, limit);
    program.body = block(vec![
        set(first, Expression::Load(place())),
        set(limit, Expression::Constant(1000i64.to_ne_bytes())),
        Statement::While {
            parameters: vec![x],
            initial: vec![first],
            condition: Block::new(vec![set(small, compare)], vec![small]).unwrap(),
            body: Block::new(vec![set(next, Expression::Binary(Binary::Add, x, x))], vec![next]).unwrap(),
            results: vec![last],
        },
        Statement::Store { to: place(), value: last },
    ]);
    let code = Code::compile(&program).unwrap();
    let mut bytes = 3i64.to_ne_bytes();
    let mut run = |iterations| {
        let has_ended = code.run_part(iterations, &[], &mut [&mut bytes], None, &mut Adder::default()).unwrap();
        (has_ended, i64::from_ne_bytes(bytes))
    };
    assert_eq!([run(0), run(1), run(4)], [(false, 3), (false, 6), (false, 96)]);
    assert_eq!([run(4), run(0), run(1), run(u64::MAX)], [(false, 1536), (false, 1536), (true, 1536), (true, 1536)]);
}

#[test]
fn fused_multiply_add_is_rounded_once() {
    let mut program = Program::new();
    let (from, to) = (program.array(12, false), program.array(4, true));
    let [a, b, c, sum] = [(); 4].map(|()| program.value(Element::F32));
    let load = |at: usize| Expression::Load(access(from, at, &[]));
    program.body = block(vec![
        set(a, load(0)),
        set(b, load(4)),
        set(c, load(8)),
        set(sum, Expression::FusedMultiplyAdd(a, b, c)),
        Statement::Store { to: access(to, 0, &[]), value: sum },
    ]);
    let code = Code::compile(&program).unwrap();
    // The product of the first two numbers is 1 - 2^-46, which an `f32` cannot hold.
    let small = 2f32.powi(-23);
    for [a, b, c] in [[1.0 + small, 1.0 - small, -1.0], [2.0, 3.0, 4.0], [f32::MAX, 2.0, f32::NEG_INFINITY]] {
        let inputs = [a, b, c].map(f32::to_ne_bytes).concat();
        let mut result = [0; 4];
        code.run(&[&inputs], &mut [&mut result], None, &mut Adder::default()).unwrap();
        assert_eq!(f32::from_ne_bytes(result).to_bits(), a.mul_add(b, c).to_bits());
    }
}

/// A loop over consecutive elements is computed with vectors if the processor has the instruction.
#[test]
fn fused_multiply_adds_of_arrays_are_rounded_once() {
    const N: usize = 11;
    let mut program = Program::new();
    let arrays = [(); 3].map(|()| program.array(8 * N, false));
    let to = program.array(8 * N, true);
    let index = program.value(Element::I64);
    let [a, b, c, sum] = [(); 4].map(|()| program.value(Element::F64));
    let at = |array| access(array, 0, &[(index, 8)]);
    program.body = block(vec![Statement::For {
        count: N,
        index,
        body: block(vec![
            set(a, Expression::Load(at(arrays[0]))),
            set(b, Expression::Load(at(arrays[1]))),
            set(c, Expression::Load(at(arrays[2]))),
            set(sum, Expression::FusedMultiplyAdd(a, b, c)),
            Statement::Store { to: at(to), value: sum },
        ]),
    }]);
    let code = Code::compile(&program).unwrap();
    // Each product is 1 - k^2 * 2^-104, which no `f64` equals if k > 0.
    let small = |k: usize| k as f64 * 2f64.powi(-52);
    let bytes = |f: &dyn Fn(usize) -> f64| (0..N).flat_map(|k| f(k).to_ne_bytes()).collect::<Vec<_>>();
    let inputs = [bytes(&|k| 1.0 + small(k)), bytes(&|k| 1.0 - small(k)), bytes(&|_| -1.0)];
    let mut result = vec![0; 8 * N];
    let reads: Vec<&[u8]> = inputs.iter().map(|bytes| &bytes[..]).collect();
    code.run(&reads, &mut [&mut result], None, &mut Adder::default()).unwrap();
    assert_eq!(result, bytes(&|k| 0.0 - (k * k) as f64 * 2f64.powi(-104)));
}
