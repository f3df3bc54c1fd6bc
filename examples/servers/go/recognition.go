// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"fmt"
	"strings"

	ort "github.com/yalue/onnxruntime_go"
)

const (
	// The height of what the recognition model sees, and the unit and bounds of its width.
	lineHeight = 48
	lineUnit   = 8
	narrowest  = 2 * lineUnit
	widest     = 2048
	// Text of less is none, in hundredths.
	leastScore = 50
)

// line is what a rectangle says, and how sure the model is, in hundredths.
type line struct {
	text  string
	score int
}

// isNothing: it is too unsure, or white space only.
func (l line) isNothing() bool {
	return l.score < leastScore || strings.TrimSpace(l.text) == ""
}

// alphabet is the model's characters: number 0 is none, the last one a space.
type alphabet []string

// newAlphabet takes one character a line, as the model's metadata "character" has them.
func newAlphabet(lines string) alphabet {
	characters := append(alphabet{""}, strings.Split(lines, "\n")...)
	return append(characters, " ")
}

// decode takes a character for each place of the line; equal neighbours are one.
func (a alphabet) decode(probabilities []float32) line {
	var text strings.Builder
	sum, kept, last := 0.0, 0, 0
	for ; len(probabilities) >= len(a); probabilities = probabilities[len(a):] {
		row := probabilities[:len(a)]
		best := firstHighest(row)
		if best != 0 && best != last {
			text.WriteString(a[best])
			sum += float64(row[best])
			kept++
		}
		last = best
	}
	if kept == 0 {
		return line{}
	}
	// Converted in between: else product and sum could be one operation with one rounding.
	return line{text.String(), int(float64(sum/float64(kept)*100) + 0.5)}
}

func firstHighest(row []float32) int {
	best := 0
	for i, value := range row {
		if value > row[best] {
			best = i
		}
	}
	return best
}

// readText is what a rectangle of the picture says.
func readText(pool *pool, a alphabet, p *picture, r rect) (read line, err error) {
	width := min(max(ceilDiv(ceilDiv(r.width()*lineHeight, r.height()), lineUnit)*lineUnit, narrowest), widest)
	shape := ort.NewShape(1, 3, lineHeight, int64(width))
	planes := p.resize(r, width, lineHeight).planes()
	err = pool.run(shape, planes, func(shape ort.Shape, probabilities []float32) error {
		if len(shape) != 3 || shape[0] != 1 || shape[2] != int64(len(a)) {
			return fmt.Errorf("the recognition model gave %v, not %d characters", shape, len(a))
		}
		read = a.decode(probabilities)
		return nil
	})
	return read, err
}
