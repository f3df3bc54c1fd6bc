// SPDX-License-Identifier: MIT OR Apache-2.0

// Evict to fit: two models, one budget. Each fits by itself, both do not; loading one evicts the other, by functions
// of tenants.
//
//	CACHALOT_DRIVER=sim:1GiB go run ./two_models
package main

import (
	"fmt"
	"log"
	"sync"

	"cachalot.io/go"
)

const (
	layers    = 12
	layerSize = 64 << 20
)

type model struct {
	name   string
	tenant *cachalot.Tenant

	mutex   sync.Mutex
	weights []*cachalot.Block
}

func openModel(allocator *cachalot.Allocator, name string) (*model, error) {
	m := &model{name: name}
	var err error
	m.tenant, err = allocator.CreateTenant(cachalot.TenantOptions{Name: name, OnPressure: m.evict})
	return m, err
}

// evict is asked when the other model finds no memory. It has no guarantee, so it gives all.
func (m *model) evict(pressure cachalot.Pressure) uint64 {
	if pressure.RequesterName == m.name {
		return 0 // Not while it is loading.
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	freed := uint64(len(m.weights)) * layerSize
	for _, block := range m.weights {
		block.Close()
	}
	m.weights = nil
	fmt.Printf("%s gives %d MiB for %s\n", m.name, freed>>20, pressure.RequesterName)
	return freed
}

func (m *model) close() {
	for _, block := range m.weights {
		block.Close()
	}
	m.tenant.Close()
}

func (m *model) load() error {
	for m.loaded() < layers {
		// Without the lock, since the request may ask functions.
		block, err := m.tenant.Allocate(layerSize, 0, 0)
		if err != nil {
			return err
		}
		m.mutex.Lock()
		m.weights = append(m.weights, block)
		m.mutex.Unlock()
	}
	fmt.Println(m.name, "is loaded")
	return nil
}

func (m *model) loaded() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return len(m.weights)
}

func run() error {
	allocator, err := cachalot.Open()
	if err != nil {
		return err
	}
	defer allocator.Close()
	// Smaller than both models together, whatever the device is.
	if err := allocator.SetMemoryLimit(0, 1<<30); err != nil {
		return err
	}
	chat, err := openModel(allocator, "chat")
	if err != nil {
		return err
	}
	defer chat.close()
	search, err := openModel(allocator, "search")
	if err != nil {
		return err
	}
	defer search.close()
	for range 2 {
		for _, m := range []*model{chat, search} {
			if err := m.load(); err != nil {
				return err
			}
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
