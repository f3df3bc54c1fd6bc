#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A web site for the rehearsal of a release: serves a folder under every host name, as a proxy does.

    serve.py FOLDER   writes its port on the standard output, and serves until it is ended
"""

import functools
import http.server
import sys
import urllib.parse


class Site(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        # A client that takes this for a proxy asks with the host's name in front.
        parts = urllib.parse.urlsplit(self.path)
        self.path = urllib.parse.urlunsplit(("", "", parts.path, parts.query, ""))
        super().do_GET()

    def log_message(self, *_):
        pass


def main():
    handler = functools.partial(Site, directory=sys.argv[1])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
