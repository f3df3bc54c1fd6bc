// SPDX-License-Identifier: MIT OR Apache-2.0

// Package raw is the C interface in Go's types: a thin call of every function, made from the public header by
// bindings/generate. It owns nothing: who gets a handle destroys it.
package raw

// #include "memory.h"
import "C"

import (
	"fmt"
	"log"
	"os"
	"runtime/cgo"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// memory is what one call lends to C: it is C's own memory, so that structs in it may point to each other.
type memory struct {
	blocks  []unsafe.Pointer
	handles []cgo.Handle
	given   []cgo.Handle
}

func (m *memory) allocate(size C.size_t) unsafe.Pointer {
	block := C.malloc(size) // Where there is none it ends the process, as Go does.
	clear(unsafe.Slice((*byte)(block), size))
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
	handle := cgo.NewHandle(value)
	m.given = append(m.given, handle)
	return handle
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
	// A call from within a callback under a lock was refused before the library got them.
	if len(m.given) > 0 && C.cachalot_go_is_locked() != 0 {
		for _, handle := range m.given {
			handle.Delete()
		}
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

// check makes an error of what a call gave.
func check(status C.int32_t, e *C.cachalot_error) error {
	if status == C.CACHALOT_OK {
		return nil
	}
	return failure(status, e)
}

func failure(status C.int32_t, e *C.cachalot_error) error {
	if e == nil {
		return statusError(C.cachalot_status(status))
	}
	failed := errorOf(e)
	C.free(unsafe.Pointer(e))
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

// OnPanic gets what a callback panicked with and the stack; nil: the standard logger does.
var OnPanic atomic.Pointer[func(value any, stack []byte)]

// caught ends a panic where Go returns to C, which knows nothing of it. A goroutine that ends there would leave
// behind what C has begun, locks included, and a thread that is inside of it for ever: nothing good can follow.
func caught(returned *bool) {
	value := recover()
	if value == nil {
		if !*returned {
			leftForEver()
		}
		return
	}
	if handler := OnPanic.Load(); handler != nil {
		handled := false
		defer func() {
			if recover() == nil && !handled {
				leftForEver()
			}
		}()
		(*handler)(value, debug.Stack())
		handled = true
		return
	}
	log.Printf("cachalot: a callback panicked: %v\n%s", value, debug.Stack())
}

func leftForEver() {
	fmt.Fprintf(os.Stderr, "cachalot: runtime.Goexit (which t.FailNow, t.Fatal and t.Skip call) ended a goroutine "+
		"within a callback, so the call of the library that led there can never return: the program ends\n%s",
		debug.Stack())
	os.Exit(2)
}
