// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"cachalot.io/go"
)

// One call of each thing that no other test has a use for.

func TestTheLibrarySaysWhatItIs(t *testing.T) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(cachalot.Version()) || cachalot.VersionNumber() < 100 {
		t.Errorf("%q, %d", cachalot.Version(), cachalot.VersionNumber())
	}
	statuses := cachalot.Statuses()
	same(t, "the first status", statuses[0].Name, "OK")
	same(t, "a name", cachalot.StatusName(10), "OUT_OF_MEMORY")
	same(t, "no name", cachalot.StatusName(-7), "UNKNOWN")
}

func TestOptionsAreWrittenAndRead(t *testing.T) {
	options := cachalot.NewOptions(
		cachalot.ExpandableSegments(true), cachalot.MaxSplitSizeMB(128),
		cachalot.RoundupPower2DivisionsBySize(8, cachalot.DivisionsFrom{MiB: 256, Divisions: 1}))
	same(t, "the text", options, "expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:[256:1,>:8]")
	same(t, "another value", options.With(cachalot.MaxSplitSizeMB(64)),
		"expandable_segments:True,roundup_power2_divisions:[256:1,>:8],max_split_size_mb:64")
	value, ok := options.Value("roundup_power2_divisions")
	same(t, "a value with a comma", value, "[256:1,>:8]")
	same(t, "it is there", ok, true)
	a := simulated(t, cachalot.WithOptions(options))
	same(t, "the last string", need[cachalot.Options](t)(a.Options()), options)
	settings := need[cachalot.Settings](t)(a.Settings())
	same(t, "max_split_size", settings.MaxSplitSize, 128*mib)
	same(t, "expandable", settings.ExpandableSegments, true)
	settings.MaxSplitSize, settings.ExpandableSegments = 64*mib, false
	works(t, a.SetSettings(settings))
	same(t, "what was set", need[cachalot.Settings](t)(a.Settings()), settings)
	settings.GarbageCollectionThreshold = 7
	if err := a.SetSettings(settings); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
	works(t, a.Configure(cachalot.NewOptions(cachalot.GarbageCollectionThreshold(0.8))))
	same(t, "gc", need[cachalot.Settings](t)(a.Settings()).GarbageCollectionThreshold, 0.8)
	err := a.Configure("nonsense:1")
	if !errors.Is(err, cachalot.ErrInvalidArgument) ||
		!strings.HasPrefix(err.Error(), "Unrecognized key 'nonsense' in Accelerator allocator config.") {
		t.Error(err)
	}
	if err := a.Configure("max_split_size_mb:128\x00,nonsense"); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Errorf("a NUL inside: %v", err)
	}
}

func TestEveryOptionByNameIsKnownToTheLibrary(t *testing.T) {
	options := cachalot.NewOptions(
		cachalot.MaxSplitSizeMB(128), cachalot.MaxNonSplitRoundingMB(60), cachalot.LargeSegmentSizeMB(40),
		cachalot.RoundupBypassThresholdMB(100), cachalot.GarbageCollectionThreshold(0.5),
		cachalot.PerProcessMemoryFraction(0.25), cachalot.ExpandableSegments(false),
		cachalot.ExpandableSegmentsReserve("0.5"),
		cachalot.ExpandableSegmentsReserveByClass(cachalot.ReserveOfClass{Class: "kv", Reserve: "16G"}),
		cachalot.RoundupPower2Divisions(4), cachalot.ThrowOnCudamallocOOM(true), cachalot.ReleaseLockOnCudamalloc(true),
		cachalot.GraphCaptureRecordStreamReuse(true), cachalot.Backend("native"))
	settings := need[cachalot.Settings](t)(simulated(t, cachalot.WithOptions(options)).Settings())
	if !settings.ThrowOnCudamallocOOM || !settings.ReleaseLockOnCudamalloc || settings.LargeSegmentSize != 40*mib ||
		settings.RoundupPower2Divisions[3] != 4 || settings.PerProcessMemoryFraction != 0.25 ||
		settings.RoundupBypassThreshold != 100*mib || settings.MaxNonSplitRoundingSize != 60*mib {
		t.Errorf("%+v", settings)
	}
}

func TestLimitsAndDevices(t *testing.T) {
	device := sim(t, cachalot.SimOptions{Capacity: 1 << 30, Devices: 2})
	a := over(t, device.Driver)
	same(t, "devices", device.DeviceCount(), 2)
	same(t, "devices of the allocator", a.DeviceCount(), 2)
	same(t, "driver", a.DriverName()+" "+device.Name(), "sim sim")
	same(t, "release", a.Release(), cachalot.Release2_15)
	same(t, "backend", a.Backend(), "native")
	works(t, a.SetMemoryFraction(0, 0.5))
	same(t, "fraction", need[float64](t)(a.MemoryFraction(0)), 0.5)
	same(t, "limit", need[uint64](t)(a.MemoryLimit(0)), 512*mib)
	works(t, a.SetMemoryLimit(0, cachalot.NoLimit))
	same(t, "no limit", need[uint64](t)(a.MemoryLimit(0)), cachalot.NoLimit)
	if _, err := a.Stats(2); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
	works(t, a.EnablePeerAccess(0, 1))
	b := need[*cachalot.Block](t)(a.Allocate(mib, 1, 0))
	same(t, "device", need[cachalot.BlockInfo](t)(b.Info()).Device, 1)
	same(t, "base", need[cachalot.BaseAllocation](t)(a.BaseAllocation(b.Address())),
		cachalot.BaseAllocation{Address: b.Address(), Size: 2 * mib})
	works(t, b.Close())
	totals := need[cachalot.DeviceTotals](t)(a.DeviceTotals(1))
	same(t, "total", totals.Total, 1<<30)
	same(t, "reserved", totals.Reserved, 2*mib)
	same(t, "largest", need[uint64](t)(a.LargestBlock(1, 1)), 2*mib)
	works(t, a.SetCachingEnabled(false))
	same(t, "caching", a.IsCachingEnabled(), false)
}

func TestAUseByAllStreamsIsWaitedForAlsoByABlockOfNone(t *testing.T) {
	device := sim(t, cachalot.SimOptions{})
	a := over(t, device.Driver)
	b := block(t, a, 20*mib, cachalot.StreamAll)
	works(t, b.RecordStream(cachalot.StreamAll), device.QueueWork(0, 5), device.QueueWork(0, 6), b.Close(),
		device.FinishStream(0, 5))
	early := block(t, a, 20*mib, cachalot.StreamAll)
	if early.Address() == b.Address() {
		t.Error("stream 6 has not finished")
	}
	works(t, device.FinishStream(0, 6))
	same(t, "the address", block(t, a, 20*mib, cachalot.StreamAll).Address(), b.Address())
	refused(t, "an end", a.StreamEnded(0, cachalot.StreamAll))
}

func TestBlocksWithoutOwners(t *testing.T) {
	a := simulated(t)
	address := need[cachalot.Address](t)(a.AllocateAddress(mib, 0, 7))
	same(t, "stream", need[cachalot.BlockInfo](t)(a.BlockAt(address)).Stream, 7)
	b := need[*cachalot.Block](t)(a.Adopt(address))
	same(t, "size", b.Size(), mib)
	same(t, "leaked", need[cachalot.Address](t)(b.Leak()), address)
	works(t, a.RecordStream(address, 8), a.FreeOnStream(address, 7))
	if err := a.Free(address); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Errorf("freed twice: %v", err)
	}
	if _, err := a.Adopt(address); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Errorf("adopted a freed one: %v", err)
	}
	empty := block(t, a, 0, 0)
	same(t, "an empty block", empty.Address(), 0)
	works(t, empty.Close(), a.EmptyCache(), a.EmptyDeviceCache(0))
	same(t, "reserved", a.MemoryReserved(0), 0)
	works(t, block(t, a, 1000, 0).Close(), a.ReleaseContext(0))
	same(t, "reserved without a context", a.MemoryReserved(0), 0)
}

func TestBatchesAreAllOrNothing(t *testing.T) {
	a := over(t, sim(t, cachalot.SimOptions{Capacity: 100 * mib}).Driver)
	addresses := make([]cachalot.Address, 3)
	works(t, a.AllocateAddresses(addresses, []uint64{mib, 2 * mib, 512}, 0, 0))
	same(t, "allocated", a.MemoryAllocated(0), 3*mib+512)
	err := a.FreeAddresses([]cachalot.Address{addresses[0], 512, addresses[1], addresses[2]})
	if !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Errorf("one address is none: %v", err)
	}
	same(t, "the others are freed", a.MemoryAllocated(0), 0)
	err = a.AllocateAddresses(addresses, []uint64{mib, 2 * mib, 200 * mib}, 0, 0)
	var numbers *cachalot.OutOfMemoryError
	if !errors.As(err, &numbers) || numbers.Requested != 200*mib {
		t.Errorf("%v", err)
	}
	same(t, "none is left", a.MemoryAllocated(0), 0)
	same(t, "no address is left", addresses[0], 0)
	works(t, a.AllocateAddresses(nil, nil, 0, 0), a.FreeAddresses(nil))
	if err := a.AllocateAddresses(addresses, []uint64{1}, 0, 0); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestErrorsAreValues(t *testing.T) {
	device := sim(t, cachalot.SimOptions{Capacity: 1 << 30})
	a := over(t, device.Driver)
	_, err := a.Allocate(2<<30, 0, 5)
	var numbers *cachalot.OutOfMemoryError
	var failed *cachalot.Error
	if !errors.As(err, &numbers) || !errors.As(err, &failed) || !errors.Is(err, cachalot.ErrOutOfMemory) ||
		errors.Is(err, cachalot.ErrDriver) || errors.Is(err, cachalot.ErrClosed) {
		t.Fatal(err)
	}
	if numbers.Requested != 2<<30 || numbers.DeviceTotal != 1<<30 || numbers.Stream != 5 || failed.Status != 10 ||
		!strings.HasPrefix(err.Error(), "CUDA out of memory. Tried to allocate 2.00 GiB.") {
		t.Errorf("%+v", numbers)
	}
	works(t, device.SetLatency(cachalot.SimAllocate, time.Nanosecond),
		device.Fail(cachalot.SimFailure{Calls: cachalot.SimAllocate, Code: 719}))
	if _, err := a.Allocate(1, 0, 0); !errors.Is(err, cachalot.ErrDriver) || !errors.As(err, &failed) ||
		failed.DriverCode != 719 {
		t.Error(err)
	}
	if _, err := cachalot.OpenDriver("nonsense"); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := cachalot.OpenDriver("si\x00m"); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestIdleMemoryGoesBack(t *testing.T) {
	a := simulated(t)
	works(t, block(t, a, 20*mib, 0).Close())
	same(t, "marked", need[uint64](t)(a.TrimAt(0, 0, time.Second, time.Second)), 0)
	same(t, "given back", need[uint64](t)(a.TrimAt(0, 0, time.Second, 3*time.Second)), 20*mib)
	same(t, "nothing left", need[uint64](t)(a.Trim(0, 0, 0)), 0)
}

func TestStatisticsAndTexts(t *testing.T) {
	a := simulated(t, cachalot.TrackLabels())
	ctx := cachalot.WithLabel(cachalot.WithLabel(context.Background(), "model-a"), "kv-cache")
	b := need[*cachalot.Block](t)(a.AllocateWith(ctx, cachalot.Request{Size: 3 * mib}))
	same(t, "label", need[[]cachalot.LabelStats](t)(a.LabelStats(0))[0].Label, "model-a/kv-cache")
	stats := need[cachalot.Stats](t)(a.Stats(0))
	same(t, "allocated", stats.AllocatedBytes.All.Current, 3*mib)
	same(t, "reserved", stats.ReservedBytes.LargePool.Current, 20*mib)
	same(t, "rows", len(stats.Rows(cachalot.Release2_15)), 123)
	same(t, "rows of 2.11", len(stats.Rows(cachalot.Release2_11)), 122)
	same(t, "first row", stats.Rows(cachalot.Release2_15)[0].Name, "active.all.allocated")
	var nested struct {
		ReservedBytes struct {
			All struct{ Peak int64 } `json:"all"`
		} `json:"reserved_bytes"`
	}
	works(t, json.Unmarshal(need[[]byte](t)(json.Marshal(stats)), &nested))
	same(t, "as JSON", nested.ReservedBytes.All.Peak, 20*mib)
	if text := need[string](t)(a.MemorySummary(0, false)); !strings.Contains(text, "PyTorch CUDA memory summary") {
		t.Error(text)
	}
	if text := need[string](t)(a.Metrics()); !strings.Contains(text, "cachalot_reserved_bytes{") {
		t.Error(text)
	}
	report := need[*cachalot.Report](t)(a.Report(cachalot.ReportOptions{}))
	same(t, "holder", need[[]cachalot.ReportHolder](t)(report.Holders())[0].Label, "model-a/kv-cache")
	same(t, "reason", need[[]cachalot.ReportReason](t)(report.Reasons())[0].Reason.String(), "usable")
	same(t, "outcome", need[cachalot.ReportNumbers](t)(report.Numbers()).Outcome.String(), "no_request")
	same(t, "advice", report.Advice(), "")
	if !json.Valid(need[[]byte](t)(json.Marshal(report))) {
		t.Error("the report is no JSON")
	}
	works(t, report.Close(), report.Close(), b.Close(), a.ResetPeakStats(0), a.ResetAccumulatedStats(0))
	if _, err := report.Text(); !errors.Is(err, cachalot.ErrClosed) {
		t.Error(err)
	}
	same(t, "peak", a.MaxMemoryAllocated(0), 0)
	same(t, "reserved peak", a.MaxMemoryReserved(0), 20*mib)
	same(t, "active", a.MemoryActive(0)+a.MaxMemoryActive(0), 0)
}

func TestHistoryAndContexts(t *testing.T) {
	a := simulated(t, cachalot.WithContexts(func() uint64 { return 7 },
		func(context uint64) string { return strings.Repeat("frame ", int(context)) }))
	works(t, a.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 10, Contexts: cachalot.ContextsAll,
		SkipActions: []string{"snapshot"}}))
	ctx := cachalot.WithMetadata(context.Background(), "step 1")
	b := need[*cachalot.Block](t)(a.AllocateWith(ctx, cachalot.Request{Size: 1}))
	same(t, "context", need[uint64](t)(a.ContextOf(b.Address())), 7)
	works(t, a.Annotate(b.Address(), "weights"), b.Close())
	same(t, "context's text", need[string](t)(a.ContextText(7)), strings.Repeat("frame ", 7))
	var actions []string
	entries := need[[]cachalot.TraceEntry](t)(a.History(0))
	for _, entry := range entries {
		actions = append(actions, entry.Action.String())
	}
	same(t, "actions", strings.Join(actions, " "), "segment_alloc alloc annotate free_requested free_completed")
	same(t, "metadata", entries[1].Metadata, "step 1")
	same(t, "metadata of the free", entries[3].Metadata, "")
	if age := time.Since(entries[0].Time()); age < -time.Hour || age > time.Hour {
		t.Errorf("the first entry is %v old", age)
	}
	works(t, a.RecordHistory(cachalot.HistoryOptions{}))
	s := need[*cachalot.Snapshot](t)(a.Snapshot(cachalot.SnapshotOptions{}))
	same(t, "segments and blocks", [2]int{s.SegmentCount(), s.BlockCount()}, [2]int{1, 1})
	segment := need[[]cachalot.Segment](t)(s.Segments())[0]
	same(t, "state", segment.Blocks[0].State, cachalot.BlockInactive)
	works(t, s.Close(), s.Close())
	err := a.RecordHistory(cachalot.HistoryOptions{Enabled: true, SkipActions: []string{"nonsense"}})
	if !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestExpandableSegmentsAndReserves(t *testing.T) {
	a := simulated(t, cachalot.WithOptions("expandable_segments:True"))
	works(t, a.SetReserveClass(5, "kv"), a.SetDefaultReserve("kv", 0.25))
	same(t, "class", need[string](t)(a.ReserveClass(5)), "kv")
	same(t, "reserve", need[cachalot.Reserve](t)(a.Reserve(0, "kv")).HasReserve, true)
	block(t, a, 30*mib, 5)
	same(t, "mapped", need[[]cachalot.ExpandableSegment](t)(a.ExpandableSegments(0))[0].MappedSize, 40*mib)
	same(t, "count", need[cachalot.ExpandableTotals](t)(a.ExpandableTotals()).Count, 1)
}

func TestCopiesAreQueuedAndWhatCannotBeCopiedIsRefused(t *testing.T) {
	a := simulated(t)
	b := block(t, a, 512, 0)
	works(t, a.Copy(b.Address(), 0, b.Address(), 0, 512, 0))
	if err := a.Copy(0, 0, b.Address(), 0, 512, 0); !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestAPoolIsPutBackToACheckpoint(t *testing.T) {
	a := simulated(t)
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	end := need[func() error](t)(pool.Route(cachalot.RouteAll()))
	kept := need[cachalot.Address](t)(a.AllocateAddress(1000, 0, 0))
	checkpoint := need[cachalot.Checkpoint](t)(pool.Key().Checkpoint())
	same(t, "blocks", len(checkpoint.Segments[0]), 2)
	later := need[cachalot.Address](t)(a.AllocateAddress(5000, 0, 0))
	changes := need[cachalot.CheckpointChanges](t)(a.ApplyCheckpoint(0, checkpoint))
	same(t, "freed", fmt.Sprint(changes.Freed), fmt.Sprint([]cachalot.Address{kept, later}))
	same(t, "created", fmt.Sprint(changes.Created), fmt.Sprint([]cachalot.Address{kept}))
	same(t, "live", need[bool](t)(pool.Key().HasLive(kept)), true)
	checkpoint.Segments[0][0].Size = 7
	_, err := a.ApplyCheckpoint(0, checkpoint)
	if !errors.Is(err, cachalot.ErrInvalidArgument) {
		t.Error(err)
	}
	works(t, a.Free(kept))
	works(t, end())
	works(t, pool.Close())
}

// Each setter of one field leaves the others alone.
func TestOneSettingAtATime(t *testing.T) {
	a := simulated(t, cachalot.WithOptions("max_split_size_mb:128,roundup_power2_divisions:4"))
	expected := need[cachalot.Settings](t)(a.Settings())
	works(t, a.UpdateOptions("max_split_size_mb:96"))
	expected.MaxSplitSize = 96 * mib
	same(t, "only what is named", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetMaxSplitSize(64*mib))
	expected.MaxSplitSize = 64 * mib
	same(t, "max_split_size", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetMaxNonSplitRoundingSize(48*mib))
	expected.MaxNonSplitRoundingSize = 48 * mib
	same(t, "max_non_split_rounding_size", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetLargeSegmentSize(16*mib))
	expected.LargeSegmentSize = 16 * mib
	same(t, "large_segment_size", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetGarbageCollectionThreshold(0.5))
	expected.GarbageCollectionThreshold = 0.5
	same(t, "garbage_collection_threshold", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetPerProcessMemoryFraction(0.25))
	expected.PerProcessMemoryFraction = 0.25
	same(t, "per_process_memory_fraction", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetRoundupBypassThreshold(200*mib))
	expected.RoundupBypassThreshold = 200 * mib
	same(t, "roundup_bypass_threshold", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetExpandableSegments(true))
	expected.ExpandableSegments = true
	same(t, "expandable_segments", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetReleaseLockOnCudamalloc(true))
	expected.ReleaseLockOnCudamalloc = true
	same(t, "release_lock_on_cudamalloc", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetGraphCaptureRecordStreamReuse(true))
	expected.GraphCaptureRecordStreamReuse = true
	same(t, "graph_capture_record_stream_reuse", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetThrowOnCudamallocOOM(true))
	expected.ThrowOnCudamallocOOM = true
	same(t, "throw_on_cudamalloc_oom", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetPinnedUseBackgroundThreads(true))
	expected.PinnedUseBackgroundThreads = true
	same(t, "pinned_use_background_threads", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetPinnedUseCudaHostRegister(true))
	expected.PinnedUseCudaHostRegister = true
	same(t, "pinned_use_cuda_host_register", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetPinnedFreeCatchAll(true))
	expected.PinnedFreeCatchAll = true
	same(t, "pinned_free_catch_all", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetPinnedNumRegisterThreads(8))
	expected.PinnedNumRegisterThreads = 8
	same(t, "pinned_num_register_threads", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetPinnedReserveSegmentSizeMB(512))
	expected.PinnedReserveSegmentSizeMB = 512
	same(t, "pinned_reserve_segment_size_mb", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetPinnedMaxRoundThreshold(64*mib))
	expected.PinnedMaxRoundThreshold = 64 * mib
	same(t, "pinned_max_round_threshold", need[cachalot.Settings](t)(a.Settings()), expected)
	works(t, a.SetPinnedMaxCachedSize(128*mib))
	expected.PinnedMaxCachedSize = 128 * mib
	same(t, "pinned_max_cached_size", need[cachalot.Settings](t)(a.Settings()), expected)
	expected.RoundupPower2Divisions[5] = 8
	works(t, a.SetRoundupPower2Divisions(expected.RoundupPower2Divisions))
	err := a.SetMaxSplitSize(1)
	if !errors.Is(err, cachalot.ErrInvalidArgument) ||
		err.Error() != "CachingAllocator option max_split_size_mb too small, must be >= 16" {
		t.Error(err)
	}
	for _, options := range []cachalot.Options{"max_split_size_mb:32,nonsense:1", "max_split_size_mb:32\x00"} {
		if err := a.UpdateOptions(options); !errors.Is(err, cachalot.ErrInvalidArgument) {
			t.Error(err)
		}
	}
	same(t, "nothing", need[cachalot.Settings](t)(a.Settings()), expected)
}
