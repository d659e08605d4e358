"""Recipe for Conan 2: `conan create packaging/conan` builds the library from this checkout. Needs Rust."""
import os
import pathlib
import tomllib

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, rm


class DevicePlugin(ConanFile):
    name = "device_plugin"
    description = "PJRT for C and C++: finds plugins and runs programs on their devices"
    license = "MIT OR Apache-2.0"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    # With `cpu`, the package contains the CPU device, as a plugin that the library finds.
    options = {"shared": [True, False], "cpu": [True, False]}
    default_options = {"shared": True, "cpu": True}

    def set_version(self):
        checkout = pathlib.Path(self.recipe_folder).parents[1]
        self.version = tomllib.loads((checkout / "Cargo.toml").read_text())["workspace"]["package"]["version"]

    def export_sources(self):
        checkout = str(pathlib.Path(self.recipe_folder).parents[1])
        copy(self, "*", checkout, self.export_sources_folder, excludes=(".git/*", "target/*", "*/target/*"))

    def validate(self):
        if self.settings.os not in ("Linux", "Macos"):
            raise ConanInvalidConfiguration("device_plugin is packaged for Linux and macOS only")

    def package_id(self):
        # The interface is C, and the C++ headers contain only inline functions.
        del self.info.settings.compiler

    def build(self):
        arguments = ["cargo", "xtask", "c-library", "--prefix", os.path.join(self.build_folder, "prefix")]
        arguments += ["--release"] * (self.settings.build_type != "Debug") + ["--cpu"] * bool(self.options.cpu)
        self.run(" ".join(f'"{argument}"' for argument in arguments), cwd=self.source_folder)

    def package(self):
        copy(self, "*", os.path.join(self.build_folder, "prefix"), self.package_folder)
        lib = os.path.join(self.package_folder, "lib")
        if self.options.shared:
            rm(self, "*.a", lib)
            rm(self, "*-static.pc", os.path.join(lib, "pkgconfig"))
        else:
            rm(self, "libdevice_plugin.so*", lib)
            rm(self, "libdevice_plugin*.dylib", lib)
            rm(self, "device_plugin.pc", os.path.join(lib, "pkgconfig"))
        os.rename(os.path.join(self.package_folder, "share", "licenses"), os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # CMake reads the package's own files.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/DevicePlugin"]
        self.cpp_info.set_property("pkg_config_name", "device_plugin" if self.options.shared else "device_plugin-static")
        self.cpp_info.libs = ["device_plugin"]
        if not self.options.shared:
            if self.settings.os == "Linux":
                self.cpp_info.system_libs = ["dl", "gcc_s", "util", "rt", "pthread", "m"]
            # Only the shared library finds the device by its own place.
            manifests = os.path.join(self.package_folder, "share", "pjrt", "plugins.d")
            self.runenv_info.append_path("PJRT_REGISTRY_ADD_MANIFESTS", manifests)
