// SPDX-License-Identifier: MIT OR Apache-2.0

/*
Package cachalot is PyTorch's CUDA caching allocator for programs that are not PyTorch: its decisions, statistics and
messages over NVIDIA GPUs, host memory, or a simulated device.

	allocator, err := cachalot.Open()
	if err != nil {
		return err
	}
	defer allocator.Close()
	block, err := allocator.Allocate(1<<20, 0, stream)
	if err != nil {
		return err
	}
	defer block.Close()
	launch(block.Address(), stream)

# Building

The package needs cgo and a C compiler; without them the compiler says that cachalot_needs_cgo is undefined. It finds
the library by pkg-config. With the build tag cachalot_bundled it compiles the library, which a published module
contains and in a clone the CMake target cachalot_amalgamation writes; that needs a C++20 compiler and nothing else:

	go build -tags cachalot_bundled

# Pinned memory

Allocator.AllocatePinned hands out pinned host memory, which the host reads and writes as a slice, and which copies to
and from devices go through without a stop. A PinnedBlock is freed by hand too; the streams that use it are recorded
before that:

	staging, err := allocator.AllocatePinned(1 << 20)
	if err != nil {
		return err
	}
	copy(staging.Bytes(), data)
	copyToDevice(block.Address(), staging.Pointer(), stream) // returns at once
	if err := staging.RecordStream(0, stream); err != nil {
		return err
	}
	return staging.Free()

# Pools that sleep

The memory of an idle pool can be others' meanwhile, and comes back at the same addresses with the same contents
(PoolKey.Sleep, PoolKey.Wake):

	if _, err := pool.Key().Sleep(cachalot.SleepKeep, stream); err != nil {
		return err
	}
	... // another model works
	if err := pool.Key().Wake(stream); err != nil {
		return err // ErrOutOfMemory: it sleeps on
	}

# Closing

What is made here is closed by hand. Close can be called again; anything else on what is closed is ErrClosed. Closing
waits for the calls of other goroutines that are under way; calls that come meanwhile wait for how it ends, since it
may be refused. Nothing is freed by the collector, which only reports what nobody closed (OnLeak).

# Errors

Errors are values: errors.Is with the sentinels (ErrOutOfMemory, ErrInvalidArgument, ErrClosed, ...), errors.As with
*Error for the text and the driver's code, and with *OutOfMemoryError for the numbers.

# Goroutines

Everything may be called from any goroutine at the same time. What the library keeps by thread (labels, the tenant
of a request, a text for the history) a context carries into a request (WithLabel, WithTenant, WithMetadata,
Allocator.AllocateWith), or a scope locks the goroutine to its thread (LabelScope, Tenant.Scope, MetadataScope,
Pool.Route with RouteThisThread).

A goroutine that waits inside of C (for the driver, or for another goroutine's call on the same device) has a thread
to itself, and Go ends a program that has more than 10,000 threads. Where more goroutines than some hundreds may ask
for memory at once, let a semaphore stand around the requests:

	slots := make(chan struct{}, 256) // for all
	...
	slots <- struct{}{}
	block, err := allocator.Allocate(size, device, stream)
	<-slots

A callback takes no place: it must not wait. runtime/debug.SetMaxThreads moves the limit; every thread takes memory.

# Callbacks

Functions that the library calls run on the goroutine of the call. A panic in one ends there (OnPanic);
runtime.Goexit, which t.FailNow calls, ends the program. Those that run under a lock of the library cannot call any
allocator: that is ErrInvalidState, and no deadlock. Others go on with their own allocator while another goroutine
closes it, and wait for no other one that is being closed: that is ErrInvalidState, to be tried again. None may wait
for another goroutine that uses its allocator. The library keeps them until the allocator is closed.

# Cost

A call into C costs some tens of nanoseconds whatever it does, so an allocation and its free are two of these beyond
what they cost in C. Where that counts, AllocateAddresses and FreeAddresses do many in one call.
*/
package cachalot
