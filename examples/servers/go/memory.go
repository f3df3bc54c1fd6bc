// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"cachalot.io/go"
)

const (
	device   = 0
	modeName = "cachalot"
)

// memory is cachalot's, which ONNX Runtime uses: what is known of it, and what can be set.
type memory struct {
	allocator    *cachalot.Allocator
	registration *registration
	watermark    atomic.Uint64
	idleMS       atomic.Uint64
	// changing is held while one request's changes are made.
	changing sync.Mutex
}

// newMemory needs ONNX Runtime loaded.
func newMemory(s settings) (*memory, error) {
	allocator, err := openAllocator(s.driver)
	if err != nil {
		return nil, err
	}
	registration, err := register(allocator)
	if err != nil {
		return nil, err
	}
	m := &memory{allocator: allocator, registration: registration}
	m.watermark.Store(s.watermark)
	m.idleMS.Store(s.idleMS)
	return m, nil
}

func openAllocator(name string) (*cachalot.Allocator, error) {
	driver, err := cachalot.OpenDriver(name)
	if err != nil {
		return nil, fmt.Errorf("CACHALOT_DRIVER=%s: %w", name, err)
	}
	defer driver.Close()
	return cachalot.Open(cachalot.OverDriver(driver))
}

// trim gives back what is free, down to so many reserved bytes; how many went.
func (m *memory) trim(keep, minIdleMS uint64) (uint64, error) {
	idle := time.Duration(min(minIdleMS, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	return m.allocator.Trim(device, keep, idle)
}

// tenantRow is a tenant's statistics, a limit of 0 being none.
type tenantRow struct {
	cachalot.TenantStats
	LimitBytes *uint64 `json:"limit_bytes"`
}

// memoryStats are the statistics by name, those of each tenant, and what ONNX Runtime asked for.
type memoryStats struct {
	Allocator   map[string]int64 `json:"allocator"`
	Tenants     []tenantRow      `json:"tenants"`
	ONNXRuntime ortInfo          `json:"onnxruntime"`
}

func (m *memory) stats() (stats memoryStats, err error) {
	numbers, err := m.allocator.Stats(device)
	if err != nil {
		return stats, err
	}
	stats.Allocator = make(map[string]int64)
	for _, row := range numbers.Rows(m.allocator.Release()) {
		stats.Allocator[row.Name] = row.Value
	}
	tenants, err := m.allocator.TenantStats(device)
	if err != nil {
		return stats, err
	}
	for _, tenant := range tenants {
		stats.Tenants = append(stats.Tenants, tenantRow{tenant, unless(tenant.LimitBytes, 0)})
	}
	stats.ONNXRuntime, err = m.registration.info()
	return stats, err
}

// unless gives nil, which is null in JSON, for the number that means none.
func unless(number, none uint64) *uint64 {
	if number == none {
		return nil
	}
	return &number
}

// configShown is the answer about the configuration.
type configShown struct {
	Config           cachalot.Options `json:"config"`
	MemoryLimitBytes *uint64          `json:"memory_limit_bytes"`
	WatermarkBytes   uint64           `json:"watermark_bytes"`
	IdleMS           uint64           `json:"idle_ms"`
	Settings         settingsShown    `json:"settings"`
}

type settingsShown struct {
	MaxSplitSize               *uint64    `json:"max_split_size"`
	GarbageCollectionThreshold float64    `json:"garbage_collection_threshold"`
	ExpandableSegments         bool       `json:"expandable_segments"`
	RoundupPower2Divisions     [16]uint64 `json:"roundup_power2_divisions"`
}

func (m *memory) config() (shown configShown, err error) {
	settings, err := m.allocator.Settings()
	if err != nil {
		return shown, err
	}
	options, err := m.allocator.Options()
	if err != nil {
		return shown, err
	}
	limit, err := m.allocator.MemoryLimit(device)
	return configShown{
		Config:           options,
		MemoryLimitBytes: unless(limit, cachalot.NoLimit),
		WatermarkBytes:   m.watermark.Load(),
		IdleMS:           m.idleMS.Load(),
		Settings: settingsShown{
			MaxSplitSize:               unless(settings.MaxSplitSize, math.MaxUint64),
			GarbageCollectionThreshold: settings.GarbageCollectionThreshold,
			ExpandableSegments:         settings.ExpandableSegments,
			RoundupPower2Divisions:     settings.RoundupPower2Divisions,
		},
	}, err
}

// configure changes what is named; with an error nothing is, but for the options before a mistake in their text.
func (m *memory) configure(wanted change) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	if wanted.config != nil {
		if err := m.allocator.Configure(cachalot.Options(*wanted.config)); err != nil {
			return err
		}
	}
	if wanted.limit != nil {
		if err := m.allocator.SetMemoryLimit(device, *wanted.limit); err != nil {
			return err
		}
	}
	if wanted.watermark != nil {
		m.watermark.Store(*wanted.watermark)
	}
	if wanted.idleMS != nil {
		m.idleMS.Store(*wanted.idleMS)
	}
	return nil
}

// close ends it; an error if anything of it is still in use.
func (m *memory) close() error {
	if err := m.registration.close(); err != nil {
		return err
	}
	if err := m.allocator.Check(); err != nil {
		return err
	}
	return m.allocator.Close()
}
