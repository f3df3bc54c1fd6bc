// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !cgo

package raw

// Without cgo Go leaves out each file that calls C, and says no more than that names are missing. This name says why:
// CGO_ENABLED is 0, or unset where there is no C compiler (gcc or clang, or that of CC) or another system is built for.
var _ = cachalot_needs_cgo__install_a_C_compiler_and_set_CGO_ENABLED_to_1
