// SPDX-License-Identifier: MIT OR Apache-2.0

package main

// #cgo pkg-config: cachalot
// #cgo CFLAGS: -I${SRCDIR}/../../../bindings/onnxruntime/include
// #cgo LDFLAGS: -lcachalot_onnxruntime
//
// #include <stdint.h>
// #include <stdlib.h>
//
// #include "cachalot/onnxruntime.h"
//
// // The allocator comes as a number: Go's package gives it so.
// static cachalot_status register_allocator(uintptr_t allocator, cachalot_ort_allocator** registered,
//                                           cachalot_error* error) {
//   cachalot_ort_options options = {.struct_size = sizeof options};
//   options.allocator = (cachalot_allocator*)allocator;
//   return cachalot_ort_register(&options, registered, error);
// }
import "C"

import (
	"errors"
	"unsafe"

	"cachalot.io/go"
)

// registration is an allocator that is ONNX Runtime's, until close.
type registration struct {
	raw *C.cachalot_ort_allocator
}

func newError() C.cachalot_error {
	var failure C.cachalot_error
	failure.struct_size = C.size_t(unsafe.Sizeof(failure))
	return failure
}

func message(failure *C.cachalot_error) string {
	return C.GoString(&failure.message[0])
}

// register lets the ONNX Runtime that the process has loaded use the allocator, which has to live until close.
func register(allocator *cachalot.Allocator) (*registration, error) {
	var r registration
	failure := newError()
	if C.register_allocator(C.uintptr_t(allocator.Handle()), &r.raw, &failure) != C.CACHALOT_OK {
		return nil, errors.New(message(&failure))
	}
	return &r, nil
}

// close takes the allocator back; an error if ONNX Runtime still has memory of it.
func (r *registration) close() error {
	failure := newError()
	if C.cachalot_ort_unregister(r.raw, &failure) != C.CACHALOT_OK {
		return errors.New(message(&failure))
	}
	return nil
}

// ortInfo is what ONNX Runtime has asked for so far.
type ortInfo struct {
	Version    string `json:"version"`
	LiveBlocks uint64 `json:"live_blocks"`
	Requests   uint64 `json:"requests"`
	Reserves   uint64 `json:"reserves"`
	Failures   uint64 `json:"failures"`
}

func (r *registration) info() (ortInfo, error) {
	var info C.cachalot_ort_info
	info.struct_size = C.size_t(unsafe.Sizeof(info))
	failure := newError()
	if C.cachalot_ort_get_info(r.raw, &info, &failure) != C.CACHALOT_OK {
		return ortInfo{}, errors.New(message(&failure))
	}
	return ortInfo{
		Version: C.GoString(info.version), LiveBlocks: uint64(info.live_blocks), Requests: uint64(info.requests),
		Reserves: uint64(info.reserves), Failures: uint64(info.failures),
	}, nil
}

// exhausted is a request of ONNX Runtime's that failed: cachalot's message, and who held what at that moment.
type exhausted struct {
	message, report string
}

func (e *exhausted) Error() string { return e.message }

// forgetFailure forgets what failed on this thread.
func forgetFailure() {
	C.cachalot_ort_forget_failure()
}

// lastFailure is what failed on this thread since then; nil if nothing did.
func lastFailure() *exhausted {
	failure := newError()
	var length C.size_t
	if C.cachalot_ort_last_failure(&failure, nil, 0, &length) != C.CACHALOT_OK {
		return nil
	}
	// The failure is the thread's, so it is the same.
	report := make([]byte, length+1)
	C.cachalot_ort_last_failure(nil, (*C.char)(unsafe.Pointer(&report[0])), C.size_t(len(report)), nil)
	return &exhausted{message(&failure), string(report[:length])}
}
