//! Opcodes and names of ops.

use super::artifact::artifact_names;
use super::hash::hash;
use crate::ir::{Binary, OpKind, Unary};

/// Hash table of names, built at compile time. It finds the index of a name in a list of names.
struct NameTable<const SLOTS: usize>([Slot; SLOTS]);

/// A name in a string of names without separators. One string is smaller than one slice per name, because the dynamic
/// loader must relocate every slice.
#[derive(Clone, Copy)]
struct Slot {
    start: u16,
    /// Length of the name, or 0 if the slot is free.
    length: u8,
    /// Index of the name in the list.
    index: u8,
}

impl<const SLOTS: usize> NameTable<SLOTS> {
    /// Creates the table of the names with these lengths in `names`.
    const fn new(names: &str, lengths: &[u16]) -> Self {
        assert!(SLOTS >= 2 * lengths.len(), "free slots end the search");
        let mut slots = [Slot { start: 0, length: 0, index: 0 }; SLOTS];
        let (mut index, mut start) = (0, 0);
        while index < lengths.len() {
            let length = lengths[index];
            let (_, rest) = names.as_bytes().split_at(start as usize);
            let mut at = hash(rest.split_at(length as usize).0) % SLOTS;
            while slots[at].length > 0 {
                at = (at + 1) % SLOTS;
            }
            assert!(length < 256 && index < 256, "they fit into a byte");
            slots[at] = Slot { start, length: length.to_le_bytes()[0], index: index.to_le_bytes()[0] };
            start += length;
            index += 1;
        }
        Self(slots)
    }

    /// Returns the index of a name. `names` is the string from which the table was created.
    fn find(&self, names: &str, name: &str) -> Option<usize> {
        let mut at = hash(name.as_bytes()) % SLOTS;
        loop {
            let Slot { start, length, index } = self.0[at];
            if length == 0 {
                return None;
            }
            let length = usize::from(length);
            if length == name.len() && &names[start.into()..][..length] == name {
                return Some(index.into());
            }
            at = (at + 1) % SLOTS;
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked")]
const fn short(number: usize) -> u16 {
    assert!(number <= u16::MAX as usize);
    number as u16
}

macro_rules! elementwise_names {
    ($( $(#[$doc:meta])* $kind:ident { $($variant:ident $name:literal $set:ident;)* } )*) => {
        $(
            impl $kind {
                const NAMES: &str = concat!($($name),*);
                const LENGTHS: &[u16] = &[$(short($name.len())),*];
                const TABLE: &NameTable<64> = &NameTable::new(Self::NAMES, Self::LENGTHS);

                /// Returns the name without the dialect, such as `add`.
                #[must_use]
                pub fn name(self) -> &'static str {
                    let at = Self::ALL.iter().take_while(|op| **op != self).count();
                    let start = Self::LENGTHS[..at].iter().map(|length| usize::from(*length)).sum();
                    &Self::NAMES[start..][..Self::LENGTHS[at].into()]
                }

                /// Returns the op with this name.
                #[must_use]
                pub fn from_name(name: &str) -> Option<Self> {
                    Self::TABLE.find(Self::NAMES, name).map(|at| Self::ALL[at])
                }
            }
        )*
    };
}

elementwise_table!(elementwise_names);

macro_rules! opcodes {
    (
        table { $(
            $(#[$doc:meta])*
            $op:ident $name:literal ($($counts:tt)*)
            $({ $($field:ident : $ty:ty as $codec:ident = $attribute:literal),+ $(,)? })?
            $form:ident $([$($word:literal $of:ident),*])?;
        )* }
        own { $(
            $(#[$own_doc:meta])*
            $own:ident $own_name:literal ($($own_counts:tt)*) { $($own_fields:tt)* };
        )* }
    ) => {
        /// Op that a name refers to. The bytecode reader resolves each name only once.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) enum Opcode {
            Unary(Unary),
            Binary(Binary),
            Constant,
            /// The readers convert `broadcast` to `broadcast_in_dim`.
            Broadcast,
            /// The readers convert `dot` to `dot_general`.
            Dot,
            $($op,)*
            $($own,)*
            #[default]
            Other,
        }

        const NAMES: &str = concat!("constant", "broadcast", "dot", $($name,)* $($own_name),*);
        const LENGTHS: &[u16] = &[8, 9, 3, $(short($name.len()),)* $(short($own_name.len())),*];
        const TABLE: &NameTable<256> = &NameTable::new(NAMES, LENGTHS);
        const CODES: &[Opcode] =
            &[Opcode::Constant, Opcode::Broadcast, Opcode::Dot, $(Opcode::$op,)* $(Opcode::$own),*];

        impl OpKind {
            /// Returns the name without the dialect. The name is empty for [`OpKind::Other`].
            pub(crate) fn base_name(&self) -> &'static str {
                match self {
                    Self::Other { .. } => "",
                    Self::Unary(unary) => unary.name(),
                    Self::Binary(binary) => binary.name(),
                    Self::Constant(_) => "constant",
                    $(Self::$op { .. } => $name,)*
                    $(Self::$own { .. } => $own_name,)*
                }
            }
        }
    };
}

op_table!(opcodes);

impl Opcode {
    /// Returns the opcode of a StableHLO op. `name` is the name without dialect and version.
    pub(crate) fn from_name(name: &str) -> Self {
        if let Some(binary) = Binary::from_name(name) {
            return Self::Binary(binary);
        }
        if let Some(at) = TABLE.find(NAMES, name) {
            return CODES[at];
        }
        Unary::from_name(name).map_or(Self::Other, Self::Unary)
    }
}

impl OpKind {
    /// Returns the full name of the op, such as `stablehlo.add`. The name of `func.call` is `stablehlo.call`.
    #[must_use]
    pub fn name(&self) -> String {
        self.name_parts().join()
    }

    /// Returns the name before it is formatted, which outlives the op.
    pub(crate) fn name_parts(&self) -> NameParts {
        match self {
            Self::Other { name, .. } => NameParts::Other(name.clone()),
            kind => NameParts::Stablehlo(kind.base_name()),
        }
    }
}

/// The parts of an op's name.
pub(crate) enum NameParts {
    /// The name without the dialect.
    Stablehlo(&'static str),
    Other(String),
}

impl NameParts {
    pub(crate) fn join(self) -> String {
        match self {
            Self::Stablehlo(name) => format!("stablehlo.{name}"),
            Self::Other(name) => name,
        }
    }
}

/// Returns the sorted names of all StableHLO ops, without the dialect.
pub fn op_names() -> impl Iterator<Item = &'static str> {
    // The tables also contain these names, which are not names of StableHLO ops.
    let others = ["func", "call", "return"];
    let mut rest = NAMES;
    let typed = LENGTHS.iter().map(|length| {
        let (name, others) = rest.split_at((*length).into());
        rest = others;
        name
    });
    let mut names: Vec<&'static str> = typed.chain(artifact_names()).collect();
    names.retain(|name| !others.contains(name));
    names.extend(Unary::ALL.iter().map(|unary| unary.name()));
    names.extend(Binary::ALL.iter().map(|binary| binary.name()));
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_has_a_name() {
        let names: Vec<_> = op_names().collect();
        assert!(names.len() > 110, "{}", names.len());
        // Every name has an opcode, including `broadcast` and `dot`, which the readers convert to other ops.
        let untyped: Vec<_> = names.iter().filter(|name| Opcode::from_name(name) == Opcode::Other).collect();
        assert!(untyped.is_empty(), "without a variant of OpKind: {untyped:?}");
        for name in ["add", "tan", "while", "all_reduce", "uniform_quantize", "dot_general", "return"] {
            assert_eq!(names.contains(&name), name != "return", "{name}");
        }
    }

    #[test]
    fn codes_have_their_names() {
        for op in Binary::ALL {
            assert_eq!(Opcode::from_name(op.name()), Opcode::Binary(*op));
        }
        for op in Unary::ALL {
            assert_eq!(Opcode::from_name(op.name()), Opcode::Unary(*op));
        }
        assert_eq!((Binary::Add.name(), Binary::Xor.name()), ("add", "xor"));
        assert_eq!((Unary::Abs.name(), Unary::Tanh.name()), ("abs", "tanh"));
        assert_eq!(Opcode::from_name("constant"), Opcode::Constant);
        assert_eq!(Opcode::from_name("get_tuple_element"), Opcode::GetTupleElement);
        assert_eq!(Opcode::from_name("return"), Opcode::Return);
        assert_eq!(Opcode::from_name("add"), Opcode::Binary(Binary::Add));
        assert_eq!(Opcode::from_name("tanh"), Opcode::Unary(Unary::Tanh));
        assert_eq!(Opcode::from_name("constan"), Opcode::Other);
        assert_eq!(Opcode::from_name(""), Opcode::Other);
    }
}
