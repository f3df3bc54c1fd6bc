// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"sync"

	"cachalot.io/go/internal/raw"
)

// Version is that of the library that is loaded, for example "0.1.0".
func Version() string {
	return raw.Version()
}

// VersionNumber is the same as a number, major * 10000 + minor * 100 + patch.
func VersionNumber() int {
	return int(raw.VersionNumber())
}

// Status is one of those that a call can come to.
type Status struct {
	// Number is that of Error.Status.
	Number int `json:"number"`
	// Name is for example "OUT_OF_MEMORY".
	Name string `json:"name"`
	// Text is one sentence.
	Text string `json:"text"`
}

// Statuses are all of them that the library knows, in ascending order of their numbers.
func Statuses() []Status {
	rows := make([]Status, 0, raw.StatusCount())
	for i := range raw.StatusCount() {
		row, err := raw.StatusAt(i)
		if err != nil {
			break
		}
		rows = append(rows, Status{int(row.Status), row.Name, row.Text})
	}
	return rows
}

// StatusName is the name of a status; "UNKNOWN" for a number that is none.
func StatusName(number int) string {
	return raw.StatusName(narrow(number))
}

// checkLibrary refuses a library with another interface than that of this package, before the first object is made:
// before version 1 every minor version is an interface of its own.
var checkLibrary = sync.OnceValue(func() error {
	if err := raw.CheckInterface(); err != nil {
		return &Error{Status: int(raw.ERROR_NOT_SUPPORTED), Message: err.Error()}
	}
	return nil
})
