// SPDX-License-Identifier: MIT OR Apache-2.0

package operators

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// prefix makes what cdi.py looks at of an installation.
func prefix(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "lib/cachalot")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "libcachalot_audit.so"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(folder))
}

func printed(arguments ...string) (string, string, error) {
	command := exec.Command("python3", append([]string{kubernetes + "cdi.py"}, arguments...)...)
	var problem strings.Builder
	command.Stderr = &problem
	text, err := command.Output()
	return string(text), problem.String(), err
}

// injected gives what a container gets by a device, from a runtime that reads the specification.
func injected(t *testing.T, device string, arguments ...string) *specs.Spec {
	t.Helper()
	text, problem, err := printed(arguments...)
	if err != nil {
		t.Fatal(problem)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "cachalot.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(folder))
	if err != nil {
		t.Fatal(err)
	}
	if problems := cache.GetErrors(); len(problems) != 0 {
		t.Fatal(problems)
	}
	container := &specs.Spec{Process: &specs.Process{Env: []string{"PORT=8000"}}}
	if _, err := cache.InjectDevices(container, device); err != nil {
		t.Fatal(err)
	}
	return container
}

func TestAContainerRuntimeGivesThePrefixAndTheVariables(t *testing.T) {
	installed := prefix(t)
	container := injected(t, "cachalot.io/run=event", installed, "--output", "/srv/pages")
	expected := []string{"PORT=8000", "LD_AUDIT=/opt/cachalot/lib/cachalot/libcachalot_audit.so",
		"CACHALOT_RUN_FREE=event", "CACHALOT_RUN_METRICS=/var/lib/cachalot/%p.prom"}
	environment := slices.Sorted(slices.Values(container.Process.Env))
	if slices.Sort(expected); !slices.Equal(environment, expected) {
		t.Errorf("the environment is %v", environment)
	}
	if len(container.Mounts) != 2 {
		t.Fatalf("mounts: %v", container.Mounts)
	}
	for _, mount := range container.Mounts {
		isPrefix := mount.Destination == "/opt/cachalot"
		if isPrefix && (mount.Source != installed || !slices.Contains(mount.Options, "ro")) {
			t.Errorf("the prefix is mounted by %v", mount)
		}
		if !isPrefix && (mount.Source != "/srv/pages" || !slices.Contains(mount.Options, "rw")) {
			t.Errorf("the output is mounted by %v", mount)
		}
	}
}

func TestWithoutAnOutputNothingIsWritten(t *testing.T) {
	container := injected(t, "cachalot.io/run=wait", prefix(t))
	if len(container.Mounts) != 1 || slices.ContainsFunc(container.Process.Env, func(variable string) bool {
		return strings.Contains(variable, "/var/lib")
	}) {
		t.Errorf("%v %v", container.Mounts, container.Process.Env)
	}
}

func TestAFolderWithoutCachalotIsRefused(t *testing.T) {
	text, problem, err := printed(t.TempDir())
	if err == nil || text != "" || !strings.Contains(problem, "libcachalot_audit.so is missing") {
		t.Errorf("%q %q", text, problem)
	}
}
