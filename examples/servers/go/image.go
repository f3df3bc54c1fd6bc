// SPDX-License-Identifier: MIT OR Apache-2.0

package main

// rect is the first column and row, and those behind the last.
type rect struct {
	left, top, right, bottom int
}

func (r rect) width() int  { return r.right - r.left }
func (r rect) height() int { return r.bottom - r.top }

// picture has 8 bits for each of red, green and blue, row by row.
type picture struct {
	width, height int
	pixels        []uint8
}

func newPicture(width, height int) *picture {
	return &picture{width, height, make([]uint8, width*height*3)}
}

func (p *picture) all() rect { return rect{0, 0, p.width, p.height} }

// row is that of a number, counted from above.
func (p *picture) row(y int) []uint8 {
	return p.pixels[y*p.width*3 : (y+1)*p.width*3]
}

// resize gives a part of the picture in another size, bilinear: each new pixel's middle lies between four old ones, at
// a 256th of a pixel. All arithmetic is of integers, so that every language gets the same.
func (p *picture) resize(part rect, width, height int) *picture {
	columns := make([]between, width)
	for x := range columns {
		columns[x] = newBetween(x, part.width(), width, part.left)
	}
	resized := newPicture(width, height)
	for y := range height {
		row := newBetween(y, part.height(), height, part.top)
		mixRows(resized.row(y), p.row(row.first), p.row(row.second), columns, row)
	}
	return resized
}

// mixRows writes one new row from two old ones.
func mixRows(to, upper, lower []uint8, columns []between, row between) {
	for x, column := range columns {
		first, second := column.first*3, column.second*3
		for channel := range 3 {
			above := column.mix(uint32(upper[first+channel]), uint32(upper[second+channel]))
			below := column.mix(uint32(lower[first+channel]), uint32(lower[second+channel]))
			to[x*3+channel] = uint8((row.mix(above, below) + 32768) >> 16)
		}
	}
}

// planes are blue, green and red, one after the other, each value from -1 to 1.
func (p *picture) planes() []float32 {
	var table [256]float32
	for value := range table {
		table[value] = (float32(value)/255 - 0.5) / 0.5
	}
	size := p.width * p.height
	planes := make([]float32, 3*size)
	blue, green, red := planes[:size], planes[size:2*size], planes[2*size:]
	for i := range size {
		red[i] = table[p.pixels[3*i]]
		green[i] = table[p.pixels[3*i+1]]
		blue[i] = table[p.pixels[3*i+2]]
	}
	return planes
}

// between is two neighbours, and how far the second one counts, in 256ths.
type between struct {
	first, second int
	share         uint32
}

// newBetween is where place to of size new lies in size old places that begin at start.
func newBetween(to, old, size, start int) between {
	middle := (2*to + 1) * old * 256 / (2 * size)
	place := min(max(middle-128, 0), (old-1)*256)
	first := place / 256
	return between{start + first, start + min(first+1, old-1), uint32(place % 256)}
}

func (b between) mix(first, second uint32) uint32 {
	return first*(256-b.share) + second*b.share
}
