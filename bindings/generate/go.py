# SPDX-License-Identifier: MIT OR Apache-2.0
"""Go's low layer: constants, mirrors of the structs, a thin call of every function, callbacks.

Only this layer has `import "C"`. What it needs beside the generated files is in memory.go."""

import re

from . import go_callbacks, go_structs
from .go_names import FOLDER, HEAD, PREAMBLE, comment, go_type, local
from .header import Constant, Function, HeaderError, Interface
from .names import bare, pascal
from .roles import OUTLIVES_CALL, Argument, arguments, bound, groups, takes_error


def write(interface: Interface) -> dict[str, str]:
    files = {
        "constants.go": constants(interface),
        "structs.go": go_structs.write(interface),
        "functions.go": functions(interface),
        **go_callbacks.write(interface),
    }
    exported = re.findall(r"^(?:type|func|const) ([A-Z]\w*)", "\n".join(files.values()), re.MULTILINE)
    twice = sorted({name for name in exported if exported.count(name) > 1})
    if twice:
        raise HeaderError(f"two things have one name in Go: {', '.join(twice)}")
    return {f"{FOLDER}/{name}": text for name, text in files.items()}


# ---- Constants ----


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
    kind = pascal(bare(c.group)) if enum else "uint32" if c.is_unsigned else "int32"
    return comment("", name, c.name, c.doc or c.group) + f"const {name} {kind} = {c.value}"


# ---- Functions ----


def functions(interface: Interface) -> str:
    return "\n\n".join([HEAD.rstrip(), PREAMBLE, 'import "unsafe"',
                        *(function(interface, f) for f in bound(interface))]) + "\n"


def function(interface: Interface, f: Function) -> str:
    """What C has not written is zero, so results are copied whatever came of the call."""
    given, results, before, passed, after = [], [], [], [], []
    found = arguments(interface, f.name, f.signature)
    if any(a.role in ("struct", "text", "callback", "array", "bytes") for a in found):
        before += ["var m memory", "defer m.free()"]
    for argument in found:
        emit = RESULTS[argument.role] if argument.is_result else GIVEN[argument.role]
        emit(interface, argument, given, results, before, passed, after)
    if keeps(interface, found):
        results.append(("keep", "Keep"))
        after += ["if err == nil {", "\tkeep = m.keep()", "}"]
    call = f"C.{f.name}({', '.join(passed + (['e'] if takes_error(f) else []))})"
    filled = [a for a in found if a.role in ("out text", "out bytes", "out rows")]
    lines = [*before, *body(interface, f, call, filled, after)]
    returns = f.signature.returns
    if str(returns) == "cachalot_status":
        results.append(("err", "error"))
    elif str(returns) != "void":
        results.append(("", result_type(interface, returns)))
    return (comment("", pascal(bare(f.name)), f.name, f.doc)
            + f"func {pascal(bare(f.name))}({', '.join(given)}){signature_results(results)} {{\n"
            + "".join(f"\t{line}\n" for line in lines) + "}")


def keeps(interface: Interface, found: list[Argument]) -> bool:
    """Whether the library calls functions that it got here later, and never says when it has done so."""
    names = [a.type.name for a in found if a.role in ("struct", "callback")]
    return any(OUTLIVES_CALL.get(name, False) for name in names)


def signature_results(results: list[tuple[str, str]]) -> str:
    if not results:
        return ""
    if results[0][0] == "":
        return " " + results[0][1]
    return " (" + ", ".join(f"{name} {kind}" for name, kind in results) + ")"


def result_type(interface: Interface, returns) -> str:
    return "string" if str(returns) == "const char*" else go_type(interface, returns.name)


def body(interface: Interface, f: Function, call: str, filled: list[Argument], after: list[str]) -> list[str]:
    returns = str(f.signature.returns)
    if returns == "void":
        return [call]
    if returns == "const char*":
        return [f"return C.GoString({call})"]
    if returns != "cachalot_status":
        return [f"return {result_type(interface, f.signature.returns)}({call})"] \
            if not interface.is_handle(f.signature.returns.name) else [f"return {call}"]
    check = f"statusError({call})"
    take = []
    if takes_error(f):
        take, check = ["e := takeError()", "defer giveError(e)"], f"check({call}, e)"
    if not filled:
        return [*take, f"err = {check}", *after, "return"]
    return [*take, *fill(filled[0], check)]


def fill(argument: Argument, check: str) -> list[str]:
    """Asks how much there is, then for all of it, until what came fits: it may have grown in between."""
    name = local(argument.name)
    element, fits, end = "byte", "<=", [f"{name} = buffer[:count]"]
    if argument.role == "out text":  # needs room for its NUL
        fits, end = "<", [f"{name} = string(buffer[:count])"]
    elif argument.role == "out rows":
        element = f"C.{argument.type.name}"
        copy = f"{local(bare(argument.type.name))}Of"
        end = ["for i := range buffer[:count] {", f"\t{name} = append({name}, {copy}(&buffer[i]))", "}"]
    return [
        f"var buffer []{element}",
        "var count C.size_t",
        "for {",
        f"\tif err = {check}; err != nil {{",
        "\t\treturn",
        "\t}",
        f"\tif int(count) {fits} len(buffer) {{",
        *(f"\t\t{line}" for line in end),
        "\t\treturn",
        "\t}",
        f"\tbuffer = make([]{element}, int(count)+1)",
        "}",
    ]


# ---- Arguments: each adds to what the function is given and returns, to what is done before the call, to what
# is passed, and to what is done after it. ----


def give_scalar(interface, a, given, results, before, passed, after):
    given.append(f"{local(a.name)} {go_type(interface, a.type.name)}")
    passed.append(f"C.{a.type.name}({local(a.name)})")


def give_handle(interface, a, given, results, before, passed, after):
    given.append(f"{local(a.name)} {go_type(interface, a.type.name)}")
    passed.append(local(a.name))


def give_text(interface, a, given, results, before, passed, after):
    given.append(f"{local(a.name)} string")
    passed.append(f"m.text({local(a.name)})")


def give_struct(interface, a, given, results, before, passed, after):
    given.append(f"{local(a.name)} *{pascal(bare(a.type.name))}")
    passed.append(f"{local(a.name)}.c(&m)")


def give_id(interface, a, given, results, before, passed, after):
    name = local(a.name)
    given.append(f"{name} {pascal(bare(a.type.name))}")
    before.append(f"var {name}C C.{a.type.name}")
    before.append(f"{name}.fill(&{name}C, nil)")
    passed.append(f"{name}C")


def give_array(interface, a, given, results, before, passed, after):
    given.append(f"{local(a.name)} []{go_type(interface, a.type.name)}")
    passed.append(f"(*C.{a.type.name})(unsafe.Pointer(unsafe.SliceData({local(a.name)})))")
    passed.append(f"C.size_t(len({local(a.name)}))")


def give_bytes(interface, a, given, results, before, passed, after):
    given.append(f"{local(a.name)} []byte")
    passed.append(f"unsafe.Pointer(unsafe.SliceData({local(a.name)}))")
    passed.append(f"C.size_t(len({local(a.name)}))")


def give_memory(interface, a, given, results, before, passed, after):
    given.append(f"{local(a.name)} unsafe.Pointer")
    passed.append(local(a.name))


def give_callback(interface, a, given, results, before, passed, after):
    name, kind = local(a.name), a.type.name
    given.append(f"{name} {pascal(bare(kind))}")
    destroy = len(a.parameters) == 3
    passed.append(f"(*[0]byte)(C.cachalot_go_{bare(kind)})")
    passed.append(f"C.cachalot_go_data(C.uintptr_t(m.{'give' if destroy else 'hold'}({name})))")
    if destroy:
        passed.append("(*[0]byte)(C.cachalot_go_destroy)")


def get_scalar(interface, a, given, results, before, passed, after):
    name, kind = local(a.name), go_type(interface, a.type.name)
    results.append((name, kind))
    before.append(f"var {name}C C.{a.type.name}")
    passed.append(f"&{name}C")
    after.append(f"{name} = {kind}({name}C)")


def get_handle(interface, a, given, results, before, passed, after):
    results.append((local(a.name), go_type(interface, a.type.name)))
    before.append(f"var {local(a.name)}C *C.{a.type.name}")
    passed.append(f"&{local(a.name)}C")
    after.append(f"{local(a.name)} = {local(a.name)}C")


def get_text(interface, a, given, results, before, passed, after):
    results.append((local(a.name), "string"))
    before.append(f"var {local(a.name)}C *C.char")
    passed.append(f"&{local(a.name)}C")
    after.append(f"{local(a.name)} = C.GoString({local(a.name)}C)")


def get_memory(interface, a, given, results, before, passed, after):
    results.append((local(a.name), "unsafe.Pointer"))
    before.append(f"var {local(a.name)}C unsafe.Pointer")
    passed.append(f"&{local(a.name)}C")
    after.append(f"{local(a.name)} = {local(a.name)}C")


def get_struct(interface, a, given, results, before, passed, after):
    name, c = local(a.name), a.type.name
    results.append((name, pascal(bare(c))))
    before.append(f"var {name}C C.{c}")
    if interface.struct(c).is_sized:
        before.append(f"{name}C.struct_size = C.sizeof_{c}")
    passed.append(f"&{name}C")
    after.append(f"{name} = {local(bare(c))}Of(&{name}C)")


def get_filled(interface, a, given, results, before, passed, after):
    kind = {"out text": "string", "out bytes": "[]byte"}.get(a.role) or f"[]{pascal(bare(a.type.name))}"
    pointer = {"out text": "(*C.char)(unsafe.Pointer(unsafe.SliceData(buffer)))",
               "out bytes": "unsafe.Pointer(unsafe.SliceData(buffer))"}.get(a.role) or "unsafe.SliceData(buffer)"
    results.append((local(a.name), kind))
    passed += [pointer, "C.size_t(len(buffer))", "&count"]


GIVEN = {"scalar": give_scalar, "handle": give_handle, "text": give_text, "struct": give_struct, "id": give_id,
         "array": give_array, "bytes": give_bytes, "memory": give_memory, "callback": give_callback}
RESULTS = {"out scalar": get_scalar, "out handle": get_handle, "out borrowed text": get_text,
           "out memory": get_memory, "out struct": get_struct, "out text": get_filled, "out bytes": get_filled,
           "out rows": get_filled}
