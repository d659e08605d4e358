//! Reads libraries in PE, the executable format of Windows.

use object::LittleEndian as LE;
use object::pe;
use object::read::pe::{ExportTable, ImageNtHeaders, SectionTable, optional_header_magic};
use object::read::{ReadCache, ReadRef};

use super::facts::{Exports, Fault, LibraryFacts, LibraryFormat};
use super::limited::{Limited, short_name};
use super::reader::Reader;
use crate::discovery::target::{Architecture, OperatingSystem, Target};

/// Maximum number of imported libraries that are read from a file. The table of a damaged file may have no end.
const MOST_IMPORTS: u64 = 4096;
/// Maximum length in bytes of an imported library's name.
const LONGEST: u64 = 512;

type Data<'data> = Limited<&'data ReadCache<Reader>>;

fn architecture(machine: u16) -> Architecture {
    match machine {
        pe::IMAGE_FILE_MACHINE_AMD64 => Architecture::X86_64,
        pe::IMAGE_FILE_MACHINE_I386 => Architecture::X86,
        pe::IMAGE_FILE_MACHINE_ARM64 | pe::IMAGE_FILE_MACHINE_ARM64EC => Architecture::Aarch64,
        pe::IMAGE_FILE_MACHINE_ARMNT => Architecture::Arm,
        other => Architecture::Other(other.into()),
    }
}

pub(super) fn read(data: Data<'_>, size: u64) -> Result<LibraryFacts, Fault> {
    match optional_header_magic(data)? {
        pe::IMAGE_NT_OPTIONAL_HDR64_MAGIC => headers::<pe::ImageNtHeaders64>(data, size),
        pe::IMAGE_NT_OPTIONAL_HDR32_MAGIC => headers::<pe::ImageNtHeaders32>(data, size),
        _ => Err(Fault::Other("a DOS program".to_owned())),
    }
}

fn headers<Pe: ImageNtHeaders>(data: Data<'_>, size: u64) -> Result<LibraryFacts, Fault> {
    let mut offset = pe::ImageDosHeader::parse(data)?.nt_headers_offset().into();
    let (headers, directories) = Pe::parse(data, &mut offset)?;
    let file = headers.file_header();
    if file.characteristics.get(LE) & pe::IMAGE_FILE_DLL == 0 {
        return Err(Fault::Other("a program".to_owned()));
    }
    let sections = headers.sections(data, offset)?;
    let mut exports = Exports::default();
    if let Some(directory) = directories.get(pe::IMAGE_DIRECTORY_ENTRY_EXPORT)
        && directory.size.get(LE) != 0
    {
        // The exported names are inside the export directory, so reading the whole section is not necessary.
        let (names, address) = (directory.data(data, &sections)?, directory.virtual_address.get(LE));
        for pointer in ExportTable::parse(names, address)?.name_pointers() {
            let at = pointer.get(LE).checked_sub(address).and_then(|at| usize::try_from(at).ok());
            exports.note(at.map(|at| short_name(names, at)).unwrap_or_default());
        }
    }
    let needed = match directories.get(pe::IMAGE_DIRECTORY_ENTRY_IMPORT) {
        Some(directory) => imports(data, directory.virtual_address.get(LE), &sections),
        None => Vec::new(),
    };
    Ok(LibraryFacts {
        format: LibraryFormat::Pe,
        targets: vec![Target { os: OperatingSystem::Windows, architecture: architecture(file.machine.get(LE)) }],
        exports,
        needed,
        rpath: Vec::new(),
        runpath: Vec::new(),
        size,
    })
}

/// Returns the names of the imported libraries, up to the first name that cannot be read.
fn imports(data: Data<'_>, address: u32, sections: &SectionTable<'_>) -> Vec<String> {
    let step = u64::try_from(size_of::<pe::ImageImportDescriptor>()).unwrap_or(u64::MAX);
    let Some((start, _)) = sections.pe_file_range_at(address).filter(|_| address != 0) else { return Vec::new() };
    (0..MOST_IMPORTS)
        .map_while(|i| {
            let descriptor: &pe::ImageImportDescriptor = data.read_at(u64::from(start) + i * step).ok()?;
            let name = descriptor.name.get(LE);
            let (at, room) = sections.pe_file_range_at(name).filter(|_| name != 0)?;
            let end = u64::from(at) + u64::from(room).min(LONGEST);
            let name = data.read_bytes_at_until(at.into()..end, 0).ok()?;
            Some(String::from_utf8_lossy(name).into_owned())
        })
        .collect()
}
