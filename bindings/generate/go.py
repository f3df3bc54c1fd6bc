# SPDX-License-Identifier: MIT OR Apache-2.0
"""Go's low layer: constants, mirrors of the structs, a thin call of every function, callbacks.

Only this layer has `import "C"`. What it needs beside the generated files is in memory.go; batch.go has what is
more than one call in one crossing."""

import re

from . import go_callbacks, go_functions, go_structs
from .go_names import FOLDER, HEAD, comment, go_type
from .header import Constant, HeaderError, Interface
from .names import bare, pascal


def write(interface: Interface) -> dict[str, str]:
    files = {
        "constants.go": constants(interface),
        "structs.go": go_structs.write(interface),
        **go_functions.write(interface),
        **go_callbacks.write(interface),
    }
    texts = "\n".join(text for name, text in files.items() if name.endswith(".go"))
    exported = re.findall(r"^(?:type|func|const) ([A-Z]\w*)", texts, re.MULTILINE)
    twice = sorted({name for name in exported if exported.count(name) > 1})
    if twice:
        raise HeaderError(f"two things have one name in Go: {', '.join(twice)}")
    return {f"{FOLDER}/{name}": text for name, text in files.items()}


def constants(interface: Interface) -> str:
    parts = [HEAD.rstrip(),
             "// Interface is the version of the interface that this package was generated for: that of the\n"
             "// header without its patch. CheckInterface compares it with the library.\n"
             f"const Interface = {interface.number}"]
    parts += [comment("", pascal(bare(n.name)), n.name, n.doc) + f"type {pascal(bare(n.name))} "
              + ("int32" if n.type == "enum" else go_type(interface, n.type)) for n in
              (*interface.enums, *interface.scalars)]
    parts += [constant(interface, c) for c in interface.constants if not c.name.startswith("CACHALOT_VERSION_")]
    return "\n\n".join(parts) + "\n"


def constant(interface: Interface, c: Constant) -> str:
    """Spelled as in C, as Go's own packages for foreign constants have it (syscall.O_CREAT)."""
    name = bare(c.name)
    enum = any(c.group == e.name for e in interface.enums)
    kind = pascal(bare(c.group)) if enum else f"{'u' if c.is_unsigned else ''}int{c.bits}"
    return comment("", name, c.name, c.doc or c.group) + f"const {name} {kind} = {c.value}"
