#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of run.sh and sanitizer.sh that need no GPU: what they skip, and what they take for a fault.

    shell_test.py

compute-sanitizer is a script here that finds what the environment tells it to.
"""

import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ALL_PARTS = ["scripts", "models", "trees", "extension", "libtorch", "patterns", "policy", "ended", "sanitizer", "bench",
             "costs", "totals", "devices", "example", "resources", "fill", "pinned", "sleep", "sharing", "hosts", "any",
             "live", "judgement"]

FAKE_SANITIZER = r"""#!/bin/bash
if [ -n "$FAKE_BROKEN" ]; then echo '========= Error: Device not supported.'; exit 1; fi
case "$*" in
  *"--memory driver"*) what=driver ;;
  *overrun*) what=${CACHALOT_DEBUG:+nvtx}${PYTORCH_NO_CUDA_MEMORY_CACHING:+uncached} ;;
  *racecheck*) what=race ;;
  *patterns*) what=patterns ;;
esac
if [[ " $FAKE_FOUND " == *" ${what:-cached} "* ]]; then
  echo '========= Invalid __global__ write of size 4 bytes'
  echo '========= ERROR SUMMARY: 1 error'
  exit 9
fi
if [ "$what" = patterns ] && [ -n "$CACHALOT_DEBUG" ]; then
  echo "  driver allocations 5, driver frees 5, retries 0, out of memory 0"
  for ((i = 0; i < ${FAKE_REFUSED:-0}; i++)); do
    echo '========= Call to nvtxMemHeapRegister failed: The object is not ready'
  done
  echo "${FAKE_WORDS:-passed: no word differs}"
  echo "========= ERROR SUMMARY: ${FAKE_ERRORS:-${FAKE_REFUSED:-0}} errors"
  exit "${FAKE_CODE:-0}"
fi
if [ "$what" = race ]; then echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors)'; exit; fi
echo '========= ERROR SUMMARY: 0 errors'
"""


def run(script, *arguments, **environment):
    return subprocess.run(
        [os.path.join(HERE, script), *arguments], env={**os.environ, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)


class WithoutToolkit(unittest.TestCase):
    def run_parts(self, *parts, promised="0"):
        return run("run.sh", *parts, CUDA_HOME="/nonexistent", CACHALOT_GPU_TESTS=promised)

    def test_every_part_is_skipped_with_the_reason(self):
        result = self.run_parts()
        expected = [f"{part:<10} skipped: no nvcc in /nonexistent/bin" for part in ALL_PARTS]
        self.assertEqual((0, expected), (result.returncode, result.stdout.splitlines()))

    def test_a_skip_fails_where_a_gpu_was_promised(self):
        result = self.run_parts("bench", "totals", promised="1")
        self.assertEqual(1, result.returncode)
        self.assertEqual(2, result.stdout.count("failed: a GPU was promised"))

    def test_two_gpus_are_promised_by_two(self):
        self.assertEqual(0, self.run_parts("devices", promised="1").returncode)
        self.assertEqual(1, self.run_parts("devices", promised="2").returncode)

    def test_an_unknown_part_is_a_wrong_call(self):
        result = self.run_parts("bench", "benches")
        self.assertEqual((2, "no such part: benches\n"), (result.returncode, result.stdout))


class WithFakeSanitizer(unittest.TestCase):
    def sanitize(self, **environment):
        with tempfile.TemporaryDirectory() as folder:
            tool = os.path.join(folder, "compute-sanitizer")
            with open(tool, "w", encoding="utf-8") as file:
                file.write(FAKE_SANITIZER)
            os.chmod(tool, 0o755)
            path = folder + os.pathsep + os.environ["PATH"]
            return run("sanitizer.sh", folder, PATH=path, **environment)

    def failures(self, found="driver nvtx uncached", **environment):
        result = self.sanitize(FAKE_FOUND=found, **environment)
        lines = [line for line in result.stdout.splitlines() if line.startswith("failed")]
        self.assertEqual(1 if lines else 0, result.returncode)
        return lines

    def test_what_is_expected_passes(self):
        self.assertEqual([], self.failures())

    def test_heaps_that_the_tool_refuses_are_no_fault(self):
        self.assertEqual([], self.failures(FAKE_REFUSED="2", FAKE_CODE="9"))

    def test_anything_else_beside_refused_heaps_is(self):
        for fault in ({"FAKE_ERRORS": "3"}, {"FAKE_ERRORS": "20"}, {"FAKE_WORDS": "failed: see above"},
                      {"FAKE_REFUSED": "5"}):
            with self.subTest(fault):
                self.assertEqual(1, len(self.failures(**{"FAKE_REFUSED": "2", "FAKE_CODE": "9", **fault})))

    def test_a_program_that_fails_without_a_refused_heap_is(self):
        self.assertEqual(1, len(self.failures(FAKE_CODE="1")))

    def test_an_overrun_that_nvtx_does_not_reveal_fails(self):
        self.assertEqual(["failed: the same is found with CACHALOT_DEBUG=nvtx (exit code 0)"],
                         self.failures("driver uncached"))

    def test_an_overrun_that_is_found_in_the_cache_fails(self):
        self.assertEqual(["failed: an overrun inside a cached segment is missed (exit code 9)"],
                         self.failures("driver nvtx uncached cached"))

    def test_a_fault_of_the_pattern_test_fails_with_each_option_string(self):
        self.assertEqual(4, len(self.failures("driver nvtx uncached patterns")))

    def test_a_tool_that_can_not_run_is_quoted(self):
        result = self.sanitize(FAKE_BROKEN="1")
        self.assertEqual(77, result.returncode)
        self.assertIn("Error: Device not supported.", result.stdout.splitlines()[0])


if __name__ == "__main__":
    unittest.main()
