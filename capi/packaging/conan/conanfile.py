# SPDX-License-Identifier: MIT OR Apache-2.0
"""Conan's recipe of the library, shared or static. `capi/packaging/recipes.sh` writes conandata.yml beside it."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import stdcpp_library
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get

required_conan_version = ">=2.0.9"


class CachalotConan(ConanFile):
    name = "cachalot"
    description = "PyTorch's CUDA caching allocator for every program that is not PyTorch"
    license = "MIT OR Apache-2.0"
    homepage = "https://cachalot.io"
    url = "https://cachalot.io"
    topics = ("cuda", "gpu", "memory", "allocator", "pytorch")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": True, "fPIC": True}
    implements = ["auto_shared_fpic"]

    def configure(self):
        # Its own sources are C++20, and its interface is C, for programs of any standard.
        self.settings.rm_safe("compiler.cppstd")

    def layout(self):
        cmake_layout(self, src_folder="src")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"cachalot is for Linux, not for {self.settings.os}")

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25]")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TOOLS", "PROXY", "TESTS", "EXAMPLES", "LIBTORCH"):
            toolchain.cache_variables[f"CACHALOT_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="cachalot" if self.options.shared else "cachalot_static")

    def package(self):
        headers = os.path.join(self.package_folder, "include")
        copy(self, "LICENSE*", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for folder in (self.source_folder, self.build_folder):
            for pattern in ("*.h", "*.hpp"):
                copy(self, pattern, os.path.join(folder, "capi/include"), headers)
        copy(self, "libcachalot.so*" if self.options.shared else "libcachalot.a", self.build_folder,
             os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.set_property("cmake_target_name", "cachalot::cachalot")
        self.cpp_info.libs = ["cachalot"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "dl", "m"]
            if runtime := stdcpp_library(self):
                self.cpp_info.system_libs.append(runtime)
