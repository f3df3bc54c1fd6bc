// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !cachalot_bundled

package raw

// #cgo pkg-config: cachalot
import "C"
