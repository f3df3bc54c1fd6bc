# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which options the programs of a fleet need: `cachalot tune` over recordings in an object store, on Ray.

    python -m cachalot_cuda.fleet s3://bucket/recordings s3://bucket/tuned --config expandable_segments:True

Each task looks at one recording under one option string, and writes one file of Parquet. A task whose file exists is not
done again, so a fleet that was stopped goes on. A worker that dies costs no more than its task. `read` gives all rows as
one table. Stores are those of pyarrow.fs: a folder, s3://, gs://, hdfs://. The fleet needs the packages `ray` and
`pyarrow`, and the program `cachalot` on each worker.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, TextIO

import pyarrow
import pyarrow.fs
import pyarrow.parquet
import ray

USUAL = ("", "expandable_segments:True", "max_split_size_mb:128", "max_split_size_mb:64", "roundup_power2_divisions:4")
SUFFIXES = (".csv", ".csv.gz", ".csv.xz")


def store_of(uri: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    return pyarrow.fs.FileSystem.from_uri(uri) if "://" in uri else (pyarrow.fs.LocalFileSystem(),
                                                                     str(pathlib.Path(uri).absolute()))


def recordings_in(uri: str) -> list[str]:
    """The paths of all recordings below an address, in order."""
    store, path = store_of(uri)
    found = store.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
    return sorted(info.path for info in found if info.is_file and info.path.endswith(SUFFIXES))


def result_name(recording: str, config: str) -> str:
    """Of the file that has the result of one task."""
    return hashlib.sha256(f"{recording}\n{config}".encode()).hexdigest()[:32] + ".parquet"


def tune(program: str, file: str, config: str, capacity: str | None) -> dict[str, Any]:
    """One recording under one string: the row of `cachalot tune --json`. CalledProcessError: it is no recording."""
    command = [program, "tune", "--json", "--only", "--strings", "0", "--threads", "1", "--config", config, file]
    if capacity:
        command += ["--capacity", capacity]
    run = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"][0]
    figures = {key: run[key] for key in ("events", "requested_bytes", "device_bytes")}
    return {**figures, **run["results"][0], "error": ""}


def row_of(program: str, file: str, config: str, capacity: str | None) -> dict[str, Any]:
    """The same; a recording that cannot be read is a row that says why, and no reason to stop the fleet."""
    try:
        return tune(program, file, config, capacity)
    except subprocess.CalledProcessError as error:
        return {"config": config, "error": error.stderr.strip()}


@ray.remote(num_cpus=1, max_retries=-1)
def work(recordings: str, recording: str, config: str, results: str, program: str,
         capacity: str | None) -> dict[str, Any]:
    """One task. The file of its result appears as a whole, by a move."""
    source, _ = store_of(recordings)
    target, folder = store_of(results)
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / pathlib.PurePath(recording).name
        with source.open_input_stream(recording, compression=None) as remote, open(file, "wb") as local:
            while piece := remote.read(1 << 22):
                local.write(piece)
        row = {"recording": recording, **row_of(program, str(file), config, capacity)}
    name = f"{folder}/{result_name(recording, config)}"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), f"{name}.part", filesystem=target)
    target.move(f"{name}.part", name)
    return row


def missing(recordings: str, results: str, configs: Sequence[str]) -> list[tuple[str, str]]:
    """The tasks that have no result yet."""
    target, folder = store_of(results)
    target.create_dir(folder, recursive=True)
    done = {pathlib.PurePath(info.path).name for info in target.get_file_info(pyarrow.fs.FileSelector(folder))}
    tasks = [(recording, config) for recording in recordings_in(recordings) for config in configs]
    return [task for task in tasks if result_name(*task) not in done]


def run(recordings: str, results: str, configs: Sequence[str] = USUAL, program: str = "cachalot",
        capacity: str | None = None, progress: TextIO = sys.stderr) -> int:
    """Does all tasks that have no result, on the Ray cluster at hand, and returns how many those were."""
    tasks = missing(recordings, results, configs)
    pending = [work.remote(recordings, *task, results, program, capacity) for task in tasks]
    while pending:
        ready, pending = ray.wait(pending, num_returns=min(len(pending), 100), timeout=10)
        ray.get(ready)  # what stopped a task for good stops the fleet
        print(f"{len(tasks) - len(pending):,} of {len(tasks):,} done", file=progress)
    return len(tasks)


def read(results: str) -> Any:
    """All results as a pyarrow.Table: a row for each recording and string."""
    target, folder = store_of(results)
    files = sorted(info.path for info in target.get_file_info(pyarrow.fs.FileSelector(folder))
                   if info.path.endswith(".parquet"))
    tables = [pyarrow.parquet.read_table(file, filesystem=target) for file in files]
    return pyarrow.concat_tables(tables, promote_options="permissive") if tables else pyarrow.table({})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings")
    parser.add_argument("results")
    parser.add_argument("--config", action="append", help="an option string; may be repeated [the usual ones]")
    parser.add_argument("--capacity", help="of the devices, like 80GiB [the recorded one]")
    parser.add_argument("--program", default="cachalot", help="cachalot on the workers [cachalot]")
    parser.add_argument("--address", help="of the Ray cluster [a local one]")
    arguments = parser.parse_args()
    ray.init(address=arguments.address, log_to_driver=False)
    run(arguments.recordings, arguments.results, arguments.config or USUAL, arguments.program, arguments.capacity)


if __name__ == "__main__":
    main()
