// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"errors"
	"strings"

	"cachalot.io/go/internal/raw"
)

// What a call can come to, for errors.Is. A status of a newer library that is none of these matches none of them;
// its number is in Error.Status.
var (
	// ErrInvalidArgument: an argument, an address or an option string is not acceptable; nothing has changed.
	ErrInvalidArgument = errors.New("cachalot: invalid argument")
	// ErrInvalidState: the call does not fit the present state (a pool that is not routed to, live blocks, ...).
	ErrInvalidState = errors.New("cachalot: invalid state")
	// ErrNotSupported: the chosen release, driver or build has no such thing.
	ErrNotSupported = errors.New("cachalot: not supported")
	// ErrOutOfMemory: the device has not enough memory, or a limit refuses it. The numbers are in an
	// *OutOfMemoryError. The allocator stays usable.
	ErrOutOfMemory = errors.New("cachalot: out of memory")
	// ErrOutOfHostMemory: the process has not enough ordinary memory for bookkeeping.
	ErrOutOfHostMemory = errors.New("cachalot: out of host memory")
	// ErrDriver: the device's driver reported an error; its code is in Error.DriverCode.
	ErrDriver = errors.New("cachalot: driver error")
	// ErrDriverUnavailable: no driver could be opened.
	ErrDriverUnavailable = errors.New("cachalot: driver unavailable")
	// ErrCallback: a function of the caller's reported failure.
	ErrCallback = errors.New("cachalot: callback failed")
	// ErrIO: input could not be read or is not well formed.
	ErrIO = errors.New("cachalot: bad input")
	// ErrInternal: a defect of the library. Please report it.
	ErrInternal = errors.New("cachalot: internal error")

	// ErrClosed: the object has been closed, or is being closed. Such an error is ErrInvalidState too.
	ErrClosed = errors.New("cachalot: closed")
)

var sentinels = map[raw.Status]error{
	raw.ERROR_INVALID_ARGUMENT:   ErrInvalidArgument,
	raw.ERROR_INVALID_STATE:      ErrInvalidState,
	raw.ERROR_NOT_SUPPORTED:      ErrNotSupported,
	raw.ERROR_OUT_OF_MEMORY:      ErrOutOfMemory,
	raw.ERROR_OUT_OF_HOST_MEMORY: ErrOutOfHostMemory,
	raw.ERROR_DRIVER:             ErrDriver,
	raw.ERROR_DRIVER_UNAVAILABLE: ErrDriverUnavailable,
	raw.ERROR_CALLBACK:           ErrCallback,
	raw.ERROR_IO:                 ErrIO,
	raw.ERROR_INTERNAL:           ErrInternal,
}

// Error is why a call failed. errors.Is compares it with the sentinels.
type Error struct {
	// Status is the cachalot_status that the call returned.
	Status int
	// DriverCode is the driver's own code of an ErrDriver, else 0.
	DriverCode int
	// Message is one line in PyTorch's words, where PyTorch has some; of an out of memory a second one follows,
	// with the options that would have made room.
	Message string

	closed bool
}

// Error is the message.
func (e *Error) Error() string {
	return e.Message
}

// Is compares with the sentinel of the status, and with ErrClosed.
func (e *Error) Is(target error) bool {
	return target == sentinels[raw.Status(e.Status)] || e.closed && target == ErrClosed
}

// OutOfMemory has the numbers of a request that failed. Bytes, but for Device and Stream.
type OutOfMemory struct {
	// Device and Stream are what was asked for.
	Device int    `json:"device"`
	Stream Stream `json:"stream"`
	// Requested is the size that was asked for.
	Requested uint64 `json:"requested"`
	// SegmentSize is what would have been asked from the driver.
	SegmentSize uint64 `json:"segment_size"`
	// DeviceFree and DeviceTotal are what the driver says.
	DeviceFree  uint64 `json:"device_free"`
	DeviceTotal uint64 `json:"device_total"`
	// Limit is the limit in force; 0: none.
	Limit uint64 `json:"limit"`
	// Allocated is handed out, Reserved obtained from the driver, PrivatePoolsFree cached in private pools.
	Allocated        uint64 `json:"allocated"`
	Reserved         uint64 `json:"reserved"`
	PrivatePoolsFree uint64 `json:"private_pools_free"`
	// LargestFreeBlock is the largest cached block of any pool and stream.
	LargestFreeBlock uint64 `json:"largest_free_block"`
}

// OutOfMemoryError is an ErrOutOfMemory with its numbers, for errors.As. It wraps an *Error; one that was not made by
// a call (from JSON, which has the numbers, or by hand) wraps ErrOutOfMemory and has its text.
type OutOfMemoryError struct {
	OutOfMemory
	err *Error
}

// Error is PyTorch's text, and a line with the options that would have made room.
func (e *OutOfMemoryError) Error() string {
	return e.Unwrap().Error()
}

// Unwrap gives the *Error, or ErrOutOfMemory.
func (e *OutOfMemoryError) Unwrap() error {
	if e.err == nil {
		return ErrOutOfMemory
	}
	return e.err
}

// wrap makes an error of this package of one of the low layer.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return wrapFailure(err)
}

func wrapFailure(err error) error {
	var failed *raw.Error
	if !errors.As(err, &failed) {
		return err
	}
	e := &Error{Status: int(failed.Status), DriverCode: int(failed.DriverCode), Message: failed.Message}
	if raw.Status(failed.Status) != raw.ERROR_OUT_OF_MEMORY {
		return e
	}
	return &OutOfMemoryError{
		OutOfMemory: OutOfMemory{
			Device: int(failed.Device), Stream: Stream(failed.Stream), Requested: failed.Requested,
			SegmentSize: failed.SegmentSize, DeviceFree: failed.DeviceFree, DeviceTotal: failed.DeviceTotal,
			Limit: failed.Limit, Allocated: failed.Allocated, Reserved: failed.Reserved,
			PrivatePoolsFree: failed.PrivatePoolsFree, LargestFreeBlock: failed.LargestFreeBlock,
		},
		err: e,
	}
}

// wrap1 is wrap for a call with a result.
func wrap1[T any](value T, err error) (T, error) {
	return value, wrap(err)
}

func closedError(what string) error {
	return &Error{Status: int(raw.ERROR_INVALID_STATE), Message: "the " + what + " is closed", closed: true}
}

func stateError(message string) error {
	return &Error{Status: int(raw.ERROR_INVALID_STATE), Message: message}
}

func argumentError(message string) error {
	return &Error{Status: int(raw.ERROR_INVALID_ARGUMENT), Message: message}
}

// needed refuses nil where there has to be something.
func needed(given bool, what string) error {
	if given {
		return nil
	}
	return argumentError(what + " is nil")
}

// checkText refuses what C would take for a shorter text.
func checkText(text string) error {
	if strings.IndexByte(text, 0) >= 0 {
		return argumentError("a text has a NUL byte inside")
	}
	return nil
}

func isClosed(err error) bool {
	return errors.Is(err, ErrClosed)
}
