// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !cachalot_installed || cachalot_bundled

package raw

// Where the library is compiled or linked in here, these are what cgo allows of capi/cmake/hardening.txt. An installed
// library is a file of its own, which has what its build gave it.

// #cgo CPPFLAGS: -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
// #cgo LDFLAGS: -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
import "C"
