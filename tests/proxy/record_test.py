#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`cachalot record` as its users meet it, over a fake of the driver.

Usage: record_test.py CACHALOT FOLDER [unittest arguments]
FOLDER has the programs of tests/proxy, and drivers/libcuda.so.1, the fake.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CACHALOT = ""
FOLDER = ""


def program(name="program"):
    return os.path.join(FOLDER, name)


def driver():
    return os.path.join(FOLDER, "drivers", "libcuda.so.1")


class Record(unittest.TestCase):
    COMMAND = "record"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = dict(os.environ)
        self.environment["LD_LIBRARY_PATH"] = os.path.dirname(driver())
        self.environment["TMPDIR"] = self.folder
        self.environment.pop("XDG_RUNTIME_DIR", None)

    def path(self, name="run.trace"):
        return os.path.join(self.folder, name)

    def start(self, *arguments, **options):
        return subprocess.Popen(
            [CACHALOT, self.COMMAND, *arguments],
            env=self.environment, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
        )

    def record(self, *arguments, code=0):
        process = self.start(*arguments)
        out, err = process.communicate()
        self.assertEqual(process.returncode, code, out + err)
        return out, err

    def events(self, path):
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\0")[0].splitlines()
        return "".join(line[0] for line in lines if not line.startswith("#"))

    def recordings(self):
        return sorted(name for name in os.listdir(self.folder) if "trace" in name)

    def expect_recorded(self, *how, name="program", times=3, options=()):
        self.record("-o", self.path(), "-q", *options, "--", program(name), *how)
        self.assertEqual(self.events(self.path()), "aqck" * times + "z")


class Switch(Record):
    def test_a_program_runs_as_it_is_where_it_says_so(self):
        self.environment["CACHALOT_DISABLE"] = "1"
        _, err = self.record("--", program(), "open", "3")
        self.assertEqual(err, "cachalot: CACHALOT_DISABLE=1: the program runs on the plain driver\n")
        self.assertEqual(self.recordings(), [])


class Loading(Record):
    """However a program comes by the driver. Each calls a function that the proxy does not know."""

    def test_a_linked_program_is_recorded(self):
        self.expect_recorded(name="linked")

    def test_a_program_that_opens_the_driver_is_recorded(self):
        for how in ("open", "open_so", "open_deep", "open_namespace"):
            with self.subTest(how):
                self.expect_recorded(how)

    def test_a_program_that_names_the_drivers_folder_in_itself_is_recorded(self):
        self.expect_recorded(name="linked_rpath")

    def test_a_program_that_opens_the_driver_by_its_path_is_recorded_with_audit(self):
        self.expect_recorded(driver(), options=["--audit"])
        os.remove(self.path())
        _, err = self.record("-o", self.path(), "--", program(), driver())
        self.assertFalse(os.path.exists(self.path()))
        self.assertIn("nothing is recorded", err)
        self.assertIn("--audit", err)

    def test_the_links_are_made_once_and_for_this_user_only(self):
        self.expect_recorded("open")
        (links,) = [name for name in os.listdir(self.folder) if name.startswith("cachalot-")]
        before = os.lstat(self.path(os.path.join(links, "libcuda.so.1")))
        self.assertEqual(os.stat(self.path(links)).st_mode & 0o777, 0o700)
        self.expect_recorded("open")
        after = os.lstat(self.path(os.path.join(links, "libcuda.so.1")))
        self.assertEqual(before.st_ino, after.st_ino)
        self.assertEqual(before.st_mtime_ns, after.st_mtime_ns)

    def test_a_folder_that_others_can_write_to_is_refused(self):
        self.expect_recorded("open")
        (links,) = [name for name in os.listdir(self.folder) if name.startswith("cachalot-")]
        os.chmod(self.path(links), 0o777)
        _, err = self.record("--", program(), "open", code=125)
        self.assertIn("is no folder that only this user can write to", err)

    def test_a_recorder_within_a_recorder_records(self):
        inner = self.path("inner.trace")
        self.record("-o", self.path(), "-q", "--", CACHALOT, "record", "-o", inner, "-q", "--",
                    program(), "open")
        self.assertEqual(self.events(inner), "aqckaqckaqckz")
        self.assertFalse(os.path.exists(self.path()))

    def test_a_folder_for_temporary_files_that_cannot_be_listed_is_not_used(self):
        self.environment["TMPDIR"] = self.path("with blank")
        os.mkdir(self.environment["TMPDIR"])
        self.expect_recorded(name="linked_rpath")

    def test_no_driver_is_said_in_one_line(self):
        self.environment["LD_LIBRARY_PATH"] = ""
        _, err = self.record("--", program(), "open", code=125)
        self.assertRegex(err, r"^cachalot: no CUDA driver: libcuda.so.1: cannot open .*\n$")


class Programs(Record):
    def test_arguments_are_the_programs_own_with_and_without_dashes(self):
        for dashes in (["--"], []):
            out, _ = self.record("-q", *dashes, "sh", "-c", "echo $0 $1", "--help", "-o")
            self.assertEqual(out, "--help -o\n")

    def test_the_exit_code_is_the_programs(self):
        self.record("-q", "--", program(), "open", "1", "exit:7", code=7)
        self.record("-q", "--", program(), "open", "1", "kill:15", code=128 + 15)

    def test_a_program_that_cannot_be_started_is_said(self):
        _, err = self.record("--", "./nothing", code=127)
        self.assertEqual(err, "cachalot: ./nothing cannot be started: No such file or directory\n")
        _, err = self.record("--", self.folder, code=126)
        self.assertEqual(err, f"cachalot: {self.folder} cannot be started: Permission denied\n")
        _, err = self.record("--", code=125)
        self.assertIn("which program?", err)

    def test_the_file_is_named_after_the_program_and_its_process(self):
        self.record("-q", "--", program(), "open")
        (name,) = self.recordings()
        self.assertRegex(name, r"^program-\d+\.trace$")

    def test_an_older_recording_of_the_name_is_kept_beside(self):
        self.expect_recorded("open", "2", times=2)
        self.expect_recorded("open", "5", times=5)
        self.assertEqual(self.recordings(), ["run.trace", "run.trace.old"])
        self.assertEqual(self.events(self.path("run.trace.old")), "aqckaqckz")

    def test_a_folder_that_is_not_there_is_said_before_the_program_starts(self):
        out, err = self.record("-o", "/nowhere/run", "--", "echo", "started", code=125)
        self.assertEqual((out, err), ("", "cachalot: /nowhere is no folder\n"))

    def test_each_process_has_a_file(self):
        self.record("-o", self.path(), "-q", "--", program(), "open", "3", "spawn:" + program())
        self.assertEqual(self.events(self.path()), "aqckaqckaqckz")
        self.assertEqual(self.events(self.path("run.trace.2")), "aqckz")

    def test_a_program_that_replaces_itself_has_two_files(self):
        script = f"{program()} open 1; exec {program()} open 2"
        self.record("-o", self.path("%p.trace"), "-q", "--", "sh", "-c", script)
        events = sorted(self.events(self.path(name)) for name in self.recordings())
        self.assertEqual(events, ["aqckaqckz", "aqckz"])

    def test_a_killed_program_leaves_its_recording(self):
        _, err = self.record("-o", self.path(), "--", program(), "open", "1000", "kill:9", code=137)
        self.assertEqual(self.events(self.path()), "aqck" * 1000)
        self.assertIn("The process did not end by exit()", err)

    def test_a_recording_can_be_read_while_the_program_runs(self):
        process = self.start("-o", self.path(), "--", program(), "open", "10", "wait")
        self.assertEqual(process.stdout.readline(), "waiting\n")
        self.assertEqual(self.events(self.path()), "aqck" * 10)
        shown = subprocess.run([CACHALOT, "inspect", self.path()], capture_output=True, text=True,
                               check=True)
        self.assertRegex(shown.stdout, r"cuMemAlloc +10 ")
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_a_signal_goes_to_the_program_and_the_table_is_shown_behind_it(self):
        script = f"trap 'exit 3' TERM; {program()} open 1; echo ready; while :; do sleep 0.01; done"
        process = self.start("-o", self.path(), "--", "sh", "-c", script)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
        self.assertEqual(process.returncode, 3, err)
        self.assertRegex(err, r"cuMemFree +1 ")

    def test_a_child_that_lives_longer_is_recorded_to_its_end(self):
        script = f"(sleep 0.3; {program()} open 2) >/dev/null 2>&1 &"
        self.record("-o", self.path(), "--", "sh", "-c", script)
        for _ in range(200):
            if os.path.exists(self.path()) and self.events(self.path()).endswith("z"):
                break
            time.sleep(0.05)
        self.assertEqual(self.events(self.path()), "aqckaqckz")


class Tables(Record):
    def test_the_table_has_calls_memory_and_forecasts(self):
        _, err = self.record("-o", self.path(), "--try", "expandable_segments:True", "--try",
                             "max_split_size_mb:20", "--", program(), "open")
        self.assertRegex(err, r"program +\S+/program open\n")
        self.assertRegex(err, r"driver +CUDA 13.0\n")
        self.assertRegex(err, r"cuMemAlloc +3 +\d")
        self.assertRegex(err, r"cuMemFree +3 +\d")
        self.assertRegex(err, r"blocks at a time +0.0 MiB")
        self.assertRegex(err, r"defaults +wait +2.0 MiB +1 ")
        self.assertRegex(err, r"expandable_segments:True +wait +2.0 MiB ")
        self.assertRegex(err, r"max_split_size_mb:20 +wait +2.0 MiB +1 ")
        self.assertNotIn("did not end", err)

    def test_an_option_string_that_is_wrong_is_said_before_the_program_starts(self):
        out, err = self.record("-o", self.path(), "--try", "expandable:True", "--", "echo", "started",
                               code=125)
        self.assertEqual(out, "")
        self.assertRegex(err, r"^cachalot: .*expandable.*\n$")

    def write(self, *events, total=1 << 34):
        with open(self.path(), "w", encoding="utf-8") as file:
            file.write(f'# {{"format": 2, "device_total": {total}, "start_us": 1000000}}\n')
            file.write("".join(line + "\n" for line in (*events, "z,0,0,0,0,,2000000")))

    def inspect(self, *options):
        shown = subprocess.run([CACHALOT, "inspect", self.path(), *options], capture_output=True,
                               text=True, check=True)
        return shown.stdout

    @staticmethod
    def request(address, size, device=0, cost=1000, thread=1):
        return f"a,{address:x},{size},0,{device},,1500000,,{cost},s,{thread}"

    @staticmethod
    def freed(address, size, device=0, cost=1000, wait=400, thread=1):
        waited = "" if wait is None else f",,{wait}"
        return (f"q,{address:x},{size},0,{device},,1500000,,,s,{thread}\nc,{address:x},{size},0,{device}\n"
                f"k,{address:x},0,0,{device},,1500000,,{cost},s,{thread}{waited}")

    def rows(self, *options):
        """By rule: reserved peak, driver calls, time saved."""
        text = self.inspect(*options)
        found = re.findall(r"^ +(?:defaults)? +(wait|event) {3,}(.*?) {3,}(\S+) {3,}(.*)$", text, re.M)
        return {rule: rest for rule, *rest in found}

    def test_the_time_saved_is_what_calls_took_but_for_waits_and_calls_that_stay(self):
        million = 1000000
        events = []
        for i in range(100):
            address = 0x10000000 + 512 * i
            events += [self.request(address, 512, cost=million),
                       self.freed(address, 512, cost=3 * million, wait=million)]
        self.write(*events)
        # 400 ms in all, waits 100; one call of the driver stays, which is 1 or 2 ms without its wait.
        rows = self.rows()
        self.assertEqual(rows["wait"], ["2.0 MiB", "1", "298 ms, 29.8 % of the run"])
        self.assertEqual(rows["event"], ["2.0 MiB", "1", "398 ms, 39.8 % of the run"])

    def test_a_wait_that_was_not_measured_makes_it_the_most(self):
        self.write(self.request(1 << 28, 512), self.freed(1 << 28, 512, wait=None))
        self.assertIn("at most ", self.rows()["wait"][2])
        self.assertNotIn("at most ", self.rows()["event"][2])

    def test_under_event_blocks_wait_for_work_up_to_a_quarter_of_those_in_use(self):
        mib = 1 << 20
        kept = [self.request((1 << 30) + i * 64 * mib, 64 * mib) for i in range(4)]
        turns = []
        for i in range(20):
            address = (1 << 40) + i * 16 * mib
            turns += [self.request(address, 16 * mib), self.freed(address, 16 * mib)]
        self.write(*kept, *turns)
        rows = self.rows()
        self.assertEqual(rows["wait"][0], "272.0 MiB")
        self.assertEqual(rows["event"][0], "272.0 MiB to 336.0 MiB")  # four wait, beside the fifth
        # A wait of the program in between is one for all.
        waits = [line for turn in turns for line in (turn, "W,0,0,0,0")]
        self.write(*kept, *waits)
        self.assertEqual(self.rows()["event"][0], "272.0 MiB")

    def test_the_end_of_a_context_is_that_of_its_device_only(self):
        mib = 1 << 20
        self.write(self.request(1 << 30, 64 * mib), self.request(1 << 40, 32 * mib, device=1),
                   "x,0,0,0,0", self.freed(1 << 40, 32 * mib, device=1),
                   self.request(1 << 41, 32 * mib, device=1))
        self.assertEqual(self.rows()["wait"][0], "96.0 MiB")

    def test_requests_that_would_not_fit_are_said(self):
        gib = 1 << 30
        self.write(self.request(1 << 34, 3 * gib), f"a,{1 << 35:x},{2 * gib},0,0,,1500000,,1000,v,1", total=4 * gib)
        self.assertIn("1 out of memory", self.inspect())

    def test_calls_of_threads_that_have_an_address_in_turn_are_kept_apart(self):
        first = self.freed(1 << 28, 512, cost=5000, thread=1).split("\n")
        second = self.freed(1 << 28, 512, cost=7000, thread=2).split("\n")
        self.write(self.request(1 << 28, 512), *first[:2], self.request(1 << 28, 512, thread=2), *second[:2],
                   first[2], second[2])
        self.assertRegex(self.inspect(), r"cuMemFree +2 +0.01 ms")

    def test_memory_that_is_not_served_counts_as_memory_only(self):
        self.write(f"a,{1 << 28:x},1048576,0,0,,1500000,,1000,v,1", f"A,{1 << 29:x},2097152,0,0,,1500000,,1000,l,1")
        text = self.inspect()
        self.assertRegex(text, r"blocks at a time +1.0 MiB")
        self.assertRegex(text, r"other memory at a time +2.0 MiB")
        self.assertNotIn("cachalot run", text)

    def test_inspect_shows_the_same_later(self):
        _, err = self.record("-o", self.path(), "--", program(), "open")
        shown = subprocess.run([CACHALOT, "inspect", self.path()], capture_output=True, text=True,
                               check=True)
        self.assertTrue(shown.stdout.startswith(err.strip("\n")))

    def test_places_of_the_peak_are_those_with_the_most_bytes_first(self):
        mib = 1 << 20
        modules = ["# module 400000 500000 1000 /nowhere/server", "# stack aa 401234;7f0000001000", "# stack bb 402345"]
        self.write(*modules,
                   f"a,{1 << 28:x},{3 * mib},0,0,,1500000,aa,1000,s,1",
                   f"a,{1 << 29:x},{5 * mib},0,0,,1500000,bb,1000,s,1",
                   self.freed(1 << 28, 3 * mib),
                   f"a,{1 << 30:x},{4 * mib},0,0,,1500000,aa,1000,s,1",
                   self.freed(1 << 29, 5 * mib))
        text = self.inspect("--places", "5")
        self.assertRegex(text, r"\n    5.0 MiB in 1 blocks, of 1 requests\n      server\+0x3345\n"
                               r"\n    4.0 MiB in 1 blocks, of 2 requests\n      server\+0x2234\n      0x7f0000001000\n")
        self.assertEqual(self.inspect("--places", "1").count(" requests\n"), 1)
        self.assertNotIn(" requests\n", self.inspect())

    def test_places_of_a_recording_without_stacks_are_said_to_be_missing(self):
        self.write(self.request(1 << 28, 512))
        self.assertIn("The recording has no stacks", self.inspect("--places", "3"))

    @unittest.skipUnless(shutil.which("addr2line"), "addr2line is missing")
    def test_places_have_the_names_of_functions(self):
        _, err = self.record("-o", self.path(), "--stacks", "8", "--", program(), "open")
        if "no unwinder" in err:
            self.skipTest("built without Cargo")
        self.assertRegex(err, r"\n    0.0 MiB in 1 blocks, of 3 requests\n      main( at \S+)?\n")

    def test_places_without_addr2line_are_addresses_in_files(self):
        _, err = self.record("-o", self.path(), "-q", "--stacks", "8", "--", program(), "open")
        if "no unwinder" in err:
            self.skipTest("built without Cargo")
        shown = subprocess.run([CACHALOT, "inspect", self.path(), "--places", "1"], capture_output=True, text=True,
                               check=True, env={**os.environ, "PATH": self.folder})
        self.assertRegex(shown.stdout, r"\n      program\+0x[0-9a-f]+\n")

    def test_replay_names_the_program(self):
        self.record("-o", self.path(), "-q", "--", program(), "open")
        shown = subprocess.run([CACHALOT, "replay", "--brief", self.path()], capture_output=True, text=True, check=True)
        self.assertRegex(shown.stdout, r"program +\S+/program open\n")
        self.assertRegex(shown.stdout, r"recorded +cachalot \S+, process \d+\n")

    def test_inspect_refuses_what_is_no_recording(self):
        with open(self.path(), "w", encoding="utf-8") as file:
            file.write('# {"workload": "small"}\nnonsense\n')
        shown = subprocess.run([CACHALOT, "inspect", self.path(), self.path("nothing")],
                               capture_output=True, text=True, check=False)
        self.assertEqual(shown.returncode, 2)
        self.assertIn("line 2: not an event", shown.stderr)
        self.assertEqual(shown.stderr.count("\n"), 2)

    def test_a_program_that_asks_for_nothing_is_said(self):
        _, err = self.record("--", "true")
        self.assertRegex(err, r"^cachalot: nothing is recorded: .*\n$")


if __name__ == "__main__":
    CACHALOT, FOLDER = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
