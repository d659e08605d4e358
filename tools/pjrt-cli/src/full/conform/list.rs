//! Lists cases for `pjrt conform --list`.

use pjrt_conformance::{Case, Suite};
use serde_json::{Value, json};

fn cases<'a>(suite: &'a Suite, ids: &[String]) -> Vec<&'a Case> {
    ids.iter().filter_map(|id| suite.find(id)).collect()
}

/// Lists the ids of cases, one on each line.
pub(super) fn as_text(suite: &Suite, ids: &[String]) -> String {
    let mut out = String::new();
    for case in cases(suite, ids) {
        line!(out, "{}", case.id());
    }
    out
}

/// Lists cases as JSON, with their clauses, reasons, profiles and requirements.
pub(super) fn as_json(suite: &Suite, ids: &[String]) -> String {
    let case = |case: &&Case| {
        let needs = case.needs();
        json!({
            "id": case.id(),
            "clause": case.clause(),
            "why": case.why(),
            "profiles": case.profiles().names(),
            "functions": needs.functions.iter().map(|function| function.name()).collect::<Vec<_>>(),
            "extensions": needs.extensions,
            "devices": needs.devices,
            "isolated": case.is_isolated(),
        })
    };
    let all: Vec<Value> = cases(suite, ids).iter().map(case).collect();
    format!("{:#}\n", Value::Array(all))
}
