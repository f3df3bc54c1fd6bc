# SPDX-License-Identifier: MIT OR Apache-2.0
"""Code of core/alloc that is written twice: each decision is written once.

Lines are compared by their tokens, so blanks, line lengths and comments play no part; names do.
"""

from collections import defaultdict
from collections.abc import Iterator

from cpp_code import Code, File, Function

FOLDER = "core/alloc/"
RUN = 8  # lines
# Tokens of a body. Shorter ones are those of getters, which may look alike.
BODY = 22

# Lines that are no decision.
SKIPPED = ("#", "namespace")


def find(code: Code) -> Iterator[str]:
    yield from repeated_bodies([f for f in code.functions if f.path.startswith(FOLDER)])
    yield from repeated_runs([f for f in code.files if f.path.startswith(FOLDER)])


def repeated_bodies(functions: list[Function]) -> Iterator[str]:
    places: dict[str, list[Function]] = defaultdict(list)
    for function in functions:
        if function.body.count(" ") + 1 >= BODY:
            places[function.body].append(function)
    for first, *others in places.values():
        for other in others:
            yield f"{other.place}: the body of {other.name} is that of {first.name} in {first.place}"


def repeated_runs(files: list[File]) -> Iterator[str]:
    """The first of each pair of runs: the lines that follow repeat because that one does."""
    seen: dict[tuple[str, ...], tuple[str, int]] = {}
    for file in files:
        lines = [(number, text) for number, text in sorted(file.code.items()) if not text.startswith(SKIPPED)]
        was_repeated = False
        for start in range(len(lines) - RUN + 1):
            window = tuple(text for _, text in lines[start:start + RUN])
            first = seen.setdefault(window, (file.path, lines[start][0]))
            is_repeated = first != (file.path, lines[start][0])
            if is_repeated and not was_repeated:
                yield f"{file.path}:{lines[start][0]}: {RUN} lines or more are those of {first[0]}:{first[1]}"
            was_repeated = is_repeated
