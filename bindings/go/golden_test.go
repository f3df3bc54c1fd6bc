// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cachalot.io/go"
)

// What PyTorch's own allocator did, line for line: recorded scripts are replayed through this package over the
// driver "sim", which hands out the recorded addresses, and every T, D, R, E, = and # line must be equal.
// tests/oracle/FORMAT.md describes the files; CACHALOT_GOLDEN_DIR names their place, if that is not the repository's.

// One file a profile, the five cases that reach the most of the interface, two files each of pinned memory and of
// checkpoints, and five of memory between processes: those of the other bindings.
var chosen2_11 = []string{
	"09-everything-195", "11-large-223", "03-streams-67", "12-limit_record-250", "10-record-208", "08-settings-174",
	"13-limit-269", "16-small-322", "17-mixed-341", "05-training-105", "06-edge-124", "20-serving-406", "07-oom-151",
	"18-fail-372", "09-pools-193",
	"cases/contexts", "cases/callback", "cases/fallback-pools", "cases/e08-capture-reuse", "cases/e16-async-backend",
	"pinned-07-reserve-203", "pinned-15-captures-207", "checkpoints-06-streams-107", "checkpoints-17-options-116",
	"sharing-06-refused-137", "sharing-11-peers-141", "cases/sharing-pages", "cases/sharing-fabric",
	"cases/sharing-forged",
}

// The same of release 2.15; its cases are of what is new in it.
var chosen2_15 = []string{
	"13-everything-20275", "17-large-20343", "09-streams-20187", "14-limit_record-20290", "16-record-20328",
	"10-settings-20214", "11-limit-20229", "26-small-20522", "15-mixed-20301", "19-training-20385", "20-edge-20404",
	"18-serving-20366", "21-oom-20431", "24-fail-20492", "23-pools-20473",
	"cases/r50-at-an-address", "cases/r65-reserve", "cases/r31-rejection", "cases/e08-capture-reuse",
	"cases/r70-async",
	"pinned-07-reserve-203", "pinned-15-captures-207", "checkpoints-06-streams-107", "checkpoints-17-options-116",
	"sharing-06-refused-137", "sharing-11-peers-141", "cases/sharing-pages", "cases/r60-fabric", "cases/r61-forged",
}

// What cannot be replayed here: a process's environment is not the test's to change.
var leftOut = []string{"e04-two-variables", "e28-caching-off", "sharing-without-handles"}

func goldenFolder(release cachalot.Release) string {
	folder := os.Getenv("CACHALOT_GOLDEN_DIR")
	if folder == "" {
		folder = filepath.Join("..", "..", "tests", "golden")
	}
	return filepath.Join(folder, fmt.Sprintf("%d.%d", release/100, release%100))
}

// operation is one of a script, with the lines that PyTorch's allocator printed under it.
type operation struct {
	line, word string
	expected   []string
	number     int
}

func readGolden(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(unpacked)
	return string(text), err
}

func parseScript(text string) []*operation {
	var operations []*operation
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if expected, ok := strings.CutPrefix(line, " "); ok {
			last := operations[len(operations)-1]
			last.expected = append(last.expected, expected)
			continue
		}
		word := line
		if end := strings.IndexAny(line, " \t"); end >= 0 {
			word = line[:end]
		}
		operations = append(operations, &operation{line: line, word: word, number: i + 1})
	}
	return operations
}

func replayFile(path string, release cachalot.Release) (int, error) {
	text, err := readGolden(path)
	if err != nil {
		return 0, err
	}
	return replayScript(parseScript(text), release)
}

func replayChosen(t *testing.T, release cachalot.Release, chosen []string) {
	for _, name := range chosen {
		t.Run(name, func(t *testing.T) {
			lines, err := replayFile(filepath.Join(goldenFolder(release), name+".txt.gz"), release)
			if err != nil || lines == 0 {
				t.Errorf("%d lines were compared: %v", lines, err)
			}
		})
	}
}

func TestChosenGoldenFilesOf2_11(t *testing.T) { replayChosen(t, cachalot.Release2_11, chosen2_11) }

func TestChosenGoldenFilesOf2_15(t *testing.T) { replayChosen(t, cachalot.Release2_15, chosen2_15) }

func replayRest(t *testing.T, release cachalot.Release) {
	if testing.Short() {
		t.Skip("with -short the files that are chosen are enough")
	}
	var files, failed []string
	for _, pattern := range []string{"*.gz", "cases/*.gz"} {
		found, err := filepath.Glob(filepath.Join(goldenFolder(release), pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	reasons := ""
	for _, file := range files {
		if _, err := replayFile(file, release); err != nil {
			failed = append(failed, strings.TrimSuffix(filepath.Base(file), ".txt.gz"))
			reasons += fmt.Sprintf("\n%s: %v", file, err)
		}
	}
	slices.Sort(failed)
	if len(files) < 60 || !slices.Equal(failed, leftOut) {
		t.Errorf("of %d files these cannot be replayed: %v%s", len(files), failed, reasons)
	}
}

func TestAllGoldenFilesOf2_11ButThoseThatAreListed(t *testing.T) {
	replayRest(t, cachalot.Release2_11)
}

func TestAllGoldenFilesOf2_15ButThoseThatAreListed(t *testing.T) {
	replayRest(t, cachalot.Release2_15)
}

// A comparison that finds nothing proves nothing: the last line of each kind, changed, is found.
func TestAChangedGoldenLineIsFound(t *testing.T) {
	for name, starts := range map[string][]string{
		"06-serving-126":        {"T alloc ", "D malloc ", "R ", "= allocated_bytes.all ", "# blk "},
		"pinned-07-reserve-203": {"D host_alloc ", "R ", "# known", "= host_allocations "},
		"cases/checkpoint":      {"X freed ", "X created ", "T alloc "},
		"cases/sharing-pages":   {"# share ", "# imported ", "D export ", "D import "},
		"cases/sharing-forged":  {"E error ", "# imported "},
	} {
		text, err := readGolden(filepath.Join(goldenFolder(cachalot.Release2_11), name+".txt.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range starts {
			if _, err := replayScript(parseScript(changeLast(t, text, start)), cachalot.Release2_11); err == nil {
				t.Errorf("%s: %q was not looked at", name, start)
			}
		}
	}
}

func changeLast(t *testing.T, text, start string) string {
	place := strings.LastIndex(text, "\n "+start) + 1
	if place == 0 {
		t.Fatalf("%q does not occur", start)
	}
	end := place + strings.IndexByte(text[place:], '\n')
	changed := text[place:end] + "0"
	switch {
	case start == shareLine: // The last descriptor becomes the first one of the file.
		changed = text[place:end-8] + "85030000"
	case strings.HasPrefix(start, "D "): // An address's last digit would also be what the device is told to give.
		changed = strings.Replace(text[place:end], strings.Fields(text[place:end])[2], "512", 1)
	}
	return text[:place] + changed + text[end:]
}
