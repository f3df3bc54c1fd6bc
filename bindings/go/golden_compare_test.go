// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"cachalot.io/go"
)

// scriptLine is one of the library; a failure keeps its kind apart from its text.
type scriptLine struct {
	text   string
	err    error
	atInit bool
}

func (l scriptLine) String() string {
	if l.err != nil {
		return "E " + l.err.Error()
	}
	return l.text
}

// textRules say how texts of errors are compared: all lines of them, or only their kind, where PyTorch's text cannot
// be had.
type textRules struct {
	whole, kindOnly bool
}

// comparison looks whether the library's lines are those of PyTorch.
//
// Contexts are numbers of script lines: the files count the lines of the script, the library those of the file's
// operations. What is left out stands at the top, so the two differ by a constant, which the first pair tells.
type comparison struct {
	leftOut *int
	// descriptors are the library's of those of the file.
	descriptors map[uint32]uint32
}

var contextMark = regexp.MustCompile(`^(# (?:trace|seg|blk|context)(?: .*?)?) line (\d+)(.*)$`)

// firstDifference is the first line that differs, is missing or is one too many; -1: none.
func (c *comparison) firstDifference(expected []string, actual []scriptLine, rules textRules) int {
	both := min(len(expected), len(actual))
	for i := range both {
		if !c.equal(asSimPrints(expected[i]), actual[i], rules) {
			return i
		}
	}
	if len(expected) == len(actual) {
		return -1
	}
	return both
}

func (c *comparison) equal(expected string, actual scriptLine, rules textRules) bool {
	if actual.err != nil {
		line, ok := strings.CutPrefix(expected, "E ")
		return ok && equalErrors(line, actual, rules)
	}
	if strings.HasPrefix(expected, shareLine) {
		return c.sameShared(expected, actual.text)
	}
	if expected == actual.text && !contextMark.MatchString(expected) {
		return true
	}
	return c.sameContext(expected, actual.text)
}

func (c *comparison) sameContext(expected, actual string) bool {
	wanted, found := contextMark.FindStringSubmatch(expected), contextMark.FindStringSubmatch(actual)
	if wanted == nil || found == nil || wanted[1] != found[1] || wanted[3] != found[3] {
		return false
	}
	a, _ := strconv.Atoi(wanted[2])
	b, _ := strconv.Atoi(found[2])
	difference := a - b
	if c.leftOut == nil {
		c.leftOut = &difference
	}
	return difference >= 0 && *c.leftOut == difference
}

func accepts(kind, text string, err error) bool {
	is := func(target error) bool { return errors.Is(err, target) }
	switch kind {
	case "oom":
		var numbers *cachalot.OutOfMemoryError
		return errors.As(err, &numbers)
	case "accelerator":
		return is(cachalot.ErrDriver)
	case "not_implemented":
		return is(cachalot.ErrNotSupported)
	case "value", "index", "type", "invalid_argument", "out_of_range":
		return is(cachalot.ErrInvalidArgument)
	case "error":
		if strings.HasPrefix(text, "CUDA driver error") {
			return is(cachalot.ErrDriver)
		}
		if strings.Contains(text, "does not yet support") || strings.HasPrefix(text, "Calling snapshot") {
			return is(cachalot.ErrNotSupported)
		}
		return is(cachalot.ErrInvalidArgument) || is(cachalot.ErrInvalidState)
	}
	return false
}

const ownLine = "\ncachalot: "

// runtimeTexts: "sim" knows the driver's texts of three codes that the runtime of the files has none for.
var runtimeTexts = strings.NewReplacer("operation not permitted", "error", "operation not supported", "error",
	"invalid resource handle", "error")

func equalErrors(line string, actual scriptLine, rules textRules) bool {
	line, atInit := strings.CutPrefix(line, "init ")
	kind, text, _ := strings.Cut(line, " ")
	if actual.atInit != atInit || !accepts(kind, text, actual.err) {
		return false
	}
	if rules.kindOnly || strings.Contains(text, "INTERNAL ASSERT FAILED") {
		return true
	}
	message := actual.err.Error()
	// Behind PyTorch's text the library puts a line of its own.
	if strings.HasPrefix(text, "CUDA out of memory. ") &&
		text != "CUDA out of memory. Tried to allocate more than 1EB memory." {
		own := strings.LastIndex(message, ownLine)
		if own < 0 || own+len(ownLine) == len(message) || strings.Contains(message[own+len(ownLine):], "\n") {
			return false
		}
		message = message[:own]
	}
	if rules.whole {
		message = strings.ReplaceAll(message, "\n", `\n`)
	} else {
		message, _, _ = strings.Cut(message, "\n")
	}
	if kind == "accelerator" {
		message = runtimeTexts.Replace(message)
	}
	if kind == "accelerator" || strings.HasPrefix(text, "CUDA driver error") {
		message, _, _ = strings.Cut(message, `\n`)
		text, _, _ = strings.Cut(text, `\n`)
	}
	return message == text
}
