// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import "cachalot.io/go/internal/raw"

// ExpandableSegment is one expandable segment.
type ExpandableSegment struct {
	Stream Stream `json:"stream"`
	// MappedSize is what is backed by memory, in bytes.
	MappedSize uint64 `json:"mapped_size"`
	IsSmall    bool   `json:"is_small"`
}

// ExpandableTotals is the address space that all expandable segments of all devices reserve.
type ExpandableTotals struct {
	Bytes uint64 `json:"bytes"`
	Count uint64 `json:"count"`
}

// Reserve is the address space that segments of a reserve class get.
type Reserve struct {
	// HasReserve: an option or a default applies, of ReserveBytes.
	HasReserve bool `json:"has_reserve"`
	// IsClassKnown: the class has an entry of its own.
	IsClassKnown bool   `json:"is_class_known"`
	ReserveBytes uint64 `json:"reserve_bytes"`
	// SegmentBytes is what a new segment gets, before it is rounded up to pages.
	SegmentBytes uint64 `json:"segment_bytes"`
}

// ExpandableSegments are those of a device in the order of their creation, those of the default stream left out.
func (a *Allocator) ExpandableSegments(device int) ([]ExpandableSegment, error) {
	found, err := ask(a, func(r raw.Allocator) ([]raw.ExpandableSegment, error) {
		return raw.ExpandableSegments(r, narrow(device))
	})
	segments := make([]ExpandableSegment, len(found))
	for i, row := range found {
		segments[i] = ExpandableSegment{Stream(row.Stream), row.MappedSize, row.IsSmall != 0}
	}
	return segments, err
}

// ExpandableTotals is the address space that all expandable segments of all devices reserve.
func (a *Allocator) ExpandableTotals() (totals ExpandableTotals, err error) {
	err = a.do(func(r raw.Allocator) error {
		totals.Bytes, totals.Count, err = raw.ExpandableTotals(r)
		return err
	})
	return totals, err
}

// SetReserveClass gives a stream a reserve class; "" takes it away. ErrNotSupported under Release2_11.
func (a *Allocator) SetReserveClass(stream Stream, name string) error {
	if err := checkText(name); err != nil {
		return err
	}
	return a.do(func(r raw.Allocator) error { return raw.SetReserveClass(r, raw.Stream(stream), name) })
}

// ReserveClass is a stream's reserve class; "": none.
func (a *Allocator) ReserveClass(stream Stream) (string, error) {
	return ask(a, func(r raw.Allocator) (string, error) { return raw.GetReserveClass(r, raw.Stream(stream)) })
}

// SetDefaultReserve sets a class's reserve, where no option names one: a share of the device's memory, above 0.
func (a *Allocator) SetDefaultReserve(name string, fraction float64) error {
	if err := checkText(name); err != nil {
		return err
	}
	return a.do(func(r raw.Allocator) error { return raw.SetDefaultReserve(r, name, fraction) })
}

// Reserve is what a class gets on a device; "": streams without one.
func (a *Allocator) Reserve(device int, name string) (Reserve, error) {
	if err := checkText(name); err != nil {
		return Reserve{}, err
	}
	c, err := ask(a, func(r raw.Allocator) (raw.Reserve, error) { return raw.GetReserve(r, narrow(device), name) })
	return Reserve{c.HasReserve != 0, c.IsClassKnown != 0, c.ReserveBytes, c.SegmentBytes}, err
}
