//! Tests that programs with extreme numbers or sizes are rejected, and that no accepted program exhausts the stack.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "a test; its casts change bits on purpose")]

use stablehlo_jit::{
    Access, Array, Block, Code, Element, Error, Expression, Host, HostStep, Part, Program, Selector, Statement, Value,
    limits,
};

struct NoSteps;

impl Host for NoSteps {
    fn call(&mut self, _: u32, _: &[&[u8]], _: &mut [&mut [u8]]) -> bool {
        false
    }
}

fn set(result: Value, expression: Expression) -> Statement {
    Statement::Let { result, expression }
}

fn block(statements: Vec<Statement>) -> Block {
    Block::new(statements, Vec::new()).unwrap()
}

fn access(array: Array, offset: usize, terms: &[(Value, isize)]) -> Access {
    Access { array, offset, terms: terms.to_vec() }
}

/// Returns what a program has too much of, or why it is invalid.
fn refusal(program: &Program) -> String {
    match Code::compile(program) {
        Ok(_) => "accepted".into(),
        Err(Error::TooLarge { what, .. }) => what.into(),
        Err(error) => error.to_string(),
    }
}

/// Returns a program with nested loops of `counts` iterations that writes a byte of an array of 16 bytes. The terms of
/// the access are the counter of the innermost loop times each stride.
fn writer(counts: &[usize], strides: &[isize]) -> Program {
    let mut program = Program::new();
    let array = program.array(16, true);
    let x = program.value(Element::U8);
    let indices: Vec<Value> = counts.iter().map(|_| program.value(Element::I64)).collect();
    let innermost = *indices.last().unwrap();
    let terms: Vec<_> = strides.iter().map(|&stride| (innermost, stride)).collect();
    let mut body = block(vec![Statement::Store { to: access(array, 0, &terms), value: x }]);
    for (&count, &index) in counts.iter().zip(&indices).rev() {
        body = block(vec![Statement::For { count, index, body }]);
    }
    program.body = block([vec![set(x, Expression::Constant([7; 8]))], body.into_parts().0].concat());
    program
}

#[test]
fn sums_of_strides_do_not_wrap_around() {
    let most = usize::try_from(i64::MAX).unwrap();
    for count in [2, 3, limits::ITERATIONS, most - 1, most] {
        for strides in [
            &[isize::MIN, isize::MIN, -16][..],
            &[isize::MIN, isize::MIN],
            &[isize::MAX, isize::MAX, 2],
            &[isize::MIN, isize::MAX, 1],
            &[isize::MIN],
            &[isize::MAX],
            &[1 << 62, 1 << 62, 1 << 62, 1 << 62],
            &[-(1 << 62), -(1 << 62), -(1 << 62), -(1 << 62)],
        ] {
            let why = refusal(&writer(&[count], strides));
            assert!(why.contains("access") || why.contains("iterations"), "{count} {strides:?}: {why}");
        }
    }
    // A counter of a single iteration is 0, so every stride is harmless.
    let code = Code::compile(&writer(&[1], &[isize::MIN, isize::MIN, -16])).unwrap();
    let mut bytes = [0; 16];
    code.run(&[], &mut [&mut bytes], None, &mut NoSteps).unwrap();
    assert_eq!((bytes[0], &bytes[1..]), (7, &[0; 15][..]));
}

#[test]
fn iterations_are_limited() {
    let limit = limits::ITERATIONS;
    for (counts, fits) in [
        (&[limit][..], true),
        (&[limit + 1], false),
        (&[1 << 62], false),
        (&[limit / 2, 2], true),
        (&[limit / 2, 3], false),
        (&[1 << 20, 1 << 20, 1 << 20, 1 << 20], false),
        (&[2, usize::MAX >> 1], false),
    ] {
        let why = refusal(&writer(counts, &[0]));
        assert_eq!(
            why,
            if fits { "accepted" } else { "iterations of nested loops with a constant count" },
            "{counts:?}"
        );
    }
}

#[test]
fn unrolled_programs_are_limited() {
    // Each loop becomes 32 stores with 4 terms. The program has fewer values than the limit.
    let mut program = Program::new();
    let array = program.array(4096, true);
    let x = program.value(Element::U8);
    let mut statements = vec![set(x, Expression::Constant([1; 8]))];
    for _ in 0..limits::VALUES / 2 {
        let index = program.value(Element::I64);
        let to = access(array, 0, &[(index, 1), (index, 2), (index, 3), (index, 4)]);
        statements.push(Statement::For { count: 32, index, body: block(vec![Statement::Store { to, value: x }]) });
    }
    program.body = block(statements);
    assert_eq!(refusal(&program), "instructions");
}

/// The time of the code generator grows with the product of the values that are needed later and the branches.
#[test]
fn values_before_branches_are_limited() {
    // Returns a program that loads `count` numbers, runs the statement, and stores the numbers.
    fn across(count: usize, arrays: usize, statement: impl Fn(&mut Program, Value) -> Vec<Statement>) -> String {
        let mut program = Program::new();
        let array = program.array(8 * count, true);
        let others: Vec<_> = (0..arrays).map(|_| program.array(8, true)).collect();
        let numbers: Vec<Value> = (0..count).map(|_| program.value(Element::I64)).collect();
        let index = program.value(Element::I32);
        let numbered = || numbers.iter().copied().enumerate();
        let mut statements = vec![set(index, Expression::Load(access(array, 0, &[])))];
        statements.extend(numbered().map(|(at, x)| set(x, Expression::Load(access(array, 8 * at, &[])))));
        statements.extend(statement(&mut program, index));
        statements.extend(numbered().map(|(at, value)| Statement::Store { to: access(array, 8 * at, &[]), value }));
        let last = numbers[0];
        statements.extend(others.iter().map(|&to| Statement::Store { to: access(to, 0, &[]), value: last }));
        program.body = block(statements);
        refusal(&program)
    }
    let choose = |branches| {
        move |_: &mut Program, value| {
            let branches = vec![Block::default(); branches];
            vec![Statement::Choose { selector: Selector::Index, value, branches, results: Vec::new() }]
        }
    };
    let what = "values and arrays before each block";
    assert_eq!(across(3900, 0, choose(80_000)), what);
    assert_eq!(across(1, 4000, choose(80_000)), what);
    // Unrolled loops repeat their branches.
    let unrolled = |program: &mut Program, value| {
        let choice = || Statement::Choose {
            selector: Selector::Index,
            value,
            branches: vec![Block::default(); 2],
            results: Vec::new(),
        };
        let indices: Vec<Value> = (0..1000).map(|_| program.value(Element::I64)).collect();
        let each = indices.into_iter();
        each.map(|index| Statement::For { count: 16, index, body: block(vec![choice()]) }).collect()
    };
    assert_eq!(across(3900, 0, unrolled), what);
    assert_eq!(across(100, 100, choose(1000)), "accepted");
}

#[test]
fn parts_are_limited() {
    let what = "statements, branches, terms and parts of arrays";
    let mut program = Program::new();
    let array = program.array(8, true);
    let (x, index) = (program.value(Element::I32), program.value(Element::I64));
    let constant = set(x, Expression::Constant([0; 8]));
    let many = limits::PARTS + 1;
    let clamped = set(index, Expression::Clamped { of: x, most: 0 });
    let store = |terms| Statement::Store { to: access(array, 0, &vec![(index, 1); terms]), value: x };
    program.body = block(vec![constant.clone(), clamped.clone(), store(many)]);
    assert_eq!(refusal(&program), what);
    let selector = Selector::Index;
    let choose = Statement::Choose { selector, value: x, branches: vec![Block::default(); many], results: Vec::new() };
    program.body = block(vec![constant.clone(), choose]);
    assert_eq!(refusal(&program), what);
    program.body = block([vec![constant, clamped], vec![store(0); many]].concat());
    assert_eq!(refusal(&program), what);
    program.body = Block::default();
    // Parts that only read may overlap. The check takes time in proportion to their number, not to its square.
    let part = |bytes| Part { array, start: 0, bytes };
    program.host_step(HostStep { reads: vec![part(8); limits::PARTS - 2], writes: vec![part(0)] });
    assert_eq!(refusal(&program), "accepted");
    program.host_step(HostStep::default());
    assert_eq!(refusal(&program), what);
}

#[test]
fn values_and_arrays_are_limited() {
    let mut program = Program::new();
    (0..limits::ARRAYS).for_each(|_| _ = program.array(1, false));
    assert_ne!(refusal(&program), "arrays");
    program.array(1, false);
    assert_eq!(refusal(&program), "arrays");
    let mut program = Program::new();
    (0..=limits::VALUES).for_each(|_| _ = program.value(Element::I8));
    assert_eq!(refusal(&program), "values");
}

/// Returns a program that reverses `count` numbers. It loads all numbers before it stores the first one, so that they
/// are on the stack meanwhile.
fn reversal(count: usize) -> Program {
    let mut program = Program::new();
    let (from, to) = (program.array(count * 8, false), program.array(count * 8, true));
    let numbers: Vec<Value> = (0..count).map(|_| program.value(Element::F64)).collect();
    let at = |array, i: usize| access(array, i * 8, &[]);
    let loads = numbers.iter().enumerate().map(|(i, &x)| set(x, Expression::Load(at(from, i))));
    let stores = numbers.iter().rev().enumerate().map(|(i, &value)| Statement::Store { to: at(to, i), value });
    program.body = block(loads.chain(stores).collect());
    program
}

#[test]
fn large_frames_are_refused() {
    for (count, fits) in [(1000, true), (limits::STACK / 8 + 100, false)] {
        match Code::compile(&reversal(count)) {
            Ok(code) => {
                let bytes = |numbers: &mut dyn Iterator<Item = usize>| -> Vec<u8> {
                    numbers.flat_map(|n| (n as f64).to_ne_bytes()).collect()
                };
                let mut reversed = vec![0; count * 8];
                code.run(&[&bytes(&mut (0..count))], &mut [&mut reversed], None, &mut NoSteps).unwrap();
                assert!(fits && reversed == bytes(&mut (0..count).rev()));
            }
            Err(error) => {
                assert_eq!(error, Error::TooLarge { what: "bytes on the stack", limit: limits::STACK });
                assert!(!fits);
            }
        }
    }
}

/// A frame that is larger than the rest of the stack reaches its guard page, rather than the memory behind it, although
/// the program first writes at the far end of the frame, with a call. The process then ends, so it is a child.
#[cfg(target_os = "linux")]
#[test]
fn stack_that_is_too_small() {
    const CHILD: &str = "STABLEHLO_JIT_SMALL_STACK";
    if std::env::var_os(CHILD).is_some() {
        let mut program = reversal(1900);
        program.host_step(HostStep::default());
        let (mut statements, _) = std::mem::take(&mut program.body).into_parts();
        statements.insert(0, Statement::Host { step: 0 });
        program.body = block(statements);
        let code = Code::compile(&program).unwrap();
        let run = move || {
            let (numbers, mut reversed) = (vec![0; 15_200], vec![0; 15_200]);
            code.run(&[&numbers], &mut [&mut reversed], None, &mut NoSteps).unwrap();
        };
        return std::thread::Builder::new().stack_size(16 << 10).spawn(run).unwrap().join().unwrap();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "limits::stack_that_is_too_small", "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("has overflowed its stack"), "{}: {errors}", output.status);
}

/// Nests `depth` statements in each other, as conditions or bodies. Returns the error of the first one that is too
/// deep.
fn nest(depth: usize, as_condition: bool, yes: Value) -> Result<Block, Error> {
    let mut inner = Block::new(Vec::new(), vec![yes])?;
    for _ in 0..depth {
        let leaf = Block::new(Vec::new(), if as_condition { Vec::new() } else { vec![yes] })?;
        let (statements, _) = inner.into_parts();
        let (condition, body) = if as_condition {
            (Block::new(statements, vec![yes])?, leaf)
        } else {
            (leaf, Block::new(statements, Vec::new())?)
        };
        let [parameters, initial, results] = [(); 3].map(|()| Vec::new());
        inner = Block::new(vec![Statement::While { parameters, initial, condition, body, results }], vec![yes])?;
    }
    Ok(inner)
}

#[test]
fn nesting_is_limited_on_every_path() {
    for as_condition in [false, true] {
        let mut program = Program::new();
        let yes = program.value(Element::Bool);
        let error = nest(200_000, as_condition, yes).err();
        assert_eq!(error, Some(Error::TooLarge { what: "blocks that contain each other", limit: limits::DEPTH }));
        let (inside, _) = nest(limits::DEPTH, as_condition, yes).unwrap().into_parts();
        program.body = block([vec![set(yes, Expression::Constant([0; 8]))], inside].concat());
        let code = Code::compile(&program.clone()).unwrap();
        code.run(&[], &mut [], None, &mut NoSteps).unwrap();
        assert!(format!("{program:?}").len() > limits::DEPTH);
    }
    let deepest = nest(limits::DEPTH, false, Program::new().value(Element::Bool)).unwrap();
    let index = Program::new().value(Element::I64);
    for statement in [
        Statement::For { count: 1, index, body: deepest.clone() },
        Statement::Choose {
            selector: Selector::Index,
            value: index,
            branches: vec![Block::default(), deepest],
            results: Vec::new(),
        },
    ] {
        assert!(matches!(Block::new(vec![statement], Vec::new()), Err(Error::TooLarge { .. })));
    }
}
