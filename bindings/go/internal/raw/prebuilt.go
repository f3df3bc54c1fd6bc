// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux && (amd64 || arm64) && !cachalot_bundled && !cachalot_installed

package raw

// Without a tag the library is one that was built before, which lies here in published modules: no C++ compiler is
// needed, and nothing has to be installed. In a clone prebuilt.sh puts it here.

// #cgo CPPFLAGS: -DCACHALOT_PREBUILT
// #cgo amd64 LDFLAGS: ${SRCDIR}/libcachalot_linux_amd64.a
// #cgo arm64 LDFLAGS: ${SRCDIR}/libcachalot_linux_arm64.a
// #cgo LDFLAGS: -lm -ldl -pthread
import "C"
