//! Serialization for descriptors and manifests. An element type is serialized as its name. A [`Value`] is serialized
//! without the name of its type.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{ElementType, Value};

/// Serializes XLA's name of the type.
impl Serialize for ElementType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Deserializes XLA's or StableHLO's name of the type.
impl<'de> Deserialize<'de> for ElementType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = ElementType;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an element type, such as \"bf16\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<ElementType, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Name)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::String(text) => serializer.serialize_str(text),
            Self::Int64(number) => serializer.serialize_i64(*number),
            Self::Int64List(numbers) => numbers.serialize(serializer),
            Self::Float(number) => serializer.serialize_f32(*number),
            Self::Bool(flag) => serializer.serialize_bool(*flag),
        }
    }
}

/// Deserializes a value whose notation determines its type: `1` is an integer, and `1.0` is a float.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, a number, a boolean or a list of integers")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
                Ok(Value::from(text))
            }
            fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
                Ok(Value::Bool(flag))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
                Ok(Value::Int64(number))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
                let signed = i64::try_from(number);
                signed
                    .map(Value::Int64)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &"a 64-bit integer"))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "rounds to the nearest float; values that are too large are rejected below"
                )]
                let float = number as f32;
                match float.is_finite() {
                    true => Ok(Value::Float(float)),
                    false => Err(E::invalid_value(Unexpected::Float(number), &"a 32-bit float")),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element()? {
                    numbers.push(number);
                }
                Ok(Value::Int64List(numbers))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, to_string};

    use super::*;

    #[test]
    fn element_types_are_names() {
        for ty in ElementType::ALL {
            assert_eq!(to_string(ty).unwrap(), format!("\"{}\"", ty.name()));
            assert_eq!(from_str::<ElementType>(&format!("\"{}\"", ty.stablehlo_name())).unwrap(), *ty);
        }
        let mut messages = String::new();
        for wrong in ["\"bf17\"", "16"] {
            let error = from_str::<ElementType>(wrong).unwrap_err();
            messages += &format!("{wrong}: {error}\n");
        }
        expect_test::expect![[r#"
            "bf17": "bf17" is not an element type; known are pred, s8, s16, s32, s64, u8, u16, u32, u64, f16, f32, f64, bf16, c64, c128, f8e5m2, f8e4m3fn, f8e4m3b11fnuz, f8e5m2fnuz, f8e4m3fnuz, s4, u4, token, s2, u2, f8e4m3, f8e3m4, f8e8m0fnu, f4e2m1fn, s1, u1, f6e2m3fn, f6e3m2fn at line 1 column 6
            16: invalid type: integer `16`, expected the name of an element type, such as "bf16" at line 1 column 2
        "#]].assert_eq(&messages);
    }

    #[test]
    fn values_keep_their_type() {
        let values = [
            Value::from("a"),
            Value::from(-1),
            Value::Int64(i64::MAX),
            Value::from([1, 2]),
            Value::from(1.0_f32),
            Value::from(0.1_f32),
            Value::from(true),
        ];
        for value in values {
            let text = to_string(&value).unwrap();
            assert_eq!(from_str::<Value>(&text).unwrap(), value, "{text}");
        }
        for bad in ["null", "{}", "1e300", "18446744073709551615", "[1.5]", "[\"a\"]"] {
            assert!(from_str::<Value>(bad).is_err(), "{bad}");
        }
    }
}
