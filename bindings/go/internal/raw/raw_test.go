// SPDX-License-Identifier: MIT OR Apache-2.0

package raw

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// allocatorOver makes an allocator over a simulated device, which both end with the test.
func allocatorOver(t *testing.T, name string, options AllocatorOptions) (Allocator, Driver) {
	t.Helper()
	driver, err := DriverOpen(name)
	if err != nil {
		t.Fatal(err)
	}
	options.Driver = driver
	allocator, keep, err := AllocatorCreate(&options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := AllocatorDestroyAll(allocator); err != nil {
			t.Error(err)
		}
		DriverDestroy(driver)
		keep.Release()
	})
	return allocator, driver
}

func TestTheLibraryHasThisInterface(t *testing.T) {
	if err := CheckInterface(); err != nil {
		t.Fatal(err)
	}
}

func TestEveryStatusHasItsConstant(t *testing.T) {
	known := map[Status]string{
		OK: "OK", ERROR_INVALID_ARGUMENT: "INVALID_ARGUMENT", ERROR_INVALID_STATE: "INVALID_STATE",
		ERROR_NOT_SUPPORTED: "NOT_SUPPORTED", ERROR_OUT_OF_MEMORY: "OUT_OF_MEMORY",
		ERROR_OUT_OF_HOST_MEMORY: "OUT_OF_HOST_MEMORY", ERROR_DRIVER: "DRIVER",
		ERROR_DRIVER_UNAVAILABLE: "DRIVER_UNAVAILABLE", ERROR_CALLBACK: "CALLBACK", ERROR_IO: "IO",
		ERROR_INTERNAL: "INTERNAL",
	}
	if count := StatusCount(); count != uint64(len(known)) {
		t.Fatalf("the library has %d statuses", count)
	}
	for i := uint64(0); i < StatusCount(); i++ {
		row, err := StatusAt(i)
		if err != nil || known[Status(row.Status)] != row.Name {
			t.Errorf("%d: %+v, %v", i, row, err)
		}
	}
	if _, err := StatusAt(StatusCount()); !errors.Is(err, ERROR_INVALID_ARGUMENT) {
		t.Errorf("past the last: %v", err)
	}
}

func TestStructsComeBackAsTheyWereGiven(t *testing.T) {
	config := "max_split_size_mb:128"
	allocator, _ := allocatorOver(t, "sim:1GiB", AllocatorOptions{Config: &config, Release: RELEASE_2_15})
	settings, err := GetSettings(allocator)
	if err != nil || settings.MaxSplitSize != 128<<20 {
		t.Fatalf("%+v, %v", settings, err)
	}
	settings.RoundupPower2Divisions[3] = 4
	settings.GarbageCollectionThreshold = 0.5
	if err := SetSettings(allocator, &settings); err != nil {
		t.Fatal(err)
	}
	if again, err := GetSettings(allocator); err != nil || again != settings {
		t.Fatalf("%+v, %v", again, err)
	}
	if text, err := GetConfig(allocator); err != nil || text != config {
		t.Fatalf("%q, %v", text, err)
	}
}

func TestABlockAndItsNumbers(t *testing.T) {
	allocator, _ := allocatorOver(t, "sim:1GiB", AllocatorOptions{})
	address, err := AllocateWith(allocator, &Request{Size: 1000, Stream: 7})
	if err != nil {
		t.Fatal(err)
	}
	if block, err := GetBlock(allocator, address); err != nil || block.Requested != 1000 || block.Size != 1024 || block.Stream != 7 {
		t.Errorf("%+v, %v", block, err)
	}
	if stats, err := GetStats(allocator, 0); err != nil || stats.AllocatedBytes.All.Current != 1024 {
		t.Errorf("%+v, %v", stats, err)
	}
	snapshot, err := SnapshotTake(allocator, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer SnapshotDestroy(snapshot)
	if row, err := SnapshotSegment(snapshot, 0); err != nil || row.Address != address || row.TotalSize != 2<<20 {
		t.Errorf("%+v, %v", row, err)
	}
	if err := Free(allocator, address); err != nil {
		t.Error(err)
	}
	if err := Free(allocator, address); !errors.Is(err, ERROR_INVALID_ARGUMENT) {
		t.Errorf("freed twice: %v", err)
	}
	if at, err := AllocateWith(allocator, &Request{Size: 1000, Stream: 7, At: address + 4096}); err != nil || at != address+4096 {
		t.Errorf("%x, %v", at, err)
	}
}

func TestOutOfMemoryHasItsNumbers(t *testing.T) {
	allocator, _ := allocatorOver(t, "sim:1GiB", AllocatorOptions{})
	_, err := Allocate(allocator, 2<<30, 0, 5)
	var failed *Error
	if !errors.As(err, &failed) || !errors.Is(err, ERROR_OUT_OF_MEMORY) || errors.Is(err, ERROR_DRIVER) {
		t.Fatal(err)
	}
	if failed.Requested != 2<<30 || failed.DeviceTotal != 1<<30 || failed.Stream != 5 ||
		!strings.Contains(failed.Message, "Tried to allocate 2.00 GiB") {
		t.Errorf("%+v", failed)
	}
}

func TestCallsOfTheSimulatedDeviceAreText(t *testing.T) {
	allocator, driver := allocatorOver(t, "sim:1GiB", AllocatorOptions{})
	if err := SimLogCalls(driver, SIM_LOG_CALLS); err != nil {
		t.Fatal(err)
	}
	if err := SimGiveAddresses(driver, 0, []Address{0x10000000}); err != nil {
		t.Fatal(err)
	}
	if _, err := Allocate(allocator, 1, 0, 0); err != nil {
		t.Fatal(err)
	}
	if text, err := SimReadCalls(driver); err != nil || text != "malloc 2097152 10000000\n" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := SimReadCalls(driver); err != nil || text != "" {
		t.Errorf("taken already: %q, %v", text, err)
	}
}

func TestCallbacksOfEachKind(t *testing.T) {
	logged, contexts := 0, uint64(0)
	config := "expandable_segments:False"
	allocator, _ := allocatorOver(t, "sim:1GiB", AllocatorOptions{
		Config:         &config,
		Log:            func(int32, string) { logged++ },
		ContextCapture: func() uint64 { contexts++; return contexts },
		ContextText:    func(context uint64) string { return strings.Repeat("f", int(context)) },
	})
	if err := RecordHistory(allocator, &HistoryOptions{Enabled: 1, Context: CONTEXT_LEVEL_ALL, MaxEntries: 10}); err != nil {
		t.Fatal(err)
	}
	var actions []string
	id, err := ObserveTrace(allocator, func(entry TraceEntry) { actions = append(actions, ActionName(entry.Action)) })
	if err != nil {
		t.Fatal(err)
	}
	asked := OutOfMemory{}
	if _, err := ObserveOutOfMemory(allocator, func(numbers OutOfMemory) { asked = numbers }); err != nil {
		t.Fatal(err)
	}
	pool := PoolId{Second: 9}
	source := PoolSource{
		Allocate: func(size uint64, device int32, stream Stream) Address { return 0x5000000 },
		Free:     func(Address, uint64, int32, Stream) {},
	}
	if err := PoolCreate(allocator, 0, pool, &PoolOptions{Source: &source}); err != nil {
		t.Fatal(err)
	}
	route := PoolRoute{Kind: ROUTE_PREDICATE, Predicate: func(stream Stream) int32 {
		if stream == 3 {
			return 1
		}
		return 0
	}}
	if err := PoolBegin(allocator, 0, pool, &route); err != nil {
		t.Fatal(err)
	}
	if address, err := Allocate(allocator, 1, 0, 3); err != nil || address != 0x5000000 {
		t.Errorf("the pool's source was not asked: %x, %v", address, err)
	}
	if err := PoolEnd(allocator, 0, pool); err != nil {
		t.Fatal(err)
	}
	if strings.Join(actions, " ") != "segment_alloc alloc" {
		t.Errorf("%v", actions)
	}
	if err := Detach(allocator, id); err != nil {
		t.Error(err)
	}
	if _, err := Allocate(allocator, 4<<30, 0, 0); !errors.Is(err, ERROR_OUT_OF_MEMORY) || asked.Requested != 4<<30 {
		t.Errorf("%v, %+v", err, asked)
	}
	if text, err := ContextText(allocator, 3); err != nil || text != "fff" || contexts == 0 {
		t.Errorf("%q of %d, %v", text, contexts, err)
	}
}

func TestATraceIsWrittenReadAndReplayed(t *testing.T) {
	allocator, _ := allocatorOver(t, "sim:1GiB", AllocatorOptions{})
	if err := RecordHistory(allocator, &HistoryOptions{Enabled: 1, MaxEntries: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := Allocate(allocator, 1, 0, 0); err != nil {
		t.Fatal(err)
	}
	snapshot, err := SnapshotTake(allocator, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer SnapshotDestroy(snapshot)
	var file []byte
	if err := TraceWrite(snapshot, nil, "a test", func(data []byte) int32 { file = append(file, data...); return 0 }); err != nil {
		t.Fatal(err)
	}
	trace, err := TraceRead(func(buffer []byte) int64 {
		n := copy(buffer, file)
		file = file[n:]
		return int64(n)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer TraceDestroy(trace)
	if info, err := TraceGetInfo(trace); err != nil || info.Workload != "a test" || info.EventCount == 0 {
		t.Errorf("%+v, %v", info, err)
	}
	calls := 0
	replay, err := ReplayRun(trace, &ReplayOptions{Progress: func(done, total uint64) int32 { calls++; return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	defer ReplayDestroy(replay)
	if result, err := ReplayGetResult(replay); err != nil || result.Allocations != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestWithoutMemoryForACallTheProcessEnds(t *testing.T) {
	if os.Getenv("CACHALOT_TEST_WITHOUT_MEMORY") != "" {
		var m memory
		t.Log(m.allocate(1 << 62))
		return
	}
	program := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	program.Env = append(os.Environ(), "CACHALOT_TEST_WITHOUT_MEMORY=1")
	if said, err := program.CombinedOutput(); err == nil || !strings.Contains(string(said), "malloc failed") {
		t.Errorf("%v: %.500s", err, said)
	}
}
