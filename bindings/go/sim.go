// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"time"

	"cachalot.io/go/internal/raw"
)

// Sim is a device that keeps accounts and holds no memory: addresses, when work is done, captures and errors are
// in the caller's hand, so a program over it is deterministic. All methods may be called from any goroutine;
// ErrInvalidArgument for a device that it does not have.
type Sim struct {
	*Driver
}

// SimOptions are how a simulated device is made. Zero means default in every field.
type SimOptions struct {
	// Capacity of a device in bytes, at most 4 TiB; 0: 80 GiB.
	Capacity uint64
	// Devices is their number; 0: 1.
	Devices int
}

// OpenSim makes a simulated driver, which the caller closes. ErrInvalidArgument for a negative number of devices.
func OpenSim(options SimOptions) (*Sim, error) {
	driver, err := newDriver(func() (raw.Driver, error) {
		return raw.SimCreate(&raw.SimOptions{Capacity: options.Capacity, DeviceCount: narrow(options.Devices)})
	})
	if err != nil {
		return nil, err
	}
	return &Sim{driver}, nil
}

// SimCalls are kinds of driver calls, to be added up.
type SimCalls uint32

// The kinds.
const (
	SimAllocate         = SimCalls(raw.SIM_CALL_ALLOCATE)
	SimFree             = SimCalls(raw.SIM_CALL_FREE)
	SimReserve          = SimCalls(raw.SIM_CALL_RESERVE)
	SimUnreserve        = SimCalls(raw.SIM_CALL_UNRESERVE)
	SimCreate           = SimCalls(raw.SIM_CALL_CREATE)
	SimRelease          = SimCalls(raw.SIM_CALL_RELEASE)
	SimMap              = SimCalls(raw.SIM_CALL_MAP)
	SimUnmap            = SimCalls(raw.SIM_CALL_UNMAP)
	SimSetAccess        = SimCalls(raw.SIM_CALL_SET_ACCESS)
	SimExport           = SimCalls(raw.SIM_CALL_EXPORT)
	SimImport           = SimCalls(raw.SIM_CALL_IMPORT)
	SimEventCreate      = SimCalls(raw.SIM_CALL_EVENT_CREATE)
	SimEventRecord      = SimCalls(raw.SIM_CALL_EVENT_RECORD)
	SimEventQuery       = SimCalls(raw.SIM_CALL_EVENT_QUERY)
	SimEventSynchronize = SimCalls(raw.SIM_CALL_EVENT_SYNCHRONIZE)
	SimSynchronize      = SimCalls(raw.SIM_CALL_SYNCHRONIZE)
	SimCaptureInfo      = SimCalls(raw.SIM_CALL_CAPTURE_INFO)
	SimEnablePeer       = SimCalls(raw.SIM_CALL_ENABLE_PEER)
	SimMemoryInfo       = SimCalls(raw.SIM_CALL_MEMORY_INFO)
	SimFabricState      = SimCalls(raw.SIM_CALL_FABRIC_STATE)
	SimPoolAllocate     = SimCalls(raw.SIM_CALL_POOL_ALLOCATE)
	SimPoolFree         = SimCalls(raw.SIM_CALL_POOL_FREE)
	SimPoolTrim         = SimCalls(raw.SIM_CALL_POOL_TRIM)
	SimPoolAttribute    = SimCalls(raw.SIM_CALL_POOL_ATTRIBUTE)
	SimPoolSetAccess    = SimCalls(raw.SIM_CALL_POOL_SET_ACCESS)
	SimStreamCreate     = SimCalls(raw.SIM_CALL_STREAM_CREATE)
	SimStreamWait       = SimCalls(raw.SIM_CALL_STREAM_WAIT)
	SimHostAllocate     = SimCalls(raw.SIM_CALL_HOST_ALLOCATE) // pinned memory
	SimHostFree         = SimCalls(raw.SIM_CALL_HOST_FREE)
	SimCopy             = SimCalls(raw.SIM_CALL_COPY)
)

// SimLog says which driver calls are kept as text, to be added up; 0: none.
type SimLog uint32

// What is kept.
const (
	SimLogCalls        = SimLog(raw.SIM_LOG_CALLS)         // the usual calls
	SimLogHandles      = SimLog(raw.SIM_LOG_HANDLES)       // the handle type of each page
	SimLogQueries      = SimLog(raw.SIM_LOG_QUERIES)       // event queries
	SimLogCaptureModes = SimLog(raw.SIM_LOG_CAPTURE_MODES) // exchanges of the capture mode
	SimLogWaits        = SimLog(raw.SIM_LOG_WAITS)         // streams that are made to wait for an event
)

// Codes that the library itself looks at.
const (
	DriverOutOfMemory  = int(raw.DRIVER_OUT_OF_MEMORY)
	DriverNotReady     = int(raw.DRIVER_NOT_READY)
	DriverNotSupported = int(raw.DRIVER_NOT_SUPPORTED)
)

// SimFailure is driver calls that shall fail.
type SimFailure struct {
	// Calls are the kinds that are counted.
	Calls SimCalls
	// Code is what they give; DriverOutOfMemory is an out of memory.
	Code int
	// After so many calls of these kinds, Count fail. Count 0: one.
	After, Count uint64
}

// Fail lets driver calls fail. Failures of other codes that were ordered before stay.
func (s *Sim) Fail(failure SimFailure) error {
	return s.do(func(d raw.Driver) error {
		return raw.SimFail(d, &raw.SimFailure{Calls: uint32(failure.Calls), Code: narrow(failure.Code),
			After: failure.After, Count: failure.Count})
	})
}

// GiveAddresses gives the addresses of the next segments and reservations of a device, in this order, in addition
// to those given before. They are not checked against ranges in use.
func (s *Sim) GiveAddresses(device int, addresses ...Address) error {
	given := make([]raw.Address, len(addresses))
	for i, address := range addresses {
		given[i] = raw.Address(address)
	}
	return s.do(func(d raw.Driver) error { return raw.SimGiveAddresses(d, narrow(device), given) })
}

// QueueWork queues a piece of work on a stream: it stays unfinished, and events recorded from now on wait for it.
func (s *Sim) QueueWork(device int, stream Stream) error {
	return s.do(func(d raw.Driver) error { return raw.SimQueueWork(d, narrow(device), raw.Stream(stream)) })
}

// FinishOldest finishes the oldest unfinished piece of work of a stream.
func (s *Sim) FinishOldest(device int, stream Stream) error {
	return s.do(func(d raw.Driver) error { return raw.SimFinishOldest(d, narrow(device), raw.Stream(stream)) })
}

// FinishStream finishes all work of a stream.
func (s *Sim) FinishStream(device int, stream Stream) error {
	return s.do(func(d raw.Driver) error { return raw.SimFinishStream(d, narrow(device), raw.Stream(stream)) })
}

// FinishDevice finishes all work of a device.
func (s *Sim) FinishDevice(device int) error {
	return s.do(func(d raw.Driver) error { return raw.SimFinishDevice(d, narrow(device)) })
}

// SetPendingError leaves an error pending, as earlier work of the thread would; 0 clears it.
func (s *Sim) SetPendingError(code int) error {
	return s.do(func(d raw.Driver) error { return raw.SimSetPendingError(d, narrow(code)) })
}

// SetLatency lets each call of these kinds take so long from now on; 0 ends it. ErrInvalidArgument for a negative time.
func (s *Sim) SetLatency(calls SimCalls, latency time.Duration) error {
	if err := checkTimes(latency); err != nil {
		return err
	}
	return s.do(func(d raw.Driver) error { return raw.SimSetLatency(d, uint32(calls), uint64(latency.Nanoseconds())) })
}

// AddProcess adds a process to those that use the device. pid 0: this process; used is in bytes.
func (s *Sim) AddProcess(device int, pid, used uint64) error {
	return s.do(func(d raw.Driver) error { return raw.SimAddProcess(d, narrow(device), pid, used) })
}

// SetFabric sets what the device says of fabric handles: state 1: part of a fabric, 0: not, negative: the question
// fails; createCode is what creating memory with a fabric handle gives, 0: it works.
func (s *Sim) SetFabric(device, state, createCode int) error {
	return s.do(func(d raw.Driver) error {
		return raw.SimSetFabric(d, narrow(device), narrow(state), narrow(createCode))
	})
}

// BeginCapture captures a stream from now on. id is not 0, and names the capture.
func (s *Sim) BeginCapture(device int, stream Stream, id uint64) error {
	return s.do(func(d raw.Driver) error { return raw.SimBeginCapture(d, narrow(device), raw.Stream(stream), id) })
}

// EndCapture ends a capture, for every stream in it.
func (s *Sim) EndCapture(device int, id uint64) error {
	return s.do(func(d raw.Driver) error { return raw.SimEndCapture(d, narrow(device), id) })
}

// AddNode adds a graph node behind the stream's end nodes.
func (s *Sim) AddNode(device int, stream Stream) error {
	return s.do(func(d raw.Driver) error { return raw.SimAddNode(d, narrow(device), raw.Stream(stream)) })
}

// ForkCapture lets a stream join the capture of another, behind its present end nodes.
func (s *Sim) ForkCapture(device int, from, to Stream) error {
	return s.do(func(d raw.Driver) error {
		return raw.SimForkCapture(d, narrow(device), raw.Stream(from), raw.Stream(to))
	})
}

// JoinCapture lets a captured stream wait for another: it gets the end nodes of both.
func (s *Sim) JoinCapture(device int, into, other Stream) error {
	return s.do(func(d raw.Driver) error {
		return raw.SimJoinCapture(d, narrow(device), raw.Stream(into), raw.Stream(other))
	})
}

// SetGraphMemory sets what the device says of the memory of captured graphs, in bytes.
func (s *Sim) SetGraphMemory(device int, used, reserved uint64) error {
	return s.do(func(d raw.Driver) error { return raw.SimSetGraphMemory(d, narrow(device), used, reserved) })
}

// LogCalls starts or stops (0) keeping the driver's calls as text.
func (s *Sim) LogCalls(words SimLog) error {
	return s.do(func(d raw.Driver) error { return raw.SimLogCalls(d, uint32(words)) })
}

// ReadCalls takes the calls that were kept since the last time, oldest first, each line ended by "\n":
// "malloc SIZE ADDR", "free ADDR" and so on; sizes in decimal, addresses and streams in hexadecimal.
func (s *Sim) ReadCalls() (calls string, err error) {
	err = s.do(func(d raw.Driver) error { calls, err = raw.SimReadCalls(d); return err })
	return calls, err
}
