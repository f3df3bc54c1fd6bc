// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"cachalot.io/go"
)

func sharing(t *testing.T, options cachalot.Options) *cachalot.Allocator {
	t.Helper()
	driver := need[*cachalot.Driver](t)(cachalot.OpenDriver("host-shared:256MiB"))
	a := need[*cachalot.Allocator](t)(cachalot.Open(cachalot.OverDriver(driver), cachalot.WithOptions(options)))
	works(t, driver.Close())
	t.Cleanup(func() { works(t, a.Close()) })
	return a
}

func soon(t *testing.T, what func() bool) {
	t.Helper()
	for begin := time.Now(); !what(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("it did not happen")
		}
	}
}

func TestSharedBlockIsTheSameMemory(t *testing.T) {
	for _, options := range []cachalot.Options{"", "expandable_segments:True"} {
		here, there := sharing(t, options), sharing(t, options)
		b := need[*cachalot.Block](t)(here.Allocate(30*mib, 0, 0))
		bytes := need[[]byte](t)(b.Bytes())
		shared := need[*cachalot.SharedBlock](t)(b.Share())
		opened := need[*cachalot.OpenedBlock](t)(there.OpenBlock(0, need[string](t)(shared.Ticket())))
		same(t, "size", opened.Size(), 30*mib)
		same(t, "users", shared.Users(), 1)
		same(t, "sharer", opened.HasSharer(), true)
		bytes[30*mib-1] = 7
		same(t, "byte", need[[]byte](t)(opened.Bytes())[30*mib-1], 7)
		works(t, b.Close(), shared.Close(), shared.Close())
		same(t, "live", need[cachalot.Stats](t)(here.Stats(0)).Allocation.All.Current, 1)
		works(t, opened.Close(), opened.Close())
		soon(t, func() bool { return need[cachalot.Stats](t)(here.Stats(0)).Allocation.All.Current == 0 })
		same(t, "sharer", opened.HasSharer(), false)
		same(t, "users", shared.Users(), 0)
	}
}

func TestWhatIsNoTicketIsRefused(t *testing.T) {
	here := sharing(t, "")
	for _, ticket := range []string{"", "nonsense", "a\x00b"} {
		if _, err := here.OpenBlock(0, ticket); !errors.Is(err, cachalot.ErrInvalidArgument) {
			t.Error(ticket, err)
		}
	}
}

func TestPyTorchsBytesOpenTheMemoryUnderABlock(t *testing.T) {
	here, there := sharing(t, ""), sharing(t, "")
	first := need[*cachalot.Block](t)(here.Allocate(5*mib, 0, 0))
	b := need[*cachalot.Block](t)(here.Allocate(3*mib, 0, 0))
	handle := need[cachalot.SharedHandle](t)(here.Share(b.Address()))
	same(t, "offset", handle.Offset, 5*mib)
	opened := need[*cachalot.OpenedMemory](t)(there.OpenShared(0, handle))
	again := need[*cachalot.OpenedMemory](t)(there.OpenShared(0, cachalot.SharedHandle{Data: handle.Data}))
	same(t, "address", opened.Address(), again.Address()+5*mib)
	works(t, again.Close())
	works(t, opened.Close(), opened.Close())
	if _, err := there.OpenShared(0, cachalot.SharedHandle{Data: make([]byte, 8)}); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
	works(t, first.Close(), b.Close())
}

func TestAPlainSegmentIsNamedByOneCallOfTheDriver(t *testing.T) {
	sim := need[*cachalot.Sim](t)(cachalot.OpenSim(cachalot.SimOptions{}))
	a := need[*cachalot.Allocator](t)(cachalot.Open(cachalot.OverDriver(sim.Driver)))
	b := need[*cachalot.Block](t)(a.Allocate(1, 0, 0))
	works(t, sim.LogCalls(cachalot.SimLogCalls))
	need[cachalot.SharedHandle](t)(a.Share(b.Address()))
	same(t, "calls", need[string](t)(sim.ReadCalls()), fmt.Sprintf("ipc_handle %x\n", uint64(b.Address())))
	works(t, b.Close(), a.Close(), sim.Close())
}

func TestABlockThatCannotBeSharedIsThereAsBefore(t *testing.T) {
	a := simulated(t, cachalot.WithOptions("backend:cudaMallocAsync"))
	b := need[*cachalot.Block](t)(a.Allocate(1, 0, 0))
	if _, err := b.Share(); !errors.Is(err, cachalot.ErrNotSupported) {
		t.Error(err)
	}
	works(t, b.Close())
}
