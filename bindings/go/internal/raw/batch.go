// SPDX-License-Identifier: MIT OR Apache-2.0

package raw

// #include "batch.h"
// #include "memory.h"
import "C"

import (
	"unsafe"
)

// AllocateBatch hands out a block for each size, in one crossing: all of them, or none. There is an address for
// each size.
func AllocateBatch(allocator Allocator, sizes []uint64, device int32, stream Stream, addresses []Address) error {
	r := C.cachalot_go_allocate_batch(C.uintptr_t(NumberOf(allocator)), (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(sizes))),
		C.size_t(len(sizes)), C.int32_t(device), C.cachalot_stream(stream),
		(*C.cachalot_address)(unsafe.Pointer(unsafe.SliceData(addresses))))
	return check(r.status, r.error)
}

// FreeBatch frees what can be freed in one crossing, and says how many; the error is the first one, failed its index.
func FreeBatch(allocator Allocator, addresses []Address) (freed, failed int, err error) {
	r := C.cachalot_go_free_batch(C.uintptr_t(NumberOf(allocator)), (*C.cachalot_address)(unsafe.Pointer(unsafe.SliceData(addresses))),
		C.size_t(len(addresses)))
	return int(r.done), int(r.failed), check(r.status, r.error)
}

// Scope is what a goroutine has said of itself. Texts end in a NUL.
type Scope struct {
	// Labels are LabelCount texts in a row, outermost first.
	Labels     []byte
	LabelCount int
	Metadata   []byte
	Tenant     Tenant
}

// AllocateScoped is AllocateWith under a scope, in one crossing.
func AllocateScoped(allocator Allocator, scope *Scope, request *Request) (Address, error) {
	var c C.cachalot_request
	request.fill(&c, nil)
	r := C.cachalot_go_allocate_scoped(C.uintptr_t(NumberOf(allocator)), (*C.char)(unsafe.Pointer(unsafe.SliceData(scope.Labels))),
		C.size_t(scope.LabelCount), (*C.char)(unsafe.Pointer(unsafe.SliceData(scope.Metadata))), scope.Tenant, c)
	return Address(r.address), check(r.status, r.error)
}

// RememberMetadata is for a goroutine that is locked to its thread: the text (SetMetadata) that AllocateScoped leaves
// it with.
func RememberMetadata(text string) {
	var m memory
	defer m.free()
	C.cachalot_go_remember_metadata(m.text(text))
}

// Metadata is that text.
func Metadata() string {
	return C.GoString(C.cachalot_go_metadata())
}

// ScopeKind is a kind of scopes that a thread counts.
type ScopeKind int32

// The kinds.
const (
	LabelScopes ScopeKind = iota
	MetadataScopes
)

// Scopes is for a goroutine that is locked to its thread: how many scopes of a kind it is in, after a change.
func Scopes(kind ScopeKind, more int) int {
	return int(C.cachalot_go_scopes(C.int32_t(kind), C.int32_t(more)))
}

// Place is where a goroutine is.
type Place int

// The places: outside of all functions that the library calls; within one, but of no call that uses an object;
// within one of a call that does.
const (
	Outside Place = iota
	InCallback
	InOwnCallback
)

// PlaceOf says where the calling goroutine is, as the object with this number sees it; 0: one whose calls are not
// known.
func PlaceOf(object uintptr) Place {
	return Place(C.cachalot_go_inside(C.uintptr_t(object)))
}

// Nothing does nothing: what a crossing costs, for the benchmarks.
func Nothing() {
	C.cachalot_go_nothing()
}

// Bytes is memory of the host as a slice, which nobody keeps alive.
func Bytes(address Address, size uint64) []byte {
	return unsafe.Slice((*byte)(C.cachalot_go_data(C.uintptr_t(address))), size)
}

// NumberOf is a handle's address, for programs that mix this package with code in C.
func NumberOf(allocator Allocator) uintptr {
	return uintptr(unsafe.Pointer(allocator))
}

// NumberOfTenant is the same of a tenant.
func NumberOfTenant(tenant Tenant) uintptr {
	return uintptr(unsafe.Pointer(tenant))
}
