// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"
)

const (
	grey      = 0
	colour    = 2
	palette   = 3
	greyAlpha = 4
	withAlpha = 6
)

// pngOf writes an image of one row; more are chunks before its pixels.
func pngOf(width, height uint32, depth, kind uint8, row []byte, more ...[]byte) []byte {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), height)
	var pixels bytes.Buffer
	packed := zlib.NewWriter(&pixels)
	packed.Write(append([]byte{0}, row...)) // 0: no filter
	packed.Close()
	file := append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", append(head, depth, kind, 0, 0, 0)...)...)
	file = append(file, slices.Concat(more...)...)
	return append(append(file, chunk("IDAT", pixels.Bytes()...)...), chunk("IEND")...)
}

func chunk(name string, data ...byte) []byte {
	named := append([]byte(name), data...)
	sized := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), named...)
	return binary.BigEndian.AppendUint32(sized, crc32.ChecksumIEEE(named))
}

func TestEachKindOfImageBecomesEightBitsOfRedGreenAndBlue(t *testing.T) {
	colours := chunk("PLTE", 1, 2, 3, 4, 5, 6)
	for name, c := range map[string]struct {
		file   []byte
		pixels []byte
	}{
		"1 bit of grey":            {pngOf(2, 1, 1, grey, []byte{0x40}), []byte{0, 0, 0, 255, 255, 255}},
		"2 bits of grey":           {pngOf(2, 1, 2, grey, []byte{0x60}), []byte{85, 85, 85, 170, 170, 170}},
		"4 bits of grey":           {pngOf(2, 1, 4, grey, []byte{0x1e}), []byte{17, 17, 17, 238, 238, 238}},
		"8 bits of grey":           {pngOf(2, 1, 8, grey, []byte{7, 200}), []byte{7, 7, 7, 200, 200, 200}},
		"16 bits of grey":          {pngOf(1, 1, 16, grey, []byte{7, 255}), []byte{7, 7, 7}},
		"1 transparent bit":        {pngOf(2, 1, 1, grey, []byte{0x40}, chunk("tRNS", 0, 1)), []byte{0, 0, 0, 255, 255, 255}},
		"16 transparent bits":      {pngOf(1, 1, 16, grey, []byte{7, 255}, chunk("tRNS", 7, 255)), []byte{7, 7, 7}},
		"grey with alpha":          {pngOf(2, 1, 8, greyAlpha, []byte{7, 0, 200, 9}), []byte{7, 7, 7, 200, 200, 200}},
		"16 bits grey with alpha":  {pngOf(1, 1, 16, greyAlpha, []byte{7, 1, 0, 0}), []byte{7, 7, 7}},
		"colour":                   {pngOf(1, 1, 8, colour, []byte{7, 8, 9}), []byte{7, 8, 9}},
		"a transparent colour":     {pngOf(1, 1, 8, colour, []byte{7, 8, 9}, chunk("tRNS", 0, 7, 0, 8, 0, 9)), []byte{7, 8, 9}},
		"16 bits of colour":        {pngOf(1, 1, 16, colour, []byte{7, 1, 8, 1, 9, 1}), []byte{7, 8, 9}},
		"colour with alpha":        {pngOf(1, 1, 8, withAlpha, []byte{7, 8, 9, 0}), []byte{7, 8, 9}},
		"16 bits with alpha":       {pngOf(1, 1, 16, withAlpha, []byte{7, 1, 8, 1, 9, 1, 0, 1}), []byte{7, 8, 9}},
		"a palette":                {pngOf(2, 1, 1, palette, []byte{0x40}, colours), []byte{1, 2, 3, 4, 5, 6}},
		"a transparent palette":    {pngOf(2, 1, 8, palette, []byte{0, 1}, colours, chunk("tRNS", 0)), []byte{1, 2, 3, 4, 5, 6}},
		"more than the palette":    {pngOf(2, 1, 8, palette, []byte{1, 2}, colours), []byte{4, 5, 6, 0, 0, 0}},
		"more than the last row":   {pngOf(1, 1, 8, grey, []byte{7, 7}), []byte{7, 7, 7}},
		"more after the last part": {append(pngOf(1, 1, 8, grey, []byte{7}), "more"...), []byte{7, 7, 7}},
	} {
		p, err := decode(c.file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(p.pixels, c.pixels) {
			t.Errorf("%s: %v, not %v", name, p.pixels, c.pixels)
		}
	}
}

func TestTooManyPixelsAreTooLargeBeforeTheyAreDecoded(t *testing.T) {
	for _, sides := range [][2]uint32{{maxPixels + 1, 1}, {20000, 20000}, {1 << 30, 1 << 30}, {1<<31 - 1, 1<<31 - 1}} {
		_, err := decode(pngOf(sides[0], sides[1], 8, colour, nil))
		var bad *badRequest
		if !errors.As(err, &bad) || !bad.isTooLarge {
			t.Errorf("%d: %v", sides, err)
		}
	}
}

func TestWhatIsNoImageIsABadRequestThatIsNotTooLarge(t *testing.T) {
	file := pngOf(1, 1, 8, grey, []byte{7})
	for name, data := range map[string][]byte{
		"nothing":          nil,
		"no side":          pngOf(0, 1, 8, grey, nil),
		"a negative side":  pngOf(1<<31, 1, 8, grey, nil),
		"too few pixels":   pngOf(2, 1, 8, grey, []byte{7}),
		"no palette":       pngOf(1, 1, 8, palette, []byte{0}),
		"3 bits":           pngOf(1, 1, 3, grey, []byte{0}),
		"another checksum": append(slices.Clone(file[:len(file)-1]), 0),
		"half of it":       file[:len(file)/2],
	} {
		_, err := decode(data)
		var bad *badRequest
		if !errors.As(err, &bad) || bad.isTooLarge {
			t.Errorf("%s: %v", name, err)
		}
	}
}
