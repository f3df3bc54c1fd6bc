// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"cachalot.io/go"
)

// What goroutines and contexts say of themselves.

// isLocked says whether the calling goroutine is locked to its thread.
func isLocked() bool {
	buffer := make([]byte, 200)
	first, _, _ := strings.Cut(string(buffer[:runtime.Stack(buffer, false)]), "\n")
	return strings.Contains(first, "locked to thread")
}

func TestTheEndOfAScopeLetsTheThreadGo(t *testing.T) {
	a := simulated(t, cachalot.TrackLabels())
	tenant := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{}))
	pool := need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
	for name, begin := range map[string]func() (func() error, error){
		"label":    func() (func() error, error) { return cachalot.LabelScope("x") },
		"metadata": func() (func() error, error) { return cachalot.MetadataScope("x") },
		"tenant":   tenant.Scope,
		"routing":  func() (func() error, error) { return pool.Route(cachalot.RouteThisThread()) },
	} {
		together(1, func(int) {
			end, err := begin()
			tried(t, err)
			same(t, name+" locks the thread", isLocked(), true)
			tried(t, end(), end())
			same(t, name+" that has ended locks the thread", isLocked(), false)
		})
	}
	together(1, func(int) {
		end, err := pool.Route(cachalot.RouteThisThread())
		tried(t, err)
		if _, err := pool.Route(cachalot.RouteThisThread()); !errors.Is(err, cachalot.ErrInvalidState) {
			t.Error(err)
		}
		tried(t, end())
		same(t, "a refused routing locks the thread", isLocked(), false)
	})
	works(t, pool.Close(), tenant.Close())
}

func TestAnEarlierErrorOfAContextStays(t *testing.T) {
	a := simulated(t, cachalot.TrackLabels())
	bad := cachalot.WithLabel(context.Background(), "a\x00b")
	empty := cachalot.WithLabel(context.Background(), "")
	text := cachalot.WithMetadata(context.Background(), "a\x00b")
	for number, ctx := range []context.Context{
		cachalot.WithLabel(bad, "good"), cachalot.WithMetadata(empty, "good"), cachalot.WithMetadata(text, "good"),
		cachalot.WithTenant(bad, nil),
	} {
		if _, err := a.AllocateWith(ctx, cachalot.Request{Size: 1}); !errors.Is(err, cachalot.ErrInvalidArgument) {
			t.Errorf("%d: %v", number, err)
		}
	}
}

func TestTextsOfScopesNest(t *testing.T) {
	a := simulated(t)
	works(t, a.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 10,
		SkipActions: []string{"segment_alloc", "snapshot"}}))
	endOuter := need[func() error](t)(cachalot.MetadataScope("outer"))
	endInner := need[func() error](t)(cachalot.MetadataScope("inner"))
	if err := endOuter(); !errors.Is(err, cachalot.ErrInvalidState) {
		t.Errorf("the outer one is ended first: %v", err)
	}
	block(t, a, 1, 0)
	works(t, endInner(), endInner())
	block(t, a, 1, 0)
	works(t, endOuter())
	block(t, a, 1, 0)
	var texts []string
	for _, entry := range need[[]cachalot.TraceEntry](t)(a.History(0)) {
		texts = append(texts, entry.Metadata)
	}
	same(t, "texts", strings.Join(texts, ","), "inner,outer,")
}
