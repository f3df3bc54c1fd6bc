# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server as a process of its own: started, asked, stopped."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

from load import Client

FETCHED = pathlib.Path(__file__).resolve().parents[3] / "build" / "onnxruntime"


# What a supervisor gives a process before it kills it, and more than the 20 s of the interface.
END = 30


class Failed(Exception):
    """What a server did that it should not; of one that did not start also its exit status, and what it said."""

    def __str__(self):
        return str(self.args[0])


class Server:
    """Listens on a port of its own choice. Its output is kept, and shown if something fails."""

    def __init__(self, name, command, **settings):
        self.name, self.command = name, command
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("CACHALOT_ALLOC", "CACHALOT_DRIVER", "CACHALOT_POLICY", "SERVER_", "PYTORCH_"))}
        environment.update({"SERVER_ADDRESS": "127.0.0.1:0", "SERVER_MODELS": str(FETCHED / "models"),
                            "SERVER_ORT": str(FETCHED / "lib" / "libonnxruntime.so"),
                            "CACHALOT_DRIVER": "host:4GiB"})
        environment.update({key: str(value) for key, value in settings.items()})
        # The group is killed as a whole, if it comes to that: a command may be a wrapper.
        self.process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.lines = []
        self.listening = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.url = None
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith("listening on "):
                self.listening.set()
        self.listening.set()

    def _wait(self):
        self.listening.wait(60)
        address = next((line.split()[2] for line in self.lines if line.startswith("listening on ")), None)
        if address is None:
            raise Failed(f"it did not start: {self.state()}\n{self.output()}", self.process.poll(), self.output())
        self.url = "http://" + re.sub(r"^\[::\]|^0\.0\.0\.0", "127.0.0.1", address)

    def client(self):
        return Client(self.url)

    def stats(self):
        status, stats = self.client().json("GET", "/stats")
        if status != 200:
            raise Failed(f"/stats answers {status}: {stats}")
        return stats

    def reserved(self):
        return self.stats()["allocator"]["reserved_bytes.all.current"]

    def configure(self, **wanted):
        status, config = self.client().json("POST", "/config", wanted)
        if status != 200:
            raise Failed(f"/config answers {status}: {config}")
        return config

    def trim(self, wanted=None):
        status, body = self.client().json("POST", "/trim", wanted)
        if status != 200:
            raise Failed(f"/trim answers {status}: {body}")
        return body["released_bytes"]

    def state(self):
        """Whether it lives; a moment later, as it may be about to end."""
        try:
            return f"it ended with status {self.process.wait(1)}"
        except subprocess.TimeoutExpired:
            return "it is still there"

    def output(self):
        return "\n".join(line[:200] for line in self.lines[-10:])

    def stop(self):
        """As a supervisor does it. Its exit status, and the last line of its output."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(END)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"it did not end within {END} s of SIGTERM") from None
        self.reader.join(10)
        return status, self.lines[-1] if self.lines else ""

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Dripping(threading.Thread):
    """A client that begins a request and then sends a byte now and then, so that none is late, until it is cut off."""

    def __init__(self, server, start):
        super().__init__(daemon=True)
        self.begun, self.ended = start, threading.Event()
        self.socket = connect(server)
        self.socket.sendall(start)
        self.start()

    def run(self):
        try:
            while True:
                self.socket.sendall(b"x")
                time.sleep(0.05)
        except OSError:
            self.ended.set()


class Unread(threading.Thread):
    """A client that asks again and again and reads no answer, until it is cut off."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.socket = connect(server)
        self.start()

    def run(self):
        try:
            while True:
                self.socket.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
        except OSError:
            pass


def connect(server):
    parts = urllib.parse.urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port))


def wait_for(what, condition, seconds=10):
    """Until the condition holds; Failed with the last that it saw otherwise."""
    end = time.monotonic() + seconds
    while True:
        seen = condition()
        if seen is True:
            return
        if time.monotonic() > end:
            raise Failed(f"{what}: {seen} after {seconds} s")
        time.sleep(0.05)
