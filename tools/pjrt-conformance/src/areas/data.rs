//! Cases for data: element types, ranks, strides, layouts and outputs.

use pjrt::{ElementType, ErrorCode, Function, HostArray, Layout, Shape, Upload};

use crate::case::Profiles;
use crate::context::{Context, download, floats, shape, unsupported_type};
use crate::program::{main, unary};
use crate::raw::{GUARD, host_size, read_guarded, read_with_size, write_with_stride};
use crate::reference::{SMALL_FLOATS, decode, patterns};
use crate::stop::Stop;
use crate::suite::Suite;

const UPLOAD: &str = "pjrt_c_api.h, PJRT_Client_BufferFromHostBuffer: copies a host buffer to a device buffer";
const DOWNLOAD: &str = "pjrt_c_api.h, PJRT_Buffer_ToHostBuffer: copies the buffer to dst, in the buffer's own layout if host_layout is null";

/// Returns whether most programs use the element type.
fn is_common(ty: ElementType) -> bool {
    use ElementType::{F32, Pred, S32, S64, U8, U32};
    matches!(ty, Pred | S32 | S64 | U8 | U32 | F32)
}

fn is_frequent(ty: ElementType) -> bool {
    use ElementType::{Bf16, C64, C128, F16, F64, S8, S16, U16, U64};
    matches!(ty, Bf16 | C64 | C128 | F16 | F64 | S8 | S16 | U16 | U64)
}

fn profiles(ty: ElementType) -> Profiles {
    if is_common(ty) {
        Profiles::MINIMAL
    } else if is_frequent(ty) {
        Profiles::FRAMEWORKS
    } else {
        Profiles::JAX
    }
}

/// Returns the bytes of `count` valid elements of a type. For types of at most 8 bits, the elements are the valid bit
/// patterns in ascending order, and start again after the last pattern. For larger types, `seed` determines
/// pseudo-random elements.
fn elements(ty: ElementType, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    let mut bytes = Vec::with_capacity(count * ty.host_size());
    for at in 0..count {
        let at = u8::try_from(at % 256).unwrap_or(0);
        match ty.bits() {
            _ if ty == ElementType::Pred => bytes.push(at & 1),
            8 => bytes.push(at),
            bits @ 1..8 => {
                let value = at & ((1 << bits) - 1);
                // On the host, a small signed integer is sign-extended to a byte.
                let signed = matches!(ty, ElementType::S4 | ElementType::S2 | ElementType::S1);
                let negative = signed && value >> (bits - 1) == 1;
                bytes.push(if negative { value | !((1 << bits) - 1) } else { value });
            }
            // A random bit pattern, whose second highest bit is 0. In a float, this bit belongs to the exponent, so the
            // element is not a NaN. A copy may change the bits of a NaN.
            _ => {
                let mut element: Vec<u8> = (0..ty.host_size()).map(|_| next()).collect();
                let part = if matches!(ty, ElementType::C64 | ElementType::C128) {
                    ty.host_size() / 2
                } else {
                    ty.host_size()
                };
                for last in element.iter_mut().skip(part - 1).step_by(part) {
                    *last &= 0xbf;
                }
                bytes.extend(element);
            }
        }
    }
    bytes
}

/// Uploads an array. Returns [`Stop::Unsupported`] if the plugin does not support the element type.
fn upload(cx: &Context, array: &HostArray) -> Result<pjrt::Buffer, Stop> {
    let ty = array.shape().element_type;
    let buffer = cx.client()?.upload(Upload::of(array.bytes()).shape(array.shape()));
    buffer.map_err(|error| unsupported_type(ty, error))
}

fn compare(found: &[u8], expected: &[u8], what: &str) -> Result<(), Stop> {
    ensure_eq!(found.len(), expected.len(), "bytes of {what}");
    if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
        fail!("{what} differs at byte {at}: {:#04x} instead of {:#04x}", found[at], expected[at]);
    }
    Ok(())
}

pub(crate) fn declare(suite: &mut Suite) {
    types(suite);
    shapes(suite);
    strides(suite);
    layouts(suite);
    outputs(suite);
    downloads(suite);
}

fn types(suite: &mut Suite) {
    suite
        .case(
            "data.round_trip.five_bytes",
            format!("{UPLOAD}. {DOWNLOAD}"),
            "vector code often mishandles an array that is shorter than a vector register",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let data = HostArray::new(shape(ElementType::U8, &[5]), vec![1, 2, 3, 4, 5])?;
            compare(download(&upload(cx, &data)?)?.bytes(), data.bytes(), "the array")
        });
    suite
        .case(
            "data.round_trip.special_numbers",
            format!("{UPLOAD}. {DOWNLOAD}"),
            "a copy preserves -0.0, subnormal numbers, infinities and NaN, with which programs mark missing values",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let data =
                [-0.0f32, f32::from_bits(1), f32::MIN_POSITIVE / 2.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
            let found = floats(&cx.floats(&data)?)?;
            let (numbers, nan) = (data[..5].iter().map(|x| x.to_bits()), found.last().is_some_and(|x| x.is_nan()));
            ensure!(nan, "NaN became {:?}", found.last());
            ensure_eq!(found[..5].iter().map(|x| x.to_bits()).collect::<Vec<_>>(), numbers.collect::<Vec<_>>(), "bits");
            Ok(())
        });
    for &ty in ElementType::ALL {
        if ty == ElementType::Token {
            continue;
        }
        suite
            .case(
                format!("data.round_trip.host[dtype={ty}]"),
                format!("{UPLOAD}. {DOWNLOAD}"),
                "every program with arrays of this type depends on it",
            )
            .profiles(profiles(ty))
            .check(move |cx| {
                let data = HostArray::new(shape(ty, &[2, 128]), elements(ty, 256, cx.seed + 1))?;
                let found = download(&upload(cx, &data)?)?;
                compare(found.bytes(), data.bytes(), "the array")
            });
        suite
            .case(
                format!("data.round_trip.scalar[dtype={ty}]"),
                format!("{UPLOAD}. An array with num_dims 0 is a scalar"),
                "constants and losses are scalars",
            )
            .profiles(profiles(ty))
            .check(move |cx| {
                let data = HostArray::new(shape(ty, &[]), elements(ty, 1, cx.seed + 2))?;
                let buffer = upload(cx, &data)?;
                ensure!(buffer.dimensions()?.is_empty(), "a scalar has the dimensions {:?}", buffer.dimensions()?);
                compare(download(&buffer)?.bytes(), data.bytes(), "the scalar")
            });
        suite
            .case(
                format!("data.query.element_type[dtype={ty}]"),
                "pjrt_c_api.h, PJRT_Buffer_ElementType and PJRT_Buffer_Dimensions: the type and dimensions of the \
                 buffer",
                "frameworks derive the array's type from the buffer",
            )
            .profiles(profiles(ty))
            .check(move |cx| {
                let data = HostArray::new(shape(ty, &[5]), elements(ty, 5, cx.seed))?;
                let buffer = upload(cx, &data)?;
                ensure_eq!(buffer.element_type()?, ty, "element type");
                ensure_eq!(buffer.dimensions()?, &[5i64][..], "dimensions");
                let least = (ty.bits() * 5).div_ceil(8);
                ensure!(buffer.on_device_size()? >= least, "the buffer has less than {least} bytes");
                Ok(())
            });
    }
    for &ty in ElementType::ALL {
        // StableHLO has no tensors with these element types.
        if matches!(ty, ElementType::Token | ElementType::S1 | ElementType::U1) {
            continue;
        }
        suite
            .case(
                format!("data.round_trip.program[dtype={ty}]"),
                "pjrt_c_api.h, PJRT_LoadedExecutable_Execute: computes the outputs of the program",
                "programs move data of this type, even if they do not compute with it",
            )
            .profiles(profiles(ty))
            .check(move |cx| {
                let data = HostArray::new(shape(ty, &[3, 64]), elements(ty, 192, cx.seed + 3))?;
                let input = upload(cx, &data)?;
                let tensor = format!("tensor<3x64x{}>", ty.stablehlo_name());
                let text = main(
                    &format!("%x: {tensor}"),
                    &format!("tensor<64x3x{}>", ty.stablehlo_name()),
                    &format!(
                        "  %y = stablehlo.transpose %x, dims = [1, 0] : ({tensor}) -> tensor<64x3x{0}>\n  return %y : tensor<64x3x{0}>",
                        ty.stablehlo_name()
                    ),
                );
                let program = crate::program::for_plugin(&text, cx.plugin())?;
                let executable = cx.client()?.compile(&program, &pjrt::CompileOptions::default());
                let executable = executable.map_err(|error| unsupported_type(ty, error))?;
                let outputs = executable.execute(&[&input])?;
                let found = download(first(&outputs)?)?;
                let size = ty.host_size();
                let mut expected = Vec::new();
                for column in 0..64 {
                    for row in 0..3 {
                        let at = (row * 64 + column) * size;
                        expected.extend(&data.bytes()[at..at + size]);
                    }
                }
                compare(found.bytes(), &expected, "the transposed array")
            });
    }
    for &ty in SMALL_FLOATS {
        suite
            .case(
                format!("data.small_floats.to_f32[dtype={ty}]"),
                "StableHLO, convert: the result is the exact value, for every bit pattern of the type",
                "a wrong exponent bias makes every quantized model wrong",
            )
            .profiles(Profiles::JAX)
            .check(move |cx| every_pattern(cx, ty));
    }
}

/// Converts every bit pattern of a small float type to `f32` on the device, and checks the results. A subnormal result
/// may also be 0.
fn every_pattern(cx: &Context, ty: ElementType) -> Result<(), Stop> {
    let count = patterns(ty);
    let bytes: Vec<u8> = (0..count).map(|bits| u8::try_from(bits).unwrap_or(0)).collect();
    let data = HostArray::new(shape(ty, &[i64::from(count)]), bytes.clone())?;
    let input = upload(cx, &data)?;
    let text = unary("convert", &format!("tensor<{count}x{}>", ty.stablehlo_name()), &format!("tensor<{count}xf32>"));
    let program = crate::program::for_plugin(&text, cx.plugin())?;
    let executable = cx.client()?.compile(&program, &pjrt::CompileOptions::default());
    let executable = executable.map_err(|error| unsupported_type(ty, error))?;
    let outputs = executable.execute(&[&input])?;
    let found = floats(first(&outputs)?)?;
    for (bits, found) in bytes.into_iter().zip(found) {
        let expected = decode(ty, bits).ok_or_else(|| Stop::Skip("this suite does not know the type".to_owned()))?;
        let same = found == expected || found.is_nan() && expected.is_nan();
        let flushed = found == 0.0 && expected.abs() < f32::MIN_POSITIVE;
        ensure!(same || flushed, "{ty} with the bits {bits:#04x} was converted to {found}, expected {expected}");
    }
    Ok(())
}

fn first(outputs: &[pjrt::Buffer]) -> Result<&pjrt::Buffer, Stop> {
    outputs.first().ok_or_else(|| Stop::Fail("the run has no output".to_owned()))
}

fn shapes(suite: &mut Suite) {
    for rank in 0..=6usize {
        suite
            .case(
                format!("data.shape.rank[rank={rank}]"),
                format!("{UPLOAD}. dims has num_dims entries"),
                "frameworks use arrays of six and more dimensions",
            )
            .profiles(Profiles::MINIMAL)
            .check(move |cx| {
                let dimensions: Vec<i64> = (0..rank).map(|at| [2, 3, 1, 2, 5, 2][at]).collect();
                let count = usize::try_from(dimensions.iter().product::<i64>()).unwrap_or(0);
                let data: Vec<f32> = (0..count).map(|at| f32::from(u16::try_from(at).unwrap_or(0))).collect();
                let buffer = cx.client()?.buffer_from_host(&data, &dimensions)?;
                ensure_eq!(buffer.dimensions()?, &dimensions[..], "dimensions");
                ensure_eq!(floats(&buffer)?, data, "contents");
                Ok(())
            });
    }
    for dimensions in [vec![0i64], vec![3, 0], vec![0, 4, 0], vec![0, 1 << 30]] {
        suite
            .case(
                format!("data.shape.empty[dims={}]", words(&dimensions)),
                format!("{UPLOAD}. A dimension may be 0, and data may then be null"),
                "empty batches and masks are common; a division by their size ends the process",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let buffer = cx.client()?.buffer_from_host::<f32>(&[], &dimensions)?;
                ensure_eq!(buffer.dimensions()?, &dimensions[..], "dimensions");
                ensure_eq!(floats(&buffer)?, Vec::<f32>::new(), "contents");
                buffer.wait()?;
                Ok(())
            });
    }
    for len in [1usize, 3, 4, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 1_000_003] {
        suite
            .case(
                format!("data.shape.length[elements={len}]"),
                format!("{UPLOAD}. {DOWNLOAD}"),
                "vector code often mishandles lengths that are not a multiple of the vector length",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let data: Vec<f32> = (0..len).map(|at| f32::from(u16::try_from(at % 60_000).unwrap_or(0))).collect();
                let input = cx.floats(&data)?;
                let outputs = cx.add_one(len)?.execute(&[&input])?;
                let expected: Vec<f32> = data.iter().map(|value| value + 1.0).collect();
                ensure!(floats(first(&outputs)?)? == expected, "x + 1 is wrong for {len} elements");
                ensure!(floats(&input)? == data, "the input changed");
                Ok(())
            });
    }
}

fn words(dimensions: &[i64]) -> String {
    dimensions.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

/// Source array of the cases with strides: the numbers from 0 to 63.
static COUNTING: [f32; 64] = {
    let mut data = [0.0; 64];
    let mut at = 0u8;
    while at < 64 {
        data[at as usize] = at as f32;
        at += 1;
    }
    data
};

fn strides(suite: &mut Suite) {
    const CLAUSE: &str = "pjrt_c_api.h, PJRT_Client_BufferFromHostBuffer: byte_strides is the number of bytes between \
                          elements, per dimension; null means dense row-major";
    // Name, dimensions, strides in bytes, and the source index of the element in a given row and column.
    type Strided = (&'static str, &'static [i64], &'static [i64], fn(i64, i64) -> i64);
    let cases: [Strided; 6] = [
        ("row_major", &[4, 3], &[12, 4], |row, column| 3 * row + column),
        ("column_major", &[4, 3], &[4, 16], |row, column| row + 4 * column),
        ("padded_rows", &[4, 3], &[32, 4], |row, column| 8 * row + column),
        ("every_second", &[4, 3], &[24, 8], |row, column| 6 * row + 2 * column),
        ("broadcast_rows", &[4, 3], &[0, 4], |_, column| column),
        ("broadcast_all", &[4, 3], &[0, 0], |_, _| 0),
    ];
    for (name, dimensions, strides, element) in cases {
        suite
            .case(
                format!("data.strides.upload[strides={name}]"),
                CLAUSE,
                "JAX passes NumPy arrays such as transposed ones with their strides, without a copy",
            )
            .profiles(Profiles::JAX_TORCH)
            .check(move |cx| {
                let buffer = write_with_stride(cx.client()?, &COUNTING, dimensions, strides)?;
                let mut expected = Vec::new();
                for row in 0..4 {
                    for column in 0..3 {
                        expected.push(COUNTING[usize::try_from(element(row, column)).unwrap_or(0)]);
                    }
                }
                ensure_eq!(floats(&buffer)?, expected, "elements");
                Ok(())
            });
    }
    for offset in [1usize, 2, 3, 5, 8, 12, 33] {
        suite
            .case(
                format!("data.alignment.upload[offset={offset}]"),
                format!("{UPLOAD}. data need not be aligned"),
                "arrays in files and slices of arrays may have any alignment",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let mut bytes = vec![0u8; offset];
                let data: Vec<u8> = (0..=255).collect();
                bytes.extend(&data);
                let buffer =
                    cx.client()?.upload(Upload::of(&bytes[offset..]).shape(&shape(ElementType::U8, &[256])))?;
                compare(download(&buffer)?.bytes(), &data, "the array")
            });
    }
}

fn layouts(suite: &mut Suite) {
    const CLAUSE: &str = "pjrt_c_api.h, PJRT_Client_BufferFromHostBuffer: device_layout is the layout on the device; \
                          null selects the default";
    for (name, order) in [("row_major", [1i64, 0]), ("column_major", [0, 1])] {
        suite
            .case(
                format!("data.layout.upload[layout={name}]"),
                CLAUSE,
                "with JAX's layout API, users choose the order of an array's elements",
            )
            .profiles(Profiles::JAX)
            .check(move |cx| {
                let data = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
                let layout = Layout::new(order);
                let client = cx.client()?;
                let buffer = client.upload(Upload::of(&data).dims(&[2, 3]).layout(&layout))?;
                ensure_eq!(floats(&buffer)?, data.to_vec(), "contents in row-major order");
                if let Some(found) = buffer.memory_layout()? {
                    ensure_eq!(found.minor_to_major, order.to_vec(), "layout of the buffer");
                }
                Ok(())
            });
        suite
            .case(
                format!("data.layout.download[layout={name}]"),
                "pjrt_c_api.h, PJRT_Buffer_ToHostBuffer: host_layout is the layout of dst",
                "a wrong order silently transposes arrays",
            )
            .profiles(Profiles::JAX)
            .check(move |cx| {
                let data = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
                let buffer = cx.client()?.buffer_from_host(&data, &[2, 3])?;
                let found = buffer.download().layout(&Layout::new(order)).elements::<f32>()?;
                let expected = if name == "row_major" { data } else { [1.0, 4.0, 2.0, 5.0, 3.0, 6.0] };
                ensure_eq!(found, expected.to_vec(), "contents in the requested order");
                Ok(())
            });
    }
    suite
        .case(
            "data.query.unpadded_dimensions",
            "pjrt_c_api.h, PJRT_Buffer_UnpaddedDimensions: the dimensions of an array whose dimensions are all static",
            "JAX copies an array to the host with these dimensions",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Buffer_UnpaddedDimensions])
        .check(|cx| {
            for dimensions in [vec![], vec![5], vec![3, 7], vec![2, 0, 4]] {
                let count = usize::try_from(dimensions.iter().product::<i64>()).unwrap_or(0);
                let buffer = cx.client()?.buffer_from_host(&vec![0.0f32; count], &dimensions)?;
                ensure_eq!(buffer.unpadded_dimensions()?, dimensions, "dimensions");
            }
            Ok(())
        });
    suite
        .case(
            "data.query.no_dynamic_dimensions",
            "pjrt_c_api.h, PJRT_Buffer_DynamicDimensionIndices: the indices of the dynamic dimensions",
            "JAX rejects arrays with dynamic dimensions",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Buffer_DynamicDimensionIndices])
        .check(|cx| {
            let buffer = cx.client()?.buffer_from_host(&[0.0f32; 6], &[2, 3])?;
            ensure_eq!(buffer.dynamic_dimension_indices()?, Vec::<usize>::new(), "dynamic dimensions");
            Ok(())
        });
    suite
        .case(
            "data.query.dynamic_dimensions",
            "pjrt_c_api.h, PJRT_Buffer_DynamicDimensionIndices and PJRT_Buffer_UnpaddedDimensions: the dimensions of \
             bounded size, and the extents without padding",
            "programs of bounded dynamic shapes return arrays whose size is known only after the run",
        )
        .check(|cx| {
            let bounded = "tensor<2x?xf32, #stablehlo.bounds<?, 3>>";
            let executable = cx.compile(&main(
                "%x: tensor<2x3xf32>, %n: tensor<i32>",
                bounded,
                &format!(
                    "  %y = stablehlo.set_dimension_size %x, %n, dim = 1 : (tensor<2x3xf32>, tensor<i32>) -> {bounded}\n  return %y : {bounded}"
                ),
            ))?;
            let data = cx.client()?.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
            let size = cx.client()?.buffer_from_host(&[2i32], &[])?;
            let outputs = executable.execute(&[&data, &size])?;
            let output = first(&outputs)?;
            output.wait()?;
            ensure_eq!(output.dynamic_dimension_indices()?, vec![1], "dynamic dimensions");
            ensure_eq!(output.unpadded_dimensions()?, vec![2, 2], "extents without padding");
            Ok(())
        });
    for (dimensions, name) in [(vec![], "scalar"), (vec![1000i64], "vector"), (vec![7, 5, 3], "rank3")] {
        suite
            .case(
                format!("data.query.on_device_size[shape={name}]"),
                "pjrt_c_api.h, PJRT_Buffer_OnDeviceSizeInBytes: the number of bytes of the buffer on the device",
                "frameworks add up the sizes of their arrays to predict when the memory is full",
            )
            .profiles(Profiles::FRAMEWORKS)
            .functions(&[Function::PJRT_Buffer_OnDeviceSizeInBytes])
            .check(move |cx| {
                let count = usize::try_from(dimensions.iter().product::<i64>()).unwrap_or(0);
                let buffer = cx.client()?.buffer_from_host(&vec![1.0f32; count], &dimensions)?;
                let size = buffer.on_device_size()?;
                ensure!(size >= 4 * count, "an array of {} bytes has {size} bytes on the device", 4 * count);
                Ok(())
            });
    }
    suite
        .case(
            "data.layout.default_is_reported",
            "pjrt_c_api.h, PJRT_Buffer_GetMemoryLayout: returns the layout of the buffer",
            "JAX compares layouts of arrays and programs",
        )
        .profiles(Profiles::JAX)
        .check(|cx| {
            let buffer = cx.client()?.buffer_from_host(&[0.0f32; 24], &[2, 3, 4])?;
            let Some(layout) = buffer.memory_layout()? else {
                return Err(Stop::Unsupported("the plugin does not report the layout".to_owned()));
            };
            let mut order = layout.minor_to_major.clone();
            order.sort_unstable();
            ensure_eq!(order, vec![0, 1, 2], "dimensions of the layout");
            Ok(())
        });
}

fn outputs(suite: &mut Suite) {
    const CLAUSE: &str = "pjrt_c_api.h, PJRT_LoadedExecutable_Execute: output_lists receives \
                          PJRT_Executable_NumOutputs buffers per device, in the program's order";
    for count in [0usize, 1, 2, 3, 16, 100] {
        suite
            .case(
                format!("data.outputs.several[count={count}]"),
                CLAUSE,
                "a training step returns hundreds of arrays; swapped outputs corrupt the weights",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let types: Vec<String> = (0..count).map(|at| format!("tensor<{}xf32>", at + 1)).collect();
                let mut body = String::new();
                for (at, ty) in types.iter().enumerate() {
                    body += &format!("  %y{at} = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> {ty}\n");
                }
                let names: Vec<String> = (0..count).map(|at| format!("%y{at}")).collect();
                body += &if count == 0 {
                    "  return".to_owned()
                } else {
                    format!("  return {} : {}", names.join(", "), types.join(", "))
                };
                let executable = cx.compile(&main("%x: tensor<f32>", &format!("({})", types.join(", ")), &body))?;
                ensure_eq!(executable.executable().num_outputs()?, count, "PJRT_Executable_NumOutputs");
                let input = cx.client()?.buffer_from_host(&[7.0f32], &[])?;
                let outputs = executable.execute(&[&input])?;
                ensure_eq!(outputs.len(), count, "number of outputs");
                for (at, output) in outputs.iter().enumerate() {
                    ensure_eq!(floats(output)?, vec![7.0; at + 1], "output {at}");
                }
                Ok(())
            });
    }
    suite
        .case(
            "data.outputs.same_value_twice",
            CLAUSE,
            "a program may return one value twice; the two buffers must be independent",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.compile(&main(
                "%x: tensor<2xf32>",
                "(tensor<2xf32>, tensor<2xf32>)",
                "  %y = stablehlo.add %x, %x : tensor<2xf32>\n  return %y, %y : tensor<2xf32>, tensor<2xf32>",
            ))?;
            let input = cx.floats(&[1.0, 2.0])?;
            let outputs = executable.execute(&[&input])?;
            ensure_eq!(outputs.len(), 2, "number of outputs");
            outputs[0].delete()?;
            ensure_eq!(floats(&outputs[1])?, vec![2.0, 4.0], "the second output after the first was deleted");
            Ok(())
        });
    suite
        .case(
            "data.outputs.parameter_returned",
            CLAUSE,
            "a program may return its argument; deleting one must not delete the other",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.compile(&main("%x: tensor<2xf32>", "tensor<2xf32>", "  return %x : tensor<2xf32>"))?;
            let input = cx.floats(&[1.0, 2.0])?;
            let outputs = executable.execute(&[&input])?;
            input.delete()?;
            ensure_eq!(floats(first(&outputs)?)?, vec![1.0, 2.0], "the output after the argument was deleted");
            Ok(())
        });
    suite
        .case("data.outputs.no_parameters", CLAUSE, "programs that create constants or random seeds have no arguments")
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let text = main(
                "",
                "tensor<3xi32>",
                "  %y = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>\n  return %y : tensor<3xi32>",
            );
            let outputs = cx.compile(&text)?.execute(&[])?;
            ensure_eq!(first(&outputs)?.download().start::<i32>()?.wait()?, vec![1, 2, 3], "the constant");
            Ok(())
        });
    suite
        .case(
            "data.outputs.output_shapes",
            "pjrt_c_api.h, PJRT_Executable_OutputElementTypes and PJRT_Executable_OutputDimensions: the types and \
             dimensions of the outputs",
            "JAX creates the result arrays from them before the run ends",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.compile(&main(
                "%x: tensor<2x3xf32>",
                "(tensor<3x2xf32>, tensor<i1>, tensor<0xi8>)",
                "  %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %t = stablehlo.constant dense<true> : tensor<i1>
  %e = stablehlo.constant dense<> : tensor<0xi8>
  return %y, %t, %e : tensor<3x2xf32>, tensor<i1>, tensor<0xi8>",
            ))?;
            let expected = vec![
                Shape::new(ElementType::F32, [3, 2]),
                Shape::new(ElementType::Pred, []),
                Shape::new(ElementType::S8, [0]),
            ];
            ensure_eq!(executable.executable().output_shapes()?, expected, "shapes of the outputs");
            Ok(())
        });
}

fn downloads(suite: &mut Suite) {
    const CLAUSE: &str = "pjrt_c_api.h, PJRT_Buffer_ToHostBuffer: with a null dst, dst_size becomes the required size; \
                          a dst_size that is too small is an error";
    for ty in
        [ElementType::Pred, ElementType::U8, ElementType::S32, ElementType::F64, ElementType::C128, ElementType::S4]
    {
        suite
            .case(
                format!("data.download.size_query[dtype={ty}]"),
                CLAUSE,
                "frameworks allocate a destination of this size",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let data = HostArray::new(shape(ty, &[3, 5]), elements(ty, 15, cx.seed))?;
                let buffer = upload(cx, &data)?;
                let found = host_size(&buffer)?;
                ensure!(found >= data.bytes().len(), "the size is {found}, less than {}", data.bytes().len());
                Ok(())
            });
    }
    suite
        .case("data.download.too_small", CLAUSE, "writing beyond the caller's memory corrupts the heap")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let buffer = cx.floats(&[1.0; 16])?;
            buffer.wait()?;
            match read_with_size(&buffer, 64, 32)? {
                Ok(()) => Err(Stop::Fail("a destination of 32 bytes was accepted for 64 bytes".to_owned())),
                Err(failure) => {
                    ensure_eq!(failure.code(), Some(ErrorCode::INVALID_ARGUMENT.as_raw()), "code");
                    Ok(())
                }
            }
        });
    suite
        .case(
            "data.download.writes_within",
            "pjrt_c_api.h, PJRT_Buffer_ToHostBuffer: dst_size is the size of dst, beyond which nothing is written",
            "a copy in whole vectors that writes beyond the caller's memory corrupts the heap",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            for len in [1usize, 5, 16, 33] {
                let buffer = cx.floats(&vec![1.0; len])?;
                let behind = read_guarded(&buffer, 4 * len)?;
                ensure!(behind.iter().all(|byte| *byte == GUARD), "the copy of {len} elements wrote too many bytes");
            }
            Ok(())
        });
    suite
        .case(
            "data.download.concurrent",
            DOWNLOAD,
            "several threads of a framework may read one array at the same time",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let data: Vec<f32> = (0..10_000u16).map(f32::from).collect();
            let buffer = cx.floats(&data)?;
            let same = std::thread::scope(|scope| {
                let readers: Vec<_> = (0..8).map(|_| scope.spawn(|| floats(&buffer))).collect();
                readers
                    .into_iter()
                    .all(|reader| reader.join().is_ok_and(|found| found.is_ok_and(|found| found == data)))
            });
            ensure!(same, "a thread received wrong data or an error");
            Ok(())
        });
    suite
        .case("data.download.many_pending", DOWNLOAD, "JAX starts all copies before it waits for the first one")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let buffers: Vec<_> = (0..50u8).map(|at| cx.floats(&[f32::from(at); 1000])).collect::<Result<_, _>>()?;
            let reads: Vec<_> =
                buffers.iter().map(|buffer| buffer.download().start::<f32>()).collect::<Result<_, _>>()?;
            for (at, read) in (0..50u8).zip(reads).rev() {
                ensure!(read.wait()? == [f32::from(at); 1000], "copy {at} has wrong data");
            }
            Ok(())
        });
}
