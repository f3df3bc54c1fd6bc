// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"math"
	"strings"
	"testing"

	"cachalot.io/go"
)

func TestAChangeIsWhatTheObjectNames(t *testing.T) {
	wanted, err := parseChange([]byte(` {"config": "a:1", "memory_limit_bytes": null, "idle_ms": 9223372036854775807 } `))
	if err != nil {
		t.Fatal(err)
	}
	if *wanted.config != "a:1" || *wanted.limit != cachalot.NoLimit || *wanted.idleMS != math.MaxInt64 ||
		wanted.watermark != nil {
		t.Errorf("%+v", wanted)
	}
}

func TestWhatIsNoSuchObjectChangesNothing(t *testing.T) {
	for _, body := range []string{
		"", " ", "null", "[]", "5", "{", `{"idle_ms": 1} {}`, "\xef\xbb\xbf{}", strings.Repeat(`{"config":`, 20000),
		`{"idle_ms": -1}`, `{"idle_ms": -0}`, `{"idle_ms": 1.0}`, `{"idle_ms": 1e3}`, `{"idle_ms": 1e400}`,
		`{"idle_ms": 01}`, `{"idle_ms": "1"}`, `{"idle_ms": null}`, `{"idle_ms": 18446744073709551616}`,
		`{"IDLE_MS": 1}`, `{"idle_ms": 1, "other": 1}`, `{"memory_limit_bytes": false}`,
		`{"config": null}`, `{"config": 1}`, "{\"config\": \"\xff\"}", `{"config": "\ud800"}`,
	} {
		if wanted, err := parseChange([]byte(body)); err == nil || wanted != (change{}) {
			t.Errorf("%.60q: %+v, %v", body, wanted, err)
		}
	}
}

func TestATrimWithoutABodyKeepsNothing(t *testing.T) {
	for _, c := range []struct {
		body            string
		keep, minIdleMS uint64
	}{{"", 0, 0}, {"{}", 0, 0}, {`{"keep_bytes": 1}`, 1, 0}, {`{"min_idle_ms": 2, "keep_bytes": 1}`, 1, 2}} {
		keep, minIdleMS, err := parseTrim([]byte(c.body))
		if keep != c.keep || minIdleMS != c.minIdleMS || err != nil {
			t.Errorf("%s: %d, %d, %v", c.body, keep, minIdleMS, err)
		}
	}
}

func TestATrimOfAnythingElseIsAnError(t *testing.T) {
	for _, body := range []string{" ", "null", "[]", `{"other": 1}`, `{"keep_bytes": null}`, `{"Keep_Bytes": 1}`} {
		if _, _, err := parseTrim([]byte(body)); err == nil {
			t.Errorf("%q is taken", body)
		}
	}
}
