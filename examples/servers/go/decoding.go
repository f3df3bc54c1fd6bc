// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
)

// The most pixels that are taken.
const maxPixels = 16 << 20

// badRequest is an error of who asks.
type badRequest struct {
	text string
	// isTooLarge: more bytes or pixels than are taken.
	isTooLarge bool
}

func (e *badRequest) Error() string { return e.text }

func notPNG(err error) error {
	return &badRequest{text: fmt.Sprintf("not a PNG image: %v", err)}
}

func tooManyPixels(number string) error {
	return &badRequest{fmt.Sprintf("the image has %s pixels, at most %d are taken", number, maxPixels), true}
}

// decode takes a PNG image of any kind.
func decode(file []byte) (*picture, error) {
	pixels, err := onlyPixels(file)
	if err != nil {
		return nil, err
	}
	decoded, err := png.Decode(bytes.NewReader(pixels))
	if err != nil {
		return nil, notPNG(err)
	}
	return toPicture(decoded)
}

// toPicture takes the samples as they are in the file. Image.At would multiply colours with alpha, which is dropped
// here.
func toPicture(decoded image.Image) (*picture, error) {
	p := newPicture(decoded.Bounds().Dx(), decoded.Bounds().Dy())
	switch from := decoded.(type) {
	case *image.Gray: // 1, 2 and 4 bits are stretched already
		p.fill(from.Pix, from.Stride, 1, [3]int{0, 0, 0})
	case *image.Gray16: // of two bytes the first is the upper one
		p.fill(from.Pix, from.Stride, 2, [3]int{0, 0, 0})
	case *image.RGBA: // without alpha in the file, so nothing is multiplied
		p.fill(from.Pix, from.Stride, 4, [3]int{0, 1, 2})
	case *image.NRGBA:
		p.fill(from.Pix, from.Stride, 4, [3]int{0, 1, 2})
	case *image.RGBA64:
		p.fill(from.Pix, from.Stride, 8, [3]int{0, 2, 4})
	case *image.NRGBA64:
		p.fill(from.Pix, from.Stride, 8, [3]int{0, 2, 4})
	case *image.Paletted:
		p.look(from)
	default:
		return nil, notPNG(fmt.Errorf("its pixels are %T", decoded))
	}
	return p, nil
}

// fill takes three of the bytes of each pixel.
func (p *picture) fill(from []uint8, stride, size int, channels [3]int) {
	for y := range p.height {
		to, row := p.row(y), from[y*stride:]
		for x := range p.width {
			for i, channel := range channels {
				to[3*x+i] = row[x*size+channel]
			}
		}
	}
}

// look takes each pixel's colour from the palette.
func (p *picture) look(from *image.Paletted) {
	var colours [256][3]uint8 // what the palette does not have is black
	for i, colour := range from.Palette {
		switch c := colour.(type) {
		case color.RGBA:
			colours[i] = [3]uint8{c.R, c.G, c.B}
		case color.NRGBA:
			colours[i] = [3]uint8{c.R, c.G, c.B}
		}
	}
	for y := range p.height {
		to, row := p.row(y), from.Pix[y*from.Stride:]
		for x := range p.width {
			copy(to[3*x:], colours[row[x]][:])
		}
	}
}
