//! Estimates the work of a compiled loop.

use stablehlo_jit::{Block, Expression, Statement};

/// Cost of a call of a function, in statements.
const CALL: u64 = 16;

/// Returns the maximum work of one iteration of the only outermost `while` loop of `program`, in statements. Returns
/// `None` if `program` does not have exactly one such loop. Also returns `None` if the loop contains another `while`
/// loop or a step of the interpreter, because their work has no fixed maximum.
pub(super) fn of_iteration(program: &Block) -> Option<u64> {
    let is_loop = |statement: &&Statement| matches!(statement, Statement::While { .. });
    let mut loops = program.statements().iter().filter(is_loop);
    match (loops.next(), loops.next()) {
        (Some(Statement::While { condition, body, .. }), None) => {
            Some(of_block(condition)?.saturating_add(of_block(body)?))
        }
        _ => None,
    }
}

fn of_block(block: &Block) -> Option<u64> {
    block.statements().iter().try_fold(1, |sum: u64, statement| Some(sum.saturating_add(of_statement(statement)?)))
}

fn of_statement(statement: &Statement) -> Option<u64> {
    match statement {
        Statement::Let { expression: Expression::Call(..), .. } => Some(CALL),
        Statement::Let { .. } | Statement::Store { .. } => Some(1),
        Statement::For { count, body, .. } => Some(of_block(body)?.saturating_mul(u64::try_from(*count).ok()?)),
        Statement::Choose { branches, .. } => {
            branches.iter().try_fold(1, |most, branch| Some(of_block(branch)?.max(most)))
        }
        Statement::While { .. } | Statement::Host { .. } => None,
    }
}
