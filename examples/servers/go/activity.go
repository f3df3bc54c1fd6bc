// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"sync"
	"time"
)

// activity is who works, and since when nobody does.
type activity struct {
	mutex     sync.Mutex
	working   int
	since     time.Time
	isTrimmed bool
}

func (a *activity) begin() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.working++
}

func (a *activity) end() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.working--
	a.since = time.Now()
	a.isTrimmed = false
}

// touch: somebody has asked for something, who may have left memory behind.
func (a *activity) touch() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.since = time.Now()
	a.isTrimmed = false
}

// startTrim: nobody has worked for so long, and nothing was given back since. It is true once.
func (a *activity) startTrim(idleMS uint64) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.working > 0 || a.isTrimmed || uint64(time.Since(a.since).Milliseconds()) < idleMS {
		return false
	}
	a.isTrimmed = true
	return true
}

func (a *activity) forgetTrim() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.isTrimmed = false
}
