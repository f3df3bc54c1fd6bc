// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// SleepContents is what becomes of the contents of a pool that falls asleep.
type SleepContents int

// The contents.
const (
	SleepDiscard = SleepContents(raw.SLEEP_DISCARD) // they are lost
	SleepKeep    = SleepContents(raw.SLEEP_KEEP)    // those of blocks that are handed out are kept
	// SleepKeepAll keeps those of free memory too: for graphs whose results lie in memory that was freed.
	SleepKeepAll = SleepContents(raw.SLEEP_KEEP_ALL)
)

// PoolState is what a pool does.
type PoolState int

// The states.
const (
	PoolAwake         = PoolState(raw.POOL_AWAKE)
	PoolFallingAsleep = PoolState(raw.POOL_FALLING_ASLEEP)
	PoolAsleep        = PoolState(raw.POOL_ASLEEP)
	PoolWaking        = PoolState(raw.POOL_WAKING)
)

// SleepStats are what sleeps of a pool, or of all pools of a device.
type SleepStats struct {
	// State is that of the pool; of a device PoolAwake.
	State PoolState `json:"state"`
	// Pools counts those that are not awake.
	Pools uint64 `json:"pools"`
	// Blocks counts those that will be handed out again; AllocatedBytes are theirs.
	Blocks         uint64 `json:"blocks"`
	AllocatedBytes uint64 `json:"allocated_bytes"`
	// AsleepBytes are those of pages that the driver has back, and that waking needs.
	AsleepBytes uint64 `json:"asleep_bytes"`
	// KeptBytes are those of pinned host memory that has contents.
	KeptBytes uint64 `json:"kept_bytes"`
	// NumSleeps and NumWakes count how often pools of the device fell asleep and woke; of a pool 0.
	NumSleeps uint64 `json:"num_sleeps"`
	NumWakes  uint64 `json:"num_wakes"`
}

// Sleep gives the pool's memory back to the driver, and keeps its addresses: pointers and graphs are right again once
// the pool is awake. bytes is what the driver has back. The pool has to be in expandable segments
// (ExpandableSegments). Kept contents are copied to pinned host memory on the stream, which the call waits for, after
// all work of the device.
//
// While the pool sleeps nothing touches its memory: no work that is queued, and no slice of Block.Bytes, which nothing
// checks. Its blocks count for nobody, and can be closed; all else that is asked of them is ErrInvalidState.
//
// ErrInvalidState for a pool that does not exist or is not awake, that is pinned or routed to, and while a capture may
// be under way; ErrNotSupported for memory that cannot come back at its addresses, or a driver that cannot keep
// contents; ErrDriver and ErrOutOfHostMemory where there is no pinned memory. After an error nothing has changed.
func (k PoolKey) Sleep(contents SleepContents, stream Stream) (bytes uint64, err error) {
	err = k.do(func(r raw.Allocator, device int32, id raw.PoolId) (err error) {
		bytes, err = raw.PoolSleep(r, device, id, narrow(int(contents)), raw.Stream(stream))
		return err
	})
	return bytes, err
}

// Wake gives a pool that sleeps new memory at its addresses, and hands its blocks out again. The copies of what was
// kept are queued on the stream: work on other streams has to come behind them. What was discarded is undefined.
//
// ErrOutOfMemory where there is not enough memory, or a tenant is not granted its blocks: the pool sleeps on, with
// its contents, and the call can be repeated. ErrInvalidState for a pool that does not sleep, and while a capture may
// be under way. ErrDriver: the pool sleeps on.
func (k PoolKey) Wake(stream Stream) error {
	return k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		return raw.PoolWake(r, device, id, raw.Stream(stream))
	})
}

// SetSleepContents says what becomes of the pool's blocks with a label, whatever Sleep says: weights are kept and a
// cache is discarded, say. SleepKeepAll is ErrInvalidArgument. ErrInvalidState for a pool that does not exist, or
// without TrackLabels.
func (k PoolKey) SetSleepContents(label string, contents SleepContents) error {
	if err := checkText(label); err != nil {
		return err
	}
	return k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		return raw.PoolSetSleepContents(r, device, id, label, narrow(int(contents)))
	})
}

// SleepStats are what sleeps of the pool. ErrInvalidState for a pool that does not exist.
func (k PoolKey) SleepStats() (stats SleepStats, err error) {
	err = k.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
		s, err := raw.GetSleepStats(r, device, id)
		stats = SleepStats{
			State: PoolState(s.State), Pools: s.Pools, Blocks: s.Blocks, AllocatedBytes: s.AllocatedBytes,
			AsleepBytes: s.AsleepBytes, KeptBytes: s.KeptBytes, NumSleeps: s.NumSleeps, NumWakes: s.NumWakes,
		}
		return err
	})
	return stats, err
}

// SleepStats are what sleeps of all pools of a device.
func (a *Allocator) SleepStats(device int) (SleepStats, error) {
	return a.PoolAt(device, PoolID{}).SleepStats()
}

// SetSleep lets a pool be put to sleep when the tenant is asked for memory, before its OnPressure is called, which it
// need not have. Where the pool cannot sleep OnPressure is called as always. The goroutine that waits for memory waits
// for the copies on the stream. The pool need not exist yet. ErrInvalidArgument for a pool of another allocator.
//
// As PoolKey.Sleep says, nothing may touch the pool's memory from then on until it is awake. A caller that uses the
// pool routes requests to it first, looks at its state, and keeps the route until the work is done: such a pool does
// not fall asleep.
func (t *Tenant) SetSleep(pool PoolKey, contents SleepContents, stream Stream) error {
	return t.do(func(tenant raw.Tenant) error {
		return pool.do(func(r raw.Allocator, device int32, id raw.PoolId) error {
			return raw.TenantSetSleep(r, tenant, device, id, narrow(int(contents)), raw.Stream(stream))
		})
	})
}

// NeverSleep ends what SetSleep has begun.
func (t *Tenant) NeverSleep(pool PoolKey) error {
	return t.SetSleep(pool, SleepContents(raw.SLEEP_NEVER), 0)
}
