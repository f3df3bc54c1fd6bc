// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cachalot_installed && !cachalot_bundled

package raw

// The tag takes a library that is installed, or that of a build tree: pkg-config finds either.

// #cgo CPPFLAGS: -DCACHALOT_INSTALLED
// #cgo pkg-config: cachalot
import "C"
