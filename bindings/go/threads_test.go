// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cachalot.io/go"
)

// Many goroutines, and handles that are closed while they are used.

// seed is CACHALOT_TEST_SEED, or a new one, which is printed.
func seed(t testing.TB) uint64 {
	number, err := strconv.ParseUint(os.Getenv("CACHALOT_TEST_SEED"), 10, 64)
	if err != nil {
		number = uint64(time.Now().UnixNano())
	}
	t.Logf("CACHALOT_TEST_SEED=%d", number)
	return number
}

// together runs a function on so many goroutines, and waits for them.
func together(count int, run func(number int)) {
	var group sync.WaitGroup
	for number := range count {
		group.Add(1)
		go func() {
			defer group.Done()
			run(number)
		}()
	}
	group.Wait()
}

// churn allocates and frees at random, and gives how often it got a block.
func churn(t *testing.T, a *cachalot.Allocator, random *rand.Rand, rounds int) int {
	var held []*cachalot.Block
	got := 0
	for i := range rounds {
		b, err := a.Allocate(512*(1+random.Uint64N(4000)), 0, cachalot.Stream(random.Uint64N(8)))
		switch {
		case err == nil:
			got++
			held = append(held, b)
		case !errors.Is(err, cachalot.ErrOutOfMemory):
			t.Error(err)
			return got
		}
		if len(held) > 4 {
			last := random.IntN(len(held))
			b, held[last] = held[last], held[len(held)-1]
			held = held[:len(held)-1]
			if err := errors.Join(b.RecordStream(cachalot.Stream(random.Uint64N(8))), b.Close()); err != nil {
				t.Error(err)
			}
		}
		if i%50 == 0 {
			if stats, err := a.Stats(0); err != nil || stats.Allocation.All.Current < 0 {
				t.Error(stats.Allocation.All, err)
			}
		}
	}
	for _, b := range held {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	return got
}

func TestThousandsOfGoroutinesShareAnAllocator(t *testing.T) {
	a, first := host(t), seed(t)
	together(2000, func(number int) {
		churn(t, a, rand.New(rand.NewPCG(first, uint64(number))), 20)
	})
	works(t, a.Check())
	same(t, "allocated", a.MemoryAllocated(0), 0)
}

func TestAnObserverSeesAllGoroutines(t *testing.T) {
	a, first := simulated(t), seed(t)
	var events, got atomic.Int64
	attached(t)(a.ObserveTrace(func(entry cachalot.TraceEntry) {
		if entry.Action == cachalot.ActionAlloc {
			events.Add(1)
		}
	}))
	together(16, func(number int) {
		got.Add(int64(churn(t, a, rand.New(rand.NewPCG(first, uint64(number))), 200)))
	})
	same(t, "events", events.Load(), got.Load())
}

func TestOtherGoroutinesFree(t *testing.T) {
	a := simulated(t)
	blocks := make(chan *cachalot.Block, 16)
	go func() {
		defer close(blocks)
		for range 1000 {
			b, err := a.Allocate(mib, 0, 0)
			if err != nil {
				t.Error(err)
				return
			}
			blocks <- b
		}
	}()
	together(8, func(int) {
		for b := range blocks {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	same(t, "allocated", a.MemoryAllocated(0), 0)
}

func TestOfManyClosesOneFrees(t *testing.T) {
	a := simulated(t)
	b := block(t, a, mib, 0)
	together(64, func(int) {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	same(t, "allocated", a.MemoryAllocated(0), 0)
}

func TestClosingWaitsForCalls(t *testing.T) {
	device := sim(t, cachalot.SimOptions{})
	for range 50 {
		a := over(t, device.Driver)
		var started sync.WaitGroup
		started.Add(8)
		together(9, func(number int) {
			if number == 8 {
				started.Wait()
				if err := a.CloseAll(); err != nil {
					t.Error(err)
				}
				return
			}
			var err error
			for i := 0; err == nil; i++ {
				if i == 1 {
					started.Done()
				}
				var address cachalot.Address
				if address, err = a.AllocateAddress(mib, 0, cachalot.Stream(number)); err == nil {
					err = a.Free(address)
				}
			}
			if !errors.Is(err, cachalot.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

func TestACloseThatFailsLeavesTheAllocatorOpen(t *testing.T) {
	a := simulated(t)
	b := block(t, a, mib, 0)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		for {
			select {
			case <-stop:
				return
			default:
				if err := a.Close(); !errors.Is(err, cachalot.ErrInvalidState) {
					t.Error(err)
				}
			}
		}
	}()
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		works(t, block(t, a, mib, 0).Close()) // Nothing is ErrClosed, since nothing is ever closed.
	}
	close(stop)
	group.Wait()
	same(t, "allocated", a.MemoryAllocated(0), mib)
	works(t, b.Close(), a.Close())
}

func TestLabelsGoWithContextsAndNotWithThreads(t *testing.T) {
	a := simulated(t, cachalot.TrackLabels())
	together(1000, func(number int) {
		outer := cachalot.WithLabel(context.Background(), fmt.Sprintf("g%d", number%4))
		b, err := a.AllocateWith(outer, cachalot.Request{Size: mib, Stream: cachalot.Stream(number % 4)})
		if err != nil {
			t.Error(err)
			return
		}
		runtime.Gosched() // The goroutine may go on on another thread.
		inner, err := a.AllocateWith(cachalot.WithLabel(outer, "inner"), cachalot.Request{Size: 512})
		if err = errors.Join(err, b.Close(), inner.Close()); err != nil {
			t.Error(err)
		}
	})
	count := 0
	for _, row := range need[[]cachalot.LabelStats](t)(a.LabelStats(0)) {
		if row.Allocation.Allocated == 250 {
			count++
		}
	}
	same(t, "labels that count 250 blocks", count, 8)
	block(t, a, 1, 0)
	same(t, "no label was left on a thread", len(need[[]cachalot.LabelStats](t)(a.LabelStats(0))), 8)
}

func TestScopesStayWithTheirGoroutine(t *testing.T) {
	a := simulated(t, cachalot.TrackLabels())
	tenant := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{Name: "scoped"}))
	together(100, func(number int) {
		endLabel, err := cachalot.LabelScope("outer")
		tried(t, err)
		endInner, err := cachalot.LabelScope("inner")
		tried(t, err)
		endTenant, err := tenant.Scope()
		tried(t, err)
		if err := endLabel(); !errors.Is(err, cachalot.ErrInvalidState) {
			t.Errorf("the outer label is ended first: %v", err)
		}
		time.Sleep(time.Microsecond)
		b, err := a.Allocate(512, 0, 0)
		tried(t, err, b.Close(), endTenant(), endInner(), endInner(), endLabel())
		b, err = a.Allocate(512, 0, 0)
		tried(t, err, b.Close())
	})
	rows := need[[]cachalot.LabelStats](t)(a.LabelStats(0))
	same(t, "labels", len(rows), 1)
	same(t, "label", rows[0].Label, "outer/inner")
	same(t, "blocks of the tenant", need[cachalot.TenantStats](t)(tenant.Stats(0)).Allocation.Allocated, 100)
	works(t, tenant.Close())
}

func TestAScopeIsEndedByItsGoroutine(t *testing.T) {
	end := need[func() error](t)(cachalot.LabelScope("mine"))
	together(1, func(int) {
		if err := end(); !errors.Is(err, cachalot.ErrInvalidState) {
			t.Errorf("another goroutine ended it: %v", err)
		}
	})
	works(t, end())
	if _, err := cachalot.LabelScope(""); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
	a := simulated(t)
	for _, label := range []string{"", "a\x00b"} {
		ctx := cachalot.WithLabel(context.Background(), label)
		if _, err := a.AllocateWith(ctx, cachalot.Request{Size: 1}); !errors.Is(err, cachalot.ErrInvalidArgument) {
			t.Errorf("%q: %v", label, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := a.AllocateWith(ctx, cachalot.Request{Size: 1}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestARoutingOfThisThreadIsTheGoroutines(t *testing.T) {
	a := simulated(t)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	end := need[func() error](t)(pool.Route(cachalot.RouteThisThread()))
	mine := block(t, a, 512, 0)
	together(8, func(int) {
		other, err := a.Allocate(512, 0, 0)
		tried(t, err)
		info, err := other.Info()
		tried(t, err, other.Close())
		same(t, "another goroutine's pool", info.Pool, cachalot.PoolID{})
	})
	same(t, "this one's pool", need[cachalot.BlockInfo](t)(mine.Info()).Pool, pool.Key().ID())
	works(t, mine.Close(), end(), end(), pool.Close())
}

func TestMetadataOfAScopeComesBackAfterARequest(t *testing.T) {
	a := simulated(t)
	works(t, a.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 10,
		SkipActions: strings.Split("segment_alloc,snapshot", ",")}))
	end := need[func() error](t)(cachalot.MetadataScope("scope"))
	ctx := cachalot.WithMetadata(context.Background(), "request")
	need[*cachalot.Block](t)(a.AllocateWith(ctx, cachalot.Request{Size: 1}))
	block(t, a, 1, 0)
	works(t, end())
	block(t, a, 1, 0)
	var texts []string
	for _, entry := range need[[]cachalot.TraceEntry](t)(a.History(0)) {
		texts = append(texts, entry.Metadata)
	}
	same(t, "texts", strings.Join(texts, ","), "request,scope,")
}
