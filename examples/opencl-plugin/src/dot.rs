//! The kernel of a product of matrices, in the form of `stablehlo_passes::canonicalize_dots`.

use std::fmt::Write as _;

use stablehlo::ir::{ElementType, OpKind, TensorType};
use stablehlo_passes::c_kernel::Language as _;
use stablehlo_passes::plan::Kernel;

use crate::kernels::{Source, head, tensor};
use crate::scalar::{OpenClC, c_type};

/// Returns the kernel of a product. Each work-item computes a tile of the result in registers.
pub(crate) fn emit(kernel: &Kernel<'_>, is_cpu: bool) -> stablehlo::Result<Source> {
    let op = kernel.op;
    let fail = || stablehlo::Error::new(stablehlo::ErrorKind::Unsupported, "kernels do not support this dot_general");
    let types = op.operands.iter().chain(&op.results).map(|&value| tensor(kernel.func, value));
    let types = types.collect::<Option<Vec<_>>>().ok_or_else(fail)?;
    let elements = types.iter().map(|ty| c_type(ty.element)).collect::<Option<Vec<_>>>().ok_or_else(fail)?;
    let OpKind::DotGeneral { dimensions, .. } = &op.kind else { return Err(fail()) };
    let size = |ty: &TensorType, dimension: usize| usize::try_from(ty.shape[dimension]).unwrap_or(0);
    let is_transposed = dimensions.lhs_contracting[0] == 1;
    let (batch, m, n) = (size(types[2], 0), size(types[2], 1), size(types[2], 2));
    let k = size(types[1], 1);
    let [_, right, to] = elements[..] else { return Err(fail()) };
    let (is_bool, language) = (to.element == ElementType::Bool, OpenClC { reads: kernel.reads.len() });
    // Integers are added as unsigned ones, because the overflow of signed ones is undefined.
    let sum = if to.is_float() { to.name } else { to.unsigned };
    let width = [16, 8, 4, 2, 1].into_iter().find(|&width| width <= n && !is_bool).unwrap_or(1);
    let vectors = if n >= 2 * width && width == 16 { 2 } else { 1 };
    let (rows, columns) = (m.min(8), width * vectors);
    let vector = if width == 1 { sum.to_owned() } else { format!("{sum}{width}") };
    let mut text = head(kernel.reads.len() + 1, "long", &["ty", "tx", "b"]);
    let (tiles_y, tiles_x) = (m.div_ceil(rows), n.div_ceil(columns));
    // A tile at an edge begins earlier, so that it is within the matrix. It stores only what no other tile stores.
    let local = if is_cpu { [1, 1, 1] } else { [tiles_y.min(8), tiles_x.min(8), 1] };
    let global = [tiles_y.next_multiple_of(local[0]), tiles_x.next_multiple_of(local[1]), batch];
    let _ = writeln!(text, "  if (ty >= {tiles_y} || tx >= {tiles_x}) return;");
    let _ = writeln!(text, "  long y = min(ty * {rows}, {}l), x = min(tx * {columns}, {}l);", m - rows, n - columns);
    let (Some(first), Some(second)) = (kernel.read(op.operands[0]), kernel.read(op.operands[1])) else {
        return Err(fail());
    };
    for r in 0..rows {
        (0..vectors).for_each(|v| _ = writeln!(text, "  {vector} c{r}_{v} = 0;"));
    }
    let _ = writeln!(text, "  for (long k = 0; k < {k}; k++) {{");
    for v in 0..vectors {
        let at = format!("(b * {k} + k) * {n} + x + {}", v * width);
        let load = match (right.element, width) {
            (_, 1) => format!("({sum}){}", language.load(right.element, second, &at)),
            (ElementType::Bf16, _) => format!(
                "as_float{width}(convert_uint{width}(vload{width}(0, (__global const ushort*)p{second} + {at})) << 16)"
            ),
            (ElementType::F16, _) => format!("vload_half{width}(0, (__global const half*)p{second} + {at})"),
            _ => {
                format!("convert_{vector}(vload{width}(0, (__global const {}*)p{second} + {at}))", right.name)
            }
        };
        let _ = writeln!(text, "    {vector} b{v} = {load};");
    }
    for r in 0..rows {
        let at = match is_transposed {
            true => format!("(b * {k} + k) * {m} + y + {r}"),
            false => format!("(b * {m} + y + {r}) * {k} + k"),
        };
        let _ = writeln!(text, "    {sum} a{r} = {};", language.load(types[0].element, first, &at));
        for v in 0..vectors {
            let product = match to.is_float() {
                true => format!("fma(({vector})a{r}, b{v}, c{r}_{v})"),
                false if is_bool => format!("c{r}_{v} | (a{r} & b{v})"),
                false => format!("c{r}_{v} + ({vector})a{r} * b{v}"),
            };
            let _ = writeln!(text, "    c{r}_{v} = {product};");
        }
    }
    text.push_str("  }\n");
    for r in 0..rows {
        let _ = writeln!(text, "  if (y + {r} >= ty * {rows}) {{");
        for v in 0..vectors {
            let at = format!("(b * {m} + y + {r}) * {n} + x + {}", v * width);
            let is_vector = to.round.is_empty() && width > 1;
            let at_once = format!("vstore{width}(c{r}_{v}, 0, (__global {sum}*)p{} + {at})", language.reads);
            let otherwise =
                if is_vector { format!("if (x == tx * {columns}) {at_once}; else ") } else { String::new() };
            let _ = writeln!(text, "    {otherwise}{{");
            for lane in 0..width {
                let value = if width == 1 { format!("c{r}_{v}") } else { format!("c{r}_{v}.s{lane:x}") };
                let store = language.store(to.element, 0, &format!("{at} + {lane}"), &value);
                let _ = writeln!(text, "      if (x + {} >= tx * {columns}) {store}", v * width + lane);
            }
            text.push_str("    }\n");
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    Ok(Source { text, global, local })
}
