// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"errors"
	"path/filepath"
	"sync"

	"cachalot.io/go"
	ort "github.com/yalue/onnxruntime_go"
)

// pool is the sessions of one model, a tenant. They are made when they are needed, and idle ones are closed when a
// request for memory finds none. A run that finds none even so is repeated alone.
type pool struct {
	// turn is held by each run of any model; for writing by one that needs all the memory there is.
	turn   *sync.RWMutex
	model  *model
	tenant *cachalot.Tenant
	shelf  *shelf
}

func newPool(name string, s settings, m *memory, turn *sync.RWMutex) (*pool, error) {
	model, err := newModel(filepath.Join(s.models, name+".onnx"))
	if err != nil {
		return nil, err
	}
	p := &pool{turn: turn, model: model, shelf: newShelf(s.sessions)}
	p.tenant, err = m.allocator.CreateTenant(cachalot.TenantOptions{
		Name:       name,
		OnPressure: func(cachalot.Pressure) uint64 { return p.evict() },
	})
	return p, err
}

// evict closes idle sessions; about how many bytes that freed.
func (p *pool) evict() uint64 {
	idle := p.shelf.takeIdle()
	for _, session := range idle {
		session.close()
	}
	return uint64(len(idle)) * p.model.size
}

// run runs the model and looks at its only output. Without memory it waits for all other runs to end, and tries once
// more.
func (p *pool) run(shape ort.Shape, planes []float32, look func(ort.Shape, []float32) error) error {
	try := func(session *session) error { return session.run(shape, planes, look) }
	err := p.runBeside(try)
	var failed *exhausted
	if errors.As(err, &failed) {
		return p.runAlone(try)
	}
	return err
}

func (p *pool) runBeside(try func(*session) error) error {
	p.turn.RLock()
	defer p.turn.RUnlock()
	return p.runOnce(try)
}

func (p *pool) runAlone(try func(*session) error) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	return p.runOnce(try)
}

// runOnce gives a session to try, for one run. All that ONNX Runtime asks for meanwhile is this tenant's; an error is
// *exhausted if it was for want of memory.
func (p *pool) runOnce(try func(*session) error) (err error) {
	// The scope also keeps this goroutine on its thread, whose the failure is.
	end, err := p.tenant.Scope()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	forgetFailure()
	if err = p.runLent(try); err == nil {
		return nil
	}
	if failed := lastFailure(); failed != nil {
		return failed
	}
	return err
}

func (p *pool) runLent(try func(*session) error) error {
	lent, err := p.lend()
	if err != nil {
		return err
	}
	defer p.shelf.put(lent)
	return try(lent)
}

// lend gives an idle session, else a new one while there are not enough, else it waits.
func (p *pool) lend() (lent *session, err error) {
	if lent = p.shelf.take(); lent != nil {
		return lent, nil
	}
	defer func() {
		if lent == nil {
			p.shelf.forget()
		}
	}()
	return p.model.open()
}

// metadata is a text of the model's.
func (p *pool) metadata(key string) (text string, err error) {
	err = p.runBeside(func(session *session) (err error) {
		text, err = session.metadata(key)
		return err
	})
	return text, err
}

// close closes all sessions and ends the tenant. None may be in use.
func (p *pool) close() error {
	p.evict()
	return p.tenant.Close()
}
