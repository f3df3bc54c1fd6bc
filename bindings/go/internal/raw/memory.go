// SPDX-License-Identifier: MIT OR Apache-2.0

// Package raw is the C interface in Go's types: a thin call of every function, made from the public header by
// bindings/generate. It owns nothing: who gets a handle destroys it.
package raw

// #cgo LDFLAGS: -lcachalot
// #include "memory.h"
import "C"

import (
	"fmt"
	"runtime/cgo"
	"sync"
	"unsafe"
)

// memory is what one call lends to C: it is C's own memory, so that structs in it may point to each other.
type memory struct {
	blocks  []unsafe.Pointer
	handles []cgo.Handle
}

func (m *memory) allocate(size C.size_t) unsafe.Pointer {
	block := C.calloc(1, size)
	m.blocks = append(m.blocks, block)
	return block
}

func (m *memory) text(text string) *C.char {
	block := C.CString(text)
	m.blocks = append(m.blocks, unsafe.Pointer(block))
	return block
}

func (m *memory) optionalText(text *string) *C.char {
	if text == nil {
		return nil
	}
	return m.text(*text)
}

// give makes a handle that C gives back by cachalot_go_destroy, also if the call fails.
func (m *memory) give(value any) cgo.Handle {
	return cgo.NewHandle(value)
}

// hold makes a handle that ends with the call, unless keep takes it.
func (m *memory) hold(value any) cgo.Handle {
	handle := cgo.NewHandle(value)
	m.handles = append(m.handles, handle)
	return handle
}

func (m *memory) keep() Keep {
	kept := m.handles
	m.handles = nil
	return Keep{kept}
}

func (m *memory) free() {
	for _, block := range m.blocks {
		C.free(block)
	}
	for _, handle := range m.handles {
		handle.Delete()
	}
}

// Keep holds the functions that the library calls until the object is destroyed to which they were given.
type Keep struct {
	handles []cgo.Handle
}

// Release is for when that object is gone.
func (k *Keep) Release() {
	for _, handle := range k.handles {
		handle.Delete()
	}
	k.handles = nil
}

// copyText writes a text like snprintf.
func copyText(text string, buffer *C.char, capacity C.size_t) C.size_t {
	if capacity > 0 {
		target := unsafe.Slice((*byte)(unsafe.Pointer(buffer)), int(capacity))
		target[copy(target[:len(target)-1], text)] = 0
	}
	return C.size_t(len(text))
}

// errorRecords are used again: each has 4 KiB, and a call that succeeds leaves it alone.
var errorRecords = sync.Pool{New: func() any {
	e := new(C.cachalot_error)
	e.struct_size = C.sizeof_cachalot_error
	return e
}}

func takeError() *C.cachalot_error {
	return errorRecords.Get().(*C.cachalot_error)
}

func giveError(e *C.cachalot_error) {
	errorRecords.Put(e)
}

func check(status C.cachalot_status, e *C.cachalot_error) error {
	if status == C.CACHALOT_OK {
		return nil
	}
	failed := errorOf(e)
	return &failed
}

// statusError is for functions without an error record.
func statusError(status C.cachalot_status) error {
	if status == C.CACHALOT_OK {
		return nil
	}
	return &Error{Status: int32(status), Message: StatusName(int32(status))}
}

func (e *Error) Error() string {
	return e.Message
}

// Is lets errors.Is compare an error with a Status.
func (e *Error) Is(target error) bool {
	status, ok := target.(Status)
	return ok && int32(status) == e.Status
}

func (s Status) Error() string {
	return StatusName(int32(s))
}

// CheckInterface says whether the library that is loaded has the interface that this package was generated for.
func CheckInterface() error {
	if number := VersionNumber(); number/100 != Interface {
		return fmt.Errorf("cachalot %s has another interface than this package, which is for %d.%d",
			Version(), Interface/100, Interface%100)
	}
	return nil
}
