# SPDX-License-Identifier: MIT OR Apache-2.0
"""Adds a field, a function and constants to a copy of the header and sees every low layer have them, and the
check name every file that has not."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from . import abi_check, go_names, header, java_names, manifest, places, rust
from .__main__ import generate, outdated, write
from .names import bare, camel, pascal

# File, what is there, what stands before it in the changed copy.
CHANGES = [
    ("status.h", "  CACHALOT_STATUS_FORCE_INT32", "  /** An added value. */\n  CACHALOT_ERROR_ADDED = 91,\n"),
    ("allocator.h", "} cachalot_device_totals;", "  /** An added field. */\n  uint64_t added_field;\n"),
    ("allocator.h", "} cachalot_request;", "  /** An added field. */\n  int32_t added_flag;\n  int32_t reserved_1;\n"),
    ("trim.h", "/**\n * Gives whole free", "#define CACHALOT_ADDED_FLAG 0x8u /* an added flag */\n"
     "#define CACHALOT_ADDED_WORD 0x8000000000000000u /* an added word */\n\n"
     "/** An added function. */\n"
     "CACHALOT_API cachalot_status cachalot_added(cachalot_allocator* allocator, const cachalot_request* request,\n"
     "                                            cachalot_device_totals* out_totals,\n"
     "                                            uint64_t* out_bytes, cachalot_error* error);\n\n"),
]

# What each file then has.
ADDED = {
    rust.OUTPUT: ["pub added_field: u64,", "pub added_flag: i32,", "pub fn cachalot_added(",
                  "pub const CACHALOT_ERROR_ADDED: cachalot_status = 91;",
                  "/// an added flag\npub const CACHALOT_ADDED_FLAG: u32 = 8;",
                  "pub const CACHALOT_ADDED_WORD: u64 = 9223372036854775808;"],
    manifest.OUTPUT: ['"added_field"', '"cachalot_added"', '"CACHALOT_ERROR_ADDED"', '"CACHALOT_ADDED_FLAG"'],
    abi_check.OUTPUT: ["FIELD(cachalot_device_totals, added_field, 48, uint64_t*);", "IS(&cachalot_added,",
                       "VALUE(CACHALOT_ERROR_ADDED, 91);", "VALUE(CACHALOT_ADDED_FLAG, 8u);",
                       "VALUE(CACHALOT_ADDED_WORD, 9223372036854775808u);"],
    f"{go_names.FOLDER}/constants.go": ["const ERROR_ADDED Status = 91", "const ADDED_FLAG uint32 = 8",
                                        "const ADDED_WORD uint64 = 9223372036854775808"],
    f"{go_names.FOLDER}/structs.go": ["\tAddedField uint64\n", "s.AddedField = uint64(c.added_field)",
                                      "\tAddedFlag int32\n", "c.added_flag = C.int32_t(s.AddedFlag)"],
    f"{go_names.FOLDER}/functions.go": ["func Added(allocator Allocator, request *Request) "
                                        "(totals DeviceTotals, bytes uint64, err error) {"],
    f"{go_names.FOLDER}/functions.h": ["cachalot_go_added_result cachalot_go_added(uintptr_t allocator, "
                                       "const cachalot_request* request, cachalot_device_totals* out_totals);"],
    f"{go_names.FOLDER}/functions.c": [": cachalot_added((cachalot_allocator*)allocator, request, out_totals, "
                                       "&result.bytes, &error));"],
    f"{java_names.FOLDER}/Constants.java": ["int ERROR_ADDED = 91;", "int ADDED_FLAG = 8;",
                                            "long ADDED_WORD = -9223372036854775808L;"],
    f"{java_names.FOLDER}/Structs.java": ["value.addedField = from.getLong(at + 48);",
                                          "to.putInt(at + 48, this.addedFlag);"],
    f"{java_names.FOLDER}/Native.java": ["native int added(long allocator, long request, long outTotals, "
                                         "long outBytes, long error);"],
    f"{java_names.C_FOLDER}/native.c": ["(jint)cachalot_added("],
    places.OUTPUT: ["| `cachalot_added` | trim.h |"],
}


def changed_headers(folder: pathlib.Path, changes: list[tuple[str, str, str]]) -> pathlib.Path:
    shutil.copytree(header.HEADERS, folder)
    for name, place, text in changes:
        file = folder / "cachalot" / name
        before = file.read_text()
        assert before.count(place) == 1, f"{name} has no single {place!r}"
        file.write_text(before.replace(place, text + place))
    return folder


def compiler(test: unittest.TestCase, name: str) -> str:
    """A compiler; without it the test is left out, and with CI set it fails."""
    found = shutil.which(name)
    if not found and "CI" in os.environ:
        test.fail(f"{name} is missing, and CI is set")
    if not found:
        test.skipTest(f"{name} is missing")
    return found


class ChangedHeader(unittest.TestCase):
    headers: pathlib.Path
    root: pathlib.Path
    files: dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.headers = changed_headers(folder / "include", CHANGES)
        cls.root = folder / "tree"
        cls.files, _ = generate(cls.headers, header.ROOT)
        write(cls.files, cls.root)

    def need(self, path: str) -> None:
        if path not in self.files:
            self.skipTest(f"{path} could not be made")

    def run_all(self, *command: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(part) for part in command], cwd=self.root, capture_output=True, text=True)

    def test_every_file_has_what_was_added(self) -> None:
        for path, texts in ADDED.items():
            for text in texts:
                with self.subTest(path=path, text=text):
                    self.need(path)
                    self.assertIn(text, self.files[path])

    def test_every_file_that_is_checked_in_is_outdated(self) -> None:
        expected = [f"{path} is outdated; run: bindings/generate/run" for path in self.files if path in ADDED]
        self.assertEqual(outdated(self.files, header.ROOT), expected)

    def test_the_check_in_c_compiles_against_the_changed_header_only(self) -> None:
        for headers, is_right in ((self.headers, True), (header.HEADERS, False)):
            with header.include_folders(headers) as arguments:
                folders = [a for a in arguments if a.startswith("-I")]
                run = self.run_all(compiler(self, "cc"), "-std=c11", "-fsyntax-only", *folders, abi_check.OUTPUT)
            self.assertEqual(run.returncode == 0, is_right, run.stderr)

    def test_a_rust_program_uses_what_was_added(self) -> None:
        self.need(rust.OUTPUT)
        program = self.root / "added.rs"
        program.write_text(f'#![allow(non_camel_case_types)]\ninclude!("{rust.OUTPUT}");\n' + """
            pub fn added() -> u64 {
                let mut totals = cachalot_device_totals::default();
                let request = cachalot_request { added_flag: 1, ..Default::default() };
                let none = core::ptr::null_mut();
                let status = unsafe { cachalot_added(none, &request, &mut totals, &mut 0, core::ptr::null_mut()) };
                if status == CACHALOT_ERROR_ADDED { totals.added_field } else { CACHALOT_ADDED_FLAG.into() }
            }
            """)
        run = self.run_all(compiler(self, "rustc"), "--edition", "2021", "--crate-type", "lib", "--emit", "metadata",
                           "-o", "added.rmeta", program)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_a_go_program_uses_what_was_added(self) -> None:
        go = compiler(self, "go")
        folder = self.root / go_names.FOLDER
        shutil.copytree(header.ROOT / "bindings/go", self.root / "bindings/go", dirs_exist_ok=True,
                        ignore=lambda _, names: [n for n in names if n.endswith("_test.go")])
        write(self.files, self.root)
        (folder / "added.go").write_text("""package raw

            func added() any {
                totals, bytes, err := Added(nil, &Request{AddedFlag: 1})
                return []any{totals.AddedField + bytes + uint64(ADDED_FLAG), err, ERROR_ADDED}
            }
            """)
        with header.include_folders(self.headers) as arguments:
            folders = " ".join(a for a in arguments if a.startswith("-I"))
            (self.root / "cachalot.pc").write_text(
                f"Name: cachalot\nDescription: its header\nVersion: 1\nCflags: {folders}\nLibs:\n")
            run = subprocess.run([go, "vet", "./internal/raw"], cwd=self.root / "bindings/go", capture_output=True, text=True,
                                 env={**os.environ, "PKG_CONFIG_PATH": str(self.root), "GOTOOLCHAIN": "local",
                                      "GOFLAGS": "-tags=cachalot_installed"})
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_a_java_program_uses_what_was_added(self) -> None:
        javac = compiler(self, "javac")
        shutil.copy(header.ROOT / java_names.FOLDER / "Memory.java", self.root / java_names.FOLDER)
        (self.root / java_names.FOLDER / "Added.java").write_text("""package io.cachalot.raw;
            final class Added {
              static long added(Memory memory) {
                Structs.Request request = new Structs.Request();
                request.addedFlag = Constants.ADDED_FLAG;
                java.nio.ByteBuffer totals = memory.sized(Structs.DeviceTotals.SIZE);
                int status = Native.added(0, request.write(memory), Memory.addressOf(totals), 0, 0);
                return status == Constants.ERROR_ADDED ? 0 : Structs.DeviceTotals.read(totals, 0).addedField;
              }
            }
            """)
        sources = sorted((self.root / java_names.FOLDER).glob("*.java"))
        run = self.run_all(javac, "-Xlint:all", "-Werror", "-d", "classes", *sources)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


class Check(unittest.TestCase):
    """What --check finds in a tree."""

    def setUp(self) -> None:
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_an_edited_and_a_missing_file_are_outdated(self) -> None:
        files = {"a/edited": "text\n", "a/missing": "text\n", "a/same": "text\n"}
        write(files, self.root)
        (self.root / "a/edited").write_text("texT\n")
        (self.root / "a/missing").unlink()
        self.assertEqual(outdated(files, self.root), [f"{path} is outdated; run: bindings/generate/run"
                                                      for path in ("a/edited", "a/missing")])

    def test_a_function_without_a_place_is_found(self) -> None:
        interface = header.read()
        names = [f.name for f in interface.functions]
        sources = {
            "bindings/python/cachalot_cuda/a.py": 'call("trim")\n# cachalot_trim_at\n',
            "bindings/rust/cachalot/src/lib.rs": "".join(f"sys::{n}();\n" for n in names if n != "cachalot_trim")
                                                 + "// cachalot_trim\n",
            "bindings/rust/cachalot-sys/src/bindings.rs": "fn cachalot_trim();\n",
            "bindings/go/trim.go": "".join(f"raw.{pascal(bare(n))}()\n" for n in names if n != "cachalot_trim_at"),
            "bindings/go/internal/raw/functions.go": "func TrimAt() {}\n",
            "bindings/java/Trim.java": "".join(f"Native.{camel(bare(n))}();\n" for n in names)
                                       + "/* Native.trim() */",
        }
        write(sources, self.root)
        files, missing = places.write(interface, self.root)
        table = files[places.OUTPUT]
        self.assertEqual(missing, ["bindings/rust has no place for cachalot_trim",
                                   "bindings/go has no place for cachalot_trim_at"])
        self.assertIn("| `cachalot_trim` | trim.h | [a.py](python/cachalot_cuda/a.py) | **missing** "
                      "| [Trim.java](java/Trim.java) | [trim.go](go/trim.go) |\n", table)
        self.assertIn("| `cachalot_trim_at` | trim.h | | [lib.rs](rust/cachalot/src/lib.rs) "
                      "| [Trim.java](java/Trim.java) | **missing** |\n", table)

    def test_what_no_rule_covers_stops_the_generator(self) -> None:
        strange = "CACHALOT_API cachalot_status cachalot_strange({}, cachalot_error* error);\n\n"
        cases = [
            ("trim.h", "/**\n * Gives whole free", strange.format("int32_t** out_strange"),
             "cachalot_strange: no rule for the parameter int32_t** out_strange"),
            ("trim.h", "/**\n * Gives whole free", "typedef void (*cachalot_strange_fn)(void* user_data);\n"
             + strange.format("cachalot_strange_fn strange, void* user_data"),
             "cachalot_strange_fn: OUTLIVES_CALL does not say how long it is called"),
            ("tenant.h", "  void (*pressure_destroy)(void* user_data);\n} cachalot_tenant_options;",
             "  cachalot_log_fn strange;\n  void* strange_user_data;\n",
             "cachalot_tenant_options: OUTLIVES_CALL does not say how long its functions are called"),
            ("trim.h", "/**\n * Gives whole free", "no declaration;\n", "unknown type name"),
        ]
        for number, (name, place, text, message) in enumerate(cases):
            with self.subTest(message=message), self.assertRaisesRegex(header.HeaderError, re.escape(message)):
                generate(changed_headers(self.root / str(number), [(name, place, text)]), header.ROOT)


if __name__ == "__main__":
    unittest.main()
