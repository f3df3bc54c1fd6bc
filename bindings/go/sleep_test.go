// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"cachalot.io/go"
)

// Pools that sleep.

const expandable = cachalot.Options("expandable_segments:True")

// poolOf is a pool of device 0 with nothing in it.
func poolOf(t testing.TB, a *cachalot.Allocator) *cachalot.Pool {
	t.Helper()
	return need[*cachalot.Pool](t)(a.CreatePool(0, cachalot.PoolOptions{}))
}

// inPool is a block of the pool.
func inPool(t testing.TB, pool *cachalot.Pool, size uint64) *cachalot.Block {
	t.Helper()
	end := need[func() error](t)(pool.Route(cachalot.RouteAll()))
	b := block(t, pool.Key().Allocator(), size, 0)
	works(t, end())
	return b
}

func sleepStats(t testing.TB, key cachalot.PoolKey) cachalot.SleepStats {
	t.Helper()
	return need[cachalot.SleepStats](t)(key.SleepStats())
}

func refusedState(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, cachalot.ErrInvalidState) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestAPoolThatSleepsGivesItsMemoryBackAndGetsItAgain(t *testing.T) {
	a := simulated(t, cachalot.WithOptions(expandable))
	pool := poolOf(t, a)
	b := inPool(t, pool, 30*mib)
	key := pool.Key()
	same(t, "bytes", need[uint64](t)(key.Sleep(cachalot.SleepKeep, 0)), 40*mib)
	same(t, "reserved", a.MemoryReserved(0), 0)
	stats := sleepStats(t, key)
	same(t, "of the pool", stats, cachalot.SleepStats{State: cachalot.PoolAsleep, Pools: 1, Blocks: 1,
		AllocatedBytes: 30 * mib, AsleepBytes: 40 * mib, KeptBytes: stats.KeptBytes})
	same(t, "contents are kept", stats.KeptBytes >= 30*mib, true)
	ofDevice := need[cachalot.SleepStats](t)(a.SleepStats(0))
	same(t, "of the device", ofDevice, cachalot.SleepStats{Pools: 1, Blocks: 1, AllocatedBytes: 30 * mib,
		AsleepBytes: 40 * mib, KeptBytes: stats.KeptBytes, NumSleeps: 1})
	back(t, stats)
	report := need[*cachalot.Report](t)(a.Report(cachalot.ReportOptions{}))
	defer report.Close()
	same(t, "in the report", need[cachalot.ReportNumbers](t)(report.Numbers()).Asleep, 40*mib)
	works(t, key.Wake(0))
	same(t, "reserved again", a.MemoryReserved(0), 40*mib)
	same(t, "the block", need[cachalot.BlockInfo](t)(b.Info()).Requested, 30*mib)
	same(t, "awake", sleepStats(t, key), cachalot.SleepStats{})
	same(t, "wakes", need[cachalot.SleepStats](t)(a.SleepStats(0)).NumWakes, 1)
}

func TestStatisticsOfSleepHaveKeysLikeAllElse(t *testing.T) {
	same(t, "keys", string(need[[]byte](t)(json.Marshal(cachalot.SleepStats{State: cachalot.PoolAsleep}))),
		`{"state":2,"pools":0,"blocks":0,"allocated_bytes":0,"asleep_bytes":0,"kept_bytes":0,"num_sleeps":0,`+
			`"num_wakes":0}`)
}

func TestContentsAreKeptOrDiscarded(t *testing.T) {
	a := host(t, cachalot.WithOptions(expandable))
	pool := poolOf(t, a)
	b := inPool(t, pool, 30*mib)
	nap := func(contents cachalot.SleepContents) []byte {
		_, err := pool.Key().Sleep(contents, 0)
		works(t, err, pool.Key().Wake(0))
		return need[[]byte](t)(b.Bytes())
	}
	filled := bytes.Repeat([]byte{17}, 30*mib)
	copy(need[[]byte](t)(b.Bytes()), filled)
	same(t, "kept", bytes.Equal(nap(cachalot.SleepKeep), filled), true)
	same(t, "all kept", bytes.Equal(nap(cachalot.SleepKeepAll), filled), true)
	same(t, "discarded", bytes.Equal(nap(cachalot.SleepDiscard), make([]byte, 30*mib)), true)
}

func TestContentsAreKeptByLabel(t *testing.T) {
	a := host(t, cachalot.WithOptions(expandable), cachalot.TrackLabels())
	pool := poolOf(t, a)
	key := pool.Key()
	end := need[func() error](t)(pool.Route(cachalot.RouteAll()))
	of := func(label string) *cachalot.Block {
		ctx := cachalot.WithLabel(context.Background(), label)
		b := need[*cachalot.Block](t)(a.AllocateWith(ctx, cachalot.Request{Size: 40 * mib}))
		copy(need[[]byte](t)(b.Bytes()), "text")
		return b
	}
	weights, cache := of("weights"), of("cache")
	works(t, end(), key.SetSleepContents("cache", cachalot.SleepDiscard))
	_, err := key.Sleep(cachalot.SleepKeep, 0)
	works(t, err, key.Wake(0))
	same(t, "weights", string(need[[]byte](t)(weights.Bytes())[:4]), "text")
	same(t, "cache", string(need[[]byte](t)(cache.Bytes())[:4]), "\x00\x00\x00\x00")
	refused(t, "all of a label", key.SetSleepContents("cache", cachalot.SleepKeepAll))
	refused(t, "a NUL inside", key.SetSleepContents("a\x00b", cachalot.SleepKeep))
	refusedState(t, "without labels", simulated(t).PoolAt(0, key.ID()).SetSleepContents("cache", cachalot.SleepKeep))
}

func TestWhileAPoolSleepsItsBlocksCanOnlyBeClosed(t *testing.T) {
	a := host(t, cachalot.WithOptions(expandable))
	pool := poolOf(t, a)
	key := pool.Key()
	b := inPool(t, pool, 30*mib)
	refusedState(t, "it is awake", key.Wake(0))
	_, err := key.Sleep(cachalot.SleepDiscard, 0)
	works(t, err)
	_, err = key.Sleep(cachalot.SleepDiscard, 0)
	refusedState(t, "again", err)
	_, err = b.Bytes()
	refusedState(t, "bytes", err)
	_, err = b.Info()
	refusedState(t, "info", err)
	refusedState(t, "a stream", b.RecordStream(5))
	_, err = pool.Route(cachalot.RouteNone())
	refusedState(t, "a routing", err)
	same(t, "uses", need[int](t)(key.UseCount()), 1)
	works(t, b.Close())
	same(t, "blocks", sleepStats(t, key).Blocks, 0)
	works(t, key.Wake(0))
}

func TestWhatCannotSleepIsRefused(t *testing.T) {
	a := simulated(t, cachalot.WithOptions(expandable))
	pool := poolOf(t, a)
	inPool(t, pool, mib)
	end := need[func() error](t)(pool.Route(cachalot.RouteNone()))
	_, err := pool.Key().Sleep(cachalot.SleepDiscard, 0)
	refusedState(t, "requests are routed to it", err)
	works(t, end())
	_, err = pool.Key().Sleep(77, 0)
	refused(t, "contents", err)
	_, err = a.PoolAt(0, cachalot.PoolID{Second: 99}).Sleep(cachalot.SleepDiscard, 0)
	refusedState(t, "no pool", err)
	_, err = a.PoolAt(0, cachalot.PoolID{Second: 99}).SleepStats()
	refusedState(t, "statistics of no pool", err)
	_, err = a.SleepStats(9)
	refused(t, "a device", err)
	plain := poolOf(t, simulated(t))
	inPool(t, plain, mib)
	if _, err = plain.Key().Sleep(cachalot.SleepDiscard, 0); !errors.Is(err, cachalot.ErrNotSupported) {
		t.Error(err)
	}
}

func TestAPoolThatFindsNoMemorySleepsOn(t *testing.T) {
	a := over(t, sim(t, cachalot.SimOptions{Capacity: 64 * mib}).Driver, cachalot.WithOptions(expandable))
	pool := poolOf(t, a)
	b := inPool(t, pool, 30*mib)
	_, err := pool.Key().Sleep(cachalot.SleepKeep, 0)
	works(t, err)
	other := block(t, a, 60*mib, 0)
	var numbers *cachalot.OutOfMemoryError
	if err := pool.Key().Wake(0); !errors.Is(err, cachalot.ErrOutOfMemory) || !errors.As(err, &numbers) {
		t.Fatal(err)
	}
	same(t, "what it needs", numbers.Requested, 40*mib)
	same(t, "state", sleepStats(t, pool.Key()).State, cachalot.PoolAsleep)
	works(t, other.Close(), pool.Key().Wake(0), b.Close())
}

func TestAPoolOfATenantFallsAsleepForAnother(t *testing.T) {
	a := over(t, sim(t, cachalot.SimOptions{Capacity: 64 * mib}).Driver, cachalot.WithOptions(expandable))
	idle := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{Name: "idle"}))
	busy := need[*cachalot.Tenant](t)(a.CreateTenant(cachalot.TenantOptions{Name: "busy", Priority: 1}))
	pool := poolOf(t, a)
	end := need[func() error](t)(pool.Route(cachalot.RouteAll()))
	b := need[*cachalot.Block](t)(idle.Allocate(30*mib, 0, 0))
	works(t, end(), idle.SetSleep(pool.Key(), cachalot.SleepKeep, 0))
	refused(t, "a pool of another allocator",
		idle.SetSleep(simulated(t).PoolAt(0, pool.Key().ID()), cachalot.SleepKeep, 0))
	works(t, need[*cachalot.Block](t)(busy.Allocate(60*mib, 0, 0)).Close())
	same(t, "state", sleepStats(t, pool.Key()).State, cachalot.PoolAsleep)
	stats := need[cachalot.TenantStats](t)(idle.Stats(0))
	same(t, "what it has", stats.AllocatedBytes.Current, 0)
	same(t, "what sleeps of it", stats.AsleepBytes, 30*mib)
	works(t, pool.Key().Wake(0), idle.NeverSleep(pool.Key()))
	if _, err := busy.Allocate(60*mib, 0, 0); !errors.Is(err, cachalot.ErrOutOfMemory) {
		t.Error(err)
	}
	same(t, "state", sleepStats(t, pool.Key()).State, cachalot.PoolAwake)
	works(t, b.Close())
}
