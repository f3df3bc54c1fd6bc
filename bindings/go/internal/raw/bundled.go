// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cachalot_bundled

package raw

// The second and the fourth line are what cgo allows of the library's capi/cmake/hardening.txt.

// #cgo CPPFLAGS: -I${SRCDIR}/../source
// #cgo CPPFLAGS: -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
// #cgo CXXFLAGS: -std=c++20 -DNDEBUG -fvisibility=hidden -fvisibility-inlines-hidden -pthread
// #cgo LDFLAGS: -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
// #cgo LDFLAGS: -lm -ldl -pthread
import "C"

// The folders that the sources lie in: what is no package is not vendored.
import (
	_ "cachalot.io/go/internal/source/alloc"
	_ "cachalot.io/go/internal/source/base"
	_ "cachalot.io/go/internal/source/cachalot"
	_ "cachalot.io/go/internal/source/capi"
	_ "cachalot.io/go/internal/source/device"
	_ "cachalot.io/go/internal/source/replay"
)
