// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"cachalot.io/go"
)

// What each option of Open changes.

func TestDebuggingFindsWhatIsWrittenBeyondABlock(t *testing.T) {
	driver := need[*cachalot.Driver](t)(cachalot.OpenHost(64*mib, 1))
	defer driver.Close()
	var damage []string
	a := over(t, driver, cachalot.WithDebugging(cachalot.DebugRedZones),
		cachalot.WithLog(func(level cachalot.LogLevel, message string) {
			if level == cachalot.LogDamage {
				damage = append(damage, message)
			}
		}))
	good, bad := block(t, a, 100, 0), block(t, a, 100, 0)
	bytes := need[[]byte](t)(bad.Bytes())
	same(t, "length and capacity", [2]int{len(bytes), cap(bytes)}, [2]int{100, 100})
	bytes[99] = 1
	works(t, a.Check())
	unsafe.Slice(&bytes[0], 512)[102] = 7
	if err := a.Check(); !errors.Is(err, cachalot.ErrInvalidState) ||
		!strings.HasSuffix(err.Error(), "byte 3 after it is 0x07") {
		t.Error(err)
	}
	works(t, good.Close())
	same(t, "damage of the good one", len(damage), 0)
	works(t, bad.Close())
	if len(damage) != 1 || !strings.HasSuffix(damage[0], "byte 3 after it is 0x07") {
		t.Errorf("%q", damage)
	}
}

func TestALoggerGetsTheRemarks(t *testing.T) {
	var text strings.Builder
	plain := slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	a := host(t, cachalot.WithDebugging(cachalot.DebugRedZones), cachalot.WithLogger(slog.New(plain)))
	b := block(t, a, 100, 0)
	unsafe.Slice(&need[[]byte](t)(b.Bytes())[0], 512)[102] = 7
	works(t, b.Close())
	if said := text.String(); !strings.HasPrefix(said, `level=ERROR msg="`) ||
		!strings.HasSuffix(said, "byte 3 after it is 0x07\" remark=damage\n") || strings.Count(said, "\n") != 1 {
		t.Error(said)
	}
	for level, wanted := range map[cachalot.LogLevel]slog.Level{cachalot.LogWarning: slog.LevelWarn,
		cachalot.LogDifference: slog.LevelInfo, cachalot.LogDamage: slog.LevelError, cachalot.LogAdvice: slog.LevelWarn} {
		same(t, level.String(), level.Level(), wanted)
	}
}

func TestDebuggingPoisonsWhatIsFreed(t *testing.T) {
	driver := need[*cachalot.Driver](t)(cachalot.OpenHost(64*mib, 1))
	defer driver.Close()
	for debugging, wanted := range map[cachalot.Debugging]byte{cachalot.DebugRedZones: 5, cachalot.DebugPoison: 0xFF} {
		b := block(t, over(t, driver, cachalot.WithDebugging(debugging)), 100, 0)
		bytes := need[[]byte](t)(b.Bytes())
		bytes[50] = 5
		works(t, b.Close())
		same(t, "a byte of the freed block, which is in the cache", bytes[50], wanted)
	}
}

func TestMendingChangesADecision(t *testing.T) {
	const reserve = "expandable_segments:True,expandable_segments_reserve:0.001" // 80 MiB of 80 GiB
	if _, err := simulated(t, cachalot.WithOptions(reserve)).Allocate(1<<30, 0, 0); !errors.Is(err, cachalot.ErrOutOfMemory) {
		t.Errorf("too small a reserve: %v", err)
	}
	block(t, simulated(t, cachalot.WithOptions(reserve), cachalot.Mending(cachalot.MendReserve)), 1<<30, 0)
}

func TestADefectEndsTheProcessUnderCheckEveryCall(t *testing.T) {
	if os.Getenv("CACHALOT_TEST_DEFECT") == "" {
		program := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		program.Env = append(os.Environ(), "CACHALOT_TEST_DEFECT=1")
		said, err := program.CombinedOutput()
		if err == nil || !strings.Contains(string(said), "cachalot: the auditor found a defect: ") {
			t.Errorf("%v: %.500s", err, said)
		}
		return
	}
	device := sim(t, cachalot.SimOptions{Devices: 2})
	a := over(t, device.Driver, cachalot.CheckEveryCall())
	for index := range 2 { // Both devices have memory at one address.
		works(t, device.GiveAddresses(index, 1<<40))
		need[*cachalot.Block](t)(a.Allocate(mib, index, 0))
	}
}

func TestMessagesHaveNoWordOfPyTorchWhereTextsAreTheLibrarysOwn(t *testing.T) {
	for texts, wanted := range map[cachalot.Texts]bool{cachalot.TextsPyTorch: true, cachalot.TextsOwn: false} {
		a := over(t, sim(t, cachalot.SimOptions{Capacity: 64 * mib}).Driver, cachalot.WithTexts(texts))
		_, err := a.Allocate(1<<30, 0, 0)
		same(t, err.Error(), strings.Contains(err.Error(), "PyTorch"), wanted)
	}
}

func TestPagesAreShareableOnDemand(t *testing.T) {
	for shareable, wanted := range map[bool]string{false: "handle type 0 ", true: "handle type 1 "} {
		device := sim(t, cachalot.SimOptions{})
		works(t, device.LogCalls(cachalot.SimLogHandles))
		a := over(t, device.Driver, cachalot.WithOptions("expandable_segments:True"),
			cachalot.WithShareablePages(shareable))
		block(t, a, mib, 0)
		if calls := need[string](t)(device.ReadCalls()); !strings.HasPrefix(calls, wanted) {
			t.Errorf("shareable %v: %s", shareable, calls)
		}
	}
}

func TestContextsComeFromTheirSource(t *testing.T) {
	for source, wanted := range map[cachalot.ContextSource]string{
		cachalot.ContextLabels: "kv-cache", cachalot.ContextStack: "libcachalot", cachalot.ContextCallback: "",
	} {
		a := simulated(t, cachalot.WithContextSource(source))
		works(t, a.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 10, Contexts: cachalot.ContextsAll}))
		ctx := cachalot.WithLabel(t.Context(), "kv-cache")
		b := need[*cachalot.Block](t)(a.AllocateWith(ctx, cachalot.Request{Size: 1}))
		text := need[string](t)(a.ContextText(need[uint64](t)(a.ContextOf(b.Address()))))
		same(t, "there is a text", text != "", wanted != "")
		same(t, text, strings.Contains(text, "kv-cache"), wanted == "kv-cache")
	}
}

func TestWithoutCachingNothingIsKept(t *testing.T) {
	for caching, wanted := range map[bool]uint64{false: 0, true: 2 * mib} {
		a := simulated(t, cachalot.WithCaching(caching))
		same(t, "caching", a.IsCachingEnabled(), caching)
		works(t, block(t, a, mib, 0).Close())
		same(t, "reserved", a.MemoryReserved(0), wanted)
	}
}

// useFunctions gives the library one function of each kind, each with something that it alone refers to, and ends
// the allocator. kept has how many of these are left.
func useFunctions(t *testing.T, kept *atomic.Int64) {
	type thing struct {
		atomic.Int64
		_ *thing // Go puts small things without pointers together, and collects these together.
	}
	fresh := func() *thing {
		thing := new(thing)
		kept.Add(1)
		runtime.AddCleanup(thing, func(kept *atomic.Int64) { kept.Add(-1) }, kept)
		return thing
	}
	log, capture, oom, free, pressure, source, predicate := fresh(), fresh(), fresh(), fresh(), fresh(), fresh(), fresh()
	device := need[*cachalot.Sim](t)(cachalot.OpenSim(cachalot.SimOptions{Capacity: 100 * mib}))
	a := need[*cachalot.Allocator](t)(cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithOptions(""),
		cachalot.WithLog(func(cachalot.LogLevel, string) { log.Add(1) }),
		cachalot.WithContexts(func() uint64 { return uint64(capture.Add(1)) }, func(uint64) string { return "" })))
	attached(t)(a.ObserveOutOfMemory(func(cachalot.OutOfMemory) { oom.Add(1) }))
	attached(t)(a.OnFreeMemory(func(int, uint64) bool { return free.Add(1) < 0 }))
	tenant := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{
		OnPressure: func(cachalot.Pressure) uint64 { return uint64(pressure.Add(1)) - uint64(pressure.Load()) }}))
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{Source: &cachalot.PoolSource{
		Allocate: func(uint64, int, cachalot.Stream) cachalot.Address { return cachalot.Address(source.Add(1) << 40) },
		Free:     func(cachalot.Address, uint64, int, cachalot.Stream) { source.Add(1) },
	}}))
	attached(t)(pool.Route(cachalot.RoutePredicate(func(cachalot.Stream) bool { return predicate.Add(1) < 0 })))
	_, _ = a.Allocate(200*mib, 0, 0)
	works(t, pool.Close(), tenant.Close(), a.CloseAll(), device.Close())
}

func TestFunctionsAreGivenUpWithTheAllocator(t *testing.T) {
	var kept atomic.Int64
	useFunctions(t, &kept)
	for range 400 {
		if runtime.GC(); kept.Load() == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d are kept", kept.Load())
}
