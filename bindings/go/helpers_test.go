// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"testing"

	"cachalot.io/go"
)

const mib = 1 << 20

// sim is a simulated device that ends with the test.
func sim(t testing.TB, options cachalot.SimOptions) *cachalot.Sim {
	t.Helper()
	device, err := cachalot.OpenSim(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = device.Close() })
	return device
}

// over is an allocator over a driver, with all defaults; it ends with the test, and its blocks with it.
func over(t testing.TB, driver *cachalot.Driver, options ...cachalot.Option) *cachalot.Allocator {
	t.Helper()
	options = append([]cachalot.Option{cachalot.OverDriver(driver), cachalot.WithOptions("")}, options...)
	allocator, err := cachalot.Open(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := allocator.CloseAll(); err != nil {
			t.Error(err)
		}
	})
	return allocator
}

// simulated is an allocator over a simulated device of its own.
func simulated(t testing.TB, options ...cachalot.Option) *cachalot.Allocator {
	t.Helper()
	return over(t, sim(t, cachalot.SimOptions{}).Driver, options...)
}

func host(t testing.TB, options ...cachalot.Option) *cachalot.Allocator {
	t.Helper()
	driver, err := cachalot.OpenHost(512*mib, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = driver.Close() })
	return over(t, driver, options...)
}

// need ends the test at an error; of a call with a result that is needed.
func need[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func block(t testing.TB, a *cachalot.Allocator, size uint64, stream cachalot.Stream) *cachalot.Block {
	t.Helper()
	return need[*cachalot.Block](t)(a.Allocate(size, 0, stream))
}

// works fails the test for the first error.
func works(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func same[T comparable](t testing.TB, what string, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Errorf("%s: %v, not %v", what, found, wanted)
	}
}

// tried is works for other goroutines and for callbacks, which a test must not end in.
func tried(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}
