// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cachalot.io/go"
)

// The operations that a script consists of, and the calls that each one stands for. Scripts allocate on device 0.

const (
	simAllocating = cachalot.SimAllocate | cachalot.SimCreate | cachalot.SimPoolAllocate | cachalot.SimHostAllocate
	simObtaining  = simAllocating | cachalot.SimReserve
	simEvents     = cachalot.SimEventCreate | cachalot.SimEventRecord | cachalot.SimEventQuery
)

// words are those of an operation behind its first.
type words struct {
	left string
}

// next is "" if there is none.
func (w *words) next() string {
	w.left = strings.TrimLeft(w.left, " ")
	word, left, _ := strings.Cut(w.left, " ")
	w.left = left
	return word
}

func (w *words) number() uint64 {
	number, err := strconv.ParseUint(w.next(), 10, 64)
	must(err)
	return number
}

func (w *words) signed() int64 {
	number, err := strconv.ParseInt(w.next(), 10, 64)
	must(err)
	return number
}

func (w *words) numberOr(otherwise int64) int64 {
	if strings.TrimSpace(w.left) == "" {
		return otherwise
	}
	return w.signed()
}

func (w *words) float() float64 {
	number, err := strconv.ParseFloat(w.next(), 64)
	must(err)
	return number
}

func hex(word string) uint64 {
	number, err := strconv.ParseUint(strings.TrimPrefix(word, "0x"), 16, 64)
	must(err)
	return number
}

func (w *words) stream() cachalot.Stream   { return cachalot.Stream(hex(w.next())) }
func (w *words) address() cachalot.Address { return cachalot.Address(hex(w.next())) }

// pool: N is (0, N), gN is (N, 0).
func (w *words) pool() cachalot.PoolID {
	word, ofGraph := strings.CutPrefix(w.next(), "g")
	number, err := strconv.ParseUint(word, 10, 64)
	must(err)
	if ofGraph {
		return cachalot.PoolID{First: number}
	}
	return cachalot.PoolID{Second: number}
}

// route is what may stand behind a pool that requests are routed to.
func (w *words) route() cachalot.Route {
	switch which := w.next(); which {
	case "":
		return cachalot.RouteAll()
	case "never":
		return cachalot.RouteNone()
	default:
		return cachalot.RouteStream(cachalot.Stream(hex(which)))
	}
}

func (w *words) rest() string { return strings.TrimLeft(w.left, " ") }

// do runs an operation. What the script has wrong is a panic, which becomes an error here.
func (s *script) do(o *operation) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%v", value)
		}
	}()
	w := &words{strings.TrimPrefix(o.line, o.word)}
	for _, kind := range []func(string, *words) bool{s.prepare, s.blocks, s.control, s.device, s.failure, s.pinnedMemory,
		s.checkpoint, s.sharing, s.question} {
		if kind(o.word, w) {
			return nil
		}
	}
	if strings.HasPrefix(o.word, "pool_") && s.pool(o.word, w) {
		return nil
	}
	return fmt.Errorf("unknown operation")
}

func (s *script) prepare(word string, w *words) bool {
	switch word {
	case "config", "device", "addresses":
	case "log":
		kinds := map[string]cachalot.SimLog{"handles": cachalot.SimLogHandles,
			"capture_mode": cachalot.SimLogCaptureModes}
		for each := w.next(); each != ""; each = w.next() {
			s.log[each] = kinds[each] == 0
			s.simLog |= kinds[each]
		}
		must(s.sim.LogCalls(s.simLog))
	case "fabric":
		s.fabrics = int(w.signed())
		must(s.sim.SetFabric(0, s.fabricState, s.fabrics))
	case "fabric_device":
		s.fabricState = int(w.signed())
		must(s.sim.SetFabric(0, s.fabricState, s.fabrics))
	default:
		return false
	}
	return true
}

// ---- Blocks ----

func (s *script) blocks(word string, w *words) bool {
	switch word {
	case "a", "at", "raw":
		s.allocate(word, w)
	case "f":
		id := w.signed()
		s.freeLive(id)
		if block := s.raw[id]; block != nil {
			delete(s.raw, id)
			s.freeRaw(block)
		}
	case "delete":
		if s.isAsync() || !s.caching {
			s.isOperationExempt = true
		} else {
			s.did(s.allocator.Free(w.address()))
		}
	case "r":
		if block := s.live[w.signed()]; block != nil {
			s.did(s.allocator.RecordStreamOnStream(block.Address(), w.stream(), s.current))
		}
	default:
		return false
	}
	return true
}

func (s *script) allocate(word string, w *words) {
	id, request := w.signed(), cachalot.Request{Size: w.number()}
	request.Stream = w.stream()
	isRaw := word == "raw"
	switch {
	case !isRaw:
		s.current = request.Stream
	case request.Size >= 1<<60:
		s.isRestExempt = true // The raw entry point has no such limit.
		return
	case request.Size == 0 && !s.caching:
		s.isOperationExempt = true // It asks the driver for 0 bytes.
	}
	current := s.current
	request.CurrentStream = &current
	if word == "at" {
		request.At = s.last[w.signed()] + cachalot.Address(w.numberOr(0))
		if request.At == 0 {
			// There is no address 0 to ask for; one that is never in cached memory stands for it.
			s.isTextExempt = true
			request.At = 512
		}
	}
	block, err := s.allocator.AllocateWith(context.Background(), request)
	if !s.did(err) {
		return
	}
	if !s.isOperationExempt {
		s.add(fmt.Sprintf("R %x", uint64(block.Address())))
	}
	s.last[id] = block.Address()
	if isRaw {
		s.raw[id] = block
		return
	}
	// The block that the id had before is freed after the new one was obtained.
	s.freeLive(id)
	s.live[id] = block
}

// freeRaw: the raw free acts by the mode in force, the library's by how the block was made. Where the two differ
// PyTorch refuses, or gives a segment away under its blocks.
func (s *script) freeRaw(block *cachalot.Block) {
	if s.isAsync() {
		if block.Address() == 0 {
			must(s.sim.SetPendingError(0))
			s.isOperationExempt = true
			return
		}
		s.did(block.Close())
		return
	}
	if block.Address() != 0 {
		info, err := block.Info()
		must(err)
		if s.caching && info.Uncached {
			s.isOperationExempt = true
			_, err := block.Leak()
			must(err)
			return
		}
		if !s.caching && !info.Uncached {
			s.isRestExempt = true
			return
		}
	}
	s.did(block.CloseOnStream(s.current))
}

// ---- Limits, options, history ----

func (s *script) control(word string, w *words) bool {
	a := s.allocator
	switch word {
	case "empty":
		for device := range s.devices {
			if !s.did(a.EmptyDeviceCacheOnStream(device, s.current)) {
				break
			}
		}
	case "fraction":
		s.did(a.SetMemoryFraction(0, w.float()))
	case "get_fraction":
		if fraction, err := a.MemoryFraction(0); s.did(err) {
			s.add("= fraction " + allDigits(fraction))
		}
	case "set":
		s.did(a.Configure(cachalot.Options(w.rest())))
	case "enable":
		s.caching = w.next() != "0"
		s.did(a.SetCachingEnabled(s.caching))
	case "is_enabled":
		s.answer("enabled %s", yesNo(a.IsCachingEnabled()))
	case "callback":
		for strings.TrimSpace(w.left) != "" {
			s.armed = append(s.armed, w.signed())
		}
	case "peer":
		device, peer := int(w.signed()), int(w.signed())
		s.did(a.EnablePeerAccess(device, peer))
	case "current":
		s.current = w.stream()
	case "metadata":
		// The library keeps metadata for threads, so no backend can warn of it.
		s.isOperationExempt = s.isAsync()
		s.did(s.setMetadata(w.rest()))
	case "annotate":
		if block := s.live[w.signed()]; block != nil {
			s.did(a.Annotate(block.Address(), w.rest()))
		}
	case "annotate_at":
		address := w.address()
		s.did(a.Annotate(address, w.rest()))
	case "history":
		s.history(w)
	case "reset_peak":
		s.did(a.ResetPeakStats(0))
	case "reset_accumulated":
		s.did(a.ResetAccumulatedStats(0))
	case "capture_mark":
		_, err := a.CaptureBegin(0)
		s.did(err)
	case "capture_unmark":
		s.did(a.CaptureEnd(0))
	default:
		return false
	}
	return true
}

func (s *script) history(w *words) {
	level := w.next()
	options := cachalot.HistoryOptions{Enabled: level != "off", MaxEntries: 1}
	options.Contexts = map[string]cachalot.ContextLevel{"all": cachalot.ContextsAll, "alloc": cachalot.ContextsAlloc,
		"state": cachalot.ContextsState}[level]
	if strings.TrimSpace(w.left) != "" {
		options.MaxEntries = w.number()
	}
	for word := w.next(); word != ""; word = w.next() {
		if word == "clear" {
			options.Clear = true
		} else {
			options.SkipActions = append(options.SkipActions, word)
		}
	}
	s.did(s.allocator.RecordHistory(options))
}

// ---- Questions ----

func (s *script) question(word string, w *words) bool {
	a := s.allocator
	switch word {
	case "stats":
		s.answerStats()
	case "snapshot":
		s.answerSnapshot(cachalot.PoolID{})
	case "trace":
		s.answerHistory()
	case "settings":
		s.answerSettings()
	case "end":
		s.answerStats()
		if !s.isAsync() {
			s.answerSnapshot(cachalot.PoolID{})
		}
	case "supports_metadata":
		s.answer("metadata %s", yesNo(!s.isAsync()))
	case "context_of":
		s.contextOf(s.live[w.signed()])
	case "base":
		if block := s.live[w.signed()]; block != nil {
			if base, err := a.BaseAllocation(block.Address()); s.did(err) {
				s.answer("base %x %d", uint64(base.Address), base.Size)
			}
		}
	case "largest":
		if size, err := a.LargestBlockOnStream(0, uint64(w.numberOr(0)), s.current); s.did(err) {
			s.answer("largest %d", size)
		}
	case "expandable_sizes":
		rows, err := a.ExpandableSegments(0)
		s.did(err)
		for _, row := range rows {
			kind := map[bool]string{true: "small", false: "large"}[row.IsSmall]
			s.answer("expandable %x %s %d", uint64(row.Stream), kind, row.MappedSize)
		}
	case "expandable_totals":
		if totals, err := a.ExpandableTotals(); s.did(err) {
			s.answer("expandable_totals %d %d", totals.Bytes, totals.Count)
		}
	default:
		return s.reserveQuestion(word, w)
	}
	return true
}

func (s *script) contextOf(block *cachalot.Block) {
	found := uint64(0)
	if block != nil {
		var err error
		if found, err = s.allocator.ContextOf(block.Address()); !s.did(err) {
			return
		}
	}
	if found == 0 {
		s.answer("context none")
	} else {
		s.answer("context line %d", found)
	}
}

func (s *script) reserveQuestion(word string, w *words) bool {
	switch word {
	case "reserve_class":
		stream := w.stream()
		s.did(s.allocator.SetReserveClass(stream, w.rest()))
	case "reserve_class_of":
		if name, err := s.allocator.ReserveClass(w.stream()); s.did(err) {
			s.answer(`reserve_class "%s"`, name)
		}
	case "default_reserve":
		name := w.next()
		s.did(s.allocator.SetDefaultReserve(name, w.float()))
	case "reserve_of":
		name := w.rest()
		if reserve, err := s.allocator.Reserve(0, name); s.did(err) {
			bytes, known := "none", "unknown"
			if reserve.HasReserve {
				bytes = strconv.FormatUint(reserve.ReserveBytes, 10)
			}
			if reserve.IsClassKnown {
				known = "known"
			}
			s.answer(`reserve "%s" %s %s %d`, name, bytes, known, reserve.SegmentBytes)
		}
	default:
		return false
	}
	return true
}

// ---- Pools ----

func (s *script) pool(word string, w *words) bool {
	key := s.allocator.PoolAt(0, w.pool())
	switch word {
	case "pool_create":
		s.createPool(key, strings.Fields(w.rest()))
	case "pool_begin":
		s.did(key.Begin(w.route()))
	case "pool_end":
		s.did(key.EndOnStream(s.current))
	case "pool_release":
		s.did(key.Release())
	case "pool_empty":
		s.did(key.EmptyOnStream(s.current))
	case "pool_oom_on", "pool_oom_off":
		s.did(key.SetUseOnOOM(word == "pool_oom_on"))
	case "pool_no_split":
		s.did(key.SetNoSplit())
	case "pool_count":
		if count, err := key.UseCount(); s.did(err) {
			s.answer("count %d", count)
		}
	case "pool_snapshot":
		s.answerSnapshot(key.ID())
	case "pool_live":
		var addresses []cachalot.Address
		for strings.TrimSpace(w.left) != "" {
			if block := s.live[w.signed()]; block != nil {
				addresses = append(addresses, block.Address())
			}
		}
		slices.Sort(addresses)
		if equal, err := key.HasLive(slices.Compact(addresses)...); s.did(err) {
			s.answer("live %s", yesNo(equal))
		}
	default:
		return false
	}
	return true
}

func (s *script) createPool(key cachalot.PoolKey, flags []string) {
	options := cachalot.PoolOptions{}
	if slices.Contains(flags, "own") {
		options.Source = &cachalot.PoolSource{
			Allocate: s.ownAllocate,
			Free: func(address cachalot.Address, _ uint64, _ int, _ cachalot.Stream) {
				s.add(fmt.Sprintf("D own_free %x", uint64(address)))
			},
		}
	}
	if !s.did(key.Create(options)) {
		return
	}
	if slices.Contains(flags, "use_on_oom") {
		s.did(key.SetUseOnOOM(true))
	}
	if slices.Contains(flags, "no_split") {
		s.did(key.SetNoSplit())
	}
}

// ownAllocate is a pool's own source of segments: it hands out the recorded addresses and prints its calls.
func (s *script) ownAllocate(size uint64, _ int, stream cachalot.Stream) cachalot.Address {
	if s.ownFailures > 0 {
		s.ownFailures--
		s.add(fmt.Sprintf("D own_malloc %d %x null", size, uint64(stream)))
		return 0
	}
	s.ownMadeUp++
	address := cachalot.Address(0x6000_0000_0000 + s.ownMadeUp<<32)
	if len(s.ownAddresses) > 0 {
		address, s.ownAddresses = s.ownAddresses[0], s.ownAddresses[1:]
	}
	s.add(fmt.Sprintf("D own_malloc %d %x %x", size, uint64(stream), uint64(address)))
	return address
}

// ---- The device ----

func (s *script) device(word string, w *words) bool {
	switch word {
	case "work":
		must(s.sim.QueueWork(0, w.stream()))
	case "done":
		must(s.sim.FinishStream(0, w.stream()))
	case "step":
		must(s.sim.FinishOldest(0, w.stream()))
	case "sync":
		for device := range s.devices {
			must(s.sim.FinishDevice(device))
		}
	case "capture":
		stream := w.stream()
		must(s.sim.BeginCapture(0, stream, w.number()))
	case "capture_end":
		must(s.sim.EndCapture(0, w.number()))
	case "node":
		must(s.sim.AddNode(0, w.stream()))
	case "fork":
		from := w.stream()
		must(s.sim.ForkCapture(0, from, w.stream()))
	case "join":
		into := w.stream()
		must(s.sim.JoinCapture(0, into, w.stream()))
	case "graph_memory":
		used := w.number()
		must(s.sim.SetGraphMemory(0, used, w.number()))
	case "process":
		pid := w.number()
		must(s.sim.AddProcess(0, pid, w.number()))
	default:
		return false
	}
	return true
}

// ---- Failures ----

func (s *script) failure(word string, w *words) bool {
	switch word {
	case "fail":
		count, code := w.number(), cachalot.DriverOutOfMemory
		if count == 0 {
			code = 0
		}
		s.order(cachalot.SimFailure{Calls: simAllocating, Code: code, After: uint64(w.numberOr(0)), Count: count})
	case "error":
		s.orderOne(simObtaining, w)
	case "event_error":
		s.orderOne(simEvents, w)
	case "free_error":
		s.orderOne(cachalot.SimHostFree, w)
	case "pending_error":
		must(s.sim.SetPendingError(int(w.signed())))
	case "own_fail":
		s.ownFailures = w.number()
	default:
		return false
	}
	return true
}

func (s *script) orderOne(calls cachalot.SimCalls, w *words) {
	code := int(w.signed())
	s.order(cachalot.SimFailure{Calls: calls, Code: code, After: uint64(w.numberOr(0)), Count: 1})
}

// order lets calls fail, instead of what was ordered for them before. Code 0 only calls that off, for which "sim" has
// no word: a failure of the same code that never comes takes its place.
func (s *script) order(failure cachalot.SimFailure) {
	if former := s.ordered[failure.Calls]; former != 0 && former != failure.Code {
		must(s.sim.Fail(cachalot.SimFailure{Calls: failure.Calls, Code: former, After: math.MaxInt64}))
	}
	s.ordered[failure.Calls] = failure.Code
	if failure.Code != 0 {
		must(s.sim.Fail(failure))
	}
}

func (s *script) callOffFailures() {
	for calls := range s.ordered {
		s.order(cachalot.SimFailure{Calls: calls})
	}
	must(s.sim.SetPendingError(0))
}
