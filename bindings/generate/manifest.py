# SPDX-License-Identifier: MIT OR Apache-2.0
"""The list of all that the header declares, as JSON with one declaration a line, for review and for tools."""

import json

from .header import Callback, Constant, Field, Function, Interface, Named, Signature, Struct, summary

OUTPUT = "bindings/interface.json"


def write(interface: Interface) -> dict[str, str]:
    sections = {
        "functions": [function(f) for f in interface.functions],
        "structs": [struct(s) for s in interface.structs],
        "callbacks": [callback(c) for c in interface.callbacks],
        "handles": [name(h) for h in interface.handles],
        "scalars": [name(s) for s in interface.scalars],
        "enums": [name(e) for e in interface.enums],
        "constants": [constant(c) for c in interface.constants],
    }
    parts = [f'"generated": "by bindings/generate; do not edit",\n"interface": {interface.number}']
    parts += [f'"{title}": [\n' + ",\n".join(rows) + "\n]" for title, rows in sections.items()]
    return {OUTPUT: "{\n" + ",\n".join(parts) + "\n}\n"}


def line(**values: object) -> str:
    return json.dumps(values, ensure_ascii=False)


def types(signature: Signature) -> dict[str, object]:
    return {"returns": str(signature.returns), "parameters": {p.name: str(p.type) for p in signature.parameters}}


def function(f: Function) -> str:
    return line(name=f.name, header=f.header, **types(f.signature), summary=summary(f.doc))


def struct(s: Struct) -> str:
    first = line(name=s.name, header=s.header, size=s.size, summary=summary(s.doc))
    return first.removesuffix("}") + ', "fields": [\n' + ",\n".join("  " + field(f) for f in s.fields) + "]}"


def field(f: Field) -> str:
    return line(name=f.name, type=str(f.type), offset=f.offset, size=f.size, summary=summary(f.doc))


def callback(c: Callback) -> str:
    return line(name=c.name, header=c.header, **types(c.signature), summary=summary(c.doc))


def name(n: Named) -> str:
    return line(name=n.name, header=n.header, type=n.type, summary=summary(n.doc))


def constant(c: Constant) -> str:
    return line(name=c.name, header=c.header, value=c.value, group=c.group, summary=summary(c.doc))
