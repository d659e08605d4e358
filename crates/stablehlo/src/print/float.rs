//! Prints floating-point numbers in MLIR's form.

use std::cmp::Ordering;

use crate::float::decode;
use crate::ir::ElementType;

/// Formats a number from its bits. Uses the exponent form if six digits identify the number. Otherwise prints as many
/// digits as the type needs. Prints a number in hexadecimal if it is infinite or NaN, or if its decimal form would look
/// like an integer.
pub(crate) fn float_text(bits: u64, element: ElementType) -> String {
    let hexadecimal = || format!("0x{bits:0width$X}", width = element.bit_width().div_ceil(4) as usize);
    let Some(value) = decode(bits, element).filter(|v| v.is_finite()) else { return hexadecimal() };
    let nearest = |(digits, first): &(Vec<u8>, i32)| is_nearest(digits, *first, bits, element);
    let short = digits(value, 6);
    if nearest(&short) {
        return exponent_form(value, &short);
    }
    let long = digits(value, significant_digits(element));
    if nearest(&long) {
        let text = long_form(value, &long, significant_digits(element));
        if text.contains('.') {
            return text;
        }
    }
    hexadecimal()
}

/// A nonnegative number, as an integer times a power of two.
#[derive(Clone, Copy)]
struct Binary {
    whole: u64,
    exponent: i32,
}

impl Binary {
    fn new(value: f64) -> Self {
        let raw = value.abs().to_bits();
        let (biased, fraction) = (raw >> 52, raw & ((1 << 52) - 1));
        if biased == 0 {
            return Self { whole: fraction, exponent: -1074 };
        }
        Self { whole: fraction | 1 << 52, exponent: i32::try_from(biased).unwrap_or(0) - 1075 }
    }

    /// Returns the integer that represents the same number with another exponent. That exponent must be at most
    /// `self.exponent`, and at least `self.exponent - 8`.
    fn at(self, exponent: i32) -> u64 {
        if self.whole == 0 { 0 } else { self.whole << (self.exponent - exponent).clamp(0, 8) }
    }

    /// Returns the midpoints between the number and its smaller and larger neighbors. For the largest number, both
    /// distances are equal.
    fn halves(self, smaller: Option<Self>, larger: Option<Self>) -> (Option<Self>, Option<Self>) {
        let with = |exponent: i32, sum: u64| Self { whole: sum, exponent: exponent - 1 };
        let below = smaller.map(|x| {
            let exponent = if x.whole == 0 { self.exponent } else { self.exponent.min(x.exponent) };
            with(exponent, self.at(exponent) + x.at(exponent))
        });
        let above = match (larger, smaller) {
            (Some(x), _) => {
                let exponent = if self.whole == 0 { x.exponent } else { self.exponent.min(x.exponent) };
                Some(with(exponent, self.at(exponent) + x.at(exponent)))
            }
            (None, Some(x)) => {
                let exponent = if x.whole == 0 { self.exponent } else { self.exponent.min(x.exponent) };
                Some(with(exponent, 3 * self.at(exponent) - x.at(exponent)))
            }
            (None, None) => None,
        };
        (below, above)
    }
}

/// Returns whether a decimal number rounds to the number with these bits. No other number of the type may be nearer,
/// and in case of a tie, `bits` must be even. The first digit has the weight `10^first`.
fn is_nearest(digits: &[u8], first: i32, bits: u64, element: ElementType) -> bool {
    let width = element.bit_width() - u32::from(element != ElementType::F8E8M0FNU);
    let magnitude = bits & ((1 << width) - 1);
    let number = |bits: u64| {
        let value = decode(bits, element).filter(|x| x.is_finite());
        value.filter(|_| bits >> width == 0).map(Binary::new)
    };
    let Some(value) = number(magnitude) else { return false };
    let (below, above) = value.halves(magnitude.checked_sub(1).and_then(number), number(magnitude + 1));
    let whole = digits.iter().fold(0u64, |all, digit| 10 * all + u64::from(*digit));
    let exponent = first - i32::try_from(digits.len()).unwrap_or(0) + 1;
    let even = magnitude & 1 == 0;
    let side = |half: Binary| {
        let (mut decimal, mut binary) = (Whole::new(whole), Whole::new(half.whole));
        (0..exponent.abs()).for_each(|_| if exponent > 0 { decimal.multiply(10) } else { binary.multiply(10) });
        (0..half.exponent.abs()).for_each(|_| if half.exponent > 0 { binary.multiply(2) } else { decimal.multiply(2) });
        decimal.cmp(&binary)
    };
    below.is_none_or(|half| match side(half) {
        Ordering::Less => false,
        Ordering::Equal => even,
        Ordering::Greater => true,
    }) && above.is_none_or(|half| match side(half) {
        Ordering::Less => true,
        Ordering::Equal => even,
        Ordering::Greater => false,
    })
}

/// Returns the number of decimal digits that distinguish all values of the type.
fn significant_digits(element: ElementType) -> usize {
    let precision = match element {
        ElementType::F64 => 53,
        ElementType::F32 => 24,
        ElementType::F16 | ElementType::Tf32 => 11,
        ElementType::Bf16 => 8,
        _ => 5,
    };
    2 + precision * 59 / 196
}

/// Returns up to `count` significant digits without trailing zeros, and the power of ten of the first digit.
///
/// LLVM truncates the binary value to slightly more than the required digits, and then rounds in decimal, halves up.
/// The last digit is therefore not always the nearest digit. This function rounds in the same way, so that the text is
/// identical.
fn digits(value: f64, count: usize) -> (Vec<u8>, i32) {
    if value == 0.0 {
        return (vec![0], 0);
    }
    let Binary { whole: mut significand, mut exponent } = Binary::new(value);
    let zeros = significand.trailing_zeros().min(63);
    significand >>= zeros;
    exponent += i32::try_from(zeros).unwrap_or(0);
    // Multiply by powers of 2 or 5, so that the number becomes `whole * 10^exponent`.
    let mut whole = Whole::new(significand);
    for _ in 0..exponent.abs() {
        whole.multiply(if exponent > 0 { 2 } else { 5 });
    }
    exponent = exponent.min(0);
    let enough = (count * 196).div_ceil(59);
    for _ in 0..whole.bits().saturating_sub(enough) * 59 / 196 {
        whole.divide_by_ten();
        exponent += 1;
    }
    let mut reversed = Vec::new();
    while !whole.is_zero() {
        let digit = whole.divide_by_ten();
        if digit == 0 && reversed.is_empty() {
            exponent += 1;
        } else {
            reversed.push(digit);
        }
    }
    let first = exponent + i32::try_from(reversed.len()).unwrap_or(0) - 1;
    let mut all: Vec<u8> = reversed.into_iter().rev().collect();
    let up = all.get(count).is_some_and(|&d| d >= 5);
    all.truncate(count);
    if up {
        match all.iter().rposition(|&d| d < 9) {
            Some(at) => {
                all[at] += 1;
                all.truncate(at + 1);
            }
            None => return (vec![1], first + 1),
        }
    }
    while all.len() > 1 && all.last() == Some(&0) {
        all.pop();
    }
    (all, first)
}

/// A natural number of any size, least significant word first.
struct Whole(Vec<u32>);

impl Whole {
    fn new(value: u64) -> Self {
        let mut this = Self(Vec::with_capacity(8));
        let mut left = value;
        while left > 0 {
            this.0.push(u32::try_from(left & 0xFFFF_FFFF).unwrap_or(0));
            left >>= 32;
        }
        this
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn bits(&self) -> usize {
        self.0.last().map_or(0, |top| 32 * self.0.len() - top.leading_zeros() as usize)
    }

    fn multiply(&mut self, by: u64) {
        let mut carry = 0;
        for part in &mut self.0 {
            let product = u64::from(*part) * by + carry;
            *part = u32::try_from(product & 0xFFFF_FFFF).unwrap_or(0);
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(u32::try_from(carry).unwrap_or(0));
        }
    }

    /// Divides by ten, and returns the remainder.
    fn divide_by_ten(&mut self) -> u8 {
        let mut rest = 0;
        for part in self.0.iter_mut().rev() {
            let value = rest << 32 | u64::from(*part);
            *part = u32::try_from(value / 10).unwrap_or(0);
            rest = value % 10;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        u8::try_from(rest).unwrap_or(0)
    }
}

/// Formats a number like `1.500000e+00`.
fn exponent_form(value: f64, (digits, exponent): &(Vec<u8>, i32)) -> String {
    let mut text = String::with_capacity(16);
    text.push_str(if value.is_sign_negative() { "-" } else { "" });
    for i in 0..7 {
        text.push(char::from(b'0' + digits.get(i).copied().unwrap_or(0)));
        if i == 0 {
            text.push('.');
        }
    }
    text.push_str(&format!("e{}{:02}", if *exponent < 0 { '-' } else { '+' }, exponent.abs()));
    text
}

/// Formats a number like `0.333333343` or `1.50563267E-7`.
fn long_form(value: f64, (digits, first): &(Vec<u8>, i32), precision: usize) -> String {
    let first = *first;
    let text: String = digits.iter().map(|d| char::from(b'0' + d)).collect();
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let last = first - count + 1;
    let plain = if last >= 0 {
        // Allow at most three padding zeros, and at most as many digits as the type needs.
        last <= 3 && last + count <= i32::try_from(precision).unwrap_or(0)
    } else {
        first >= -3
    };
    if !plain {
        let rest = if text.len() > 1 { &text[1..] } else { "0" };
        return format!("{sign}{}.{rest}E{}{}", &text[..1], if first < 0 { '-' } else { '+' }, first.abs());
    }
    match usize::try_from(first) {
        // Without a decimal point, MLIR reads the text as an integer.
        Ok(whole) if whole + 1 >= text.len() => format!("{sign}{text}{}", "0".repeat(whole + 1 - text.len())),
        Ok(whole) => format!("{sign}{}.{}", &text[..=whole], &text[whole + 1..]),
        Err(_) => format!("{sign}0.{}{text}", "0".repeat(usize::try_from(-first - 1).unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float::encode;

    /// Checks that `is_nearest` returns true for the digits of a number exactly if parsing these digits returns the
    /// number.
    #[test]
    fn text_round_trip() {
        let mut state = 1u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for element in ElementType::all().filter(|element| element.is_float()) {
            let width = element.bit_width();
            let few = width <= 16;
            for i in 0..if few { 1u64 << width } else { 4_000 } {
                let any = random();
                let bits = match i % 4 {
                    _ if few => i,
                    // Also test numbers with few decimal digits.
                    0 => encode(f64::from(u32::try_from(any % 100_000).unwrap()) / 1000.0, element).unwrap(),
                    1 => any >> (64 - width) & !0xFF,
                    _ => any >> (64 - width),
                };
                let Some(value) = decode(bits, element).filter(|value| value.is_finite()) else { continue };
                for count in [6, significant_digits(element)] {
                    let (all, first) = digits(value, count);
                    let text: String = all.iter().map(|digit| char::from(b'0' + digit)).collect();
                    let sign = if value.is_sign_negative() { "-" } else { "" };
                    let text = format!("{sign}{text}e{}", first - i32::try_from(all.len()).unwrap() + 1);
                    let read = encode(text.parse().unwrap(), element) == Some(bits);
                    assert_eq!(is_nearest(&all, first, bits, element), read, "{text} as {element}: {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn reads_mlir_spelling() {
        for (bits, text) in [
            (1.0f32.to_bits(), "1.000000e+00"),
            (0.1f32.to_bits(), "1.000000e-01"),
            ((-0.0f32).to_bits(), "-0.000000e+00"),
            (0.333_333_34f32.to_bits(), "0.333333343"),
            (0.918_938_5f32.to_bits(), "0.918938517"),
            (1e-5f32.to_bits(), "9.99999974E-6"),
            (1.505_632_7e-7_f32.to_bits(), "1.50563267E-7"),
            (0.000_976_562_5_f32.to_bits(), "9.765625E-4"),
            (123_456.7f32.to_bits(), "123456.703"),
            (3.4e38f32.to_bits(), "3.400000e+38"),
            (16_777_216f32.to_bits(), "0x4B800000"),
            (1_234_567f32.to_bits(), "0x4996B438"),
            (f32::INFINITY.to_bits(), "0x7F800000"),
            (0x7FC0_0000, "0x7FC00000"),
            ((-1_259.139_2_f32).to_bits(), "-1259.13916"),
        ] {
            assert_eq!(float_text(u64::from(bits), ElementType::F32), text);
        }
        assert_eq!(float_text(123_456_789.125f64.to_bits(), ElementType::F64), "123456789.125");
        for (value, text) in [(0.1, "1.000980e-01"), (3.3333, "3.328130e+00"), (0.000_976_562_5, "9.765620e-04")] {
            assert_eq!(float_text(encode(value, ElementType::Bf16).unwrap(), ElementType::Bf16), text);
        }
        assert_eq!(float_text(0x7F, ElementType::F8E4M3FN), "0x7F");
    }

    #[test]
    fn every_pattern_round_trips() {
        for element in [ElementType::Bf16, ElementType::F16, ElementType::F8E5M2, ElementType::F4E2M1FN] {
            for bits in 0..1u64 << element.bit_width() {
                let text = float_text(bits, element);
                let back = match text.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).ok(),
                    None => encode(text.parse().unwrap(), element),
                };
                assert_eq!(back, Some(bits), "{text} as {element}");
            }
        }
    }
}
