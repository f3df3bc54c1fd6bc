// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"cachalot.io/go"
)

// What the library calls, and what that may do.

// panics collects what callbacks panic with until the test ends.
func panics(t *testing.T) *[]any {
	var caught []any
	cachalot.OnPanic(func(value any, stack []byte) {
		if !bytes.Contains(stack, []byte("callback_test.go")) {
			t.Errorf("the stack does not show the callback:\n%s", stack)
		}
		caught = append(caught, value)
	})
	t.Cleanup(func() { cachalot.OnPanic(nil) })
	return &caught
}

func small(t *testing.T) *cachalot.Allocator {
	return over(t, sim(t, cachalot.SimOptions{Capacity: 100 * mib}).Driver, cachalot.TrackLabels())
}

func attached(t *testing.T) func(func() error, error) {
	return func(_ func() error, err error) {
		t.Helper()
		works(t, err)
	}
}

func TestAPanicStaysOutsideOfTheLibrary(t *testing.T) {
	caught := panics(t)
	a := small(t)
	attached(t)(a.ObserveTrace(func(cachalot.TraceEntry) { panic("trace") }))
	attached(t)(a.ObserveOutOfMemory(func(cachalot.OutOfMemory) { panic("oom") }))
	attached(t)(a.OnFreeMemory(func(int, uint64) bool { panic("free") }))
	works(t, block(t, a, mib, 0).Close())
	if _, err := a.Allocate(200*mib, 0, 0); !errors.Is(err, cachalot.ErrOutOfMemory) {
		t.Error(err)
	}
	for _, value := range []any{"trace", "oom", "free"} {
		if !slices.Contains(*caught, value) {
			t.Errorf("%v: %v is missing", *caught, value)
		}
	}
	works(t, a.Check())
	cachalot.OnPanic(func(any, []byte) { panic("in the handler too") })
	works(t, block(t, a, mib, 0).Close(), a.Check())
}

func TestCallsUnderALockAreRefused(t *testing.T) {
	caught := panics(t)
	a := small(t)
	other := block(t, a, 1, 0)
	tenant := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{}))
	refused := 0
	detach := need[func() error](t)(a.ObserveTrace(func(cachalot.TraceEntry) {
		_, allocate := a.Allocate(1, 0, 0)
		_, stats := a.Stats(0)
		_, ofTenant := tenant.Allocate(1, 0, 0)
		_, scoped := a.AllocateWith(cachalot.WithLabel(t.Context(), "x"), cachalot.Request{Size: 1})
		_, observer := a.ObserveRejection(func(cachalot.Rejection) {})
		_, options := a.CreateTenant(cachalot.TenantOptions{OnPressure: func(cachalot.Pressure) uint64 { return 0 }})
		batch := a.AllocateAddresses(make([]cachalot.Address, 1), []uint64{1}, 0, 0)
		for _, err := range []error{allocate, stats, ofTenant, scoped, observer, options, batch, other.Close(), a.Check(),
			tenant.Close()} {
			if !errors.Is(err, cachalot.ErrInvalidState) || errors.Is(err, cachalot.ErrClosed) {
				t.Errorf("not refused: %v", err)
			}
			refused++
		}
		same(t, "a number under a lock", a.MemoryAllocated(0), 0)
	}))
	works(t, block(t, a, 5*mib, 0).Close())
	if refused == 0 || len(*caught) > 0 {
		t.Errorf("%d, %v", refused, *caught)
	}
	same(t, "it was not freed", need[cachalot.BlockInfo](t)(other.Info()).Size, 512)
	works(t, detach(), detach())
	before := refused
	works(t, block(t, a, 5*mib, 0).Close())
	same(t, "it is detached", refused, before)
	works(t, tenant.Close())
}

func TestAnAllocatorIsNotClosedFromWithinItsCall(t *testing.T) {
	a := small(t)
	var refused []error
	attached(t)(a.OnFreeMemory(func(int, uint64) bool {
		refused = append(refused, a.CloseAll())
		snapshot, err := a.Snapshot(cachalot.SnapshotOptions{})
		tried(t, err, snapshot.Close()) // What no call is inside of can be closed.
		return false
	}))
	works(t, block(t, a, mib, 0).Close())
	if len(refused) == 0 || !errors.Is(refused[0], cachalot.ErrInvalidState) {
		t.Error(refused)
	}
}

func TestOutOfMemoryHasItsReport(t *testing.T) {
	a := small(t)
	var seen []cachalot.OutOfMemory
	var texts []string
	attached(t)(a.ObserveOutOfMemory(func(n cachalot.OutOfMemory) {
		seen = append(seen, n)
		report, err := a.Report(n.ReportOptions())
		tried(t, err)
		text, err := report.Text()
		texts = append(texts, text)
		tried(t, err, report.Close())
	}))
	works(t, a.SetMemoryLimit(0, 50*mib))
	_, err := a.Allocate(60*mib, 0, 5)
	var numbers *cachalot.OutOfMemoryError
	if !errors.As(err, &numbers) || numbers.Limit != 50*mib || !slices.Contains(seen, numbers.OutOfMemory) {
		t.Errorf("%v: %+v", err, seen)
	}
	if !strings.Contains(texts[0], "it fails") {
		t.Error(texts)
	}
}

func TestAFreeMemoryCallbackMakesRoom(t *testing.T) {
	a := small(t)
	var cache []*cachalot.Block
	for range 4 {
		cache = append(cache, block(t, a, 20*mib, 0))
	}
	attached(t)(a.OnFreeMemory(func(int, uint64) bool {
		freed := len(cache) > 0
		for _, each := range cache {
			tried(t, each.Close())
		}
		cache = nil
		return freed
	}))
	works(t, block(t, a, 90*mib, 0).Close())
}

func TestTenantsGiveToEachOther(t *testing.T) {
	a := small(t)
	var held []*cachalot.Block
	var asked []cachalot.Pressure
	giver := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{Name: "giver", Priority: -1,
		OnPressure: func(p cachalot.Pressure) uint64 {
			asked = append(asked, p)
			bytes := uint64(0)
			for _, each := range held {
				bytes += each.Size()
				tried(t, each.Close())
			}
			held = nil
			return bytes
		}}))
	taker := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{Name: "taker", GuaranteedBytes: 60 * mib}))
	for range 4 {
		held = append(held, need[*cachalot.Block](t)(giver.Allocate(10*mib, 0, 0)))
	}
	end := need[func() error](t)(taker.Scope())
	b := block(t, a, 80*mib, 0)
	same(t, "what the taker has", need[cachalot.TenantStats](t)(taker.Stats(0)).AllocatedBytes.Current, 80*mib)
	if err := taker.Close(); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Errorf("it has a block: %v", err)
	}
	works(t, b.Close(), end(), end())
	same(t, "who asked", asked[0].RequesterName, "taker")
	same(t, "what the giver has", need[cachalot.TenantStats](t)(giver.Stats(0)).Allocation.Current, 0)
	works(t, giver.SetBytes(cachalot.AllDevices, 0, 8*mib), giver.SetPriority(3))
	same(t, "limit", need[cachalot.TenantStats](t)(giver.Stats(0)).LimitBytes, 8*mib)
	ctx := cachalot.WithTenant(t.Context(), giver)
	if _, err := a.AllocateWith(ctx, cachalot.Request{Size: 9 * mib}); !errors.Is(err, cachalot.ErrOutOfMemory) {
		t.Error(err)
	}
	if _, err := simulated(t).AllocateWith(ctx, cachalot.Request{Size: 1}); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Errorf("another allocator's tenant: %v", err)
	}
	var names []string
	for _, row := range need[[]cachalot.TenantStats](t)(a.TenantStats(0)) {
		names = append(names, row.Name)
	}
	same(t, "names", strings.Join(names, " "), "default giver taker")
	_, err := a.CreateTenant(cachalot.TenantOptions{GuaranteedBytes: 2, LimitBytes: 1})
	if !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
	works(t, giver.Close(), taker.Close())
	if _, err := a.AllocateWith(ctx, cachalot.Request{Size: 1}); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
}

// Memory that nobody has may be named by a source: a view of it would let Go write anywhere.
func TestABlockOfAPoolsSourceIsNoBytes(t *testing.T) {
	a := host(t)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{Source: &cachalot.PoolSource{
		Allocate: func(uint64, int, cachalot.Stream) cachalot.Address { return 0x5000000000 },
		Free:     func(cachalot.Address, uint64, int, cachalot.Stream) {},
	}}))
	end := need[func() error](t)(pool.Route(cachalot.RouteAll()))
	b := block(t, a, 1, 0)
	works(t, end())
	same(t, "from the source", need[cachalot.BlockInfo](t)(b.Info()).FromSource, true)
	_, err := b.Bytes()
	if !errors.Is(err, cachalot.ErrNotSupported) || !strings.Contains(err.Error(), "0x5000000000") {
		t.Error(err)
	}
	beside := block(t, a, 1, 0)
	same(t, "from the driver", need[cachalot.BlockInfo](t)(beside.Info()).FromSource, false)
	same(t, "bytes of the driver", len(need[[]byte](t)(beside.Bytes())), 1)
	works(t, b.Close(), beside.Close(), pool.Close())
}

func TestASourceOfWhatNoMemoryCanBeIsRefused(t *testing.T) {
	for _, address := range []cachalot.Address{1<<64 - 1, 1<<64 - 512, 1<<64 - 2*mib, 1 << 63, 1<<63 - 512, 0x5000000100} {
		a := small(t)
		given, back := address, cachalot.Address(0)
		pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{Source: &cachalot.PoolSource{
			Allocate: func(uint64, int, cachalot.Stream) cachalot.Address { return given },
			Free:     func(address cachalot.Address, _ uint64, _ int, _ cachalot.Stream) { back = address },
		}}))
		end := need[func() error](t)(pool.Route(cachalot.RouteAll()))
		_, err := a.Allocate(1, 0, 0)
		if !errors.Is(err, cachalot.ErrInvalidState) || !strings.Contains(err.Error(), "the pool's source gave 2097152 bytes at 0x") {
			t.Errorf("%#x: %v", address, err)
		}
		same(t, "given back", back, address)
		given = 0x5000000000
		works(t, block(t, a, 1, 0).Close(), end(), pool.Close(), a.Check())
	}
	device := sim(t, cachalot.SimOptions{})
	if err := device.GiveAddresses(0, 1<<64-1<<20); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestAPoolHasItsOwnSource(t *testing.T) {
	a := small(t)
	given := int64(0)
	options := cachalot.PoolOptions{Source: &cachalot.PoolSource{
		Allocate: func(size uint64, _ int, _ cachalot.Stream) cachalot.Address {
			given += int64(size)
			return 0x5000000000
		},
		Free: func(_ cachalot.Address, size uint64, _ int, _ cachalot.Stream) { given -= int64(size) },
	}}
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, options))
	end := need[func() error](t)(pool.Route(
		cachalot.RoutePredicate(func(stream cachalot.Stream) bool { return stream == 3 })))
	b := block(t, a, 1, 3)
	same(t, "address", b.Address(), 0x5000000000)
	same(t, "pool", need[cachalot.BlockInfo](t)(b.Info()).Pool, pool.Key().ID())
	same(t, "live", need[bool](t)(pool.Key().HasLive(b.Address())), true)
	if _, err := pool.Route(cachalot.RouteAll()); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Error(err)
	}
	same(t, "uses", need[int](t)(pool.Key().UseCount()), 2)
	works(t, b.Close(), end(), end())
	same(t, "given", given, 2*mib)
	if _, err := a.JoinPool(0, pool.Key().ID(), options); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Error(err)
	}
	same(t, "uses after the end", need[int](t)(pool.Key().UseCount()), 1)
	same(t, "reserved", need[[]cachalot.PoolStats](t)(a.PoolStats(0))[0].ReservedBytes.All.Current, 2*mib)
	works(t, pool.Close(), pool.Close(), a.EmptyCache())
	same(t, "given back", given, 0)
	if _, err := pool.Route(cachalot.RouteAll()); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
}

// recording is a trace file of one allocation and its free.
func recording(t testing.TB) []byte {
	a := simulated(t)
	works(t, a.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 100}))
	works(t, block(t, a, mib, 0).Close())
	s := need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{}))
	defer s.Close()
	stats := need[cachalot.Stats](t)(a.Stats(0))
	var file bytes.Buffer
	works(t, s.WriteTrace(&file, &stats, "ein Test: ä"))
	return file.Bytes()
}

func TestASnapshotIsWrittenForMemoryViz(t *testing.T) {
	a := simulated(t)
	works(t, a.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 100}))
	works(t, block(t, a, mib, 0).Close())
	s := need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{}))
	defer s.Close()
	for _, allocator := range []*cachalot.Allocator{a, nil} {
		var file bytes.Buffer
		works(t, s.WritePickle(&file, allocator))
		if !bytes.HasPrefix(file.Bytes(), []byte("\x80\x04}(\x8c\x08segments")) || !bytes.HasSuffix(file.Bytes(), []byte("u.")) {
			t.Errorf("%q", file.Bytes())
		}
	}
	if err := s.WritePickle(nil, a); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
	broken := errors.New("broken")
	if err := s.WritePickle(failingWriter{broken}, a); !errors.Is(err, cachalot.ErrCallback) || !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestAReplayHasTheRecordedTimes(t *testing.T) {
	trace := need[*cachalot.Trace](t)(cachalot.ReadTrace(strings.NewReader(
		"# {\"format\": 2}\n# label 7 f\na,200,512,a0,0,,123,7\n")))
	defer trace.Close()
	replay := need[*cachalot.Replay](t)(trace.Replay(cachalot.ReplayOptions{History: true}))
	s := need[*cachalot.Snapshot](t)(replay.Snapshot())
	defer s.Close()
	works(t, replay.Close())
	history := need[[]cachalot.TraceEntry](t)(s.History(0))
	same(t, "entries", len(history), 2)
	same(t, "time", history[1].TimeUS, 123)
	same(t, "context", history[1].Context, 7)
	without := need[*cachalot.Replay](t)(trace.Replay(cachalot.ReplayOptions{}))
	defer without.Close()
	if _, err := without.Snapshot(); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Error(err)
	}
}

func TestATraceOfAProgramTellsOfItsCalls(t *testing.T) {
	trace := need[*cachalot.Trace](t)(cachalot.ReadTrace(strings.NewReader(
		"# {\"format\": 2, \"command\": \"./server\", \"pid\": 4711, \"driver\": 13000}\n" +
			"a,200,512,a0,0,,5,ff,34000,s,12\nq,200,512,a0,0,,6,,,t,,b0,7,c0de\nx,0,0,0\n")))
	info := need[cachalot.TraceInfo](t)(trace.Info())
	same(t, "format", info.Format, 2)
	same(t, "command", info.Command, "./server")
	same(t, "process", info.ProcessID, 4711)
	same(t, "driver", info.DriverVersion, 13000)
	first := need[cachalot.TraceEvent](t)(trace.Event(0))
	same(t, "cost", first.CostNS, 34000)
	same(t, "thread", first.Thread, 12)
	same(t, "entry", first.Entry, 's')
	second := need[cachalot.TraceEvent](t)(trace.Event(1))
	same(t, "freed on", second.FreedOn, 0xb0)
	same(t, "wait", second.WaitNS, 7)
	same(t, "context of the driver", second.DriverContext, 0xc0de)
	same(t, "last", need[cachalot.TraceEvent](t)(trace.Event(2)).Action, cachalot.ActionContextEnd)
}

func TestATraceOfAProgramTellsOfItsStacks(t *testing.T) {
	trace := need[*cachalot.Trace](t)(cachalot.ReadTrace(strings.NewReader(
		"# {\"format\": 2}\n# module 400000 500000 1000 /usr/bin/server\n" +
			"# stack ff 401234;7f001000\na,200,512,0,0,,,ff\n")))
	stack := need[[]cachalot.TraceFrame](t)(trace.Stack(0xff))
	same(t, "frames", len(stack), 2)
	same(t, "innermost", stack[0], cachalot.TraceFrame{Address: 0x401234, FileOffset: 0x2234, Path: "/usr/bin/server"})
	same(t, "outermost", stack[1], cachalot.TraceFrame{Address: 0x7f001000})
	same(t, "of another", len(need[[]cachalot.TraceFrame](t)(trace.Stack(0xfe))), 0)
}

func TestAReplayCanEndAtTheFirstFailureAndTellsItsDriverCalls(t *testing.T) {
	text := "# {\"warm_up\": 0}\n"
	for i := 1; i < 5; i++ {
		text += fmt.Sprintf("a,%d00000000,41943040,0\n", i)
	}
	trace := need[*cachalot.Trace](t)(cachalot.ReadTrace(strings.NewReader(text)))
	replay := need[*cachalot.Replay](t)(trace.Replay(cachalot.ReplayOptions{
		Capacity: 100 * mib, StopAtOutOfMemory: true}))
	result := need[cachalot.ReplayResult](t)(replay.Result())
	same(t, "failures", result.OutOfMemory, 1)
	same(t, "peak of the device", result.PeakDeviceBytes, 80*mib)
	calls := need[[]cachalot.ReplayCall](t)(replay.Calls())
	same(t, "calls", len(calls), 3)
	same(t, "call", calls[1], cachalot.ReplayCall{Function: "cuMemAlloc", Size: 40 * mib, Count: 2, GapUS: 8})
	works(t, replay.Close(), trace.Close())
	if _, err := replay.Calls(); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
}

// twoRequests is a trace of two requests of 40 MiB and the free of the first.
func twoRequests(t *testing.T) *cachalot.Trace {
	return need[*cachalot.Trace](t)(cachalot.ReadTrace(strings.NewReader("# {\"warm_up\": 0}\n" +
		"a,100000000,41943040,0\na,200000000,41943040,0\nq,100000000,41943040,0\nc,100000000,41943040,0\n")))
}

func TestAReplayTellsWhatEachEventDid(t *testing.T) {
	trace := twoRequests(t)
	defer trace.Close()
	var seen []string
	options := cachalot.ReplayOptions{Observer: func(event uint64, entry cachalot.TraceEntry) {
		seen = append(seen, fmt.Sprint(event, " ", entry.Action, " ", entry.Size/mib))
	}}
	works(t, need[*cachalot.Replay](t)(trace.Replay(options)).Close())
	same(t, "entries", strings.Join(seen, ", "), "0 segment_alloc 40, 0 alloc 40, 1 segment_alloc 40, 1 alloc 40, "+
		"2 free_requested 40, 2 free_completed 40")
	seen, options.EventCount = nil, 1
	replay := need[*cachalot.Replay](t)(trace.Replay(options))
	same(t, "entries of the first event", strings.Join(seen, ", "), "0 segment_alloc 40, 0 alloc 40")
	same(t, "events", need[cachalot.ReplayResult](t)(replay.Result()).Events, 1)
	works(t, replay.Close())
	options.Expect = true
	if _, err := trace.Replay(options); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Errorf("not all events: %v", err)
	}
}

func TestAPanicOfAnObserverEndsTheReplay(t *testing.T) {
	trace := twoRequests(t)
	for _, options := range []cachalot.ReplayOptions{{}, {Capacity: 20 * mib, StopAtOutOfMemory: true}} {
		calls := 0
		options.Observer = func(uint64, cachalot.TraceEntry) { calls++; panic("observer") }
		options.Progress = func(uint64, uint64) bool { t.Error("it goes on"); return true }
		for _, run := range []func(){
			func() { _, _ = trace.Replay(options) },
			func() { _ = trace.WriteScript(io.Discard, options) },
		} {
			calls = 0
			func() {
				defer func() { same(t, "the panic", recover(), any("observer")) }()
				run()
				t.Error("no panic")
			}()
			same(t, "calls", calls, 1)
		}
	}
	works(t, trace.Close()) // No call is left inside.
}

func TestATraceIsWrittenReadAndReplayed(t *testing.T) {
	trace := need[*cachalot.Trace](t)(cachalot.ReadTrace(iotest.OneByteReader(bytes.NewReader(recording(t)))))
	info := need[cachalot.TraceInfo](t)(trace.Info())
	same(t, "workload", info.Workload, "ein Test: ä")
	same(t, "first event", need[cachalot.TraceEvent](t)(trace.Event(0)).Action, cachalot.ActionSegmentAlloc)
	if _, err := trace.Event(info.EventCount); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
	same(t, "statistics", len(need[[]cachalot.NamedStat](t)(trace.Stats())), 123)
	calls := 0
	replay := need[*cachalot.Replay](t)(trace.Replay(cachalot.ReplayOptions{
		Progress: func(done, total uint64) bool { calls++; return done <= total }}))
	same(t, "allocations", need[cachalot.ReplayResult](t)(replay.Result()).Allocations, 1)
	borrowed := replay.Allocator()
	same(t, "peak", borrowed.MaxMemoryAllocated(0), mib)
	works(t, borrowed.Close())
	same(t, "closing what is borrowed does nothing", borrowed.DriverName(), "sim")
	works(t, replay.Close(), replay.Close())
	if _, err := borrowed.Stats(0); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
	var script strings.Builder
	works(t, trace.WriteScript(&script, cachalot.ReplayOptions{}))
	if !strings.Contains(script.String(), "\na ") {
		t.Error(script.String())
	}
	works(t, trace.Close(), trace.Close())
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestErrorsAndPanicsOfReadersAndWritersComeBack(t *testing.T) {
	broken := errors.New("broken")
	if _, err := cachalot.ReadTrace(iotest.ErrReader(broken)); !errors.Is(err, broken) ||
		!errors.Is(err, cachalot.ErrCallback) {
		t.Error(err)
	}
	if _, err := cachalot.ReadTrace(strings.NewReader("nonsense")); !errors.Is(err, cachalot.ErrIO) {
		t.Error(err)
	}
	trace := need[*cachalot.Trace](t)(cachalot.ReadTrace(bytes.NewReader(recording(t))))
	err := trace.WriteScript(failingWriter{broken}, cachalot.ReplayOptions{})
	if !errors.Is(err, broken) || !errors.Is(err, cachalot.ErrCallback) {
		t.Error(err)
	}
	if err := trace.WriteScript(nil, cachalot.ReplayOptions{}); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Errorf("no writer: %v", err)
	}
	read, write := io.Pipe()
	works(t, write.Close())
	if _, err := cachalot.ReadTrace(read); !errors.Is(err, cachalot.ErrIO) {
		t.Errorf("an empty file: %v", err)
	}
	func() {
		defer func() { same(t, "the panic", recover(), any("reader")) }()
		_, _ = cachalot.ReadTrace(panickingReader{})
		t.Error("no panic")
	}()
	works(t, trace.Close()) // No call is left inside.
}

// lastRead gives all bytes at once and an error with them, and after that the end.
type lastRead struct {
	data []byte
	err  error
}

func (r *lastRead) Read(buffer []byte) (int, error) {
	n := copy(buffer, r.data)
	r.data = r.data[n:]
	if n == 0 {
		return 0, io.EOF
	}
	if len(r.data) > 0 {
		return n, nil
	}
	return n, r.err
}

func TestAnErrorThatComesWithBytesIsNoEnd(t *testing.T) {
	file, broken := recording(t), errors.New("connection reset")
	// Cut where the rest would be a trace of its own.
	cut := bytes.LastIndexByte(file[:len(file)-1], '\n') + 1
	if _, err := cachalot.ReadTrace(&lastRead{file[:cut], broken}); !errors.Is(err, broken) ||
		!errors.Is(err, cachalot.ErrCallback) {
		t.Error(err)
	}
	works(t, need[*cachalot.Trace](t)(cachalot.ReadTrace(iotest.DataErrReader(bytes.NewReader(file)))).Close())
}

type lyingReader struct{ n int }

func (r lyingReader) Read(buffer []byte) (int, error) { return r.n*len(buffer) + r.n, nil }

type shortWriter struct{}

func (shortWriter) Write(data []byte) (int, error) { return len(data) / 2, nil }

func TestReadersAndWritersThatLieAreErrors(t *testing.T) {
	for _, reader := range []io.Reader{lyingReader{1}, lyingReader{-1}} {
		if _, err := cachalot.ReadTrace(reader); !errors.Is(err, cachalot.ErrCallback) ||
			!strings.HasPrefix(err.Error(), "a reader says") {
			t.Error(err)
		}
	}
	trace := need[*cachalot.Trace](t)(cachalot.ReadTrace(bytes.NewReader(recording(t))))
	defer trace.Close()
	if err := trace.WriteScript(shortWriter{}, cachalot.ReplayOptions{}); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
}

type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("reader") }
