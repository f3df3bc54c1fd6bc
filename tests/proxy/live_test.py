#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`cachalot record --live` as its users meet it, over fakes of the driver and of the management library.

Usage: live_test.py CACHALOT FOLDER [unittest arguments]
"""
import json
import os
import re
import socket
import stat
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import debian_python  # noqa: E402

debian_python.need("prometheus_client", "python3-prometheus-client")
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

import record_test  # noqa: E402
from record_test import Record, program  # noqa: E402

MIB = 1 << 20
BUS = "0000:1a:00.0"


class Live(Record):
    def setUp(self):
        super().setUp()
        self.environment["LD_LIBRARY_PATH"] += ":" + os.path.join(record_test.FOLDER, "nvml")
        self.environment["FAKE_NVML_USED"] = self.path("used")
        self.set_used(100)

    def set_used(self, mebibytes):
        with open(self.path("used.new"), "w", encoding="utf-8") as file:
            file.write(str(mebibytes))
        os.rename(self.path("used.new"), self.path("used"))

    def start_live(self, *arguments):
        """Gives the process, once the program waits, and the address of its metrics."""
        process = self.start("--listen", "127.0.0.1:0", "-o", self.path("%p.trace"), *arguments,
                             stdin=subprocess.PIPE)
        self.addCleanup(self.end, process)
        first = process.stderr.readline()
        found = re.match(r"cachalot: what the program holds: (http://127.0.0.1:\d+)/ and \1/metrics\n$", first)
        self.assertTrue(found, first)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        return process, found.group(1)

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()
        process.communicate()

    @staticmethod
    def get(url):
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.read().decode()

    def metrics(self, url):
        families = text_string_to_metric_families(self.get(url + "/metrics"))
        return {(sample.name, *sorted(sample.labels.values())): sample.value
                for family in families for sample in family.samples}

    def holders(self, url):
        (device,) = json.loads(self.get(url + "/ledger"))["devices"]
        self.assertEqual(device["device"], BUS)
        return device, {row["holder"]: row["bytes"] for row in device["holders"]}

    def test_a_block_is_seen_while_the_program_has_it(self):
        _, url = self.start_live("--", program(), "open", "3", f"hold:{3 * MIB}")
        metrics = self.metrics(url)
        self.assertEqual(metrics["cachalot_recorded_calls_total", "cuMemAlloc"], 4)
        self.assertEqual(metrics["cachalot_recorded_calls_total", "cuMemFree"], 3)
        self.assertGreater(metrics["cachalot_recorded_call_seconds_total", "cuMemAlloc"], 0)
        self.assertEqual(metrics["cachalot_recorded_processes",], 1)
        (held,) = [value for key, value in metrics.items() if key[0] == "cachalot_recorded_bytes"]
        self.assertEqual(held, 3 * MIB)
        self.assertIn("cuMemAlloc", self.get(url + "/"))
        with self.assertRaises(urllib.error.HTTPError):
            self.get(url + "/nothing")

    def test_all_holders_together_are_what_the_device_has_in_use(self):
        _, url = self.start_live("--", program(), "open", "0", f"hold:{3 * MIB}")
        self.set_used(700)
        device, holders = self.holders(url)
        self.assertEqual(device["used_bytes"], 700 * MIB)
        self.assertEqual(sum(holders.values()), 700 * MIB)
        self.assertEqual(holders["cuMemAlloc"], 3 * MIB)
        self.assertEqual(holders["rest of their pages"], MIB)  # the driver's pages are of 2 MiB
        self.assertEqual(holders["other programs, before"], 100 * MIB)
        metrics = self.metrics(url)
        self.assertEqual(metrics["cachalot_recorded_device_used_bytes", BUS], 700 * MIB)
        self.assertEqual(metrics["cachalot_recorded_device_info", BUS, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"], 1)

    def test_without_the_management_library_it_shows_what_it_has_recorded(self):
        self.environment["FAKE_NVML_USED"] = self.path("nothing")
        _, url = self.start_live("--", program(), "open", "0", f"hold:{2 * MIB}")
        device, holders = self.holders(url)
        self.assertEqual(holders, {"cuMemAlloc": 2 * MIB})
        self.assertNotIn("used_bytes", device)

    def test_the_recording_takes_so_many_bytes_and_what_is_held_is_known(self):
        times = 200000
        _, url = self.start_live("--keep", "4MiB", "--", program(), "open", str(times), f"hold:{3 * MIB}")
        metrics = self.metrics(url)
        (held,) = [value for key, value in metrics.items() if key[0] == "cachalot_recorded_bytes"]
        self.assertEqual(held, 3 * MIB)
        # It writes as fast as it can.
        missed = metrics["cachalot_recorded_missed_files_total",]
        calls = metrics["cachalot_recorded_calls_total", "cuMemAlloc"]
        self.assertTrue(missed > 0 and calls < times or calls == times + 1, (missed, calls))
        sizes = [os.path.getsize(self.path(name)) for name in self.recordings()]
        self.assertEqual(len(sizes), 2)
        self.assertLess(sum(sizes), 7 * MIB)  # each with some room

    def test_calls_are_counted_across_files(self):
        script = """
import os, sys
path, steps = os.environ["CACHALOT_RECORD"].replace("%p", "run"), iter(sys.stdin.readline, "")
header = f'# {{"format": 2, "pid": {os.getpid()}, "start_us": 1}}\\n'
def write(text):
    with open(path, "a") as file:
        file.write(text)
    print("waiting", flush=True)
    next(steps)
write(header + "a,1000,512,0,0,,5,,7,s,1\\n")
with open(os.environ["CACHALOT_RECORD_LIST"], "a") as file:
    file.write(path + "\\n")
write("q,1000,512,0,0,,6,,,s,1\\nc,1000,512,0,0\\nk,1000,0,0,0,,7,,9,s,1\\na,2000,600,0,0,,8,,7,s,1\\n")
os.rename(path, path + ".before")
write(header + "# file 2\\nb,2000,600,0,0,,9,,,s,1\\na,3000,700,0,0,,8,,7,s,1\\n")
with open(path + ".before", "a") as file:
    file.write("# continued\\n")
write("")
os.rename(path, path + ".before")
write(header + "# file 4\\nb,3000,700,0,0,,9,,,s,1\\n")
with open(path + ".before", "a") as file:
    file.write("# continued\\n")
write("")
"""
        process, url = self.start_live("--", sys.executable, "-c", script)

        def look():
            metrics = self.metrics(url)
            held = sum(value for key, value in metrics.items() if key[0] == "cachalot_recorded_bytes")
            calls = metrics.get(("cachalot_recorded_calls_total", "cuMemAlloc"), 0)
            process.stdin.write("go on\n")
            process.stdin.flush()
            process.stdout.readline()
            return held, calls, metrics["cachalot_recorded_missed_files_total",]

        self.assertEqual(look(), (0, 0, 0))       # nobody knows of it
        self.assertEqual(look(), (600, 2, 0))
        self.assertEqual(look(), (600, 2, 0))     # the next file is there, and the first one may go on
        self.assertEqual(look(), (1300, 3, 0))
        self.assertEqual(look(), (1300, 3, 0))
        self.assertEqual(look(), (700, 3, 1))

    def test_a_request_that_is_refused_leaves_a_report_also_of_a_program_that_is_killed(self):
        _, err = self.record("--live", "--listen", "127.0.0.1:0", "-q", "-o", self.path(), "--", program(), "open",
                             "2", f"ask:{99 << 30}", code=137)
        path = self.path("run.trace.oom-1.json")
        self.assertIn(f"asked for 101,376.0 MiB, and the device has 16,384.0 MiB free: {path}\n", err)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["requested_bytes"], 99 << 30)
        self.assertEqual(report["free_bytes"], 16 << 30)
        self.assertEqual(report["call"], "cuMemAlloc")
        self.assertEqual("".join(line[0] for line in report["last_events"] if line[0] != "#"), "aqck" * 2 + "o")
        self.assertEqual(report["ledger"]["devices"][0]["device"], BUS)

    def test_a_process_that_has_ended_holds_nothing_and_its_calls_still_count(self):
        script = f"{program()} open 5; exec {program()} open 2 hold:{2 * MIB}"
        _, url = self.start_live("--", "sh", "-c", script)
        metrics = self.metrics(url)
        self.assertEqual(metrics["cachalot_recorded_calls_total", "cuMemAlloc"], 5 + 2 + 1)
        self.assertEqual(metrics["cachalot_recorded_processes",], 1)

    def test_a_program_that_replaces_itself_holds_what_the_new_one_has(self):
        kept = f"{program()} open 0 hold:{2 * MIB}"
        script = f"timeout -s KILL 0.5 {kept} >/dev/null; exec {kept}"
        _, url = self.start_live("--", "sh", "-c", script)
        self.assertEqual(self.holders(url)[1]["cuMemAlloc"], 2 * MIB)

    def test_an_address_that_another_has_is_said_before_the_program_starts(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            place = f"127.0.0.1:{taken.getsockname()[1]}"
            out, err = self.record("--listen", place, "--", "echo", "started", code=125)
        self.assertEqual(out, "")
        self.assertRegex(err, rf"^cachalot: --listen {place} cannot be had: .*\n$")

    def test_what_is_no_address_and_too_few_bytes_are_refused(self):
        for listen in ("here:there", ":1", "127.0.0.1:65536"):
            _, err = self.record("--listen", listen, "--", "true", code=125)
            self.assertEqual(err, f"cachalot: --listen {listen}: not a HOST:PORT\n")
        _, err = self.record("--keep", "1MiB", "--", "true", code=125)
        self.assertEqual(err, "cachalot: --keep 1048576: at least 2.0 MiB\n")

    def test_the_exit_code_is_the_programs_and_tables_come_behind_it(self):
        _, err = self.record("--live", "--listen", "127.0.0.1:0", "-o", self.path(), "--", program(), "open", "1",
                             "exit:7", code=7)
        self.assertRegex(err, r"cuMemFree +1 ")


if __name__ == "__main__":
    record_test.CACHALOT, record_test.FOLDER = sys.argv[1:3]
    del Record
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
