import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class HeadroomConan(ConanFile):
    name = "headroom"
    license = "MIT"
    description = "Loss scaling for mixed-precision training"
    settings = "os", "arch", "compiler", "build_type"
    options = {"compiled": [True, False], "c": [True, False]}
    default_options = {"compiled": False, "c": False}
    exports_sources = "CMakeLists.txt", "cmake/*", "include/*", "src/*", "packaging/copyright", "README.md", "CHANGELOG.md", "LICENSE"

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "include/headroom/version.hpp"))
        self.version = ".".join(re.findall(r"#define HEADROOM_VERSION_\w+ (\d+)", text))

    def package_id(self):
        if not self.info.options.compiled and not self.info.options.c:
            self.info.clear()

    def validate(self):
        check_min_cppstd(self, 17)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for name in ("BUILD_TESTS", "BUILD_EXAMPLES", "ADAPTERS"):
            toolchain.cache_variables[f"HEADROOM_{name}"] = False
        toolchain.cache_variables["HEADROOM_COMPILED"] = bool(self.options.compiled)
        toolchain.cache_variables["HEADROOM_C"] = bool(self.options.c)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):  # CMake finds the package's own headroomConfig.cmake, which has all targets
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["."]
        self.cpp_info.libdirs = ["lib"] if self.options.c else []
