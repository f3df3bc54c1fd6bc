// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"

	ort "github.com/yalue/onnxruntime_go"
)

const (
	// The longer side of what the detection model sees, at most.
	longestSide = 960
	// It halves each side five times.
	detectionUnit = 32
	// From 0 to 255: from where on a place of the map is text, and what a rectangle's text needs on average.
	isText          = 77
	isTextOnAverage = 128
	// Smaller rectangles of the map are dirt.
	leastSide = 3
)

// findText gives rectangles of the picture, from top to bottom, of one height from left to right.
func findText(pool *pool, p *picture) ([]rect, error) {
	width, height := seenSize(p.width, p.height)
	shape := ort.NewShape(1, 3, int64(height), int64(width))
	seen := textMap{width: width, height: height}
	err := pool.run(shape, p.resize(p.all(), width, height).planes(), seen.take)
	if err != nil {
		return nil, err
	}
	found := seen.rects()
	for i := range found {
		found[i] = seen.toPicture(seen.grow(found[i]), p)
	}
	slices.SortFunc(found, func(a, b rect) int {
		return cmp.Or(a.top-b.top, a.left-b.left, a.bottom-b.bottom, a.right-b.right)
	})
	return found, nil
}

// seenSize is sides in multiples of 32, the longer one at most 960.
func seenSize(width, height int) (int, int) {
	longest := max(width, height)
	seen := func(side int) int {
		if longest > longestSide {
			side = (side*longestSide + longest/2) / longest
		}
		return max((side+detectionUnit/2)/detectionUnit*detectionUnit, detectionUnit)
	}
	return seen(width), seen(height)
}

// textMap is how much each place is text, from 0 to 255.
type textMap struct {
	width, height int
	values        []uint8
}

// take is the model's output.
func (m *textMap) take(shape ort.Shape, probabilities []float32) error {
	if !shape.Equals(ort.NewShape(1, 1, int64(m.height), int64(m.width))) {
		return fmt.Errorf("the detection model gave a map of %v", shape)
	}
	m.values = make([]uint8, len(probabilities))
	for i, p := range probabilities {
		// Converted in between: else product and sum could be one operation with one rounding.
		m.values[i] = uint8(float32(p*255) + 0.5)
	}
	return nil
}

// grow makes a rectangle larger, as the model marks the middle of a line: by 1.6 times its area over its
// circumference.
func (m *textMap) grow(r rect) rect {
	by := r.width() * r.height() * 4 / (5 * (r.width() + r.height()))
	return rect{max(r.left-by, 0), max(r.top-by, 0), min(r.right+by, m.width), min(r.bottom+by, m.height)}
}

// toPicture goes from places of the map to those of the picture; nothing of the rectangle is lost.
func (m *textMap) toPicture(r rect, p *picture) rect {
	return rect{
		left:   r.left * p.width / m.width,
		top:    r.top * p.height / m.height,
		right:  ceilDiv(r.right*p.width, m.width),
		bottom: ceilDiv(r.bottom*p.height, m.height),
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// rects are those of pieces of text that are large and sure enough. The map is used up.
func (m *textMap) rects() []rect {
	var found []rect
	for start, value := range m.values {
		if value < isText {
			continue
		}
		r, count, sum := m.takePiece(start)
		if r.width() >= leastSide && r.height() >= leastSide && sum >= count*isTextOnAverage {
			found = append(found, r)
		}
	}
	return found
}

// takePiece takes the places out of the map that are connected with one at sides or corners: their rectangle, their
// number, and the sum of them.
func (m *textMap) takePiece(start int) (r rect, count, sum int) {
	r = rect{m.width, m.height, 0, 0}
	open := []int{start}
	for len(open) > 0 {
		place := open[len(open)-1]
		open = open[:len(open)-1]
		value := m.values[place]
		if value < isText {
			continue // taken already
		}
		m.values[place] = 0
		count++
		sum += int(value)
		x, y := place%m.width, place/m.width
		r = rect{min(r.left, x), min(r.top, y), max(r.right, x+1), max(r.bottom, y+1)}
		open = m.appendNeighbours(open, x, y)
	}
	return r, count, sum
}

// appendNeighbours adds those that are text.
func (m *textMap) appendNeighbours(open []int, x, y int) []int {
	for ny := max(y-1, 0); ny < min(y+2, m.height); ny++ {
		for nx := max(x-1, 0); nx < min(x+2, m.width); nx++ {
			if place := ny*m.width + nx; m.values[place] >= isText {
				open = append(open, place)
			}
		}
	}
	return open
}
