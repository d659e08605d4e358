# Builds the library from the checkout that contains this file. Needs Rust. After a change of the checkout, remove the
# package or pass `--binarysource=clear`, because vcpkg compares only the files of this folder.
get_filename_component(checkout "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
find_program(CARGO cargo PATHS "$ENV{CARGO_HOME}/bin" "$ENV{HOME}/.cargo/bin" REQUIRED)

# A build for debugging would contain another copy of the same library.
set(VCPKG_BUILD_TYPE release)
set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled)
# The libraries need no other libraries of vcpkg, so no search path has to be added.
set(VCPKG_FIXUP_ELF_RPATH OFF)
set(options --release)
if(cpu IN_LIST FEATURES)
  list(APPEND options --cpu)
endif()
vcpkg_execute_required_process(
  COMMAND "${CARGO}" xtask c-library --prefix "${CURRENT_PACKAGES_DIR}" ${options}
  WORKING_DIRECTORY "${checkout}"
  LOGNAME c-library)

# Keep only the library that the triplet selects.
set(pkgconfig "${CURRENT_PACKAGES_DIR}/lib/pkgconfig")
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  file(GLOB other "${CURRENT_PACKAGES_DIR}/lib/libdevice_plugin*${VCPKG_TARGET_SHARED_LIBRARY_SUFFIX}*")
  file(REMOVE ${other})
  file(RENAME "${pkgconfig}/device_plugin-static.pc" "${pkgconfig}/device_plugin.pc")
else()
  file(REMOVE "${CURRENT_PACKAGES_DIR}/lib/libdevice_plugin.a" "${pkgconfig}/device_plugin-static.pc")
endif()
vcpkg_fixup_pkgconfig()

# Files for CMake belong to `share`, one folder nearer to the prefix.
file(RENAME "${CURRENT_PACKAGES_DIR}/lib/cmake/DevicePlugin" "${CURRENT_PACKAGES_DIR}/share/DevicePlugin")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/cmake" "${CURRENT_PACKAGES_DIR}/share/licenses")
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/share/DevicePlugin/DevicePluginConfig.cmake"
                     "CMAKE_CURRENT_LIST_DIR}/../../.." "CMAKE_CURRENT_LIST_DIR}/../..")
vcpkg_install_copyright(FILE_LIST "${checkout}/LICENSE-APACHE" "${checkout}/LICENSE-MIT")
