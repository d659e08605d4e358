//! The pass `recognize_threefry`.

use std::collections::HashSet;

use stablehlo::ir::{Attributes, ElementType, Func, Literal, Module, Op, OpKind, TensorType, Type};
use stablehlo::{Result, VerifyLevel, rewrite};

use crate::apply::apply_all;
use crate::evaluate::Interpreter;

const NAME: &str = "pjrt.threefry2x32";

/// Maximum number of ops that one test of a function runs.
const BUDGET: usize = 20_000;
/// Maximum number of elements that have different values in the tests.
const MAX_ELEMENTS: usize = 1024;

/// Replaces calls of functions that compute Threefry-2x32 with 20 rounds, the random numbers of JAX, with composites.
/// The function becomes the decomposition of the composite. Returns `None` if no call is found.
///
/// ```text
/// %0:2 = call @threefry2x32(%k0, %k1, %x0, %x1)  =>  %0:2 = stablehlo.composite "pjrt.threefry2x32" %k0, %k1, %x0, %x1
///                                                      {decomposition = @threefry2x32}
/// ```
///
/// The operands are the two words of the key, which are scalars of type `ui32`, and tensors of the two words of the
/// counters. The results are tensors of the two words of the random numbers.
///
/// The name of the function does not matter. The pass runs each private function with this signature on several keys
/// and counters, and compares the results. If the tensors are large, the function must also be free of ops that move
/// their elements.
///
/// Call it before [`stablehlo::inline`], and keep the composite there.
///
/// # Errors
///
/// Returns an error if the module is not valid.
pub fn recognize_threefry(module: &Module) -> Result<Option<Module>> {
    stablehlo::verify(module, VerifyLevel::STRUCTURE)?;
    let found: HashSet<&str> =
        module.funcs.iter().filter(|func| is_threefry(module, func)).map(|func| &*func.name).collect();
    let is_call = |op: &Op| matches!(&op.kind, OpKind::Call { callee } if found.contains(&**callee));
    apply_all(
        module,
        |func| func.body.all_ops().any(is_call),
        |func, locations| {
            rewrite(func, locations, |mut op, patch| {
                if let (true, OpKind::Call { callee }) = (is_call(&op), &op.kind) {
                    let decomposition = callee.clone();
                    let composite_attributes = Attributes::new();
                    op.kind = OpKind::Composite { name: NAME.to_owned(), decomposition, composite_attributes };
                }
                patch.push(op);
                Ok(())
            })
        },
    )
}

/// Threefry-2x32 with 20 rounds, as its authors define it.
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], 0x1BD1_1BDA ^ key[0] ^ key[1]];
    let [mut a, mut b] = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for group in 1..=5usize {
        for rotation in ROTATIONS[(group - 1) % 2] {
            a = a.wrapping_add(b);
            b = b.rotate_left(rotation) ^ a;
        }
        a = a.wrapping_add(keys[group % 3]);
        b = b.wrapping_add(keys[(group + 1) % 3]).wrapping_add(u32::try_from(group).unwrap_or(0));
    }
    [a, b]
}

/// Returns whether a function has the signature and the results of Threefry.
fn is_threefry(module: &Module, func: &Func) -> bool {
    let scalar = Type::Tensor(TensorType::new([], ElementType::Ui32));
    let args: Vec<&Type> = func.args().iter().map(|&arg| func.ty(arg)).collect();
    let (&[k0, k1, x0, x1], [y0, y1]) = (&args[..], &func.results[..]) else { return false };
    let Type::Tensor(ty) = x0 else { return false };
    let Some(count) = ty.num_elements() else { return false };
    let has_signature = !func.public
        && [k0, k1].into_iter().all(|ty| *ty == scalar)
        && [x1, y0, y1].into_iter().all(|ty| ty == x0)
        && ty.element == ElementType::Ui32
        && count > 0;
    if !has_signature {
        return false;
    }
    // The elements of large tensors are equal in the tests, so they must not move.
    let distinct = if count <= MAX_ELEMENTS { count } else { 1 };
    if distinct < count && !keeps_places(module, func, ty, &mut HashSet::new()) {
        return false;
    }
    let mut seed = 0x9E37_79B9u32;
    let mut next = || {
        seed = seed.wrapping_mul(0x915F_77F5).wrapping_add(0x6C07_8965);
        seed ^ (seed >> 15)
    };
    (0..3).all(|_| {
        let key = [next(), next()];
        let counters: Vec<[u32; 2]> = (0..distinct).map(|_| [next(), next()]).collect();
        let words = |ty: &TensorType, words: Vec<u32>| {
            let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            Literal::new(ty.clone(), bytes).ok()
        };
        let of = |word: usize| counters.iter().map(|counter| counter[word]).collect::<Vec<_>>();
        let scalar = TensorType::new([], ElementType::Ui32);
        let args = [words(&scalar, vec![key[0]]), words(&scalar, vec![key[1]]), words(ty, of(0)), words(ty, of(1))];
        let Some(args) = args.into_iter().collect::<Option<Vec<_>>>() else { return false };
        let Some(results) = Interpreter::new(module, BUDGET).run(func, &args) else { return false };
        results.len() == 2
            && results.iter().enumerate().all(|(word, result)| {
                let wanted = counters.iter().flat_map(|&counter| threefry(key, counter)[word].to_le_bytes());
                result.ty == *ty && result.data.iter().copied().eq(wanted)
            })
    })
}

/// Returns whether the ops of a function, and of those that it calls, compute each element of tensors of this type only
/// from scalars and from elements at the same place.
fn keeps_places<'m>(module: &'m Module, func: &'m Func, ty: &TensorType, seen: &mut HashSet<&'m str>) -> bool {
    if !seen.insert(&func.name) {
        return true;
    }
    let is_tensor =
        |value: &stablehlo::ir::ValueId| func.ty(*value).as_tensor().is_some_and(|found| found.shape == ty.shape);
    func.body.all_ops().all(|op| match &op.kind {
        OpKind::Call { callee } => module.func(callee).is_some_and(|callee| keeps_places(module, callee, ty, seen)),
        OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare { .. }
        | OpKind::Convert
        | OpKind::Constant(_)
        | OpKind::Return
        | OpKind::Select
        | OpKind::While => true,
        OpKind::BroadcastInDim { broadcast_dimensions } => broadcast_dimensions.is_empty(),
        _ => !op.operands.iter().chain(&op.results).any(is_tensor),
    })
}

#[cfg(test)]
mod tests {
    use super::threefry;

    /// The known answers of Random123, the library of the authors.
    #[test]
    fn known_answers() {
        assert_eq!(threefry([0, 0], [0, 0]), [0x6B20_0159, 0x99BA_4EFE]);
        assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1CB9_96FC, 0xBB00_2BE7]);
        assert_eq!(threefry([0x1319_8A2E, 0x0370_7344], [0x243F_6A88, 0x85A3_08D3]), [0xC492_3A9C, 0x483D_F7A0]);
    }
}
