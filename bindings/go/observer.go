// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// An observer lives as long as the allocator, unless the function that attaching gives detaches it. The library has
// it by a cgo.Handle, so what it refers to, the allocator included, is not collected before the allocator is closed.
//
// Detaching waits for nobody: calls of other goroutines that are under way may call the observer still when it has
// returned, so what it uses is given up later, or by the observer's own account of who is in it.

// A function that is nil is ErrInvalidArgument.

// attach gives the function that detaches: again, or after the allocator: nothing.
func (a *Allocator) attach(call func(raw.Allocator) (uint64, error)) (detach func() error, err error) {
	id, err := ask(a, call)
	if err != nil {
		return nil, err
	}
	return untilItWorks("observer", unlessGone(func() error {
		return a.do(func(r raw.Allocator) error { return raw.Detach(r, id) })
	})), nil
}

// ObserveTrace attaches an observer of all events, recorded or not. It is called on the goroutine of the call, under
// a lock: calls of any allocator from within are refused (ErrInvalidState). Not from within an observer of traces.
//
// When detach has returned, the observer may still be running on another goroutine, or be about to: here as in the
// functions below.
func (a *Allocator) ObserveTrace(observer func(TraceEntry)) (detach func() error, err error) {
	if err := needed(observer != nil, "the observer"); err != nil {
		return nil, err
	}
	return a.attach(func(r raw.Allocator) (uint64, error) {
		return raw.ObserveTrace(r, func(entry raw.TraceEntry) { observer(traceEntryOf(entry)) })
	})
}

// ObserveOutOfMemory attaches an observer of out-of-memory errors, before the caller gets them. It may call back.
func (a *Allocator) ObserveOutOfMemory(observer func(OutOfMemory)) (detach func() error, err error) {
	if err := needed(observer != nil, "the observer"); err != nil {
		return nil, err
	}
	return a.attach(func(r raw.Allocator) (uint64, error) {
		return raw.ObserveOutOfMemory(r, func(n raw.OutOfMemory) {
			observer(OutOfMemory{
				Device: int(n.Device), Stream: Stream(n.Stream), Requested: n.Requested, SegmentSize: n.SegmentSize,
				DeviceFree: n.DeviceFree, DeviceTotal: n.DeviceTotal, Limit: n.Limit, Allocated: n.Allocated,
				Reserved: n.Reserved, PrivatePoolsFree: n.PrivatePoolsFree, LargestFreeBlock: n.LargestFreeBlock,
			})
		})
	})
}

// Rejection is a request that was refused before the driver was asked (throw_on_cudamalloc_oom). Bytes.
type Rejection struct {
	Device int `json:"device"`
	// SegmentSize would have been asked for; Reserved was before; DeviceTotal is what the device has.
	SegmentSize uint64 `json:"segment_size"`
	Reserved    uint64 `json:"reserved"`
	DeviceTotal uint64 `json:"device_total"`
}

// ObserveRejection attaches an observer of rejections, before the caller gets them. It may call back.
func (a *Allocator) ObserveRejection(observer func(Rejection)) (detach func() error, err error) {
	if err := needed(observer != nil, "the observer"); err != nil {
		return nil, err
	}
	return a.attach(func(r raw.Allocator) (uint64, error) {
		return raw.ObserveRejection(r, func(n raw.Rejection) {
			observer(Rejection{int(n.Device), n.SegmentSize, n.Reserved, n.DeviceTotal})
		})
	})
}

// OnFreeMemory attaches a function that is asked to free memory when a request of size bytes finds no cached block,
// before anything else is tried: true if it freed something, then the cache is searched again. It may call back; a
// request of its own that finds no block calls it again.
func (a *Allocator) OnFreeMemory(free func(device int, size uint64) bool) (detach func() error, err error) {
	if err := needed(free != nil, "the function"); err != nil {
		return nil, err
	}
	return a.attach(func(r raw.Allocator) (uint64, error) {
		return raw.RegisterFreeMemoryCallback(r, func(device int32, size uint64) int32 {
			return flag(free(int(device), size))
		})
	})
}
