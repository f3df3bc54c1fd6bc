// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"encoding/binary"
	bytesOf "encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"cachalot.io/go"
)

// The words of memory between processes; both ends are this process. The descriptors of "sim" are the system's, so
// their numbers are not those of the file: each of the file stands for one of the library's.

const (
	shareLine         = "# share "
	errorNotSupported = 801
)

func (s *script) sharing(word string, w *words) bool {
	switch word {
	case "sharing":
		s.opensShared = w.number() != 0
	case "share":
		if shared, ok := s.share(w.signed()); ok {
			s.answer("share %d %x", shared.Offset, shared.Data)
		}
	case "import":
		id := w.signed()
		if shared, ok := s.share(id); ok {
			s.open(id, shared.Data)
		}
	case "open":
		id := w.signed()
		data, err := bytesOf.DecodeString(w.rest())
		must(err)
		s.open(id, data)
	case "import_close":
		s.closeImported(w.signed())
	default:
		return false
	}
	return true
}

func (s *script) share(id int64) (cachalot.SharedHandle, bool) {
	block := s.live[id]
	if block == nil {
		return cachalot.SharedHandle{}, false
	}
	shared, err := s.allocator.Share(block.Address())
	return shared, s.did(err)
}

// open: of an id that has one open already the new one comes first, as in the oracle.
func (s *script) open(id int64, data []byte) {
	if !s.opensShared {
		data = s.refuse(data)
	}
	opened, err := s.allocator.OpenShared(0, cachalot.SharedHandle{Data: data})
	s.order(cachalot.SimFailure{Calls: cachalot.SimImport})
	if !s.did(err) {
		return
	}
	s.closeImported(id)
	s.imported[id] = opened
	s.answer("imported %x", uint64(opened.Address()))
}

func (s *script) closeImported(id int64) {
	if opened := s.imported[id]; opened != nil {
		s.did(opened.Close())
		delete(s.imported, id)
	}
}

// refuse gives bytes that cannot be opened where the script's device knows no segments and has no descriptors.
func (s *script) refuse(data []byte) []byte {
	switch pages, isPages := pagesOf(data); {
	case !isPages:
		s.order(cachalot.SimFailure{Calls: cachalot.SimImport, Code: errorNotSupported})
	case pages.hasDescriptors:
		data = slices.Clone(data)
		for at := pages.header; at < len(data); at += 4 {
			binary.NativeEndian.PutUint32(data[at:], math.MaxInt32)
		}
	}
	return data
}

// ---- PyTorch's bytes ----

// sharedPages say where the handles of pages begin, and whether they are descriptors.
type sharedPages struct {
	header         int
	hasDescriptors bool
}

// pagesOf reads a version, a kind, the process, padding, the bytes of a page, the number of pages, and from version 3
// on the kind of their handles and padding.
func pagesOf(data []byte) (pages sharedPages, isPages bool) {
	const header, withKind = 26, 34
	if len(data) < header || len(data) == 64 || data[1] != 'e' {
		return pages, false
	}
	if data[0] >= 3 && len(data) >= withKind {
		return sharedPages{withKind, binary.NativeEndian.Uint32(data[header:]) == 1}, true
	}
	count := binary.NativeEndian.Uint64(data[header-8:])
	return sharedPages{header, uint64(len(data)-header) == 4*count}, true
}

// sharedText is a line cut at what differs from run to run: the process, padding that PyTorch leaves as it finds it,
// and descriptors.
type sharedText struct {
	constant    string
	descriptors []uint32
}

func cutShared(line string) (cut sharedText, err error) {
	offset, digits, _ := strings.Cut(strings.TrimPrefix(line, shareLine), " ")
	data, err := bytesOf.DecodeString(digits)
	pages, isPages := pagesOf(data)
	if isPages {
		clear(data[2:10])
		clear(data[min(30, pages.header):pages.header])
	}
	if pages.hasDescriptors {
		for at := pages.header; at < len(data); at += 4 {
			cut.descriptors = append(cut.descriptors, binary.NativeEndian.Uint32(data[at:]))
		}
		data = data[:pages.header]
	}
	cut.constant = fmt.Sprintf("%s %x", offset, data)
	return cut, err
}

func (c *comparison) sameShared(expected, actual string) bool {
	wanted, err := cutShared(expected)
	must(err)
	found, err := cutShared(actual)
	must(err)
	if wanted.constant != found.constant || len(wanted.descriptors) != len(found.descriptors) {
		return false
	}
	if c.descriptors == nil {
		c.descriptors = map[uint32]uint32{}
	}
	for i, ours := range found.descriptors {
		theirs := wanted.descriptors[i]
		if _, isKnown := c.descriptors[theirs]; !isKnown {
			c.descriptors[theirs] = ours
		}
		if c.descriptors[theirs] != ours || slices.Contains(found.descriptors[:i], ours) {
			return false
		}
	}
	return true
}
