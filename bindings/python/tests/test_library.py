# SPDX-License-Identifier: MIT OR Apache-2.0
"""How the library is found, and that the declarations fit it."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from support import PACKAGE, ROOT, run

import cachalot_cuda
from cachalot_cuda import _c, _library


def compiler():
    return os.environ.get("CC") or shutil.which("cc")


class Declarations(unittest.TestCase):
    def structs(self):
        for name, kind in sorted(vars(_c).items()):
            if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind is not _c.Struct:
                yield "cachalot_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), kind

    def test_structs_have_the_headers_layout(self):
        if compiler() is None:
            self.skipTest("there is no C compiler")
        expected, lines = [], []
        for name, kind in self.structs():
            expected.append(f"{name} {ctypes.sizeof(kind)}")
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            for field, *_ in kind._fields_:
                place = getattr(kind, field)
                expected.append(f"{name}.{field} {place.offset} {place.size}")
                lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), '
                             f"sizeof((({name}*)0)->{field}));")
        self.assertGreater(len(expected), 100)
        self.assertEqual(self.compile_and_run(lines).splitlines(), expected)

    def compile_and_run(self, lines):
        includes = [os.environ.get("CACHALOT_INCLUDE_DIR"), str(ROOT / "capi" / "include")]
        with tempfile.TemporaryDirectory() as folder:
            generated = pathlib.Path(folder) / "cachalot" / "version.h"
            generated.parent.mkdir()
            template = (ROOT / "capi" / "include" / "cachalot" / "version.h.in").read_text()
            generated.write_text(re.sub(r"@\w+@", "0", template))
            source = pathlib.Path(folder) / "layout.c"
            source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include \"cachalot/cachalot.h\"\n"
                              "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
            program = pathlib.Path(folder) / "layout"
            flags = [f"-I{include}" for include in [*filter(None, includes), folder]]
            subprocess.run([compiler(), *flags, str(source), "-o", str(program)], check=True)
            return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout

    def test_numbers_are_the_headers(self):
        text = "".join(path.read_text() for path in (ROOT / "capi" / "include" / "cachalot").glob("*.h"))
        numbers = {name: int(value.rstrip("u"), 0) for name, value in
                   re.findall(r"#define CACHALOT_(\w+) *(?:\\\n)? *(-?\d\w*)", text)}
        self.assertEqual(_c.RELEASES["2.11"], numbers["RELEASE_2_11"])
        self.assertEqual(_c.RELEASES["2.15"], numbers["RELEASE_2_15"])
        self.assertEqual(_c.CONTEXT_SOURCES["stack"], numbers["CONTEXT_STACK"])
        self.assertEqual(_c.CONTEXT_SOURCES["labels"], numbers["CONTEXT_LABELS"])
        mends = {name[5:].lower(): value for name, value in numbers.items() if name.startswith("MEND_")}
        self.assertEqual(_c.MENDS, mends)
        for word, level in _c.CONTEXT_LEVELS.items():
            self.assertEqual(level, numbers[f"CONTEXT_LEVEL_{(word or 'never').upper()}"])
        for word, contexts in _c.RECORDED_CONTEXTS.items():
            name = {"labels": "LABELS", "history": "HISTORY_CONTEXTS", None: "NO_CONTEXTS"}[word]
            self.assertEqual(contexts, numbers[f"RECORD_{name}"])
        self.assertEqual(_c.STREAM_ALL, numbers["STREAM_ALL"])
        self.assertEqual(_c.BLOCK_STATES[numbers["BLOCK_PENDING_FREE"]], "active_pending_free")
        self.assertEqual(_c.POOL_NO_SPLIT, numbers["POOL_NO_SPLIT"])
        self.assertEqual(_c.POOL_USE_ON_OOM, numbers["POOL_USE_ON_OOM"])
        self.assertEqual(_c.POOL_PINNED, numbers["POOL_PINNED"])
        self.assertEqual(_c.POOL_WHOLE_BLOCKS, numbers["POOL_WHOLE_BLOCKS"])
        self.assertEqual(_c.ROUTE_THIS_THREAD, numbers["ROUTE_THIS_THREAD"])
        self.assertIn(f"#define CACHALOT_ALL_DEVICES ({_c.ALL_DEVICES})", text)
        self.assertEqual(_c.TenantStats.name.size, numbers["TENANT_NAME_CAPACITY"])
        for number, word in _c.PRESSURES.items():
            self.assertEqual(number, numbers[f"PRESSURE_{word.upper()}"])
        for number, word in enumerate(_c.POOL_STATES):
            self.assertEqual(number, numbers[f"POOL_{word.upper()}"])
        self.assertEqual(_c.SLEEP_CONTENTS, {False: numbers["SLEEP_DISCARD"], True: numbers["SLEEP_KEEP"],
                                             "all": numbers["SLEEP_KEEP_ALL"]})
        for prefix, words in (("POLICY_", _c.POLICIES), ("BORROW_", _c.BORROWS), ("STREAMS_", _c.STREAMS)):
            for word, number in words.items():
                self.assertEqual(number, numbers[prefix + word.upper()])
        self.assertEqual(cachalot_cuda._load().cachalot_action_name(_c.ACTION_OOM), b"oom")


class Search(unittest.TestCase):
    PRINT = "import cachalot_cuda\nprint(cachalot_cuda.library_path())"

    def test_begins_with_the_folder_of_the_variable(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(cachalot_cuda.library_path(), folder)
            self.assertEqual(run(self.PRINT, CACHALOT_LIB_DIR=folder).stdout.strip(), copy)

    def test_goes_on_with_the_package_and_the_loaders_path(self):
        folder = str(pathlib.Path(cachalot_cuda.library_path()).parent)
        done = run(self.PRINT, CACHALOT_LIB_DIR="/no/such/folder", LD_LIBRARY_PATH=folder)
        bundled = PACKAGE / "cachalot_cuda" / "lib" / _library.FILE_NAME
        self.assertEqual(done.stdout.strip(), str(bundled) if bundled.exists() else _library.FILE_NAME)

    def test_names_every_place_when_there_is_none(self):
        program = ("import cachalot_cuda\nfrom cachalot_cuda import _library\n_library.FILE_NAME = 'libnone.so'\n"
                   "try:\n    cachalot_cuda.stats()\n"
                   "except cachalot_cuda.LibraryNotFoundError as error:\n    print(error)")
        text = run(program, CACHALOT_LIB_DIR="/no/such/folder").stdout
        for place in ("CACHALOT_LIB_DIR", "/no/such/folder/libnone.so", str(PACKAGE / "cachalot_cuda/lib/libnone.so"),
                      "  libnone.so: "):
            self.assertIn(place, text)

    def test_passes_over_a_file_that_is_no_library_of_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / _library.FILE_NAME).write_text("not a library")
            done = run("import cachalot_cuda\ncachalot_cuda.stats()", CACHALOT_LIB_DIR=folder, LD_LIBRARY_PATH="")
        self.assertIn(f"{folder}/{_library.FILE_NAME}: ", done.stderr)

    def test_importing_the_package_loads_nothing(self):
        done = run("import cachalot_cuda\nprint('imported')", CACHALOT_LIB_DIR="/no/such/folder", LD_LIBRARY_PATH="")
        self.assertEqual(done.stdout, "imported\n", done.stderr)

    def test_refuses_a_library_of_another_version(self):
        program = ("from cachalot_cuda import _library\n_library.INTERFACE = 99\n"
                   "try:\n    _library.load()\nexcept ImportError as error:\n    print(error)")
        self.assertIn("which this package does not know", run(program).stdout)

    def test_names_the_version_of_an_older_library_before_what_it_lacks(self):
        if compiler() is None:
            self.skipTest("there is no C compiler")
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "old.c"
            source.write_text('const char* cachalot_version(void) { return "0.0.9"; }\n'
                              "int cachalot_version_number(void) { return 9; }\n")
            subprocess.run([compiler(), "-shared", "-fPIC", str(source), "-o", f"{folder}/{_library.FILE_NAME}"],
                           check=True)
            done = run("import cachalot_cuda\ncachalot_cuda.stats()", CACHALOT_LIB_DIR=folder, LD_LIBRARY_PATH="")
        self.assertIn("it has version 0.0.9", done.stderr)


class Errors(unittest.TestCase):
    def test_an_option_that_does_not_exist_is_told_at_the_first_call(self):
        done = run("import cachalot_cuda\ntry:\n    cachalot_cuda.stats()\n"
                   "except ValueError as error:\n    print(error)",
                   CACHALOT_ALLOC_CONF="no_such_option:1")
        self.assertIn("no_such_option", done.stdout)

    def test_a_driver_that_does_not_exist_is_told_at_the_first_call(self):
        done = run("import cachalot_cuda\ntry:\n    cachalot_cuda.stats()\nexcept cachalot_cuda.Error as error:\n"
                   "    print(error, error.status)", CACHALOT_DRIVER="no_such_driver")
        self.assertIn("no_such_driver", done.stdout)

    def test_options_are_refused_once_the_allocator_exists(self):
        cachalot_cuda.stats()
        with self.assertRaisesRegex(cachalot_cuda.InvalidStateError, "exists already"):
            _library.call("pluggable_set_options", None, ctypes.byref(_c.AllocatorOptions()))

    def test_a_text_longer_than_the_buffer_is_read_whole(self):
        self.assertGreater(len(cachalot_cuda.memory_summary()), 4096 // 2)
        texts = []

        def call(_, buffer, capacity, length):
            texts.append(capacity)
            length._obj.value = 10_000
            buffer.value = b"x" * min(capacity - 1, 10_000)

        original, _library.call = _library.call, call
        try:
            self.assertEqual(_library.text("any"), "x" * 10_000)
        finally:
            _library.call = original
        self.assertEqual(texts, [4096, 10_001])


if __name__ == "__main__":
    unittest.main()
