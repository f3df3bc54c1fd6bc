#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`cachalot run` as its users meet it, over a fake of the driver.

Usage: run_test.py CACHALOT FOLDER [unittest arguments]
"""
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest

import record_test
from record_test import Record, program


class Run(Record):
    COMMAND = "run"

    def test_each_way_of_loading_is_served_and_told_of_at_the_end(self):
        for name, how in (("program", "open"), ("program", "open_deep"), ("linked", ""), ("linked_rpath", "")):
            with self.subTest(name + how):
                _, err = self.record("--", program(name), how, "100")
                self.assertRegex(err, r"^cachalot: process \d+, device 0: 100 requests served by 1 calls of the driver, "
                                      r"2.0 MiB reserved at most for 0.0 MiB\n$")

    def test_the_exit_code_is_the_programs(self):
        self.record("-q", "--", program(), "open", "1", "exit:7", code=7)
        self.record("-q", "--", program(), "open", "1", "kill:15", code=128 + 15)
        _, err = self.record("--", "./nothing", code=127)
        self.assertEqual(err, "cachalot: ./nothing cannot be started: No such file or directory\n")
        _, err = self.record("--", code=125)
        self.assertIn("which program?", err)

    def test_each_process_is_served_and_told_of(self):
        _, err = self.record("--", program(), "open", "5", "spawn:" + program())
        self.assertEqual(len(re.findall(r"^cachalot: process \d+, device 0", err, re.M)), 2)

    def test_a_program_that_asks_for_nothing_is_said(self):
        _, err = self.record("--", "true")
        self.assertRegex(err, r"^cachalot: nothing is served: .*--audit.*\n$")

    def test_options_that_cannot_be_are_said_before_the_program_starts(self):
        for options in (["--config", "nonsense:1"], ["--policy", "nonsense"]):
            out, err = self.record(*options, "--", "echo", "started", code=125)
            self.assertEqual(out, "")
            self.assertRegex(err, r"^cachalot: .*nonsense.*\n$")

    def test_a_program_runs_as_it_is_where_the_switch_says_so(self):
        self.environment["CACHALOT_DISABLE"] = "1"
        for options in ([], ["--config", "nonsense:1"]):
            out, err = self.record(*options, "--", "sh", "-c", "env; exit 3", code=3)
            self.assertEqual(err, "cachalot: CACHALOT_DISABLE=1: the program runs on the plain driver\n")
            told = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
            for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "CACHALOT_RUN_FREE", "CACHALOT_RECORD"):
                self.assertEqual(told.get(name), self.environment.get(name), name)

    def test_blocks_are_filled_for_debugging(self):
        self.environment["CACHALOT_DEBUG"] = "redzones,poison"
        _, err = self.record("--", program(), "open", "9")
        self.assertIn("9 requests served by 1 calls of the driver, 2.0 MiB", err)

    def test_a_limit_is_kept(self):
        self.record("--limit", "1GiB", "--", program(), "open", "0", f"ask:{2 << 30}", code=137)

    def test_the_option_string_counts_and_that_of_pytorch_does_not(self):
        self.environment["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
        self.environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
        _, err = self.record("--", program(), "open", "9")
        self.assertIn("9 requests served by 1 calls of the driver, 2.0 MiB", err)
        _, err = self.record("--config", "backend:cudaMallocAsync", "--", program(), "open", "9")
        self.assertIn("is not served, or not as a whole: ", err)

    def test_memory_that_the_program_maps_is_served_if_asked_for(self):
        _, err = self.record("--virtual", "cachalot", "--", program(), "open", "0", "mappings:50")
        self.assertRegex(err, r"^cachalot: process \d+: 50 requests for memory to be mapped, 1 of them by the driver\n$")
        _, err = self.record("--", program(), "open", "0", "mappings:50")
        self.assertIn("not served: memory that the program maps itself (cuMemCreate)", err)
        for beside in (["--limit", "1GiB"], ["--clear"]):
            out, err = self.record("--virtual", "cachalot", *beside, "--", "echo", "started", code=125)
            self.assertEqual(out, "")
            self.assertIn("--virtual cachalot cannot be with --limit or --clear", err)

    def pages(self):
        return [name for name in os.listdir(self.folder) if name.endswith(".prom")]

    def start_with_page(self, name, *options):
        """A program that waits, once its page is there; its text."""
        known = self.pages()
        process = self.start("--trim-idle", "3", "--metrics", self.path(name), *options, "--", program(), "open", "9",
                             "wait")
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        for _ in range(400):
            for page in self.pages():
                if page not in known:
                    with open(self.path(page), encoding="utf-8") as file:
                        return process, page, file.read()
            time.sleep(0.02)
        self.fail("no page in 8 s")

    def test_metrics_are_written_to_a_file_of_each_process(self):
        _, _, text = self.start_with_page("%p.prom", "--tenant", "chat")
        self.assertRegex(text, r'\ncachalot_reserved_bytes\{device="0",process="\d+",pool="small"\} 2097152\n')
        self.assertIn('"chat"', text)
        self.assertRegex(text, r'\ncachalot_device_info\{device="0",process="\d+",uuid="(GPU-00010203-0405-0607-0809-0a0b0c0d'
                               r'0e0f)",gpu_uuid="\1",pci_bus_id="0000:1a:00\.0"\} 1\n')

    def test_a_reader_of_all_pages_can_tell_processes_apart(self):
        series = []
        for name in ("%p.prom", "%p.prom", "server-%p.prom"):
            _, page, text = self.start_with_page(name)
            self.assertIn(f'process="{page.removesuffix(".prom")}"', text)
            series += [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
        self.assertGreater(len(series), 50)
        self.assertEqual(len(series), len(set(series)))

    def test_a_page_of_a_process_ends_with_it_and_one_of_all_stays(self):
        for name, left in (("server-%p.prom", []), ("run.prom", ["run.prom"])):
            self.record("--metrics", self.path(name), "--", program(), "open", "9", "reset")  # which writes the page
            self.assertEqual(self.pages(), left)
        process, page, _ = self.start_with_page("server-%p.prom")
        os.kill(int(re.search(r"\d+", page).group()), signal.SIGKILL)
        process.wait()
        self.assertIn(page, self.pages())

    def test_idle_memory_goes_back(self):
        process = self.start("--trim-idle", "1", "--metrics", self.path("run.prom"), "--", program(), "open", "9", "wait")
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        for _ in range(400):
            if os.path.exists(self.path("run.prom")):
                with open(self.path("run.prom"), encoding="utf-8") as file:
                    if re.search(r'\ncachalot_reserved_bytes\{device="0",process="\d+",pool="small"\} 0\n', file.read()):
                        return
            process.poll()
            subprocess.run(["sleep", "0.02"], check=True)
        self.fail("nothing went back in 8 s")

    def test_the_environment_alone_serves_a_program(self):
        folder = self.path("links")
        done = subprocess.run([record_test.CACHALOT, "run", "--print-env", folder, "--free", "event", "--limit", "2GiB"],
                              env=self.environment, capture_output=True, text=True, check=True)
        self.assertRegex(done.stderr, rf"^cachalot: {folder} belongs to \S+: who can write to it .*\n$")
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        printed = dict(line.split("=", 1) for line in done.stdout.splitlines())
        self.assertEqual(printed["CACHALOT_RUN_FREE"], "event")
        self.assertEqual(printed["CACHALOT_RUN_LIMIT"], str(2 << 30))
        metrics = {**self.environment, **printed, "CACHALOT_RUN_METRICS": self.path("run.prom")}
        subprocess.run([program(), "open", "9"], env=metrics, check=True)
        self.assertTrue(os.path.exists(self.path("run.prom")))
        os.remove(self.path("run.prom"))
        subprocess.run([program(), "open", "9"], env={**metrics, "CACHALOT_DISABLE": "1"}, check=True)
        self.assertFalse(os.path.exists(self.path("run.prom")))

    def alone(self, *how, folder=None, **more):
        """The program under the auditing library and nothing else; whether it is served."""
        folder = folder or os.path.join(os.path.dirname(record_test.CACHALOT), "proxy")
        page = self.path("alone.prom")
        variables = {"LD_AUDIT": os.path.join(folder, "libcachalot_audit.so"), "CACHALOT_RUN_FREE": "wait",
                     "CACHALOT_RUN_METRICS": page, **more}
        done = subprocess.run(how, env={**self.environment, **variables}, capture_output=True, text=True)
        served = os.path.exists(page)
        if served:
            os.remove(page)
        return done, served

    def test_the_auditing_library_is_enough(self):
        ways = (("program", "open"), ("program", "open_so"), ("program", "open_deep"), ("program", "open_namespace"),
                ("linked", ""), ("linked_rpath", ""))
        for name, how in ways:
            with self.subTest(name + how):
                done, served = self.alone(program(name), how, "9")
                self.assertEqual((done.returncode, done.stderr, served), (0, "", True))

    def test_the_auditing_library_goes_past_its_own_folder_to_the_driver(self):
        folder = self.path("copied")
        os.mkdir(folder)
        for name in ("libcuda.so.1", "libcachalot_audit.so"):
            shutil.copy(os.path.join(os.path.dirname(record_test.CACHALOT), "proxy", name), folder)
        path = folder + ":" + self.environment["LD_LIBRARY_PATH"]
        done, served = self.alone(program(), "open", "9", folder=folder, LD_LIBRARY_PATH=path)
        self.assertEqual((done.returncode, done.stderr, served), (0, "", True))

    def test_under_the_auditing_library_a_missing_driver_is_missing(self):
        plain = subprocess.run([program(), "open", "9"], env={**self.environment, "LD_LIBRARY_PATH": ""},
                               capture_output=True, text=True)
        self.assertNotEqual(plain.returncode, 0)
        done, served = self.alone(program(), "open", "9", LD_LIBRARY_PATH="")
        self.assertEqual((done.returncode, done.stderr, served), (plain.returncode, plain.stderr, False))

    def test_what_is_served_is_what_the_recording_forecasts(self):
        for end, calls in (("exit:0", 1), ("reset", 2)):
            with self.subTest(end):
                self.environment["CACHALOT_RECORD"] = self.path(end)
                _, err = self.record("--", program(), "open", "50", end)
                shown = subprocess.run([record_test.CACHALOT, "inspect", self.path(end)], capture_output=True, text=True,
                                       check=True).stdout
                forecast = re.search(r"defaults +wait +(\S+ MiB) +(\d+) ", shown)
                self.assertEqual(int(forecast[2]), calls)
                self.assertIn(f"served by {calls} calls of the driver, {forecast[1]} reserved", err)

    def test_contexts_of_the_programs_own_are_served_as_forecast(self):
        self.environment["CACHALOT_RECORD"] = self.path("run.trace")
        _, err = self.record("--", program(), "open", "50", "contexts:3")
        ends = re.findall(r"device 0(, a context of its own)?: (\d+) requests served by (\d+) calls of the driver, "
                          r"(\S+) MiB", err)
        self.assertEqual([(own != "", count) for own, count, _, _ in ends], [(True, "2")] * 3 + [(False, "50")])
        shown = subprocess.run([record_test.CACHALOT, "inspect", self.path("run.trace")], capture_output=True, text=True,
                               check=True).stdout
        forecast = re.search(r"defaults +wait +(\S+) MiB +(\d+) ", shown)
        self.assertEqual(int(forecast[2]), sum(int(calls) for _, _, calls, _ in ends))
        self.assertEqual(float(forecast[1]), float(ends[0][3]) + float(ends[3][3]))


if __name__ == "__main__":
    record_test.CACHALOT, record_test.FOLDER = sys.argv[1:3]
    del Record
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
