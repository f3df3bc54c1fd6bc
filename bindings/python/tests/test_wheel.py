# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a wheel of the package has in it. Building one takes setuptools from PyPI."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from support import PACKAGE, ROOT


class Wheel(unittest.TestCase):
    def test_it_has_the_texts_of_the_licences(self):
        with tempfile.TemporaryDirectory() as folder:
            # A copy, since building writes beside the sources; the links in it are files then.
            source = shutil.copytree(PACKAGE, pathlib.Path(folder, "source"), ignore=shutil.ignore_patterns("tests", "lib"))
            done = subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps",
                                   "-w", folder, source], capture_output=True, text=True, check=False)
            if done.returncode != 0 and "CI" not in os.environ:
                self.skipTest(f"no wheel can be built here: {done.stderr.strip().splitlines()[-1:]}")
            self.assertEqual(done.returncode, 0, done.stderr)
            with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
                for name in ("LICENSE", "LICENSE-APACHE", "LICENSE-MIT"):
                    found = [path for path in wheel.namelist() if path.endswith(f"/licenses/{name}")]
                    self.assertEqual([wheel.read(path) for path in found], [(ROOT / name).read_bytes()], name)


if __name__ == "__main__":
    unittest.main()
