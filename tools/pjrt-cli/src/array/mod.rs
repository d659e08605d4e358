//! Reads, prints and saves host arrays for the command line.

mod element;
mod literal;
mod npy;
mod npy_header;
#[cfg(feature = "full")]
mod npz;
#[cfg(not(feature = "full"))]
#[path = "no_npz.rs"]
mod npz;
mod show;

use std::fs;
use std::path::Path;

use pjrt::{ElementType, HostArray, Shape};

pub(crate) use show::{text, values};

/// Creates a host array, or returns an error if the data does not have the shape's size.
fn new(shape: Shape, data: Vec<u8>) -> Result<HostArray, String> {
    HostArray::new(shape, data).map_err(|error| error.message().to_owned())
}

/// Parses the name of an element type. If another library uses this name for a type, the error suggests PJRT's name.
fn element_type(name: &str) -> Result<ElementType, String> {
    name.parse::<ElementType>().map_err(|error| match literal::other_name(name) {
        Some(meant) => format!("{name:?} is not an element type; did you mean {meant}?"),
        None => error.to_string(),
    })
}

/// Saves arrays as `out0`, `out1`, …. If the path ends in `.npz`, writes one archive. Otherwise, writes `.npy` files
/// into the folder at the path.
pub(crate) fn save(path: &Path, arrays: &[HostArray]) -> Result<(), String> {
    let fault = |error: String| format!("--output {}: {error}", path.display());
    if path.extension().is_some_and(|extension| extension == "npz") {
        return npz::write(path, arrays).map_err(fault);
    }
    fs::create_dir_all(path).map_err(|error| fault(error.to_string()))?;
    for (index, array) in arrays.iter().enumerate() {
        npy::write(&path.join(format!("out{index}.npy")), array)?;
    }
    Ok(())
}

/// Reads an array from an argument: a file, `FILE.npy:TYPE`, `FILE.npz:NAME`, or a literal. A literal without a type,
/// such as `[[1,2],[3,4]]`, has the shape of the program's input, which `expected` returns.
pub(crate) fn from_argument(text: &str, expected: impl FnOnce() -> Result<Shape, String>) -> Result<HostArray, String> {
    let fault = |fault: String| format!("{text}: {fault}");
    if literal::is_bare(text) {
        let missing = |reason| format!("write its type, as in f32={text}: {reason}");
        let shape = expected().map_err(missing).map_err(fault)?;
        return literal::of_shape(shape, text).map_err(fault);
    }
    if let Some((shape, values)) = text.split_once('=') {
        return literal::typed(shape, values).map_err(fault);
    }
    if let Some((file, name)) = text.rsplit_once(':') {
        if file.ends_with(".npy") {
            return npy::read(Path::new(file), Some(element_type(name).map_err(fault)?));
        }
        if file.ends_with(".npz") {
            return npz::read(Path::new(file), name);
        }
    }
    if text.ends_with(".npz") {
        return Err(fault(format!("name one of its arrays: {}", npz::names(Path::new(text))?)));
    }
    if text.ends_with(".npy") {
        return npy::read(Path::new(text), None);
    }
    Err(fault(
        "an input is FILE.npy, FILE.npy:TYPE, FILE.npz:NAME, or a literal such as f32[2,2]=1,2,3,4, f32[4]=0 or \
         f32=[[1,2],[3,4]]"
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<HostArray, String> {
        from_argument(text, || Err("the program has no such input".to_owned()))
    }

    fn shown(argument: &str) -> String {
        text(&read(argument).unwrap())
    }

    #[test]
    fn literals() {
        assert_eq!(shown("f32[2,2]=1,2.5,-3,inf"), "\n  [[ 1.0,  2.5],\n   [-3.0,  inf]]");
        assert_eq!(shown("bf16=1.5"), "1.5");
        assert_eq!(shown("f32=0.1"), "0.1");
        assert_eq!(read("pred[3]=true").unwrap().bytes(), [1, 1, 1]);
        assert!(read("i64[0]=").unwrap().bytes().is_empty());
        assert_eq!(shown("s32[]=-7"), "-7");
        assert_eq!(values(&read("f32=nan").unwrap()).unwrap(), [json!("NaN")]);
        // These numbers are just above the middle of two neighbors. Rounding to `f32` first would give the lower one.
        assert_eq!(read("bf16=1.00390637").unwrap().bytes(), [0x81, 0x3F]);
        assert_eq!(read("f16=65455.9999").unwrap().bytes(), [0xFD, 0x7B]);
        let shape = || Ok(Shape::new(ElementType::F64, [2]));
        assert_eq!(from_argument("[1,2]", shape), read("f64[2]=1,2"));
        assert_eq!(from_argument("-3", shape), read("f64[2]=-3"));
    }

    #[test]
    fn complex_literals() {
        let number = |text| values(&read(text).unwrap()).unwrap().remove(0);
        assert_eq!(number("c64=1-2j"), json!([1.0, -2.0]));
        assert_eq!(number("c64=(1-2j)"), json!([1.0, -2.0]));
        assert_eq!(number("c64=-2.5i"), json!([0.0, -2.5]));
        assert_eq!(number("c64=3"), json!([3.0, 0.0]));
        assert_eq!(number("c128=-1e-3+2E+2j"), json!([-1e-3, 200.0]));
        assert_eq!(number("c128=inf-nanj"), json!(["inf", "NaN"]));
        assert_eq!(shown("c64[2]=1+1j,0"), "[(1.0, 1.0), (0.0, 0.0)]");
        for text in ["c64=1+2k", "c64=j", "c64=1+j2j", "c64=1e400+1j", "c64=+"] {
            assert!(read(text).unwrap_err().contains("1-2j"), "{text}");
        }
    }

    #[test]
    fn wrong_arguments_get_a_reason() {
        let fault = |text| read(text).unwrap_err();
        assert!(fault("f32[2]=1,2,3").contains("has 2 elements, but the list has 3 values"));
        assert!(fault("f32[0]=1").contains("has 0 elements, but the list has 1 values"));
        assert!(fault("f33[2]=1").contains("not an element type"));
        assert!(fault("float32[2]=1").contains("did you mean f32?"));
        assert!(fault("a.npy:bfloat16").contains("did you mean bf16?"));
        assert!(fault("f32[2=1").contains("TYPE[EXTENT"));
        assert!(fault("f32[-2]=1").contains("not an extent"));
        for text in ["f16=65520", "bf16=1e39", "f32=1e50", "f64=-1e999"] {
            assert!(fault(text).contains("too large"), "{text}");
        }
        assert!(fault("u8=300").contains("not a value of u8"));
        assert!(fault("f32[4294967295,4294967295,4294967295]=1").contains("exceeds the address space"));
        assert!(fault("data.txt").contains("FILE.npy"));
        assert!(fault("missing.npy").contains("missing.npy"));
        assert!(fault("missing.npz:x").contains("missing.npz"));
        assert!(fault("missing.npy:q8").contains("not an element type"));
        assert!(fault("[1,2]").contains("f32=[1,2]: the program has no such input"));
    }
}
