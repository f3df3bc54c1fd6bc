// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// ReportOptions are the request that a report is about. Zero means default in every field.
type ReportOptions struct {
	Device int
	// Size in bytes, below 2^60; 0: no request in particular.
	Size uint64
	// Stream is that of the request: its pool is the one to which requests of this stream and of the calling thread
	// are routed now.
	Stream Stream
}

// ReportOptions are those of a report about this request.
func (o OutOfMemory) ReportOptions() ReportOptions {
	return ReportOptions{Device: o.Device, Size: o.Requested, Stream: o.Stream}
}

// Report says who holds the memory of a device, and what is in the way of a request. Every reserved byte is in one
// row: a live block among the holders, and what is cached among the reasons. It may outlive the allocator, and never
// changes; any goroutine may read it at any time.
type Report struct {
	gate *gate
	raw  raw.Report
}

// Report makes a report of a request that may come, or of one that has failed, also from within an observer of
// out-of-memory errors. It walks all blocks of the device with its lock held. The caller closes it.
//
// ErrInvalidArgument for a size of 2^60 and more; ErrInvalidState where the request would be routed to a pool that is
// gone; ErrDriver; ErrNotSupported under backend:cudaMallocAsync.
func (a *Allocator) Report(options ReportOptions) (*Report, error) {
	c := raw.ReportOptions{Device: narrow(options.Device), Size: options.Size, Stream: raw.Stream(options.Stream)}
	made, err := ask(a, func(r raw.Allocator) (raw.Report, error) { return raw.ReportCreate(r, &c) })
	if err != nil {
		return nil, err
	}
	report := &Report{gate: newGate("report", 1), raw: made}
	watch(report, report.gate)
	return report, nil
}

func (r *Report) do(call func(raw.Report) error) error {
	c, err := r.gate.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	return wrap(call(r.raw))
}

// Outcome is what would become of a request now.
type Outcome int

// The outcomes.
const (
	OutcomeNoRequest    = Outcome(raw.OUTCOME_NO_REQUEST)
	OutcomeFromCache    = Outcome(raw.OUTCOME_FROM_CACHE)    // a cached block serves it
	OutcomeFromDevice   = Outcome(raw.OUTCOME_FROM_DEVICE)   // the device has enough and no limit is in the way
	OutcomeAfterRelease = Outcome(raw.OUTCOME_AFTER_RELEASE) // if cached memory is released first
	OutcomeFails        = Outcome(raw.OUTCOME_FAILS)
)

// String is the word of the JSON, "from_cache"; "unknown" for a number that is none.
func (o Outcome) String() string { return raw.ReportOutcomeName(narrow(o)) }

// MarshalText is String, for JSON; of a number that is none the number itself.
func (o Outcome) MarshalText() ([]byte, error) { return nameOf(o) }

// UnmarshalText reads what MarshalText writes. ErrInvalidArgument for any other text.
func (o *Outcome) UnmarshalText(text []byte) error { return readName(o, text) }

// Reason is why a request cannot have memory that is not live: the first that applies.
type Reason int

// The reasons.
const (
	ReasonUsable         = Reason(raw.REASON_USABLE)          // it can, or there is no request
	ReasonPendingEvents  = Reason(raw.REASON_PENDING_EVENTS)  // freed; work on recorded streams was left
	ReasonPendingCapture = Reason(raw.REASON_PENDING_CAPTURE) // freed while a capture was under way
	ReasonOtherPool      = Reason(raw.REASON_OTHER_POOL)
	ReasonOtherClass     = Reason(raw.REASON_OTHER_CLASS) // small blocks for a large request, or the other way round
	ReasonOtherStream    = Reason(raw.REASON_OTHER_STREAM)
	ReasonExpandable     = Reason(raw.REASON_EXPANDABLE) // of expandable segments, which the request may not use
	ReasonTooSmall       = Reason(raw.REASON_TOO_SMALL)
	ReasonNotSplit       = Reason(raw.REASON_NOT_SPLIT) // max_split_size_mb forbids to split it for so little
)

// String is the word of the JSON, "too_small"; "unknown" for a number that is none.
func (r Reason) String() string { return raw.ReportReasonName(narrow(r)) }

// MarshalText is String, for JSON; of a number that is none the number itself.
func (r Reason) MarshalText() ([]byte, error) { return nameOf(r) }

// UnmarshalText reads what MarshalText writes. ErrInvalidArgument for any other text.
func (r *Reason) UnmarshalText(text []byte) error { return readName(r, text) }

// ReportNumbers are the numbers of a report. Bytes, where nothing else is said.
type ReportNumbers struct {
	Device  int     `json:"device"`
	Outcome Outcome `json:"outcome"`
	// The request: as asked; rounded to the block it needs; the segment that the driver would be asked for; its
	// stream and its pool. All 0 without a request.
	Requested   uint64 `json:"requested"`
	Size        uint64 `json:"size"`
	SegmentSize uint64 `json:"segment_size"`
	Stream      Stream `json:"stream"`
	Pool        PoolID `json:"pool"`
	// IsSmall: it needs a small block.
	IsSmall     bool   `json:"is_small"`
	DeviceTotal uint64 `json:"device_total"`
	DeviceFree  uint64 `json:"device_free"`
	// Limit 0: none.
	Limit uint64 `json:"limit"`
	// Reserved is Allocated (live), Pending (freed, waiting) and Cached.
	Reserved         uint64 `json:"reserved"`
	Allocated        uint64 `json:"allocated"`
	Pending          uint64 `json:"pending"`
	Cached           uint64 `json:"cached"`
	LargestFreeBlock uint64 `json:"largest_free_block"`
	// Releasable is what a Trim of all could give back.
	Releasable uint64 `json:"releasable"`
	// Asleep is what pools that sleep need to wake; it is not reserved.
	Asleep uint64 `json:"asleep"`
}

// Numbers are what the device has, and what the request comes to.
func (r *Report) Numbers() (numbers ReportNumbers, err error) {
	err = r.do(func(report raw.Report) error {
		n, err := raw.ReportGetNumbers(report)
		numbers = ReportNumbers{
			Device: int(n.Device), Outcome: Outcome(n.Outcome), Requested: n.Requested, Size: n.Size,
			SegmentSize: n.SegmentSize, Stream: Stream(n.Stream), Pool: PoolID(n.Pool), IsSmall: n.IsSmall != 0,
			DeviceTotal: n.DeviceTotal, DeviceFree: n.DeviceFree, Limit: n.Limit, Reserved: n.Reserved,
			Allocated: n.Allocated, Pending: n.Pending, Cached: n.Cached, LargestFreeBlock: n.LargestFreeBlock,
			Releasable: n.Releasable, Asleep: n.Asleep,
		}
		return err
	})
	return numbers, err
}

// ReportHolder is live blocks of one label, tenant, stream and pool.
type ReportHolder struct {
	// Label is as of LabelStats; "": none, or labels are not tracked.
	Label  string `json:"label"`
	Stream Stream `json:"stream"`
	Pool   PoolID `json:"pool"`
	// Blocks is how many; Bytes are theirs, Requested what callers asked for.
	Blocks    uint64 `json:"blocks"`
	Bytes     uint64 `json:"bytes"`
	Requested uint64 `json:"requested"`
	// Tenant is the id; 0: the default tenant.
	Tenant uint32 `json:"tenant"`
}

// Holders are who holds memory, most bytes first.
func (r *Report) Holders() (holders []ReportHolder, err error) {
	err = r.do(func(report raw.Report) error {
		count := raw.ReportHolderCount(report)
		holders = make([]ReportHolder, 0, count)
		for i := range count {
			h, err := raw.ReportGetHolder(report, i)
			if err != nil {
				return err
			}
			holders = append(holders, ReportHolder{h.Label, Stream(h.Stream), PoolID(h.Pool), h.Blocks, h.Bytes,
				h.Requested, h.Tenant})
		}
		return nil
	})
	return holders, err
}

// ReportReason is memory that is not live, by what is in the way.
type ReportReason struct {
	Reason Reason `json:"reason"`
	// Blocks is how many; Bytes are theirs, Largest those of the largest, Releasable what a trim could give back.
	Blocks     uint64 `json:"blocks"`
	Bytes      uint64 `json:"bytes"`
	Largest    uint64 `json:"largest"`
	Releasable uint64 `json:"releasable"`
}

// Reasons are those that there are, most bytes first.
func (r *Report) Reasons() (reasons []ReportReason, err error) {
	err = r.do(func(report raw.Report) error {
		count := raw.ReportReasonCount(report)
		reasons = make([]ReportReason, 0, count)
		for i := range count {
			row, err := raw.ReportGetReason(report, i)
			if err != nil {
				return err
			}
			reasons = append(reasons, ReportReason{Reason(row.Reason), row.Blocks, row.Bytes, row.Largest,
				row.Releasable})
		}
		return nil
	})
	return reasons, err
}

// Advice is, for a request that fails, the line of its error that says which options would have made room; else "".
func (r *Report) Advice() string {
	advice := ""
	_ = r.do(func(report raw.Report) error { advice = raw.ReportAdvice(report); return nil })
	return advice
}

// Text is the report as a table of one screen, for logs.
func (r *Report) Text() (text string, err error) {
	err = r.do(func(report raw.Report) error { text, err = raw.ReportText(report); return err })
	return text, err
}

// JSON is the report as one object; docs/serving.md lists its keys.
func (r *Report) JSON() (text string, err error) {
	err = r.do(func(report raw.Report) error { text, err = raw.ReportJson(report); return err })
	return text, err
}

// MarshalJSON is JSON.
func (r *Report) MarshalJSON() ([]byte, error) {
	text, err := r.JSON()
	return []byte(text), err
}

// Close ends the report. Again: nothing.
func (r *Report) Close() error {
	return r.gate.close(func() error {
		raw.ReportDestroy(r.raw)
		return nil
	})
}
