// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"fmt"
	"strconv"
	"strings"

	"cachalot.io/go"
)

// unbuilt are operations that are not replayed here.
var unbuilt = map[string]bool{"env": true}

var beforeAllocator = map[string]bool{"config": true, "device": true, "log": true, "fabric": true,
	"fabric_device": true, "sharing": true}

// script is one under way: the allocator and the device that it runs on.
type script struct {
	release   cachalot.Release
	sim       *cachalot.Sim
	devices   int
	config    string
	allocator *cachalot.Allocator
	isStarted bool

	lines      []scriptLine
	rejections []scriptLine
	// log is what the words of "log" switched on.
	log       map[string]bool
	simLog    cachalot.SimLog
	operation uint64
	current   cachalot.Stream
	// expected is what PyTorch's allocator printed in the operation.
	expected  []string
	live, raw map[int64]*cachalot.Block
	pinned    map[int64]*cachalot.PinnedBlock
	// pinnedRanges are those that the file had until now, the latest last.
	pinnedRanges []pinnedRange
	checkpoints  map[string]cachalot.Checkpoint
	imported     map[int64]*cachalot.OpenedMemory
	// opensShared: shared memory can be opened.
	opensShared bool
	// last is the address that an id had last.
	last map[int64]cachalot.Address
	// armed is what the free-memory callback is to free.
	armed       []int64
	caching     bool
	endMetadata func() error
	// What a pool's own source hands out, and how often it fails.
	ownAddresses []cachalot.Address
	ownFailures  uint64
	ownMadeUp    uint64
	// ordered are the codes of the failures that were ordered last.
	ordered              map[cachalot.SimCalls]int
	fabricState, fabrics int
	// The lines of the operation, or from it on all, cannot be compared on purpose.
	isOperationExempt, isTextExempt, isRestExempt bool
	// isMended: a defect of PyTorch that the library mends has just changed a decision.
	isMended bool
}

// replayScript gives how many lines were compared.
func replayScript(file []*operation, release cachalot.Release) (int, error) {
	for _, o := range file {
		if unbuilt[o.word] {
			return 0, fmt.Errorf("operation %q is not built", o.word)
		}
	}
	s := &script{release: release, devices: 1, caching: true, simLog: cachalot.SimLogCalls | cachalot.SimLogQueries,
		log: map[string]bool{}, live: map[int64]*cachalot.Block{}, raw: map[int64]*cachalot.Block{},
		last: map[int64]cachalot.Address{}, pinned: map[int64]*cachalot.PinnedBlock{},
		checkpoints: map[string]cachalot.Checkpoint{}, imported: map[int64]*cachalot.OpenedMemory{},
		ordered: map[cachalot.SimCalls]int{}}
	if err := s.setUp(file); err != nil {
		return 0, err
	}
	compared, err := s.run(file)
	if closing := s.close(); err == nil {
		err = closing
	}
	return compared, err
}

func (s *script) setUp(file []*operation) error {
	options := cachalot.SimOptions{Capacity: 80 << 30}
	for _, o := range file {
		switch o.word {
		case "config":
			s.config = strings.TrimPrefix(strings.TrimPrefix(o.line, "config"), " ")
		case "device":
			words := strings.Split(o.line, " ")
			options.Capacity, _ = strconv.ParseUint(words[1], 10, 64)
			if len(words) > 3 {
				s.devices, _ = strconv.Atoi(words[3])
			}
		}
	}
	options.Devices = s.devices
	sim, err := cachalot.OpenSim(options)
	if err != nil {
		return err
	}
	s.sim = sim
	return sim.LogCalls(s.simLog)
}

func (s *script) run(file []*operation) (int, error) {
	var c comparison
	compared := 0
	for _, o := range file {
		s.operation++
		s.isOperationExempt, s.isTextExempt = false, false
		s.expected = o.expected
		s.readPinnedRanges()
		addresses := recorded(o.expected, "D malloc ", "D reserve ", "D malloc_async ", "D ipc_open ")
		if err := s.sim.GiveAddresses(0, addresses...); err != nil {
			return compared, err
		}
		s.ownAddresses = recorded(o.expected, "D own_malloc ")
		if beforeAllocator[o.word] || s.start() {
			if err := s.do(o); err != nil {
				return compared, fmt.Errorf("line %d: %s: %w", o.number, o.line, err)
			}
		}
		actual := s.end()
		if s.isRestExempt || s.isMended {
			break
		}
		if s.isOperationExempt {
			continue
		}
		first := c.firstDifference(o.expected, actual, textRules{s.log["whole_text"], s.isTextExempt})
		if first >= 0 {
			return compared, differenceAt(o, first, actual)
		}
		compared += len(actual)
	}
	return compared, nil
}

func differenceAt(o *operation, first int, actual []scriptLine) error {
	expected, found := "nothing", "nothing"
	if first < len(o.expected) {
		expected = o.expected[first]
	}
	if first < len(actual) {
		found = actual[first].String()
	}
	return fmt.Errorf("line %d: %s\n  expected %s\n  actual   %s", o.number, o.line, expected, found)
}

// recorded are the addresses at the ends of lines such as "D malloc 512 7f0000000000".
func recorded(expected []string, starts ...string) []cachalot.Address {
	var addresses []cachalot.Address
	for _, line := range expected {
		for _, start := range starts {
			if !strings.HasPrefix(line, start) || strings.Contains(line, " error ") ||
				strings.HasSuffix(line, " oom") || strings.HasSuffix(line, " null") {
				continue
			}
			address, err := strconv.ParseUint(line[strings.LastIndexByte(line, ' ')+1:], 16, 64)
			if err == nil {
				addresses = append(addresses, cachalot.Address(address))
			}
		}
	}
	return addresses
}

// start makes the allocator, if there is none; false if that failed: then the script has ended.
func (s *script) start() bool {
	if s.isStarted {
		return s.allocator != nil
	}
	s.isStarted = true
	allocator, err := cachalot.Open(
		cachalot.OverDriver(s.sim.Driver), cachalot.WithOptions(cachalot.Options(s.config)),
		cachalot.WithRelease(s.release), cachalot.WithCaching(true),
		cachalot.WithLog(func(level cachalot.LogLevel, message string) {
			s.isMended = s.isMended || level == cachalot.LogDifference
			if level == cachalot.LogWarning {
				first, _, _ := strings.Cut(message, "\n")
				s.add("W " + first)
			}
		}),
		cachalot.WithContexts(func() uint64 {
			if s.log["context"] {
				return s.operation
			}
			return 0
		}, func(uint64) string { return "" }))
	if err != nil {
		s.fail(err, true)
		return false
	}
	s.allocator = allocator
	if !s.isAsync() {
		s.attach()
	}
	return true
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (s *script) attach() {
	attached := func(_ func() error, err error) { must(err) }
	attached(s.allocator.ObserveTrace(func(entry cachalot.TraceEntry) {
		s.add("T " + entryText(entry) + s.metadataMarks(entry))
	}))
	must(s.allocator.RecordHistory(cachalot.HistoryOptions{Enabled: true, MaxEntries: 1, Clear: true}))
	attached(s.allocator.ObserveOutOfMemory(func(n cachalot.OutOfMemory) {
		if s.log["observer"] {
			limit, err := s.allocator.MemoryLimit(n.Device)
			must(err)
			if limit == cachalot.NoLimit {
				limit = n.DeviceTotal
			}
			s.add(fmt.Sprintf("O %d %d %d %d", n.Device, n.SegmentSize, limit, n.DeviceFree))
		}
	}))
	attached(s.allocator.ObserveRejection(func(n cachalot.Rejection) {
		if s.log["rejection"] {
			s.rejections = append(s.rejections,
				scriptLine{text: fmt.Sprintf("J %d %d %d %d", n.Device, n.SegmentSize, n.Reserved, n.DeviceTotal)})
		}
	}))
	attached(s.allocator.OnFreeMemory(func(int, uint64) bool {
		freed := s.armed
		s.armed = nil
		if len(freed) == 0 {
			return false
		}
		s.add("C callback")
		for _, id := range freed {
			s.freeLive(id)
		}
		return true
	}))
}

func (s *script) isAsync() bool {
	return s.allocator.Backend() == "cudaMallocAsync"
}

func (s *script) takeCalls() {
	calls, err := s.sim.ReadCalls()
	must(err)
	for call := range strings.Lines(calls) {
		if s.isInFile(call) {
			s.lines = append(s.lines, scriptLine{text: "D " + strings.TrimSuffix(call, "\n")})
		}
	}
}

// isInFile: the file has queries that fail, and others only where it asks for them. Of segments it has those that
// could be opened.
func (s *script) isInFile(call string) bool {
	if strings.HasPrefix(call, "event_query ") {
		return s.log["query"] || strings.Contains(call, " error ")
	}
	return !strings.HasPrefix(call, "ipc_open error ")
}

// add adds a line behind the device's calls that came before it.
func (s *script) add(line string) {
	s.takeCalls()
	s.lines = append(s.lines, scriptLine{text: line})
}

func (s *script) answer(format string, values ...any) {
	s.add("# " + fmt.Sprintf(format, values...))
}

func (s *script) fail(err error, atInit bool) {
	s.takeCalls()
	s.lines = append(s.lines, scriptLine{err: err, atInit: atInit})
}

// did says whether a call worked; if it failed that is added.
func (s *script) did(err error) bool {
	if err != nil {
		s.fail(err, false)
	}
	return err == nil
}

func (s *script) end() []scriptLine {
	s.takeCalls()
	ended := append(s.lines, s.rejections...)
	s.lines, s.rejections = nil, nil
	return ended
}

// freeLive frees a tensor's block; nothing if the id is not live.
func (s *script) freeLive(id int64) {
	block := s.live[id]
	delete(s.live, id)
	if block != nil {
		s.did(block.CloseOnStream(s.current))
	}
}

func (s *script) setMetadata(text string) error {
	if s.endMetadata != nil {
		must(s.endMetadata())
	}
	var err error
	s.endMetadata, err = cachalot.MetadataScope(text)
	return err
}

func entryText(e cachalot.TraceEntry) string {
	return fmt.Sprintf("%s %x %d %x", e.Action, uint64(e.Address), e.Size, uint64(e.Stream))
}

// metadataMarks are the texts behind a history entry that "log metadata" asks for.
func (s *script) metadataMarks(e cachalot.TraceEntry) string {
	if !s.log["metadata"] {
		return ""
	}
	internal := ""
	if s.release == cachalot.Release2_15 {
		internal = fmt.Sprintf(` internal "%s"`, e.InternalMetadata)
	}
	return fmt.Sprintf(` metadata "%s"%s pool %d,%d`, e.Metadata, internal, e.Pool.First, e.Pool.Second)
}

func (s *script) close() error {
	s.callOffFailures()
	if s.endMetadata != nil {
		must(s.endMetadata())
	}
	if s.allocator != nil {
		for _, opened := range s.imported {
			must(opened.Close())
		}
		if err := s.allocator.CloseAll(); err != nil {
			return err
		}
	}
	return s.sim.Close()
}
