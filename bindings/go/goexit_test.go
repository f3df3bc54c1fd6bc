// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot_test

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"cachalot.io/go"
)

// Goexits are run in a program of their own: CACHALOT_TEST_GOEXIT is which.
var goexits = map[string]func(*testing.T, *cachalot.Allocator){
	"under a lock": func(t *testing.T, a *cachalot.Allocator) {
		attached(t)(a.ObserveTrace(func(cachalot.TraceEntry) { t.FailNow() }))
	},
	"without a lock": func(t *testing.T, a *cachalot.Allocator) {
		attached(t)(a.OnFreeMemory(func(int, uint64) bool { runtime.Goexit(); return false }))
	},
	"in OnPanic": func(t *testing.T, a *cachalot.Allocator) {
		cachalot.OnPanic(func(any, []byte) { runtime.Goexit() })
		attached(t)(a.OnFreeMemory(func(int, uint64) bool { panic("first") }))
	},
}

func TestAGoexitOutOfACallbackEndsTheProgramLoudly(t *testing.T) {
	if name := os.Getenv("CACHALOT_TEST_GOEXIT"); name != "" {
		a := simulatedForEver(t)
		goexits[name](t, a)
		together(1, func(int) { _, _ = a.Allocate(mib, 0, 0) })
		os.Exit(0) // It was survived.
	}
	for name := range goexits {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), "CACHALOT_TEST_GOEXIT="+name)
		output, err := command.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(output), "runtime.Goexit") {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}

// simulatedForEver is not closed at the end of the test.
func simulatedForEver(t *testing.T) *cachalot.Allocator {
	device := need[*cachalot.Sim](t)(cachalot.OpenSim(cachalot.SimOptions{}))
	return need[*cachalot.Allocator](t)(cachalot.Open(cachalot.OverDriver(device.Driver), cachalot.WithOptions("")))
}
