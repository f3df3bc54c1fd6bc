#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The man page and the completions of `cachalot`: they name every option, and shells take them.

Usage: shell_test.py PROGRAM [unittest arguments]
"""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = ""
SHELL_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "capi/cli/shell"
FILES = {"cachalot.1": ["manual"], "cachalot.bash": ["completion", "bash"], "_cachalot": ["completion", "zsh"],
         "cachalot.fish": ["completion", "fish"]}


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout, result.stderr


def text_of(name):
    return (SHELL_FOLDER / name).read_text()


def commands():
    return re.findall(r"^  (\w+) {2,}\S", run(PROGRAM, "--help")[1].split("Subcommands:")[1], re.MULTILINE)


def options(*command):
    names = re.findall(r"^  (-[-\w,]+)", run(PROGRAM, *command, "--help")[1], re.MULTILINE)
    return [name for row in names for name in row.split(",")]


class Interactive:
    """A shell on a terminal of its own."""

    def __init__(self, command, environment):
        self.text = ""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.environ.update(environment)
            os.execvp(command[0], command)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, text, seconds=30):
        end = time.monotonic() + seconds
        while text not in self.shown() and time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                self.text += os.read(self.terminal, 4096).decode(errors="replace")
        return text in self.shown()

    def shown(self):
        """Without what moves the cursor."""
        return re.sub(r".\x08|\x1b\[[?\d;]*\w|[\r\x07]", "", self.text)

    def close(self):
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)
        os.close(self.terminal)


class Files(unittest.TestCase):
    def test_what_is_installed_is_what_the_program_writes(self):
        for name, command in FILES.items():
            with self.subTest(name):
                self.assertEqual(text_of(name), run(PROGRAM, *command)[1],
                                 "write it anew: capi/cli/shell/write.sh PROGRAM")

    def test_every_command_and_option_is_in_each_of_them(self):
        self.assertGreaterEqual(len(commands()), 9)
        for command in commands():
            for option in options(command):
                dashes, word = re.fullmatch(r"(--?)(.*)", option).groups()
                page = text_of("cachalot.1").split(f".SS {command}\n")[1].split("\n.S")[0]
                self.assertIn(f"\\fB{option.replace('-', chr(92) + '-')}\\fR", page, command)
                script = text_of("cachalot.bash")
                listed = re.search(rf"^ +{command}\) options='(.*?)'", script, re.MULTILINE)[1]
                self.assertIn(option, listed.split(), command)
                part = text_of("_cachalot").split(f"\n    {command})\n")[1].split(";;")[0]
                self.assertRegex(part, rf"'\*{option}=?\[", command)
                self.assertRegex(text_of("cachalot.fish"),
                                 rf"(?m)_from {command}' .*-{'l' if dashes == '--' else 's'} {word} ", command)

    def test_another_shell_is_refused(self):
        code, _, err = run(PROGRAM, "completion", "tcsh")
        self.assertEqual(code, 2)
        self.assertIn("tcsh", err)


@unittest.skipUnless(shutil.which("mandoc") or "CI" in os.environ, "mandoc is missing")
class Page(unittest.TestCase):
    def test_mandoc_has_no_objection_but_to_the_missing_date(self):
        out = run("mandoc", "-Tlint", "-W", "warning", SHELL_FOLDER / "cachalot.1")[1]
        self.assertRegex(out, r'\A\S+ \S+ WARNING: missing date, using "": TH\n\Z')

    def test_groff_has_no_warning(self):
        code, _, err = run("groff", "-man", "-ww", "-z", "-Tutf8", SHELL_FOLDER / "cachalot.1")
        self.assertEqual((code, err), (0, ""))

    def test_it_shows_the_dashes_as_they_are_typed(self):
        page = run("mandoc", "-Tascii", SHELL_FOLDER / "cachalot.1")[1]
        page = re.sub(r".\x08", "", page)
        self.assertIn("cachalot run --limit 8GiB -- ./server", page)


class Completion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "a_recording.trace").touch()
        shutil.copy(SHELL_FOLDER / "_cachalot", self.folder)

    def expect(self, shell, setup, lines):
        """Types each line and a tab into the shell."""
        if not shutil.which(shell[0]) and "CI" not in os.environ:
            self.skipTest(f"{shell[0]} is missing")
        terminal = Interactive(shell, {"TERM": "dumb", "HOME": str(self.folder)})
        self.addCleanup(terminal.close)
        terminal.type(f"cd {self.folder}; {setup}; echo read''y\n")
        self.assertTrue(terminal.wait_for("ready"), terminal.text)
        for line, completed in lines.items():
            terminal.text = ""
            terminal.type(line + "\t")
            self.assertTrue(terminal.wait_for(completed), f"{line}: {terminal.text!r}")
            terminal.type("\x15")  # empties the line

    def test_bash_completes_commands_options_values_and_files(self):
        self.expect(["bash", "--norc", "-i"], f". {SHELL_FOLDER}/cachalot.bash", {
            "cachalot conv": "cachalot convert", "cachalot replay --exp": "replay --expect",
            "cachalot run --free ev": "--free event", "cachalot convert --to=pi": "--to=pickle",
            "cachalot completion fi": "completion fish", "cachalot run -- basenam": "-- basename",
            "cachalot tune a_rec": "tune a_recording.trace"})

    def test_zsh_completes_commands_options_values_and_files(self):
        self.expect(["zsh", "-f", "-i"], "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D", {
            "cachalot conv": "cachalot convert", "cachalot replay --exp": "replay --expect",
            "cachalot run --free ev": "--free event", "cachalot convert --to=pi": "--to=pickle",
            "cachalot completion fi": "completion fish", "cachalot run -- basenam": "-- basename",
            "cachalot tune a_rec": "tune a_recording.trace"})

    def test_fish_completes_commands_options_and_values(self):
        if not shutil.which("fish") and "CI" not in os.environ:
            self.skipTest("fish is missing")
        for line, completed in {"cachalot conv": "convert", "cachalot replay --exp": "--expect",
                                "cachalot run --free ev": "event", "cachalot completion fi": "fish"}.items():
            with self.subTest(line):
                _, out, err = run("fish", "--no-config", "-c",
                                  f"source {SHELL_FOLDER}/cachalot.fish; complete -C '{line}'")
                self.assertEqual([row.split("\t")[0] for row in out.splitlines()], [completed], err)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
