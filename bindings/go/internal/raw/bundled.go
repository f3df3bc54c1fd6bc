// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cachalot_bundled

package raw

// The tag compiles cachalot.cpp, the library, which lies here in published modules. In a clone the CMake target
// cachalot_amalgamation writes it. The second line and the fourth are what cgo allows of capi/cmake/hardening.txt.

// #cgo CPPFLAGS: -DCACHALOT_BUNDLED
// #cgo CPPFLAGS: -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
// #cgo CXXFLAGS: -std=c++20 -pthread
// #cgo LDFLAGS: -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
// #cgo LDFLAGS: -lm -ldl -pthread
import "C"
