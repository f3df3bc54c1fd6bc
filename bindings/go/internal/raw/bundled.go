// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cachalot_bundled

package raw

// #cgo CPPFLAGS: -I${SRCDIR}/../source
// #cgo CXXFLAGS: -std=c++20 -DNDEBUG -fvisibility=hidden -fvisibility-inlines-hidden -pthread
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
