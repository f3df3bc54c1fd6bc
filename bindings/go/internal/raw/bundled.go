// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cachalot_bundled

package raw

// The tag compiles cachalot.cpp, the library, which lies here in published modules. In a clone the CMake target
// cachalot_amalgamation writes it.

// #cgo CPPFLAGS: -DCACHALOT_BUNDLED
// #cgo CXXFLAGS: -std=c++20 -pthread
// #cgo LDFLAGS: -lm -ldl -pthread
import "C"
