// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"fmt"
	"strconv"
	"strings"

	"cachalot.io/go/internal/raw"
)

// PolicyKind is whose decisions are made.
type PolicyKind int

// The kinds.
const (
	// PolicyDefault is that of the environment variable CACHALOT_POLICY, with its options, else PolicyPyTorch.
	PolicyDefault = PolicyKind(raw.POLICY_DEFAULT)
	PolicyPyTorch = PolicyKind(raw.POLICY_PYTORCH)
	// PolicyServing is cachalot's own, which needs less memory (docs/policy.md).
	PolicyServing = PolicyKind(raw.POLICY_SERVING)
)

// Borrow is when the serving policy lends cached memory of one stream to another. The borrower waits for the lender's
// work, on the device (Policy.AnnouncedStreams).
type Borrow int

// The values.
const (
	BorrowFirst   = Borrow(raw.BORROW_FIRST)    // before new pages are obtained: the least memory
	BorrowAtLimit = Borrow(raw.BORROW_AT_LIMIT) // where no new page is to be had: streams wait for each other seldom
	BorrowNever   = Borrow(raw.BORROW_NEVER)    // streams never wait for each other
)

// String is the name that the text of a policy has.
func (b Borrow) String() string {
	switch b {
	case BorrowFirst:
		return "first"
	case BorrowAtLimit:
		return "at_limit"
	case BorrowNever:
		return "never"
	}
	return strconv.Itoa(int(b))
}

// Policy is whose decisions an allocator or a replay makes. Its text (ParsePolicy, String, and what it is in JSON) is
// that of the environment variable CACHALOT_POLICY: "serving,thrift,page=8MiB,borrow=at_limit,streams=announced". The
// zero value has an empty text.
type Policy struct {
	Kind PolicyKind
	// Thrift, Borrow and AnnouncedStreams are zero unless Kind is PolicyServing.

	// Thrift: idle pages of the cache serve before new ones, so that no more is reserved than is needed.
	Thrift bool
	Borrow Borrow
	// AnnouncedStreams is a promise: the program calls Allocator.StreamEnded before it destroys a stream, or destroys
	// none. With it a borrower waits for the lender's stream alone, by its handle; CUDA's driver ends the process at the
	// handle of a stream that is gone. Without it a borrower waits for all work that the device has been given, and no
	// handle but the request's own is used.
	AnnouncedStreams bool
	// PageBytes is a power of two, a multiple of the driver's granularity, at most 1 GiB; 0: 2 MiB, or the granularity
	// if that is more. With PolicyPyTorch it is the page of expandable segments, and 0 means PyTorch's: with any other
	// the events are not PyTorch's any more. 0 with PolicyDefault.
	PageBytes uint64
}

// ParsePolicy reads "pytorch", also with a page, or "serving" and any of its options. ErrInvalidArgument for any other
// text, with what was expected.
func ParsePolicy(text string) (Policy, error) {
	if err := checkLibrary(); err != nil {
		return Policy{}, err
	}
	if err := checkText(text); err != nil {
		return Policy{}, err
	}
	policy, err := raw.PolicyRead(text)
	return policyOf(policy), wrap(err)
}

func policyOf(p raw.Policy) Policy {
	return Policy{Kind: PolicyKind(p.Policy), Thrift: p.Thrift != 0, Borrow: Borrow(p.Borrow),
		AnnouncedStreams: p.Streams == raw.STREAMS_ANNOUNCED, PageBytes: p.PageBytes}
}

// String is the text of the policy, without what is the default.
func (p Policy) String() string {
	var text strings.Builder
	switch p.Kind {
	case PolicyDefault:
	case PolicyPyTorch:
		text.WriteString("pytorch")
	case PolicyServing:
		text.WriteString("serving")
	default:
		fmt.Fprintf(&text, "policy %d", int(p.Kind))
	}
	if p.Thrift {
		text.WriteString(",thrift")
	}
	if p.PageBytes != 0 {
		text.WriteString(",page=" + sizeText(p.PageBytes))
	}
	if p.Borrow != BorrowFirst {
		text.WriteString(",borrow=" + p.Borrow.String())
	}
	if p.AnnouncedStreams {
		text.WriteString(",streams=announced")
	}
	return text.String()
}

// sizeText is a whole number of the largest unit that there is.
func sizeText(bytes uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	unit := 0
	for unit+1 < len(units) && bytes%1024 == 0 {
		bytes /= 1024
		unit++
	}
	return strconv.FormatUint(bytes, 10) + units[unit]
}

// MarshalText is String.
func (p Policy) MarshalText() ([]byte, error) {
	return []byte(p.String()), nil
}

// UnmarshalText is ParsePolicy; an empty text is the zero value.
func (p *Policy) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*p = Policy{}
		return nil
	}
	*p, err = ParsePolicy(string(text))
	return err
}

// WithPolicy chooses whether PyTorch's decisions are made or those of the serving policy.
//
//	allocator, err := cachalot.Open(cachalot.WithPolicy(cachalot.Policy{Kind: cachalot.PolicyServing, Thrift: true}))
//
// ErrInvalidArgument of Open for options that the policy does not have and for a page that cannot be; ErrNotSupported
// for a driver without virtual memory.
func WithPolicy(policy Policy) Option {
	return func(o *opening) {
		o.options.Policy = narrow(policy.Kind)
		o.options.Thrift = flag(policy.Thrift)
		o.options.Borrow = narrow(policy.Borrow)
		o.options.Streams = flag(policy.AnnouncedStreams)
		o.options.PageBytes = policy.PageBytes
	}
}

// Policy is the one in force, with the size of its pages. It lasts as long as the allocator.
func (a *Allocator) Policy() (Policy, error) {
	policy, err := ask(a, raw.GetPolicy)
	return policyOf(policy), err
}

// PolicyStats is what the policy has done on a device: sums since the allocator was made, which nothing resets, but
// for PinnedBytes; 0 where PyTorch's decisions are made.
type PolicyStats struct {
	// PagesCreated were obtained from the driver, PagesReleased given back to it. PagesMoved went from cached blocks
	// to where they were missing.
	PagesCreated  uint64 `json:"pages_created"`
	PagesMoved    uint64 `json:"pages_moved"`
	PagesReleased uint64 `json:"pages_released"`
	// BlocksBorrowed counts requests served by a cached block of another stream.
	BlocksBorrowed uint64 `json:"blocks_borrowed"`
	// StreamWaits is how often a stream was made to wait for another, on the device; HostWaits how often a call waited
	// for a stream or the device.
	StreamWaits uint64 `json:"stream_waits"`
	HostWaits   uint64 `json:"host_waits"`
	// PinnedBytes are those of pages and plain segments that are pinned now (Allocator.Pin), under either policy.
	PinnedBytes uint64 `json:"pinned_bytes"`
}

// PolicyStats is what the policy has done on a device.
func (a *Allocator) PolicyStats(device int) (PolicyStats, error) {
	stats, err := ask(a, func(r raw.Allocator) (raw.PolicyStats, error) { return raw.GetPolicyStats(r, narrow(device)) })
	return PolicyStats(stats), err
}

// StreamEnded says that a stream is about to be destroyed and that no more work comes of it. It waits for the stream's
// work; then nothing waits for the stream any more, also not for blocks of its that are freed later. With
// Policy.AnnouncedStreams call it before the stream is destroyed: a borrower of its memory would wait for it by its
// handle. With PyTorch's decisions nothing happens.
//
// ErrInvalidState while a capture may be under way on the device; ErrDriver where the work has failed: then nothing has
// changed.
func (a *Allocator) StreamEnded(device int, stream Stream) error {
	return a.do(func(r raw.Allocator) error { return raw.StreamEnded(r, narrow(device), raw.Stream(stream)) })
}

// Pin is a part of a block that stays where it is until the pin is closed, also after the block was closed. It keeps
// its allocator from being collected. Any goroutine may close it.
type Pin struct {
	allocator *Allocator
	address   Address
	size      uint64
	gate      *gate
}

// Pin keeps size bytes of a live block where they are until the pin is closed: the segment or the pages under them are
// neither given back to the driver nor moved, also after the block was freed. Blocks come and go there as before. It is
// for memory that others have registered: RDMA, dma-buf, NCCL's user buffers, handles given to other processes.
//
// The caller closes it. ErrInvalidArgument for a part that does not lie in one live block, also of a block that
// bypassed the cache; ErrNotSupported under Backend("cudaMallocAsync").
func (a *Allocator) Pin(address Address, size uint64) (*Pin, error) {
	err := a.do(func(r raw.Allocator) error { return raw.Pin(r, raw.Address(address), size) })
	if err != nil {
		return nil, err
	}
	p := &Pin{allocator: a, address: address, size: size, gate: newGate("pin", 1)}
	watchWithin(p, p.gate, a.gate)
	return p, nil
}

// Pin keeps what was requested of the block where it is; see Allocator.Pin. ErrInvalidArgument for an empty block,
// which has no memory.
func (b *Block) Pin() (*Pin, error) {
	return b.PinRange(0, b.size)
}

// PinRange is Pin for size bytes of the block from an offset on. ErrInvalidArgument also for a part that goes beyond
// what was requested.
func (b *Block) PinRange(offset, size uint64) (*Pin, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if offset > b.size || size > b.size-offset {
		return nil, argumentError(fmt.Sprintf("%d bytes from %d on are not within a block of %d bytes", size, offset, b.size))
	}
	return b.allocator.Pin(b.address+Address(offset), size)
}

// Address is the first byte that is pinned.
func (p *Pin) Address() Address { return p.address }

// Size is how many bytes from there on are pinned.
func (p *Pin) Size() uint64 { return p.size }

// Allocator is whose memory it is.
func (p *Pin) Allocator() *Allocator { return p.allocator }

// Close ends the pin. Again, or after its allocator: nothing.
func (p *Pin) Close() error {
	return p.gate.close(unlessGone(func() error {
		return p.allocator.do(func(r raw.Allocator) error { return raw.Unpin(r, raw.Address(p.address), p.size) })
	}))
}

// String has address and size.
func (p *Pin) String() string {
	return fmt.Sprintf("Pin(%#x, %d bytes%s)", uint64(p.address), p.size, p.gate.closedMark())
}
