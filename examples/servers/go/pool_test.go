// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"cachalot.io/go"
)

// withSession is a pool with one idle session, which cannot be run; ONNX Runtime is not loaded.
func withSession(t *testing.T, most uint64) *pool {
	t.Helper()
	driver, err := cachalot.OpenHost(1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	allocator, err := cachalot.Open(cachalot.OverDriver(driver))
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{turn: new(sync.RWMutex), model: &model{}, shelf: newShelf(most)}
	if p.tenant, err = allocator.CreateTenant(cachalot.TenantOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Refused where a goroutine has not left the tenant.
		if err := errors.Join(p.tenant.Close(), allocator.Close()); err != nil {
			t.Error(err)
		}
	})
	p.shelf.take()
	p.shelf.put(&session{})
	return p
}

// expectIdle fails unless nobody runs and one session is idle.
func expectIdle(t *testing.T, p *pool) {
	t.Helper()
	if !p.turn.TryLock() {
		t.Fatal("somebody still has a turn")
	}
	p.turn.Unlock()
	if count, _ := p.shelf.counts(); count != 1 || len(p.shelf.idle) != 1 {
		t.Errorf("%d sessions, %d idle", count, len(p.shelf.idle))
	}
}

func TestARunThatPanicsLeavesTurnTenantAndSession(t *testing.T) {
	p := withSession(t, 1)
	for _, run := range []func(func(*session) error) error{p.runBeside, p.runAlone} {
		func() {
			defer func() {
				if recover() != "planted" {
					t.Error("the panic is lost")
				}
			}()
			_ = run(func(*session) error { panic("planted") })
		}()
		expectIdle(t, p)
	}
}

func TestARunThatFailsLeavesTurnTenantAndSession(t *testing.T) {
	p := withSession(t, 1)
	planted := errors.New("planted")
	if err := p.runBeside(func(*session) error { return planted }); !errors.Is(err, planted) {
		t.Error(err)
	}
	expectIdle(t, p)
}

func TestASessionThatCannotBeMadeCountsNoLonger(t *testing.T) {
	p := withSession(t, 2)
	for range 3 {
		err := p.runBeside(func(*session) error {
			return p.runBeside(func(*session) error { return nil }) // the second session is to be made
		})
		if err == nil {
			t.Fatal("there is no ONNX Runtime, and it has made a session")
		}
	}
	expectIdle(t, p)
}

func TestRunsOfOneSessionComeOneAfterTheOther(t *testing.T) {
	p := withSession(t, 1)
	runs := 0 // the session's: no other lock
	var all sync.WaitGroup
	for range 100 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 20 {
				err := p.runBeside(func(*session) error {
					runs++
					runtime.Gosched() // so that others come meanwhile
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	expectIdle(t, p)
	if runs != 2000 {
		t.Errorf("%d runs", runs)
	}
}
