// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// server is all without its HTTP: images in, text out, and memory that goes back when nobody asks.
type server struct {
	memory      *memory
	detection   *pool
	recognition *pool
	alphabet    alphabet
	// workers has a place for each request that is worked on.
	workers  chan struct{}
	activity activity
	// Answers of each kind.
	served, exhausted, failed atomic.Uint64
}

func newServer(s settings) (*server, error) {
	memory, err := newMemory(s)
	if err != nil {
		return nil, err
	}
	var turn sync.RWMutex
	detection, err := newPool("detection", s, memory, &turn)
	if err != nil {
		return nil, err
	}
	recognition, err := newPool("recognition", s, memory, &turn)
	if err != nil {
		return nil, err
	}
	characters, err := recognition.metadata("character")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", recognition.model.path, err)
	}
	return &server{
		memory: memory, detection: detection, recognition: recognition, alphabet: newAlphabet(characters),
		workers: make(chan struct{}, s.workers), activity: activity{since: time.Now()},
	}, nil
}

// answer is what is in an image.
type answer struct {
	Width  int   `json:"width"`
	Height int   `json:"height"`
	Boxes  []box `json:"boxes"`
}

type box struct {
	Box   [4]int `json:"box"`
	Score int    `json:"score"`
	Text  string `json:"text"`
}

// infer reads the text in a PNG image, once it is its turn; who has gone by then gets none.
func (s *server) infer(ctx context.Context, image []byte) (*answer, error) {
	select {
	case s.workers <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.workers }()
	s.activity.begin()
	defer s.activity.end()
	p, err := decode(image)
	if err != nil {
		return nil, err
	}
	return s.read(p)
}

func (s *server) read(p *picture) (*answer, error) {
	found, err := findText(s.detection, p)
	if err != nil {
		return nil, err
	}
	answer := &answer{p.width, p.height, []box{}}
	for _, r := range found {
		line, err := readText(s.recognition, s.alphabet, p, r)
		if err != nil {
			return nil, err
		}
		if !line.isNothing() {
			answer.Boxes = append(answer.Boxes, box{[4]int{r.left, r.top, r.right, r.bottom}, line.score, line.text})
		}
	}
	return answer, nil
}

// count counts an answer.
func (s *server) count(err error) {
	var none *exhausted
	switch {
	case err == nil:
		s.served.Add(1)
	case errors.As(err, &none):
		s.exhausted.Add(1)
	default:
		s.failed.Add(1)
	}
}

// trimWhenIdle is to be called again and again: it gives memory back once nobody has asked for the idle time.
func (s *server) trimWhenIdle() {
	if !s.activity.startTrim(s.memory.idleMS.Load()) {
		return
	}
	if _, err := s.memory.trim(s.memory.watermark.Load(), 0); err != nil {
		fmt.Fprintf(os.Stderr, "memory is not given back: %v\n", err)
	}
	debug.FreeOSMemory() // Go's own, where images and outputs were
}

// configure changes what is named.
func (s *server) configure(wanted change) error {
	if err := s.memory.configure(wanted); err != nil {
		return err
	}
	s.activity.forgetTrim() // the watermark may be another one
	return nil
}

// perModel is a number of each model's.
type perModel struct {
	Detection   uint64 `json:"detection"`
	Recognition uint64 `json:"recognition"`
}

type serverStats struct {
	Mode      string   `json:"mode"`
	Served    uint64   `json:"served"`
	Exhausted uint64   `json:"exhausted"`
	Failed    uint64   `json:"failed"`
	RSSBytes  uint64   `json:"rss_bytes"`
	Sessions  perModel `json:"sessions"`
	Evicted   perModel `json:"evicted"`
}

type stats struct {
	memoryStats
	Server serverStats `json:"server"`
}

func (s *server) stats() (stats, error) {
	memory, err := s.memory.stats()
	detection, detectionEvicted := s.detection.shelf.counts()
	recognition, recognitionEvicted := s.recognition.shelf.counts()
	return stats{memory, serverStats{
		Mode: modeName, Served: s.served.Load(), Exhausted: s.exhausted.Load(), Failed: s.failed.Load(),
		RSSBytes: residentBytes(),
		Sessions: perModel{detection, recognition},
		Evicted:  perModel{detectionEvicted, recognitionEvicted},
	}}, err
}

// residentBytes is what the process has of the machine's memory.
func residentBytes() uint64 {
	const page = 4096
	text, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages * page
}

// close closes everything; an error if memory is in use that nobody should have.
func (s *server) close() error {
	if err := s.detection.close(); err != nil {
		return err
	}
	if err := s.recognition.close(); err != nil {
		return err
	}
	return s.memory.close()
}
