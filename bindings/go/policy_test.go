// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"cachalot.io/go"
)

// The serving policy, pins and the end of streams.

const first, second = cachalot.Stream(0x10), cachalot.Stream(0x20)

func serving(t testing.TB) *cachalot.Allocator {
	t.Helper()
	return simulated(t, cachalot.WithPolicy(cachalot.Policy{Kind: cachalot.PolicyServing}))
}

func policyStats(t testing.TB, a *cachalot.Allocator) cachalot.PolicyStats {
	t.Helper()
	return need[cachalot.PolicyStats](t)(a.PolicyStats(0))
}

func TestAPolicyIsReadAndWrittenAsText(t *testing.T) {
	for text, policy := range map[string]cachalot.Policy{
		"pytorch":                   {Kind: cachalot.PolicyPyTorch},
		"pytorch,page=2MiB":         {Kind: cachalot.PolicyPyTorch, PageBytes: 2 * mib},
		"serving":                   {Kind: cachalot.PolicyServing},
		"serving,streams=announced": {Kind: cachalot.PolicyServing, AnnouncedStreams: true},
		"serving,thrift,page=8MiB,borrow=at_limit,streams=announced": {Kind: cachalot.PolicyServing, Thrift: true,
			PageBytes: 8 * mib, Borrow: cachalot.BorrowAtLimit, AnnouncedStreams: true},
		"serving,thrift,page=8MiB,borrow=at_limit": {
			Kind: cachalot.PolicyServing, Thrift: true, PageBytes: 8 * mib, Borrow: cachalot.BorrowAtLimit},
		"serving,page=64KiB":             {Kind: cachalot.PolicyServing, PageBytes: 1 << 16},
		"serving,page=1GiB,borrow=never": {Kind: cachalot.PolicyServing, PageBytes: 1 << 30, Borrow: cachalot.BorrowNever},
	} {
		same(t, text, need[cachalot.Policy](t)(cachalot.ParsePolicy(text)), policy)
		same(t, "the text", policy.String(), text)
		back(t, policy)
	}
	back(t, cachalot.Policy{})
	_, err := cachalot.ParsePolicy("serving,thrifty")
	refused(t, "an unknown option", err)
	if !strings.HasPrefix(err.Error(), `policy "serving,thrifty": expected pytorch[,page=SIZE], or serving with any of`) {
		t.Error(err)
	}
	_, err = cachalot.ParsePolicy("serving\x00")
	refused(t, "a NUL inside", err)
	var read struct{ Policy cachalot.Policy }
	refused(t, "JSON", json.Unmarshal([]byte(`{"Policy": "servin"}`), &read))
}

func TestThePolicyInForceIsTheOneThatWasAskedFor(t *testing.T) {
	same(t, "the default", need[cachalot.Policy](t)(simulated(t).Policy()), cachalot.Policy{Kind: cachalot.PolicyPyTorch})
	same(t, "serving", need[cachalot.Policy](t)(serving(t).Policy()),
		cachalot.Policy{Kind: cachalot.PolicyServing, PageBytes: 2 * mib})
	asked := cachalot.Policy{Kind: cachalot.PolicyServing, Thrift: true, Borrow: cachalot.BorrowNever, PageBytes: 4 * mib,
		AnnouncedStreams: true}
	same(t, "all options", need[cachalot.Policy](t)(simulated(t, cachalot.WithPolicy(asked)).Policy()), asked)
}

func TestPyTorchsDecisionsMayHavePagesOfAnotherSize(t *testing.T) {
	pages := cachalot.Policy{Kind: cachalot.PolicyPyTorch, PageBytes: 2 * mib}
	a := simulated(t, cachalot.WithPolicy(pages), cachalot.WithOptions("expandable_segments:True"))
	same(t, "the policy", need[cachalot.Policy](t)(a.Policy()), pages)
	works(t, block(t, a, 5*mib, 0).Close())
	same(t, "reserved", a.MemoryReserved(0), 6*mib)
}

func TestAPolicyThatCannotBeIsRefused(t *testing.T) {
	device := sim(t, cachalot.SimOptions{})
	for what, policy := range map[string]cachalot.Policy{
		"an option of another policy": {Kind: cachalot.PolicyPyTorch, Thrift: true},
		"a promise to another policy": {Kind: cachalot.PolicyPyTorch, AnnouncedStreams: true},
		"an option of no policy":      {PageBytes: 2 * mib},
		"a page":                      {Kind: cachalot.PolicyServing, PageBytes: 3 * mib},
		"a kind":                      {Kind: 77},
		"a way to borrow":             {Kind: cachalot.PolicyServing, Borrow: 77},
	} {
		_, err := cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithOptions(""), cachalot.WithPolicy(policy))
		refused(t, what, err)
	}
}

func TestABlockOfAnotherStreamIsBorrowedAndWaitedFor(t *testing.T) {
	a := serving(t)
	b := block(t, a, 4*mib, first)
	works(t, b.Close())
	borrowed := block(t, a, 4*mib, second)
	same(t, "the address", borrowed.Address(), b.Address())
	same(t, "what was done", policyStats(t, a),
		cachalot.PolicyStats{PagesCreated: 2, BlocksBorrowed: 1, StreamWaits: 1})
	works(t, borrowed.Close(), a.EmptyCache())
	same(t, "pages that went back", policyStats(t, a).PagesReleased, 2)
	_, err := a.PolicyStats(9)
	refused(t, "a device", err)
}

func TestABorrowerWaitsForTheLenderAloneWhereEndsOfStreamsAreAnnounced(t *testing.T) {
	for announced, call := range map[bool]string{false: "event_record_all\n", true: "event_record 10\n"} {
		device := sim(t, cachalot.SimOptions{})
		a := over(t, device.Driver, cachalot.WithPolicy(
			cachalot.Policy{Kind: cachalot.PolicyServing, AnnouncedStreams: announced}))
		works(t, block(t, a, 4*mib, first).Close(), device.LogCalls(cachalot.SimLogCalls))
		works(t, block(t, a, 4*mib, second).Close())
		if calls := need[string](t)(device.ReadCalls()); !strings.Contains(calls, call) {
			t.Errorf("announced %t: %q", announced, calls)
		}
		same(t, "waits", policyStats(t, a).StreamWaits, 1)
	}
}

func TestNothingWaitsForAStreamThatHasEnded(t *testing.T) {
	a := serving(t)
	works(t, block(t, a, 4*mib, first).Close(), a.StreamEnded(0, first))
	works(t, block(t, a, 4*mib, second).Close())
	stats := policyStats(t, a)
	same(t, "borrowed", stats.BlocksBorrowed, 1)
	same(t, "waits", stats.StreamWaits, 0)
	refused(t, "a device", a.StreamEnded(9, first))
	end := need[func() error](t)(a.CaptureBegin(0))
	err := a.StreamEnded(0, second)
	if !errors.Is(err, cachalot.ErrInvalidState) ||
		err.Error() != "the end of a stream cannot be told while a capture may be under way" {
		t.Error(err)
	}
	works(t, end(), a.StreamEnded(0, second))
}

func TestPinnedPagesOutliveTheirBlockAndAnEmptiedCache(t *testing.T) {
	a := serving(t)
	b := block(t, a, 8*mib, first)
	whole := need[*cachalot.Pin](t)(b.Pin())
	part := need[*cachalot.Pin](t)(b.PinRange(3*mib, mib))
	same(t, "the whole", whole.Size(), 8*mib)
	same(t, "the part", part.Address(), b.Address()+3*mib)
	works(t, b.Close(), a.EmptyCache())
	same(t, "reserved", a.MemoryReserved(0), 8*mib)
	works(t, whole.Close(), whole.Close(), a.EmptyCache())
	same(t, "reserved", a.MemoryReserved(0), 2*mib)
	same(t, "pinned", policyStats(t, a).PinnedBytes, 2*mib)
	works(t, part.Close(), a.EmptyCache())
	same(t, "reserved", a.MemoryReserved(0), 0)
	if _, err := b.Pin(); !errors.Is(err, cachalot.ErrClosed) {
		t.Errorf("a closed block is pinned: %v", err)
	}
}

func TestAPinnedSegmentStaysWithPyTorchsDecisionsToo(t *testing.T) {
	a := simulated(t)
	b := block(t, a, 12*mib, 0)
	pin := need[*cachalot.Pin](t)(b.Pin())
	works(t, b.Close(), a.EmptyCache())
	same(t, "reserved", a.MemoryReserved(0), 12*mib)
	same(t, "what was done", policyStats(t, a), cachalot.PolicyStats{PinnedBytes: 12 * mib})
	works(t, pin.Close(), a.EmptyCache())
	same(t, "reserved", a.MemoryReserved(0), 0)
}

func TestAPinEndsWithItsAllocator(t *testing.T) {
	a := need[*cachalot.Allocator](t)(cachalot.Open(
		cachalot.OverDriver(sim(t, cachalot.SimOptions{}).Driver), cachalot.WithOptions("")))
	b := block(t, a, 12*mib, 0)
	pin := need[*cachalot.Pin](t)(b.Pin())
	works(t, b.Close(), a.Close(), pin.Close(), pin.Close())
	if !strings.HasSuffix(pin.String(), "closed)") {
		t.Error(pin)
	}
}

func TestAPinThatNobodyClosedIsReported(t *testing.T) {
	leaks := make(chan cachalot.Leak, 10)
	cachalot.OnLeak(func(leak cachalot.Leak) { leaks <- leak })
	defer cachalot.OnLeak(nil)
	a := simulated(t)
	b := block(t, a, 12*mib, 0)
	need[*cachalot.Pin](t)(b.Pin())
	for range 100 {
		runtime.GC()
		select {
		case leak := <-leaks:
			same(t, "the leak", leak.Kind, "pin")
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("nothing was reported")
}

func TestAPinIsNotEndedUnderALock(t *testing.T) {
	a := simulated(t)
	b := block(t, a, 12*mib, 0)
	pin := need[*cachalot.Pin](t)(b.Pin())
	works(t, a.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 10}))
	var refusal error
	detach := need[func() error](t)(a.ObserveTrace(func(cachalot.TraceEntry) { refusal = pin.Close() }))
	works(t, b.Close(), detach())
	if !errors.Is(refusal, cachalot.ErrInvalidState) {
		t.Errorf("closed under a lock: %v", refusal)
	}
	same(t, "pinned", policyStats(t, a).PinnedBytes, 12*mib)
	works(t, pin.Close())
	same(t, "pinned", policyStats(t, a).PinnedBytes, 0)
}

func TestWhatIsNoPartOfALiveBlockCannotBePinned(t *testing.T) {
	a := serving(t)
	b := block(t, a, 4*mib, first)
	_, err := b.PinRange(0, 0)
	refused(t, "nothing", err)
	same(t, "the text", err.Error(), "0 bytes cannot be pinned")
	_, err = b.PinRange(mib, 4*mib)
	refused(t, "beyond the block", err)
	_, err = b.PinRange(1<<63, mib)
	refused(t, "far beyond the block", err)
	works(t, b.Close())
	_, err = a.Pin(b.Address(), 1)
	refused(t, "a free block", err)
	_, err = block(t, a, 0, first).Pin()
	refused(t, "an empty block", err)
	driver := simulated(t, cachalot.WithOptions(cachalot.NewOptions(cachalot.Backend("cudaMallocAsync"))))
	if _, err := block(t, driver, mib, 0).Pin(); !errors.Is(err, cachalot.ErrNotSupported) {
		t.Error(err)
	}
}

func TestAPinnedPoolKeepsItsMemoryOnceItWasReleased(t *testing.T) {
	a := serving(t)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{Flags: cachalot.PoolPinned}))
	end := need[func() error](t)(pool.Route(cachalot.RouteAll()))
	works(t, block(t, a, 4*mib, first).Close(), end(), pool.Close(), a.EmptyCache())
	same(t, "reserved", a.MemoryReserved(0), 4*mib)
	works(t, pool.Key().SetPinned(false), a.EmptyCache())
	same(t, "reserved", a.MemoryReserved(0), 0)
	if err := pool.Key().SetPinned(true); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Error(err)
	}
}

func TestAWholeBlockIsAnAllocationOfTheDriver(t *testing.T) {
	a := simulated(t)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{Flags: cachalot.PoolWholeBlocks}))
	works(t, pool.Key().SetWholeBlocks())
	end := need[func() error](t)(pool.Route(cachalot.RouteAll()))
	for range 2 {
		b := block(t, a, 5000, 0)
		same(t, "base", need[cachalot.BaseAllocation](t)(a.BaseAllocation(b.Address())),
			cachalot.BaseAllocation{Address: b.Address(), Size: 5120})
	}
	works(t, end())
	usual := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	end = need[func() error](t)(usual.Route(cachalot.RouteAll()))
	works(t, block(t, a, mib, 0).Close(), end())
	if err := usual.Key().SetWholeBlocks(); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Error(err)
	}
}

func TestAReplayMakesTheDecisionsOfItsPolicy(t *testing.T) {
	a := simulated(t)
	works(t, a.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 10}))
	works(t, block(t, a, 5*mib, 0).Close())
	s := need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{}))
	defer s.Close()
	var file bytes.Buffer
	works(t, s.WriteTrace(&file, nil, "one block"))
	trace := need[*cachalot.Trace](t)(cachalot.ReadTrace(&file))
	defer trace.Close()
	policy := cachalot.Policy{Kind: cachalot.PolicyServing, PageBytes: 8 * mib, AnnouncedStreams: true}
	for _, each := range []struct {
		policy   cachalot.Policy
		reserved uint64
	}{{cachalot.Policy{}, 20 * mib}, {cachalot.Policy{Kind: cachalot.PolicyServing}, 6 * mib}, {policy, 8 * mib}} {
		replay := need[*cachalot.Replay](t)(trace.Replay(cachalot.ReplayOptions{Policy: each.policy, Capacity: 1 << 30}))
		same(t, "reserved", need[cachalot.ReplayResult](t)(replay.Result()).PeakReserved, each.reserved)
		works(t, replay.Close())
	}
	_, err := trace.Replay(cachalot.ReplayOptions{Policy: policy, Expect: true})
	refused(t, "a comparison", err)
}
