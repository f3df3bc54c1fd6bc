// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"fmt"
	"strconv"
	"strings"

	"cachalot.io/go/internal/raw"
)

// Options is PyTorch's option string, "max_split_size_mb:128,garbage_collection_threshold:0.8"; docs/config.md says
// what each option does. It is written as text, or made by NewOptions. Names and values are looked at by the
// library, which answers a string that is not acceptable in PyTorch's own words.
type Options string

// OptionValue is one option of an option string.
type OptionValue struct {
	Name, Value string
}

// NewOptions makes an option string of single options. Of two with one name the later counts.
func NewOptions(values ...OptionValue) Options {
	return Options("").With(values...)
}

// With is the option string with other options set: those that it names already go.
func (o Options) With(values ...OptionValue) Options {
	all := o.values()
	for _, value := range values {
		kept := all[:0]
		for _, before := range all {
			if before.Name != value.Name {
				kept = append(kept, before)
			}
		}
		all = append(kept, value)
	}
	parts := make([]string, len(all))
	for i, value := range all {
		parts[i] = value.Name + ":" + value.Value
		if value.Name != "" && value.Value == "" && !strings.Contains(value.Name, ":") {
			parts[i] = value.Name // As it was found: the library says what is wrong with it.
		}
	}
	return Options(strings.Join(parts, ","))
}

// Value is what the string says of an option.
func (o Options) Value(name string) (value string, ok bool) {
	for _, each := range o.values() {
		if each.Name == name {
			value, ok = each.Value, true
		}
	}
	return value, ok
}

// values cuts the string at its commas, but for those inside of brackets, which do not nest. A bracket that nobody
// closes is a sign like any other.
func (o Options) values() []OptionValue {
	var found []OptionValue
	inside, start := false, 0
	for i := 0; i <= len(o); i++ {
		if i < len(o) {
			switch o[i] {
			case '[':
				inside = strings.Contains(string(o[i:]), "]")
			case ']':
				inside = false
			}
			if o[i] != ',' || inside {
				continue
			}
		}
		if part := strings.TrimSpace(string(o[start:i])); part != "" {
			name, value, _ := strings.Cut(part, ":")
			found = append(found, OptionValue{strings.TrimSpace(name), strings.TrimSpace(value)})
		}
		start = i + 1
	}
	return found
}

func boolOption(name string, on bool) OptionValue {
	if on {
		return OptionValue{name, "True"}
	}
	return OptionValue{name, "False"}
}

func numberOption(name string, number uint64) OptionValue {
	return OptionValue{name, strconv.FormatUint(number, 10)}
}

func shareOption(name string, share float64) OptionValue {
	return OptionValue{name, strconv.FormatFloat(share, 'g', -1, 64)}
}

// MaxSplitSizeMB: blocks of so many MiB and more are not split, and not handed to smaller requests.
func MaxSplitSizeMB(mib uint64) OptionValue { return numberOption("max_split_size_mb", mib) }

// MaxNonSplitRoundingMB: a request of MaxSplitSizeMB and more takes a cached block that is larger by less than so
// many MiB.
func MaxNonSplitRoundingMB(mib uint64) OptionValue {
	return numberOption("max_non_split_rounding_mb", mib)
}

// LargeSegmentSizeMB is the segment size in MiB for requests from 1 to 10 MiB, above 10.
func LargeSegmentSizeMB(mib uint64) OptionValue { return numberOption("large_segment_size_mb", mib) }

// RoundupBypassThresholdMB: requests of more MiB are not rounded by divisions.
func RoundupBypassThresholdMB(mib uint64) OptionValue {
	return numberOption("roundup_bypass_threshold_mb", mib)
}

// GarbageCollectionThreshold: above this share of the memory limit (above 0, below 1) cached segments that were not
// used for long are given back first.
func GarbageCollectionThreshold(share float64) OptionValue {
	return shareOption("garbage_collection_threshold", share)
}

// PerProcessMemoryFraction is the memory limit at the start, a share of the device, 0 to 1.
func PerProcessMemoryFraction(share float64) OptionValue {
	return shareOption("per_process_memory_fraction", share)
}

// ExpandableSegments: segments grow, page by page, in reserved address space. RDMA, peers and other processes may not
// reach into such memory as before, and with max_split_size_mb it grows without bound (docs/config.md).
func ExpandableSegments(on bool) OptionValue { return boolOption("expandable_segments", on) }

// ExpandableSegmentsReserve is the address space that a new expandable segment reserves: a share of the device's
// memory ("0.5") or GiB ("16G").
func ExpandableSegmentsReserve(reserve string) OptionValue {
	return OptionValue{"expandable_segments_reserve", reserve}
}

// ReserveOfClass is the reserve of the streams of a class (Allocator.SetReserveClass).
type ReserveOfClass struct {
	Class, Reserve string
}

// ExpandableSegmentsReserveByClass is ExpandableSegmentsReserve for the streams of classes.
func ExpandableSegmentsReserveByClass(reserves ...ReserveOfClass) OptionValue {
	parts := make([]string, len(reserves))
	for i, each := range reserves {
		parts[i] = each.Class + ":" + each.Reserve
	}
	return OptionValue{"expandable_segments_reserve_by_class", "[" + strings.Join(parts, ",") + "]"}
}

// RoundupPower2Divisions rounds requests up to the next of so many equal steps between two powers of two; the number
// is a power of two.
func RoundupPower2Divisions(divisions uint64) OptionValue {
	return numberOption("roundup_power2_divisions", divisions)
}

// DivisionsFrom are the divisions of requests from so many MiB on.
type DivisionsFrom struct {
	MiB, Divisions uint64
}

// RoundupPower2DivisionsBySize is RoundupPower2Divisions by size; above is for sizes above all of them.
func RoundupPower2DivisionsBySize(above uint64, divisions ...DivisionsFrom) OptionValue {
	var text strings.Builder
	for _, each := range divisions {
		fmt.Fprintf(&text, "%d:%d,", each.MiB, each.Divisions)
	}
	return OptionValue{"roundup_power2_divisions", fmt.Sprintf("[%s>:%d]", text.String(), above)}
}

// ThrowOnCudamallocOOM refuses what would exceed PerProcessMemoryFraction before asking the driver.
func ThrowOnCudamallocOOM(on bool) OptionValue { return boolOption("throw_on_cudamalloc_oom", on) }

// ReleaseLockOnCudamalloc: other threads go on while the driver allocates.
func ReleaseLockOnCudamalloc(on bool) OptionValue {
	return boolOption("release_lock_on_cudamalloc", on)
}

// GraphCaptureRecordStreamReuse: blocks freed during a capture are reused in it where the graph's order allows.
func GraphCaptureRecordStreamReuse(on bool) OptionValue {
	return boolOption("graph_capture_record_stream_reuse", on)
}

// Backend chooses "native" or "cudaMallocAsync"; read when an allocator is made.
func Backend(name string) OptionValue { return OptionValue{"backend", name} }

// Settings are the options in force, as numbers: read, change and write back to set options without a string.
// Sizes in bytes; the fields Pinned are about pinned memory (Allocator.AllocatePinned) that is cached as in
// PyTorch.
//
// math.MaxUint64 is 18446744073709551615 in JSON too, which Go reads back; a reader that has numbers as float64 sees
// 2^64 there.
type Settings struct {
	// MaxSplitSize math.MaxUint64: unlimited.
	MaxSplitSize            uint64 `json:"max_split_size"`
	MaxNonSplitRoundingSize uint64 `json:"max_non_split_rounding_size"`
	LargeSegmentSize        uint64 `json:"large_segment_size"`
	// GarbageCollectionThreshold 0: off; else between 0 and 1.
	GarbageCollectionThreshold float64 `json:"garbage_collection_threshold"`
	// PerProcessMemoryFraction is what the option says; the limit in force is Allocator.MemoryFraction.
	PerProcessMemoryFraction float64 `json:"per_process_memory_fraction"`
	// RoundupPower2Divisions are for sizes from 2^i MiB to below 2^(i+1) MiB; 0: off.
	RoundupPower2Divisions [16]uint64 `json:"roundup_power2_divisions"`
	// RoundupBypassThreshold math.MaxUint64: all requests are rounded by divisions.
	RoundupBypassThreshold        uint64 `json:"roundup_bypass_threshold"`
	ExpandableSegments            bool   `json:"expandable_segments"`
	ReleaseLockOnCudamalloc       bool   `json:"release_lock_on_cudamalloc"`
	GraphCaptureRecordStreamReuse bool   `json:"graph_capture_record_stream_reuse"`
	ThrowOnCudamallocOOM          bool   `json:"throw_on_cudamalloc_oom"`
	PinnedUseBackgroundThreads    bool   `json:"pinned_use_background_threads"`
	PinnedUseCudaHostRegister     bool   `json:"pinned_use_cuda_host_register"`
	PinnedFreeCatchAll            bool   `json:"pinned_free_catch_all"`
	PinnedNumRegisterThreads      uint64 `json:"pinned_num_register_threads"`
	// PinnedReserveSegmentSizeMB is in MiB.
	PinnedReserveSegmentSizeMB uint64 `json:"pinned_reserve_segment_size_mb"`
	// PinnedMaxRoundThreshold math.MaxUint64: unset.
	PinnedMaxRoundThreshold uint64 `json:"pinned_max_round_threshold"`
	PinnedMaxCachedSize     uint64 `json:"pinned_max_cached_size"`
}

func settingsOf(s raw.Settings) Settings {
	return Settings{
		MaxSplitSize: s.MaxSplitSize, MaxNonSplitRoundingSize: s.MaxNonSplitRoundingSize,
		LargeSegmentSize:              s.LargeSegmentSize,
		GarbageCollectionThreshold:    s.GarbageCollectionThreshold,
		PerProcessMemoryFraction:      s.PerProcessMemoryFraction,
		RoundupPower2Divisions:        s.RoundupPower2Divisions,
		RoundupBypassThreshold:        s.RoundupBypassThreshold,
		ExpandableSegments:            s.ExpandableSegments != 0,
		ReleaseLockOnCudamalloc:       s.ReleaseLockOnCudamalloc != 0,
		GraphCaptureRecordStreamReuse: s.GraphCaptureRecordStreamReuse != 0,
		ThrowOnCudamallocOOM:          s.ThrowOnCudamallocOom != 0,
		PinnedUseBackgroundThreads:    s.PinnedUseBackgroundThreads != 0,
		PinnedUseCudaHostRegister:     s.PinnedUseCudaHostRegister != 0,
		PinnedFreeCatchAll:            s.PinnedFreeCatchAll != 0,
		PinnedNumRegisterThreads:      s.PinnedNumRegisterThreads,
		PinnedReserveSegmentSizeMB:    s.PinnedReserveSegmentSizeMb,
		PinnedMaxRoundThreshold:       s.PinnedMaxRoundThreshold,
		PinnedMaxCachedSize:           s.PinnedMaxCachedSize,
	}
}

func (s Settings) raw() raw.Settings {
	return raw.Settings{
		MaxSplitSize: s.MaxSplitSize, MaxNonSplitRoundingSize: s.MaxNonSplitRoundingSize,
		LargeSegmentSize:              s.LargeSegmentSize,
		GarbageCollectionThreshold:    s.GarbageCollectionThreshold,
		PerProcessMemoryFraction:      s.PerProcessMemoryFraction,
		RoundupPower2Divisions:        s.RoundupPower2Divisions,
		RoundupBypassThreshold:        s.RoundupBypassThreshold,
		ExpandableSegments:            flag(s.ExpandableSegments),
		ReleaseLockOnCudamalloc:       flag(s.ReleaseLockOnCudamalloc),
		GraphCaptureRecordStreamReuse: flag(s.GraphCaptureRecordStreamReuse),
		ThrowOnCudamallocOom:          flag(s.ThrowOnCudamallocOOM),
		PinnedUseBackgroundThreads:    flag(s.PinnedUseBackgroundThreads),
		PinnedUseCudaHostRegister:     flag(s.PinnedUseCudaHostRegister),
		PinnedFreeCatchAll:            flag(s.PinnedFreeCatchAll),
		PinnedNumRegisterThreads:      s.PinnedNumRegisterThreads,
		PinnedReserveSegmentSizeMb:    s.PinnedReserveSegmentSizeMB,
		PinnedMaxRoundThreshold:       s.PinnedMaxRoundThreshold,
		PinnedMaxCachedSize:           s.PinnedMaxCachedSize,
	}
}

// Configure changes options at run time. As in PyTorch, options that the string does not name are kept or reset
// (docs/config.md), the change applies to the next request, and a string with an error (ErrInvalidArgument) has
// applied what stands before it.
func (a *Allocator) Configure(options Options) error {
	if err := checkText(string(options)); err != nil {
		return err
	}
	return a.do(func(r raw.Allocator) error { return raw.Configure(r, string(options)) })
}

// Options is the last option string, word for word.
func (a *Allocator) Options() (Options, error) {
	text, err := ask(a, raw.GetConfig)
	return Options(text), err
}

// Settings are the options in force.
func (a *Allocator) Settings() (Settings, error) {
	settings, err := ask(a, raw.GetSettings)
	return settingsOf(settings), err
}

// SetSettings sets all options at once. ErrInvalidArgument for a value out of its range: nothing is changed.
func (a *Allocator) SetSettings(settings Settings) error {
	c := settings.raw()
	return a.do(func(r raw.Allocator) error { return raw.SetSettings(r, &c) })
}

// UpdateOptions sets the options that are named and leaves all others as they are, whatever other goroutines set
// meanwhile (Configure resets some). A list that is named is replaced as a whole. ErrInvalidArgument, ErrInvalidState
// for another backend, ErrNotSupported: nothing has changed. Allocator.Options goes on to give the string of Configure.
func (a *Allocator) UpdateOptions(options Options) error {
	if err := checkText(string(options)); err != nil {
		return err
	}
	return a.do(func(r raw.Allocator) error { return raw.UpdateConfig(r, string(options)) })
}

// One setting at a time: each method sets one field of Settings and leaves all others as they are at that moment, so
// that goroutines that set different fields do not undo each other's changes. The change applies to the next request.
// A value that is not acceptable, also one that does not go with the other fields, is ErrInvalidArgument with
// PyTorch's text: nothing has changed.

// SetMaxSplitSize sets: blocks of this size and more are kept whole. Bytes. At least the large segment size;
// math.MaxUint64: unlimited.
func (a *Allocator) SetMaxSplitSize(bytes uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetMaxSplitSize(r, bytes) })
}

// SetMaxNonSplitRoundingSize sets: how much larger a cached block may be for a request of MaxSplitSize and more.
// Bytes. At least the large segment size.
func (a *Allocator) SetMaxNonSplitRoundingSize(bytes uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetMaxNonSplitRoundingSize(r, bytes) })
}

// SetLargeSegmentSize sets: the segment size of requests from 1 to 10 MiB, and the page size of new large expandable
// segments. Bytes. A multiple of 1 MiB above 10 MiB, at most MaxSplitSize. MaxNonSplitRoundingSize goes with it where
// it has the old value, which is its default.
func (a *Allocator) SetLargeSegmentSize(bytes uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetLargeSegmentSize(r, bytes) })
}

// SetGarbageCollectionThreshold sets: from which share of the memory limit on cached segments are collected. Between
// 0 and 1; 0: off.
func (a *Allocator) SetGarbageCollectionThreshold(fraction float64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetGarbageCollectionThreshold(r, fraction) })
}

// SetPerProcessMemoryFraction sets: what ThrowOnCudamallocOOM compares with. Of the device, 0 to 1. The limit in
// force stays: SetMemoryFraction changes that.
func (a *Allocator) SetPerProcessMemoryFraction(fraction float64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetPerProcessMemoryFraction(r, fraction) })
}

// SetRoundupBypassThreshold sets: requests of more bytes are not rounded by divisions. Bytes. math.MaxUint64: all
// are.
func (a *Allocator) SetRoundupBypassThreshold(bytes uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetRoundupBypassThreshold(r, bytes) })
}

// SetExpandableSegments sets: whether new segments are made of pages. ErrNotSupported for true where the driver has
// no virtual memory.
func (a *Allocator) SetExpandableSegments(on bool) error {
	return a.do(func(r raw.Allocator) error { return raw.SetExpandableSegments(r, flag(on)) })
}

// SetReleaseLockOnCudamalloc sets: whether other threads go on while the driver allocates.
func (a *Allocator) SetReleaseLockOnCudamalloc(on bool) error {
	return a.do(func(r raw.Allocator) error { return raw.SetReleaseLockOnCudamalloc(r, flag(on)) })
}

// SetGraphCaptureRecordStreamReuse sets: whether blocks freed during a capture are reused in it.
func (a *Allocator) SetGraphCaptureRecordStreamReuse(on bool) error {
	return a.do(func(r raw.Allocator) error { return raw.SetGraphCaptureRecordStreamReuse(r, flag(on)) })
}

// SetThrowOnCudamallocOOM sets: whether requests beyond PerProcessMemoryFraction are refused before the driver is
// asked. Since 2.12: under 2.11 true is an unknown key.
func (a *Allocator) SetThrowOnCudamallocOOM(on bool) error {
	return a.do(func(r raw.Allocator) error { return raw.SetThrowOnCudamallocOom(r, flag(on)) })
}

// SetPinnedUseBackgroundThreads sets: whether a thread of its own looks for pinned blocks whose streams are done.
func (a *Allocator) SetPinnedUseBackgroundThreads(on bool) error {
	return a.do(func(r raw.Allocator) error { return raw.SetPinnedUseBackgroundThreads(r, flag(on)) })
}

// SetPinnedUseCudaHostRegister sets: whether pinned memory is ordinary memory that is registered with the driver.
func (a *Allocator) SetPinnedUseCudaHostRegister(on bool) error {
	return a.do(func(r raw.Allocator) error { return raw.SetPinnedUseCudaHostRegister(r, flag(on)) })
}

// SetPinnedFreeCatchAll sets: kept, and without effect, since a free of pinned memory loses nothing here. Since
// 2.12: under 2.11 true is an unknown key.
func (a *Allocator) SetPinnedFreeCatchAll(on bool) error {
	return a.do(func(r raw.Allocator) error { return raw.SetPinnedFreeCatchAll(r, flag(on)) })
}

// SetPinnedNumRegisterThreads sets: how many threads touch pinned memory before it is registered. A power of two,
// 1 to 128.
func (a *Allocator) SetPinnedNumRegisterThreads(threads uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetPinnedNumRegisterThreads(r, threads) })
}

// SetPinnedReserveSegmentSizeMB sets: how large the region is that the first pinned block obtains for all that
// fit. MiB; 0: off.
func (a *Allocator) SetPinnedReserveSegmentSizeMB(mib uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetPinnedReserveSegmentSizeMb(r, mib) })
}

// SetPinnedMaxRoundThreshold sets: above which size pinned blocks are not rounded up to powers of two. Bytes.
// math.MaxUint64: unset. Since 2.13.
func (a *Allocator) SetPinnedMaxRoundThreshold(bytes uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetPinnedMaxRoundThreshold(r, bytes) })
}

// SetPinnedMaxCachedSize sets: above which size pinned blocks go back to the driver when they are freed. Bytes.
// math.MaxUint64: unset. Since 2.13.
func (a *Allocator) SetPinnedMaxCachedSize(bytes uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetPinnedMaxCachedSize(r, bytes) })
}

// SetRoundupPower2Divisions sets how many steps requests are rounded in between two powers of two: powers of two, or 0
// for off, for sizes from 2^i MiB to below 2^(i+1) MiB; the first and last slot are open.
func (a *Allocator) SetRoundupPower2Divisions(divisions [16]uint64) error {
	return a.do(func(r raw.Allocator) error { return raw.SetRoundupPower2Divisions(r, divisions[:]) })
}
