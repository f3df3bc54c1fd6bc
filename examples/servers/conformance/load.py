#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sends images to a server and tells how that went, as one line of JSON.

    load.py http://127.0.0.1:8080 FOLDER [--requests 200] [--concurrency 16] [--seed 1] [--until-failure]

The images of the folder are sent in a random order that the seed decides. With --until-failure no more
requests are begun once one was answered with anything but 200.
"""

import argparse
import collections
import http.client
import json
import pathlib
import random
import threading
import time
import urllib.parse

Answer = collections.namedtuple("Answer", "name status body seconds")


class Client:
    """A connection of one thread's."""

    def __init__(self, url, timeout=120):
        parts = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)

    def ask(self, method, path, body=None):
        """Status, headers and bytes of the answer."""
        try:
            self.connection.request(method, path, body=body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # a server may answer before it has been told all, and read no more
        response = self.connection.getresponse()
        return response.status, response.headers, response.read()

    def json(self, method, path, body=None):
        """Status and parsed body."""
        data = json.dumps(body).encode() if body is not None else None
        status, _, text = self.ask(method, path, data)
        return status, json.loads(text)

    def infer(self, name, data):
        begin = time.monotonic()
        status, _, text = self.ask("POST", "/infer", data)
        return Answer(name, status, json.loads(text), time.monotonic() - begin)


def read_images(folder):
    """Bytes by name, in the order of the names."""
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).glob("*.png"))}


def sequence(images, count, seed):
    """Names in an order that the seed decides; every image is as frequent as any other."""
    names = [name for _ in range(-(-count // len(images))) for name in images][:count]
    random.Random(seed).shuffle(names)
    return names


def send(url, images, names, concurrency, until_failure=False):
    """All answers, in the order of the names; None where a request was not begun or had none."""
    answers = [None] * len(names)
    errors = []
    place = iter(range(len(names)))
    lock = threading.Lock()
    stop = threading.Event()

    def work():
        client = Client(url)
        while not stop.is_set():
            with lock:
                index = next(place, None)
            if index is None:
                return
            try:
                answers[index] = client.infer(names[index], images[names[index]])
            except (OSError, http.client.HTTPException, ValueError) as error:
                errors.append(f"{names[index]}: {error!r}")
                stop.set()
                return
            if until_failure and answers[index].status != 200:
                stop.set()

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers, errors


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("folder")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--until-failure", action="store_true")
    options = parser.parse_args()
    images = read_images(options.folder)
    if not images or options.requests < 1 or options.concurrency < 1:
        parser.error(f"{len(images)} images, {options.requests} requests, {options.concurrency} at once: nothing to do")
    names = sequence(images, options.requests, options.seed)
    begin = time.monotonic()
    answers, errors = send(options.url, images, names, options.concurrency, options.until_failure)
    done = [answer for answer in answers if answer]
    seconds = [answer.seconds for answer in done if answer.status == 200]
    print(json.dumps({
        "requests": len(names), "seconds": round(time.monotonic() - begin, 3),
        "statuses": dict(collections.Counter(str(answer.status) for answer in done)), "errors": errors,
        "p50_ms": percentile([1000 * s for s in seconds], 0.5),
        "p99_ms": percentile([1000 * s for s in seconds], 0.99)}))


if __name__ == "__main__":
    main()
