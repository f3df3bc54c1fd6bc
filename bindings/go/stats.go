// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// Stat is one statistic: a count or a number of bytes. Without resets Current = Allocated - Freed.
type Stat struct {
	Current int64 `json:"current"`
	// Peak is the highest Current since the last ResetPeakStats.
	Peak int64 `json:"peak"`
	// Allocated and Freed are all increases and decreases since the last ResetAccumulatedStats.
	Allocated int64 `json:"allocated"`
	Freed     int64 `json:"freed"`
}

// StatArray is a statistic by kind of pool: small blocks are those of requests up to 1 MiB.
type StatArray struct {
	All       Stat `json:"all"`
	SmallPool Stat `json:"small_pool"`
	LargePool Stat `json:"large_pool"`
}

func statArrayOf(s raw.StatArray) StatArray {
	return StatArray{Stat(s.All), Stat(s.SmallPool), Stat(s.LargePool)}
}

func (s StatArray) raw() raw.StatArray {
	return raw.StatArray{All: raw.Stat(s.All), SmallPool: raw.Stat(s.SmallPool), LargePool: raw.Stat(s.LargePool)}
}

// Stats are the statistics of one device, as torch.cuda.memory_stats has them. The keys of its JSON are the names
// of PyTorch's rows, nested.
type Stats struct {
	// Allocation counts blocks handed out, Segment segments obtained (expandable ones are not counted), Active
	// blocks handed out or waiting for recorded streams after their free, InactiveSplit free pieces of segments
	// that are partly in use.
	Allocation    StatArray `json:"allocation"`
	Segment       StatArray `json:"segment"`
	Active        StatArray `json:"active"`
	InactiveSplit StatArray `json:"inactive_split"`
	// The same in bytes; ReservedBytes is what was obtained from the driver.
	AllocatedBytes     StatArray `json:"allocated_bytes"`
	ReservedBytes      StatArray `json:"reserved_bytes"`
	ActiveBytes        StatArray `json:"active_bytes"`
	InactiveSplitBytes StatArray `json:"inactive_split_bytes"`
	// RequestedBytes is what callers asked for, of the active blocks.
	RequestedBytes StatArray `json:"requested_bytes"`
	// Blocks and segments of max_split_size and more.
	OversizeAllocations Stat `json:"oversize_allocations"`
	OversizeSegments    Stat `json:"oversize_segments"`
	// NumAllocRetries counts requests to the driver after the whole cache was released, NumOOMs out-of-memory
	// errors given to callers, NumSyncAllStreams waits for all recorded streams.
	NumAllocRetries   int64 `json:"num_alloc_retries"`
	NumOOMs           int64 `json:"num_ooms"`
	NumSyncAllStreams int64 `json:"num_sync_all_streams"`
	// Segments obtained or ranges mapped; segments given back or ranges unmapped.
	NumDeviceAlloc int64 `json:"num_device_alloc"`
	NumDeviceFree  int64 `json:"num_device_free"`
	// MaxSplitSize is the option max_split_size in bytes when the allocator was made; -1: unlimited.
	MaxSplitSize int64 `json:"max_split_size"`
	// NumOOMRejections counts requests refused by throw_on_cudamalloc_oom (since 2.12).
	NumOOMRejections int64 `json:"num_oom_rejections"`
}

func statsOf(s raw.Stats) Stats {
	return Stats{
		Allocation: statArrayOf(s.Allocation), Segment: statArrayOf(s.Segment), Active: statArrayOf(s.Active),
		InactiveSplit: statArrayOf(s.InactiveSplit), AllocatedBytes: statArrayOf(s.AllocatedBytes),
		ReservedBytes: statArrayOf(s.ReservedBytes), ActiveBytes: statArrayOf(s.ActiveBytes),
		InactiveSplitBytes: statArrayOf(s.InactiveSplitBytes), RequestedBytes: statArrayOf(s.RequestedBytes),
		OversizeAllocations: Stat(s.OversizeAllocations), OversizeSegments: Stat(s.OversizeSegments),
		NumAllocRetries: s.NumAllocRetries, NumOOMs: s.NumOoms, NumSyncAllStreams: s.NumSyncAllStreams,
		NumDeviceAlloc: s.NumDeviceAlloc, NumDeviceFree: s.NumDeviceFree, MaxSplitSize: s.MaxSplitSize,
		NumOOMRejections: s.NumOomRejections,
	}
}

func (s Stats) raw() raw.Stats {
	return raw.Stats{
		Allocation: s.Allocation.raw(), Segment: s.Segment.raw(), Active: s.Active.raw(),
		InactiveSplit: s.InactiveSplit.raw(), AllocatedBytes: s.AllocatedBytes.raw(),
		ReservedBytes: s.ReservedBytes.raw(), ActiveBytes: s.ActiveBytes.raw(),
		InactiveSplitBytes: s.InactiveSplitBytes.raw(), RequestedBytes: s.RequestedBytes.raw(),
		OversizeAllocations: raw.Stat(s.OversizeAllocations), OversizeSegments: raw.Stat(s.OversizeSegments),
		NumAllocRetries: s.NumAllocRetries, NumOoms: s.NumOOMs, NumSyncAllStreams: s.NumSyncAllStreams,
		NumDeviceAlloc: s.NumDeviceAlloc, NumDeviceFree: s.NumDeviceFree, MaxSplitSize: s.MaxSplitSize,
		NumOomRejections: s.NumOOMRejections,
	}
}

// NamedStat is one row of torch.cuda.memory_stats.
type NamedStat struct {
	// Name is "active.all.allocated" and so on.
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Rows are those of torch.cuda.memory_stats in a release, in its order: 122 under Release2_11, 123 under
// Release2_15.
func (s Stats) Rows(release Release) []NamedStat {
	c := s.raw()
	var rows []NamedStat
	for i := uint64(0); ; i++ {
		name, value, err := raw.StatsAt(&c, narrow(release), i)
		if err != nil {
			return rows
		}
		rows = append(rows, NamedStat{name, value})
	}
}

// Stats are the statistics of a device, all at one moment.
func (a *Allocator) Stats(device int) (Stats, error) {
	stats, err := ask(a, func(r raw.Allocator) (raw.Stats, error) { return raw.GetStats(r, narrow(device)) })
	return statsOf(stats), err
}

// ResetPeakStats sets every peak of a device to its current value.
func (a *Allocator) ResetPeakStats(device int) error {
	return a.do(func(r raw.Allocator) error { return raw.ResetPeakStats(r, narrow(device)) })
}

// ResetAccumulatedStats sets all sums and counters of events of a device to 0.
func (a *Allocator) ResetAccumulatedStats(device int) error {
	return a.do(func(r raw.Allocator) error { return raw.ResetAccumulatedStats(r, narrow(device)) })
}

// bytes is one of the common numbers; 0 for a device that the driver does not have.
func (a *Allocator) bytes(device int, number func(raw.Allocator, int32) uint64) uint64 {
	return look(a, func(r raw.Allocator) uint64 { return number(r, narrow(device)) })
}

// MemoryAllocated is what is handed out on a device, in bytes; 0 for a device that the driver does not have.
func (a *Allocator) MemoryAllocated(device int) uint64 { return a.bytes(device, raw.MemoryAllocated) }

// MaxMemoryAllocated is the highest MemoryAllocated since the peaks were reset.
func (a *Allocator) MaxMemoryAllocated(device int) uint64 {
	return a.bytes(device, raw.MaxMemoryAllocated)
}

// MemoryReserved is what was obtained from the driver on a device, in bytes.
func (a *Allocator) MemoryReserved(device int) uint64 { return a.bytes(device, raw.MemoryReserved) }

// MaxMemoryReserved is the highest MemoryReserved since the peaks were reset.
func (a *Allocator) MaxMemoryReserved(device int) uint64 {
	return a.bytes(device, raw.MaxMemoryReserved)
}

// MemoryActive is what is handed out or waiting for recorded streams on a device, in bytes.
func (a *Allocator) MemoryActive(device int) uint64 { return a.bytes(device, raw.MemoryActive) }

// MaxMemoryActive is the highest MemoryActive since the peaks were reset.
func (a *Allocator) MaxMemoryActive(device int) uint64 { return a.bytes(device, raw.MaxMemoryActive) }

// MemorySummary is the table of torch.cuda.memory_summary, byte for byte; abbreviated: without the rows by kind of
// pool.
func (a *Allocator) MemorySummary(device int, abbreviated bool) (string, error) {
	return ask(a, func(r raw.Allocator) (string, error) {
		return raw.MemorySummary(r, narrow(device), flag(abbreviated))
	})
}

// Metrics are the statistics of all devices as a page for Prometheus, of the content type
// "text/plain; version=0.0.4; charset=utf-8". docs/serving.md lists them.
func (a *Allocator) Metrics() (string, error) {
	return ask(a, raw.MetricsText)
}

// rows asks for a list, row by row.
func rows[R, T any](a *Allocator, count func(raw.Allocator) (uint64, error),
	at func(raw.Allocator, uint64) (R, error), convert func(R) T) ([]T, error) {
	var found []T
	err := a.do(func(r raw.Allocator) error {
		n, err := count(r)
		found = make([]T, 0, n)
		for i := uint64(0); i < n && err == nil; i++ {
			var row R
			if row, err = at(r, i); err == nil {
				found = append(found, convert(row))
			}
		}
		return err
	})
	return found, err
}

// PoolStats are the bytes reserved by one private pool (since 2.13). Rows stay when their pool goes.
type PoolStats struct {
	Pool          PoolID    `json:"pool"`
	ReservedBytes StatArray `json:"reserved_bytes"`
}

// PoolStats are those of all private pools that have had reserved bytes on a device, in ascending order of the ids.
func (a *Allocator) PoolStats(device int) ([]PoolStats, error) {
	return rows(a,
		func(r raw.Allocator) (uint64, error) { return raw.PoolStatsCount(r, narrow(device)) },
		func(r raw.Allocator, i uint64) (raw.PoolStats, error) { return raw.PoolStatsAt(r, narrow(device), i) },
		func(s raw.PoolStats) PoolStats { return PoolStats{PoolID(s.Pool), statArrayOf(s.ReservedBytes)} })
}

// LabelStats is what was handed out under one label.
type LabelStats struct {
	// Label has the labels of the thread that asked, outermost first, joined by "/"; cut to 255 bytes. The row "(other)" has the
	// labels that have no row of their own any more.
	Label          string `json:"label"`
	Allocation     Stat   `json:"allocation"`
	AllocatedBytes Stat   `json:"allocated_bytes"`
}

// LabelStats are those of the labels that have rows on a device, in the order of their first use, if the allocator was
// opened with TrackLabels: 1,000 at most, and the row "(other)" of those whose rows have ended.
func (a *Allocator) LabelStats(device int) ([]LabelStats, error) {
	return rows(a,
		func(r raw.Allocator) (uint64, error) { return raw.LabelStatsCount(r, narrow(device)) },
		func(r raw.Allocator, i uint64) (raw.LabelStats, error) { return raw.LabelStatsAt(r, narrow(device), i) },
		func(s raw.LabelStats) LabelStats {
			return LabelStats{s.Label, Stat(s.Allocation), Stat(s.AllocatedBytes)}
		})
}
