# SPDX-License-Identifier: MIT OR Apache-2.0
"""The wheel: what it has in it, and that it needs nothing else. Building it takes tools from PyPI."""

import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from support import PACKAGE, ROOT, VARIABLES

import cachalot_cuda

PROGRAM = """
import cachalot_cuda
with cachalot_cuda.Allocator(driver="host:64MiB") as allocator, allocator.allocate(1 << 20) as block:
    block.view[0] = 7
    print(block.view[0], allocator.memory_allocated())
print(cachalot_cuda.library_path())
"""


def reaches_pypi(folder):
    """Whether pip finds packages, with the settings of this machine."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "-d", folder, "wheel"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, folder)
        library = str(pathlib.Path(cachalot_cuda.library_path()).resolve().parent)
        done = subprocess.run([PACKAGE / "wheel" / "build.sh", folder], capture_output=True, text=True, check=False,
                              env={**os.environ, "CACHALOT_LIB_DIR": library})
        if done.returncode != 0 and not reaches_pypi(folder):
            raise unittest.SkipTest("PyPI cannot be reached")
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.wheel = pathlib.Path(done.stdout.strip())
        cls.pip = pathlib.Path(folder, "tools", "bin", "pip")

    def metadata(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            name = next(path for path in wheel.namelist() if path.endswith(".dist-info/METADATA"))
            return email.message_from_bytes(wheel.read(name))

    def test_it_has_the_texts_of_the_licences_and_what_the_extension_is_compiled_from(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            for name in ("LICENSE", "LICENSE-APACHE", "LICENSE-MIT"):
                found = [path for path in wheel.namelist() if path.endswith(f"/licenses/{name}")]
                self.assertEqual([wheel.read(path) for path in found], [(ROOT / name).read_bytes()], name)
            headers = ROOT / "capi" / "include"
            sources = [(path, str(path.relative_to(headers.parent))) for path in headers.glob("cachalot/*")]
            sources += [(PACKAGE / "cachalot_cuda" / name, name) for name in ("torch_extension.cpp", "py.typed")]
            for path, name in sources:
                self.assertEqual(wheel.read(f"cachalot_cuda/{name}"), path.read_bytes(), name)

    def test_its_page_begins_with_the_command_that_installs_it_and_the_first_block(self):
        first_block = re.search(r"```python\n.*?```\n", (ROOT / "README.md").read_text(), re.DOTALL)[0]
        begin = f"# cachalot for Python\n\n```sh\npip install {self.metadata()['Name']}\n```\n\n{first_block}"
        self.assertEqual(self.metadata().get_payload()[:len(begin)], begin)

    def test_each_link_of_its_page_has_an_address_or_leads_to_a_heading(self):
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", self.metadata().get_payload(), flags=re.DOTALL)
        links = re.findall(r"\]\(([^)\s]+)\)", prose)
        self.assertGreater(sum(link.startswith("https://") for link in links), 10)
        self.assertEqual([link for link in links if not re.match("https://|#", link)], [])

    def test_a_copy_of_the_folder_without_the_version_is_not_built(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(PACKAGE, pathlib.Path(folder, "package"), symlinks=True)
            command = [self.pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, copy]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("VERSION is missing, a link out of this folder", done.stderr)
            self.assertEqual(list(pathlib.Path(folder).glob("*.whl")), [])

    def test_its_name_says_for_which_systems_it_is(self):
        self.assertRegex(self.wheel.name, r"-py3-none-manylinux_2_\d+_x86_64\.whl$")

    def test_an_empty_environment_needs_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            python = pathlib.Path(folder, "bin", "python")
            install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index"]
            subprocess.run([python, *install, self.wheel], check=True)
            kept = {name: value for name, value in os.environ.items()
                    if name not in (*VARIABLES, "CACHALOT_LIB_DIR", "LD_LIBRARY_PATH", "PYTHONPATH")}
            done = subprocess.run([python, "-c", PROGRAM], env=kept, cwd=folder, capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.stderr, "")
            written, path = done.stdout.splitlines()
            self.assertEqual(written, "7 1048576")
            self.assertTrue(pathlib.Path(path).is_relative_to(pathlib.Path(folder).resolve()), path)


if __name__ == "__main__":
    unittest.main()
