# SPDX-License-Identifier: MIT OR Apache-2.0
"""How the library calls Go: a C function of the exact type for each callback, which calls an exported Go
function with the number of a handle."""

from .entries import Entry, entries, values
from .go_names import C_HEAD, HEAD, comment, go_type, local
from .header import HeaderError, Interface, Signature
from .names import bare, pascal
from .roles import arguments, directions

# What a callback of Go that panicked gives to the library, where 0 does not mean failure.
FAILED = {"read_fn": "-1", "write_fn": "1", "replay_options_progress": "1", "recorder_options_write": "1"}
# Those that the library calls with a lock held: functions that take locks are refused meanwhile.
UNDER_LOCK = {"trace_observer_fn", "allocator_options_log", "pool_source_allocate", "pool_source_free",
              "pool_route_predicate", "recorder_options_write"}


def write(interface: Interface) -> dict[str, str]:
    all_of_them = list(entries(interface))
    return {
        "callbacks.go": go_file(interface, all_of_them),
        "callbacks.h": header_file(all_of_them),
        "callbacks.c": c_file(all_of_them),
    }


# ---- C ----


def header_file(all_of_them: list[Entry]) -> str:
    guard = "CACHALOT_GO_CALLBACKS_H_"
    lines = [f"{c_declaration(t)};" for t in all_of_them]
    return "\n".join([C_HEAD.rstrip(), f"#ifndef {guard}", f"#define {guard}", "",
                      '#include "library.h"', "", *lines,
                      "void cachalot_go_destroy(void* user_data);", "", f"#endif /* {guard} */", ""])


def c_file(all_of_them: list[Entry]) -> str:
    parts = [C_HEAD + '#include "callbacks.h"\n\n#include "_cgo_export.h"\n#include "memory.h"\n']
    for t in all_of_them:
        passed = ", ".join(["(uintptr_t)user_data",
                            *(f"({str(p.type).removeprefix('const ')}){p.name}" if p.type.pointers else p.name
                              for p in t.signature.parameters[1:])])
        returns = str(t.signature.returns)
        lock = "1" if t.name in UNDER_LOCK else "0"
        call = f"{exported(t)}({passed});\n"
        parts.append(f"{c_declaration(t)} {{\n  cachalot_go_enter({lock});\n"
                     + (f"  {call}" if returns == "void" else f"  {returns} result = {call}")
                     + f"  cachalot_go_leave({lock});\n" + ("" if returns == "void" else "  return result;\n") + "}\n")
    parts.append("void cachalot_go_destroy(void* user_data) { cachalotGoDestroy((uintptr_t)user_data); }\n")
    return "\n".join(parts)


def c_declaration(t: Entry) -> str:
    parameters = ", ".join(f"{p.type} {p.name}" for p in t.signature.parameters)
    return f"{t.signature.returns} cachalot_go_{t.name}({parameters})"


def exported(t: Entry) -> str:
    return "cachalotGo" + pascal(t.name)


# ---- Go ----


def go_file(interface: Interface, all_of_them: list[Entry]) -> str:
    parts = [HEAD.rstrip(), '// #include "library.h"\nimport "C"',
             'import (\n\t"runtime/cgo"\n\t"unsafe"\n)']
    given = directions(interface).given
    for c in interface.callbacks:
        parts.append(comment("", pascal(bare(c.name)), c.name, c.doc)
                     + f"type {pascal(bare(c.name))} {function_type(interface, c.signature)}")
    for struct in interface.structs:
        for f in struct.fields if struct.name in given else ():
            if f.type.function and not f.name.endswith("destroy"):
                name = f"{pascal(bare(struct.name))}{pascal(f.name)}Fn"
                parts.append(comment("", name, f"{struct.name}::{f.name}", f.doc)
                             + f"type {name} {function_type(interface, f.type.function)}")
    parts += [trampoline(interface, t) for t in all_of_them]
    parts.append("//export cachalotGoDestroy\nfunc cachalotGoDestroy(handle C.uintptr_t) {\n"
                 "\tcgo.Handle(handle).Delete()\n}")
    return "\n\n".join(parts) + "\n"


GO = {"text": "string", "fill bytes": "[]byte", "bytes": "[]byte"}


def function_type(interface: Interface, s: Signature) -> str:
    rest = arguments(interface, "", s)[1:]
    parameters = ", ".join(f"{local(a.name)} {GO.get(a.role) or go_type(interface, a.type.name)}"
                           for a in rest if a.role != "fill text")
    returns = "string" if any(a.role == "fill text" for a in rest) else \
        "" if str(s.returns) == "void" else go_type(interface, s.returns.name)
    return f"func({parameters})" + (f" {returns}" if returns else "")


def trampoline(interface: Interface, t: Entry) -> str:
    parameters, passed, filled = ["handle C.uintptr_t"], [], None
    for a in values(interface, t):
        for p in a.parameters:
            star = "unsafe.Pointer" if p.type.name == "void" else f"{'*' * p.type.pointers}C.{p.type.name}"
            parameters.append(f"{local(p.name)} {star}")
        name = local(a.name)
        if a.role == "text":
            passed.append(f"C.GoString({name})")
        elif a.role == "struct":
            passed.append(f"{local(bare(a.type.name))}Of({name})")
        elif a.role in ("fill bytes", "bytes"):
            passed.append(f"unsafe.Slice((*byte)({name}), int({local(a.parameters[1].name)}))")
        elif a.role == "fill text":
            filled = a
        elif a.role == "scalar":
            passed.append(f"{go_type(interface, a.type.name)}({name})")
        else:
            raise HeaderError(f"{t.name}: no rule for {a.role} {a.name}")
    owner = pascal(bare(t.owner))
    target = f"(*{owner}).{pascal(t.field)}" if t.field else f"({owner})"
    call = f"cgo.Handle(handle).Value().{target}({', '.join(passed)})"
    returns = str(t.signature.returns)
    if filled:
        buffer, capacity = (local(p.name) for p in filled.parameters)
        call = f"copyText({call}, {buffer}, {capacity})"
    elif returns != "void":
        call = f"C.{returns}({call})"
    result = "" if returns == "void" else f" (result C.{returns})"
    name = exported(t)
    failed = [f"\tresult = {FAILED[t.name]}\n"] if t.name in FAILED else []
    return (f"//export {name}\nfunc {name}({', '.join(parameters)}){result} {{\n"
            + "\treturned := false\n\tdefer caught(&returned)\n" + "".join(failed)
            + (f"\tresult = {call}\n" if result else f"\t{call}\n") + "\treturned = true\n"
            + ("\treturn\n" if result else "") + "}")
