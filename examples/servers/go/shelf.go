// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import "sync"

// shelf has the idle sessions of one model, and counts all of them. No session is made or closed under its lock.
type shelf struct {
	mutex   sync.Mutex
	changed sync.Cond
	idle    []*session
	// count is the number of those and of the ones in use.
	count, most uint64
	evicted     uint64
}

func newShelf(most uint64) *shelf {
	s := &shelf{most: most}
	s.changed.L = &s.mutex
	return s
}

// take gives the session that became idle last; nil: the caller has to make one, which is counted from here on.
func (s *shelf) take() *session {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for len(s.idle) == 0 && s.count == s.most {
		s.changed.Wait()
	}
	if len(s.idle) == 0 {
		s.count++
		return nil
	}
	last := len(s.idle) - 1
	taken := s.idle[last]
	s.idle = s.idle[:last]
	return taken
}

// put takes a session back.
func (s *shelf) put(idle *session) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.idle = append(s.idle, idle)
	s.changed.Signal()
}

// forget: the session that was to be made could not be.
func (s *shelf) forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.count--
	s.changed.Signal()
}

// takeIdle takes all idle sessions, which count no longer.
func (s *shelf) takeIdle() []*session {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	taken := s.idle
	s.idle = nil
	s.count -= uint64(len(taken))
	s.evicted += uint64(len(taken))
	s.changed.Broadcast()
	return taken
}

// counts are the sessions that there are, and those that were closed for want of memory.
func (s *shelf) counts() (count, evicted uint64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.count, s.evicted
}
