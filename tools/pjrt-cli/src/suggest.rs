//! Suggestions for files that are not programs, and for programs whose ops are misspelled.

use std::collections::BTreeSet;
use std::path::Path;

use stablehlo::ir::OpKind;

/// Advice on how to write a program with JAX.
const JAX: &str = "write a program with jax.jit(f).lower(...).as_text()";

/// Describes a file that is not a program, with a remedy. Returns `None` for a file that may be a program.
pub(crate) fn not_a_program(path: &Path, code: &[u8]) -> Option<String> {
    let extension = path.extension().unwrap_or_default();
    if code.is_empty() {
        return Some(format!("the file is empty; {JAX}"));
    }
    if code.starts_with(b"\x93NUMPY") {
        return Some("it is an array, not a program; the program comes first: pjrt run PROGRAM INPUT...".to_owned());
    }
    if code.starts_with(b"\x7fELF") || code.starts_with(b"\xcf\xfa\xed\xfe") || code.starts_with(b"MZ") {
        return Some("it is a library or an executable, not a program; name a plugin with --plugin".to_owned());
    }
    if code.starts_with(b"PK\x03\x04") {
        return Some(format!("it is a zip archive, not a program; {JAX}"));
    }
    if extension == "py" {
        return Some(format!("it is Python, not StableHLO; {JAX}"));
    }
    let artifact = b"ML\xefR";
    if !code.starts_with(artifact) && code.windows(artifact.len()).any(|window| window == artifact) {
        return Some(
            "it contains a StableHLO artifact among other data; save `exported.mlir_module_serialized` of the result \
             of jax.export"
                .to_owned(),
        );
    }
    // Other bytes may be a serialized HLO message.
    let text = str::from_utf8(code).ok()?;
    let is_text = !text.chars().any(|c| c.is_control() && !c.is_whitespace());
    if is_text && !begins_as_mlir(text) {
        return Some(format!(
            "it is text, but not StableHLO, because it does not begin with a module or function; {JAX}"
        ));
    }
    None
}

/// Returns whether the first line that is not a comment begins a module, a function, an op in the generic form, an
/// alias, a resource section, or HLO text.
fn begins_as_mlir(text: &str) -> bool {
    let first = text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with("//"));
    let first = first.unwrap_or_default();
    let alias = first.strip_prefix(['#', '!']).is_some_and(|name| name.starts_with(|c: char| c.is_alphanumeric()));
    alias || ["module", "func", "builtin", "\"", "{-#", "HloModule"].iter().any(|word| first.starts_with(word))
}

/// Suggests corrections for the misspelled StableHLO ops of a program, as the end of an error message.
pub(crate) fn ops(code: &[u8]) -> String {
    let Ok(module) = stablehlo::parse(code.to_vec(), stablehlo::VerifyLevel::FULL) else { return String::new() };
    let unknown: BTreeSet<&String> = module
        .funcs
        .iter()
        .flat_map(|func| func.body.all_ops())
        .filter_map(|op| match &op.kind {
            OpKind::Other { name, .. } => Some(name),
            _ => None,
        })
        .collect();
    let hints = unknown.iter().filter_map(|name| {
        let base = name.strip_prefix("stablehlo.")?;
        nearest(base).map(|near| format!("; unknown op {name}; did you mean stablehlo.{near}?"))
    });
    hints.collect()
}

/// Returns the op whose name is most similar to `name`. Returns `None` if `name` is a known op, or if no op is similar.
fn nearest(name: &str) -> Option<&'static str> {
    const FAR: usize = 3;
    let distance = |known| strsim::damerau_levenshtein(known, name);
    let (best, near) = stablehlo::op_names().map(|known| (distance(known), known)).min()?;
    (best > 0 && best < FAR && best < name.len()).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_ops_are_named() {
        let program = |op: &str| {
            format!(
                "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n  %0 = \"stablehlo.{op}\"(%x, %x) : \
                 (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}}"
            )
        };
        let hint = |op| ops(program(op).as_bytes());
        assert_eq!(hint("ad"), "; unknown op stablehlo.ad; did you mean stablehlo.add?");
        assert!(hint("mutliply").ends_with("did you mean stablehlo.multiply?"));
        assert_eq!(hint("add"), "");
        assert_eq!(hint("frobnicate"), "");
        assert_eq!(ops(b"no program"), "");
    }

    #[test]
    fn other_files_are_named() {
        let told = |name: &str, code: &[u8]| not_a_program(Path::new(name), code).unwrap_or_default();
        assert!(told("a", b"").contains("empty"));
        assert!(told("a.npy", b"\x93NUMPY\x01\x00").contains("array"));
        assert!(told("a.so", b"\x7fELF\x02").contains("--plugin"));
        assert!(told("a.py", b"def module(): pass").contains("Python"));
        assert!(told("README.md", b"# A project").contains("not StableHLO"));
        assert!(told("a.bin", b"\x04\x00ML\xefR\x0dStableHLO_v1.0.0\0").contains("jax.export"));
        for program in [
            &b"ML\xefR\x0dStableHLO_v1.0.0\0"[..],
            b"func.func @main()",
            b"// A comment\n\n  module {}",
            b"#loc1 = loc(unknown)",
            b"\x0a\x04main",
        ] {
            assert_eq!(not_a_program(Path::new("a"), program), None);
        }
    }
}
