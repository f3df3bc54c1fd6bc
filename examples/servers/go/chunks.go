// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	signature = "\x89PNG\r\n\x1a\n"
	// Length and kind before the data of a chunk, and its checksum behind it.
	headBytes, sumBytes = 8, 4
	maxPalette          = 3 * 256
	paletteKind         = 3
)

// samplesOf is how many samples a pixel has, and which depths it may have, by the kind of its colours.
var samplesOf = map[byte]struct {
	count  int
	depths string
}{0: {1, "\x01\x02\x04\x08\x10"}, 2: {3, "\x08\x10"}, paletteKind: {1, "\x01\x02\x04\x08"}, 4: {2, "\x08\x10"}, 6: {4, "\x08\x10"}}

// passes over an interlaced image: the first column and row of each, and the steps to the next.
var passes = [][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}

// chunks are what a PNG file says of its pixels. All else in it is passed over unread, so that a mistake there is
// none of the image, whatever a decoder thinks of it.
type chunks struct {
	head    []byte
	palette []byte
	// data are the compressed rows, in parts.
	data [][]byte
}

// onlyPixels is the same image as a file with nothing but its pixels: every decoder takes it alike. Its size is
// looked at before anything is unpacked.
func onlyPixels(file []byte) ([]byte, error) {
	if !bytes.HasPrefix(file, []byte(signature)) {
		return nil, notPNG(errors.New("it does not begin as one"))
	}
	var c chunks
	for rest, previous := file[len(signature):], ""; previous != "IEND"; {
		if len(rest) < headBytes+sumBytes || uint64(binary.BigEndian.Uint32(rest)) > uint64(len(rest)-headBytes-sumBytes) {
			return nil, notPNG(errors.New("it ends too early"))
		}
		end := headBytes + int(binary.BigEndian.Uint32(rest))
		if err := c.add(previous, rest[4:end], binary.BigEndian.Uint32(rest[end:])); err != nil {
			return nil, err
		}
		previous, rest = string(rest[4:headBytes]), rest[end+sumBytes:]
	}
	return c.rewrite()
}

// add takes a chunk, named and with its data, behind one of the kind `previous`.
func (c *chunks) add(previous string, named []byte, sum uint32) error {
	kind, data := string(named[:4]), named[4:]
	isNeedless := kind[0]&0x20 != 0 // a lower-case letter: whoever does not know the chunk can do without
	if isNeedless && previous != "" {
		return nil
	}
	if crc32.ChecksumIEEE(named) != sum {
		return notPNG(fmt.Errorf("a chunk %q has another checksum", kind))
	}
	isInPlace := (previous == "") == (kind == "IHDR")
	switch kind {
	case "IHDR":
		isInPlace = isInPlace && len(data) == 13
	case "PLTE":
		isInPlace = isInPlace && c.palette == nil && c.data == nil && len(data) > 0 && len(data) <= maxPalette && len(data)%3 == 0
	case "IDAT":
		isInPlace = isInPlace && (c.data == nil || previous == kind)
	case "IEND":
		isInPlace = isInPlace && c.data != nil
	default:
		isInPlace = false
	}
	if !isInPlace {
		return notPNG(fmt.Errorf("a chunk %q of %d bytes is out of place", kind, len(data)))
	}
	switch kind {
	case "IHDR":
		c.head = data
		return c.checkHead()
	case "PLTE":
		c.palette = data
	case "IDAT":
		c.data = append(c.data, data)
	}
	return nil
}

func (c *chunks) width() uint64  { return uint64(binary.BigEndian.Uint32(c.head)) }
func (c *chunks) height() uint64 { return uint64(binary.BigEndian.Uint32(c.head[4:])) }
func (c *chunks) depth() int     { return int(c.head[8]) }

func (c *chunks) checkHead() error {
	const longest = 1<<31 - 1
	width, height := c.width(), c.height()
	areSides := width > 0 && height > 0 && width <= longest && height <= longest
	isKind := bytes.IndexByte([]byte(samplesOf[c.head[9]].depths), c.head[8]) >= 0
	if !areSides || !isKind || c.head[10] != 0 || c.head[11] != 0 || c.head[12] > 1 {
		return notPNG(fmt.Errorf("its head is % x", c.head))
	}
	if width*height > maxPixels {
		return tooManyPixels(fmt.Sprintf("%d x %d", width, height))
	}
	return nil
}

// rowBytes is how many bytes all rows have, unpacked, each with the number of its filter.
func (c *chunks) rowBytes() int64 {
	over := [][4]int{{0, 0, 1, 1}}
	if c.head[12] == 1 {
		over = passes
	}
	total := 0
	for _, pass := range over {
		columns := max(0, (int(c.width())-pass[0]+pass[2]-1)/pass[2])
		rows := max(0, (int(c.height())-pass[1]+pass[3]-1)/pass[3])
		if columns > 0 {
			total += rows * (1 + (columns*samplesOf[c.head[9]].count*c.depth()+7)/8)
		}
	}
	return int64(total)
}

func (c *chunks) rewrite() ([]byte, error) {
	file := bytes.NewBufferString(signature)
	writeChunk(file, "IHDR", c.head)
	if c.head[9] == paletteKind {
		if c.palette == nil {
			return nil, notPNG(errors.New("it has no palette"))
		}
		whole := make([]byte, 3<<c.depth()) // what the palette does not have is black
		copy(whole, c.palette)
		writeChunk(file, "PLTE", whole)
	}
	packed, err := c.repack()
	if err != nil {
		return nil, err
	}
	writeChunk(file, "IDAT", packed)
	writeChunk(file, "IEND", nil)
	return file.Bytes(), nil
}

// repack is the compressed rows. Bytes behind them, their checksum too, are ignored.
func (c *chunks) repack() ([]byte, error) {
	parts := make([]io.Reader, len(c.data))
	for i, part := range c.data {
		parts[i] = bytes.NewReader(part)
	}
	rows, err := zlib.NewReader(io.MultiReader(parts...))
	if err != nil {
		return nil, notPNG(err)
	}
	var packed bytes.Buffer
	packer, err := zlib.NewWriterLevel(&packed, zlib.BestSpeed)
	if err == nil {
		_, err = io.CopyN(packer, rows, c.rowBytes())
	}
	if err == nil {
		err = packer.Close()
	}
	if err != nil {
		return nil, notPNG(fmt.Errorf("its pixels: %w", err))
	}
	return packed.Bytes(), nil
}

func writeChunk(file *bytes.Buffer, kind string, data []byte) {
	named := append([]byte(kind), data...)
	file.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
	file.Write(named)
	file.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(named)))
}
