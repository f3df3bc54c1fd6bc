// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"cachalot.io/go"
)

// FuzzOptions: whatever the string, the library takes it word for word or says what is wrong with it.
func FuzzOptions(f *testing.F) {
	for _, text := range []string{
		"", "max_split_size_mb:128,garbage_collection_threshold:0.8", "roundup_power2_divisions:[256:1,512:2,>:8]",
		"backend:cudaMallocAsync", "expandable_segments:True", "expandable_segments_reserve_by_class:[kv:16G,x:0.5]",
		"nonsense", "max_split_size_mb:", "a:[b", "large_segment_size_mb:99999999999999999999", "\x00", "ä:ö",
		"0,0,backend,cudaMallocAsync", "expandable_segments_reserve,:",
	} {
		f.Add(text)
	}
	device := sim(f, cachalot.SimOptions{})
	f.Fuzz(func(t *testing.T, text string) {
		options := cachalot.Options(text)
		a, err := cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithOptions(options))
		if err != nil {
			if !errors.Is(err, cachalot.ErrInvalidArgument) && !errors.Is(err, cachalot.ErrNotSupported) {
				t.Fatal(err)
			}
			return
		}
		defer a.Close()
		kept, err := a.Options()
		if a.Backend() == "cudaMallocAsync" && errors.Is(err, cachalot.ErrInvalidArgument) {
			return // As in PyTorch nobody has read the rest of the string so far (docs/behaviour/options.md 4.16).
		}
		if err != nil || kept != options {
			t.Fatalf("%q became %q: %v", options, kept, err)
		}
		with := options.With(cachalot.MaxSplitSizeMB(30))
		if value, ok := with.Value("max_split_size_mb"); !ok || value != "30" {
			t.Fatalf("%q has no max_split_size_mb:30", with)
		}
		if again := with.With(cachalot.MaxSplitSizeMB(30)); again != with {
			t.Fatalf("%q, then %q", with, again)
		}
		if err := a.Configure(options); err != nil && !errors.Is(err, cachalot.ErrInvalidArgument) {
			t.Fatal(err)
		}
		works(t, block(t, a, mib, 0).Close(), a.Check())
	})
}

// FuzzTrace: whatever the bytes, they are a trace that can be read and replayed, or an error.
func FuzzTrace(f *testing.F) {
	recorded := recording(f)
	f.Add(recorded)
	f.Add(recorded[:len(recorded)/2])
	f.Add(bytes.Replace(recorded, []byte("alloc"), []byte("free_completed"), 1))
	f.Add([]byte("nonsense\n1,2,3"))
	f.Add([]byte(strings.Repeat("\xff", 100)))
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 1<<16 {
			return
		}
		trace, err := cachalot.ReadTrace(bytes.NewReader(file))
		if err != nil {
			if !errors.Is(err, cachalot.ErrIO) {
				t.Fatal(err)
			}
			return
		}
		defer trace.Close()
		info := need[cachalot.TraceInfo](t)(trace.Info())
		for i := range info.EventCount {
			need[cachalot.TraceEvent](t)(trace.Event(i))
		}
		need[[]cachalot.NamedStat](t)(trace.Stats())
		replay, err := trace.Replay(cachalot.ReplayOptions{})
		if err != nil {
			return
		}
		result := need[cachalot.ReplayResult](t)(replay.Result())
		if result.Events > uint64(info.EventCount) {
			t.Fatalf("%d events of %d", result.Events, info.EventCount)
		}
		works(t, replay.Allocator().Check(), replay.Close())
	})
}
