# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command line that all generators of operation scripts have."""

import argparse
import sys


def run(generator):
    """Writes the script that the arguments name. generator: a module with PROFILES and generate()."""
    parser = argparse.ArgumentParser(
        description=generator.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("profile", choices=generator.PROFILES)
    parser.add_argument("seed", type=int)
    parser.add_argument("operations", type=int)
    parser.add_argument("config", nargs="?", default="")
    parser.add_argument("release", nargs="?", default="2.11")
    sys.stdout.write(generator.generate(*vars(parser.parse_args()).values()))
