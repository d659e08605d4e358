//! Creates small libraries in the formats ELF, PE and Mach-O, byte by byte.

/// Describes an ELF shared library.
#[derive(Clone, Debug)]
pub struct Elf {
    pub machine: u16,
    pub kind: u16,
    pub exports: Vec<&'static str>,
    /// Symbols that the library uses but does not define.
    pub imports: Vec<&'static str>,
    pub needed: Vec<String>,
    pub rpath: Option<String>,
    pub runpath: Option<String>,
    pub gnu_hash: bool,
}

pub const X86_64: u16 = 62;
pub const AARCH64: u16 = 183;

/// Returns the ELF machine number of this host.
pub fn host_machine() -> u16 {
    if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 }
}

/// Returns an ELF machine number that is not the host's.
pub fn other_machine() -> u16 {
    if cfg!(target_arch = "aarch64") { X86_64 } else { AARCH64 }
}

impl Elf {
    /// Creates a library that exports nothing.
    pub fn new() -> Self {
        Self {
            machine: host_machine(),
            kind: 3,
            exports: Vec::new(),
            imports: Vec::new(),
            needed: Vec::new(),
            rpath: None,
            runpath: None,
            gnu_hash: true,
        }
    }

    /// Creates a library that exports `GetPjrtApi`.
    pub fn plugin() -> Self {
        Self { exports: vec!["GetPjrtApi"], ..Self::new() }
    }

    pub fn needing(mut self, names: &[&str]) -> Self {
        self.needed = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        // The string table. `text` appends a string and returns its offset in the table.
        let mut strings = vec![0u8];
        let mut text = |text: &str| {
            let at = strings.len() as u64;
            strings.extend(text.bytes());
            strings.push(0);
            at
        };
        // A GNU hash table requires that undefined symbols precede the hashed symbols in the symbol table.
        let symbols: Vec<(u64, &str, bool)> = (self.imports.iter().map(|name| (*name, false)))
            .chain(self.exports.iter().map(|name| (*name, true)))
            .map(|(name, defined)| (text(name), name, defined))
            .collect();
        let mut dynamic: Vec<(u64, u64)> = self.needed.iter().map(|name| (1, text(name))).collect();
        dynamic.extend(self.rpath.iter().map(|folders| (15, text(folders))));
        dynamic.extend(self.runpath.iter().map(|folders| (29, text(folders))));

        let mut symbol_table = vec![0u8; 24];
        for (name, _, defined) in &symbols {
            symbol_table.extend((*name as u32).to_le_bytes());
            symbol_table.extend([0x12, 0]);
            symbol_table.extend(u16::from(*defined).to_le_bytes());
            symbol_table.extend([0; 16]);
        }
        let hash = if self.gnu_hash { gnu_table(&symbols) } else { sysv_table(&symbols) };

        let headers = 64 + 2 * 56;
        let symbols_at = headers as u64;
        let strings_at = symbols_at + symbol_table.len() as u64;
        let hash_at = (strings_at + strings.len() as u64).next_multiple_of(8);
        let dynamic_at = (hash_at + hash.len() as u64).next_multiple_of(8);
        dynamic.extend([
            (5, strings_at),
            (6, symbols_at),
            (if self.gnu_hash { 0x6fff_fef5 } else { 4 }, hash_at),
            (0, 0),
        ]);
        let end = dynamic_at + dynamic.len() as u64 * 16;

        let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend(self.machine.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend([0u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(0u32.to_le_bytes());
        bytes.extend([64u16, 56, 2, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
        for (kind, offset, size) in [(1u32, 0u64, end), (2, dynamic_at, dynamic.len() as u64 * 16)] {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(5u32.to_le_bytes());
            bytes.extend([offset, offset, offset, size, size, 8].iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes.extend(symbol_table);
        bytes.extend(strings);
        bytes.resize(hash_at as usize, 0);
        bytes.extend(hash);
        bytes.resize(dynamic_at as usize, 0);
        bytes.extend(dynamic.iter().flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()].concat()));
        bytes
    }
}

/// Creates a GNU hash table with one bucket, and one filter word that accepts every name.
fn gnu_table(symbols: &[(u64, &str, bool)]) -> Vec<u8> {
    let undefined = symbols.iter().filter(|(_, _, defined)| !defined).count() as u32;
    let defined: Vec<&str> = symbols.iter().filter(|(_, _, defined)| *defined).map(|(_, name, _)| *name).collect();
    let first = if defined.is_empty() { 0 } else { undefined + 1 };
    let mut table: Vec<u8> = [1, undefined + 1, 1, 6].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    table.extend(u64::MAX.to_le_bytes());
    table.extend(first.to_le_bytes());
    for (i, name) in defined.iter().enumerate() {
        let hash = name.bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        let last = i + 1 == defined.len();
        table.extend(((hash & !1) | u32::from(last)).to_le_bytes());
    }
    table
}

/// Creates a System V hash table with one bucket and one chain.
fn sysv_table(symbols: &[(u64, &str, bool)]) -> Vec<u8> {
    let count = symbols.len() as u32 + 1;
    let mut words = vec![1, count, if symbols.is_empty() { 0 } else { 1 }, 0];
    words.extend((1..count).map(|index| if index + 1 == count { 0 } else { index + 1 }));
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

pub const PE_AMD64: u16 = 0x8664;
pub const PE_ARM64: u16 = 0xaa64;

/// Creates a Windows library that exports these names and imports these libraries.
pub fn pe(machine: u16, exports: &[&str], imports: &[&str]) -> Vec<u8> {
    const SECTION: u32 = 0x200;
    const ADDRESS: u32 = 0x1000;
    // Layout of the section: the export directory with its tables and names, then the import directory with its names.
    let n = exports.len() as u32;
    let tables = 40;
    let names_at = tables + n * 4 + n * 4 + n * 2;
    let mut names = Vec::new();
    let mut pointers = Vec::new();
    for name in exports {
        pointers.push(ADDRESS + names_at + names.len() as u32);
        names.extend(name.bytes());
        names.push(0);
    }
    let mut section: Vec<u8> = Vec::new();
    let directory = [0, 0, 0, 0, 1, n, n, ADDRESS + tables, ADDRESS + tables + n * 4, ADDRESS + tables + n * 8];
    section.extend(directory.iter().flat_map(|word: &u32| word.to_le_bytes()));
    section.extend((0..n).flat_map(|i| (0x9000 + i).to_le_bytes()));
    section.extend(pointers.iter().flat_map(|word| word.to_le_bytes()));
    section.extend((0..n as u16).flat_map(u16::to_le_bytes));
    section.extend(names);
    let export_size = section.len() as u32;
    let import_at = section.len() as u32;
    let import_names_at = import_at + (imports.len() as u32 + 1) * 20;
    let mut import_names = Vec::new();
    for name in imports {
        let at = ADDRESS + import_names_at + import_names.len() as u32;
        section.extend([0u32, 0, 0, at, 0].iter().flat_map(|word| word.to_le_bytes()));
        import_names.extend(name.bytes());
        import_names.push(0);
    }
    section.extend([0; 20]);
    section.extend(import_names);

    let mut bytes = vec![b'M', b'Z'];
    bytes.resize(60, 0);
    bytes.extend(64u32.to_le_bytes());
    bytes.extend(b"PE\0\0");
    bytes.extend(machine.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    bytes.extend([0u32; 3].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(240u16.to_le_bytes());
    bytes.extend(0x2022u16.to_le_bytes());
    let optional = bytes.len();
    bytes.extend(0x20bu16.to_le_bytes());
    bytes.resize(optional + 108, 0);
    bytes.extend(16u32.to_le_bytes());
    bytes.extend([ADDRESS, if n == 0 { 0 } else { export_size }].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend([ADDRESS + import_at, 20].iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(optional + 240, 0);
    bytes.extend(b".edata\0\0");
    let size = section.len() as u32;
    bytes.extend([size, ADDRESS, size, SECTION, 0, 0, 0, 0x4000_0040].iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(SECTION as usize, 0);
    bytes.extend(section);
    bytes
}

pub const MACHO_ARM64: u32 = 0x0100_000c;
pub const MACHO_X86_64: u32 = 0x0100_0007;

/// Creates a macOS library that exports these names and depends on these libraries. If `trie` is `true`, the exports
/// are in a trie. Otherwise, they are in a symbol table.
pub fn macho(cpu: u32, exports: &[&str], needed: &[&str], trie: bool) -> Vec<u8> {
    let mut commands: Vec<Vec<u8>> = Vec::new();
    for (command, name) in [(0xdu32, "libself.dylib")].into_iter().chain(needed.iter().map(|name| (0xc, *name))) {
        let size = (24 + name.len() + 1).next_multiple_of(8);
        let mut bytes: Vec<u8> =
            [command, size as u32, 24, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(name.bytes());
        bytes.resize(size, 0);
        commands.push(bytes);
    }
    let header = 32;
    let data_at = header + commands.iter().map(Vec::len).sum::<usize>() as u32 + if trie { 16 } else { 24 };
    let mut data = Vec::new();
    if trie {
        // The root has one child for each name. The edge label is the whole name, and the child is a terminal node with
        // two bytes of data.
        let root: usize = 2 + exports.iter().map(|name| name.len() + 3).sum::<usize>();
        data.extend([0, exports.len() as u8]);
        for (i, name) in exports.iter().enumerate() {
            data.push(b'_');
            data.extend(name.bytes());
            data.push(0);
            data.push((root + i * 4) as u8);
        }
        data.extend(exports.iter().flat_map(|_| [2, 0, 0, 0]));
        let words = [0x8000_0033u32, 16, data_at, data.len() as u32];
        commands.push(words.iter().flat_map(|word| word.to_le_bytes()).collect());
    } else {
        let mut strings = vec![0u8];
        for name in exports {
            data.extend((strings.len() as u32).to_le_bytes());
            data.extend([0x0f, 1, 0, 0]);
            data.extend(0u64.to_le_bytes());
            strings.push(b'_');
            strings.extend(name.bytes());
            strings.push(0);
        }
        let words = [2u32, 24, data_at, exports.len() as u32, data_at + data.len() as u32, strings.len() as u32];
        commands.push(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        data.extend(strings);
    }
    let size = commands.iter().map(Vec::len).sum::<usize>() as u32;
    let words = [0xfeed_facf, cpu, 0, 6, commands.len() as u32, size, 0, 0];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    bytes.extend(commands.concat());
    bytes.extend(data);
    bytes
}

/// Creates a universal Mach-O file with these slices, each with its CPU type and its content.
pub fn fat(slices: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut at = 4096u32;
    let mut bytes: Vec<u8> = 0xcafe_babeu32.to_be_bytes().to_vec();
    bytes.extend((slices.len() as u32).to_be_bytes());
    for (cpu, slice) in slices {
        let words = [*cpu, 0, at, slice.len() as u32, 12];
        bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        at = (at + slice.len() as u32).next_multiple_of(4096);
    }
    for (_, slice) in slices {
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes.extend(slice);
    }
    bytes
}
