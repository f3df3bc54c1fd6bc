# SPDX-License-Identifier: MIT OR Apache-2.0
"""Go's thin call of every function.

A function that fails by a record is called through one of C's that gives its results, and the record of a
failure, by value: nothing of Go's memory is lent for them, so a call that succeeds allocates nothing."""

from dataclasses import dataclass, field

from .go_names import C_HEAD, HEAD, PREAMBLE, comment, go_field, go_type, local
from .header import Function, Interface, Parameter, Type
from .names import bare, pascal
from .roles import OUTLIVES_CALL, Argument, arguments, bound, takes_error

# Objects whose functions take locks: from within a callback under a lock they are refused.
LOCKING = ("cachalot_allocator", "cachalot_tenant")
REFUSED = "cachalot_go_is_locked()"


def write(interface: Interface) -> dict[str, str]:
    wrapped = [f for f in bound(interface) if is_wrapped(interface, f)]
    return {
        "functions.go": "\n\n".join([HEAD.rstrip(), PREAMBLE, 'import "unsafe"',
                                     *(function(interface, f) for f in bound(interface))]) + "\n",
        "functions.h": header_file(interface, wrapped),
        "functions.c": c_file(interface, wrapped),
    }


def takes_locks(f: Function) -> bool:
    return any(p.type.name in LOCKING and p.type.pointers == 1 and not p.type.is_const
               for p in f.signature.parameters)


def used(f: Function) -> list[str]:
    """What a call is remembered by while it lasts: its allocator and its tenant, 0 for none."""
    names = {p.type.name: p.name for p in f.signature.parameters if p.type.pointers == 1 and not p.type.is_const}
    return [names.get(locking, "0") for locking in LOCKING]


def is_wrapped(interface: Interface, f: Function) -> bool:
    return takes_error(f) or takes_locks(f) or fills(interface, f)


def fills(interface: Interface, f: Function) -> bool:
    """Whether it writes as much as fits, and how much there is."""
    return any(a.role in ("out text", "out bytes", "out rows") for a in arguments(interface, f.name, f.signature))


# ---- C ----


def header_file(interface: Interface, wrapped: list[Function]) -> str:
    guard = "CACHALOT_GO_FUNCTIONS_H_"
    parts = [C_HEAD.rstrip(), f"#ifndef {guard}\n#define {guard}", '#include "library.h"']
    for f in wrapped:
        fields = result_fields(interface, f)
        if fields:
            rows = "".join(f"  {row};\n" for row in fields)
            parts.append(f"typedef struct {{\n{rows}}} {result_type(f)};")
        parts.append(f"{declaration(interface, f)};")
    return "\n\n".join([*parts, f"#endif /* {guard} */"]) + "\n"


def c_file(interface: Interface, wrapped: list[Function]) -> str:
    return "\n\n".join([C_HEAD + '#include "functions.h"\n\n#include "memory.h"',
                        *(definition(interface, f) for f in wrapped)]) + "\n"


def result_type(f: Function) -> str:
    return f"cachalot_go_{bare(f.name)}_result"


def result_fields(interface: Interface, f: Function) -> list[str]:
    if str(f.signature.returns) != "cachalot_status":
        return []
    found = [f"{pointed(out)} {result_name(out)}" for a in arguments(interface, f.name, f.signature)
             for out in [by_value(a)] if out]
    return ["int32_t status", *found, *(["cachalot_error* error"] if takes_error(f) else [])]


def by_value(a: Argument) -> Parameter | None:
    """What C writes of an argument, where that is no struct: a field of the result."""
    if a.role in ("out scalar", "out handle", "out memory", "out borrowed text"):
        return a.parameters[0]
    return a.parameters[2] if a.role in ("out text", "out bytes", "out rows") else None


def pointed(p: Parameter) -> str:
    return str(p.type).removesuffix("*")


def result_name(p: Parameter) -> str:
    return p.name.removeprefix("out_")


def declaration(interface: Interface, f: Function) -> str:
    parameters = []
    for a in arguments(interface, f.name, f.signature):
        if a.role in ("callback", "handle"):  # cgo looks behind every pointer that it is given
            parameters.append(f"uintptr_t {a.name}")
        else:
            parameters += [f"{p.type} {p.name}" for p in a.parameters if p != by_value(a)]
    returns = result_type(f) if result_fields(interface, f) else str(f.signature.returns)
    return f"{returns} cachalot_go_{bare(f.name)}({', '.join(parameters) or 'void'})"


def definition(interface: Interface, f: Function) -> str:
    passed = []
    for a in arguments(interface, f.name, f.signature):
        if a.role == "callback":
            passed += [f"cachalot_go_{bare(a.type.name)}", f"(void*){a.name}", "cachalot_go_destroy"][:len(a.parameters)]
        elif a.role == "handle":
            passed.append(f"({a.type}){a.name}")
        else:
            passed += [f"&result.{result_name(p)}" if p == by_value(a) else p.name for p in a.parameters]
    call = f"{f.name}({', '.join([*passed, *(['&error'] if takes_error(f) else [])])})"
    head = declaration(interface, f) + " {\n"
    if not result_fields(interface, f):
        return f"{head}  return {REFUSED} ? 0 : {call};\n}}"
    before = after = ""
    # Nothing may use what is being destroyed, callbacks of that included.
    if takes_locks(f) and "destroy" not in f.name:
        before = (f"  cachalot_go_call call = {{{', '.join([*used(f), 'cachalot_go_thread.calls'])}}};\n"
                  "  cachalot_go_thread.calls = &call;\n")
        after = "  cachalot_go_thread.calls = call.outer;\n"
    if takes_locks(f):
        call = f"{REFUSED} ? cachalot_go_refuse(&error)\n      : {call}"
    if not takes_error(f):
        return f"{head}  {result_type(f)} result = {{0}};\n  result.status = (int32_t){call};\n  return result;\n}}"
    return (f"{head}  {result_type(f)} result = {{0}};\n"
            "  cachalot_error error;\n"
            "  error.struct_size = sizeof error;\n"
            f"{before}  result.status = (int32_t)({call});\n{after}"
            "  if (result.status != CACHALOT_OK) {\n    result.error = cachalot_go_keep(&error);\n  }\n"
            "  return result;\n}")


# ---- Go ----


def function(interface: Interface, f: Function) -> str:
    """What C has not written is zero, so results are copied whatever came of the call."""
    found = arguments(interface, f.name, f.signature)
    call = Call(interface, is_wrapped(interface, f))
    for argument in found:
        call.add(argument)
    if outlives(found):
        call.results.append("keep Keep")
        call.after += ["if err == nil {", "\tkeep = m.keep()", "}"]
    target = f"cachalot_go_{bare(f.name)}" if is_wrapped(interface, f) else f.name
    lines = body(f, call, f"C.{target}({', '.join(call.passed)})")
    name = pascal(bare(f.name))
    return (comment("", name, f.name, f.doc)
            + f"func {name}({', '.join(call.given)}){results(interface, f.signature.returns, call)} {{\n"
            + "".join(f"\t{line}\n" for line in lines) + "}")


def outlives(found: list[Argument]) -> bool:
    """Whether the library calls functions that it got here later, and never says when it has done so."""
    return any(OUTLIVES_CALL.get(a.type.name, False) for a in found if a.role in ("struct", "callback"))


def results(interface: Interface, returns: Type, call: "Call") -> str:
    if str(returns) == "cachalot_status":
        return f" ({', '.join([*call.results, 'err error'])})"
    return "" if str(returns) == "void" else f" {plain_result(interface, returns)}"


def plain_result(interface: Interface, returns: Type) -> str:
    return "string" if str(returns) == "const char*" else go_type(interface, returns.name)


def body(f: Function, call: "Call", text: str) -> list[str]:
    returns = f.signature.returns
    if str(returns) == "void":
        return [*call.before, text]
    if str(returns) == "const char*":
        return [*call.before, f"return C.GoString({text})"]
    if str(returns) != "cachalot_status":
        is_handle = call.interface.is_handle(returns.name)
        return [*call.before, f"return {text if is_handle else f'{plain_result(call.interface, returns)}({text})'}"]
    if call.filled:
        failed = "check(r.status, r.error)" if takes_error(f) else "statusError(C.cachalot_status(r.status))"
        return [*call.before, *fill(call.filled, text, failed, call.after)]
    if takes_error(f):
        return [*call.before, f"r := {text}", "err = check(r.status, r.error)", *call.after, "return"]
    return [*call.before, f"err = statusError({text})", *call.after, "return"]


def fill(argument: Argument, text: str, failed: str, after: list[str]) -> list[str]:
    """Asks how much there is, then for all of it, until what came fits: it may have grown in between.

    Bytes mostly fit at once: to ask for them can be a call of the driver."""
    name = local(argument.name)
    element, fits, end = "byte", "<=", [f"{name} = buffer[:count]"]
    begin = "buffer := make([]byte, 256)" if argument.role == "out bytes" else None
    if argument.role == "out text":  # needs room for its NUL
        fits, end = "<", [f"{name} = string(buffer[:count])"]
    elif argument.role == "out rows":
        element = f"C.{argument.type.name}"
        copy = f"{local(bare(argument.type.name))}Of"
        end = ["for i := range buffer[:count] {", f"\t{name} = append({name}, {copy}(&buffer[i]))", "}"]
    return [
        begin or f"var buffer []{element}",
        "for {",
        f"\tr := {text}",
        f"\tif err = {failed}; err != nil {{",
        "\t\treturn",
        "\t}",
        f"\tcount := int(r.{result_name(argument.parameters[2])})",
        f"\tif count {fits} len(buffer) {{",
        *(f"\t\t{line}" for line in [*end, *after]),
        "\t\treturn",
        "\t}",
        f"\tbuffer = make([]{element}, count+1)",
        "}",
    ]


@dataclass
class Call:
    """A call in the making. Each argument adds to it, by the method of its role."""

    interface: Interface
    is_wrapped: bool
    given: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    filled: Argument | None = None

    def add(self, a: Argument) -> None:
        getattr(self, a.role.replace(" ", "_"))(a)

    def lend(self) -> None:
        if "var m memory" not in self.before:
            self.before += ["var m memory", "defer m.free()"]

    def result(self, a: Argument, kind: str, c_type: str, value: str) -> None:
        """What C writes and the call converts into a result; {} in the value stands for its place."""
        name = local(a.name)
        self.results.append(f"{name} {kind}")
        if self.is_wrapped and by_value(a):
            self.after.append(f"{name} = {value.format('r.' + go_field(result_name(a.parameters[0])))}")
            return
        self.before.append(f"var {name}C {c_type}")
        self.passed.append(f"&{name}C")
        self.after.append(f"{name} = {value.format(name + 'C')}")

    # What a caller gives.

    def scalar(self, a: Argument) -> None:
        self.given.append(f"{local(a.name)} {go_type(self.interface, a.type.name)}")
        self.passed.append(f"C.{a.type.name}({local(a.name)})")

    def handle(self, a: Argument) -> None:
        name = local(a.name)
        self.given.append(f"{name} {go_type(self.interface, a.type.name)}")
        self.passed.append(f"C.uintptr_t(uintptr(unsafe.Pointer({name})))" if self.is_wrapped else name)

    def text(self, a: Argument) -> None:
        self.lend()
        self.given.append(f"{local(a.name)} string")
        self.passed.append(f"m.text({local(a.name)})")

    def struct(self, a: Argument) -> None:
        self.lend()
        self.given.append(f"{local(a.name)} *{pascal(bare(a.type.name))}")
        self.passed.append(f"{local(a.name)}.c(&m)")

    def id(self, a: Argument) -> None:
        name = local(a.name)
        self.given.append(f"{name} {pascal(bare(a.type.name))}")
        self.before += [f"var {name}C C.{a.type.name}", f"{name}.fill(&{name}C, nil)"]
        self.passed.append(f"{name}C")

    def array(self, a: Argument) -> None:
        self.given.append(f"{local(a.name)} []{go_type(self.interface, a.type.name)}")
        self.passed += [f"(*C.{a.type.name})(unsafe.Pointer(unsafe.SliceData({local(a.name)})))",
                        f"C.size_t(len({local(a.name)}))"]

    def bytes(self, a: Argument) -> None:
        self.given.append(f"{local(a.name)} []byte")
        self.passed += [f"unsafe.Pointer(unsafe.SliceData({local(a.name)}))", f"C.size_t(len({local(a.name)}))"]

    def memory(self, a: Argument) -> None:
        self.given.append(f"{local(a.name)} unsafe.Pointer")
        self.passed.append(local(a.name))

    def callback(self, a: Argument) -> None:
        self.lend()
        has_destroy = len(a.parameters) == 3
        self.given.append(f"{local(a.name)} {pascal(bare(a.type.name))}")
        self.passed.append(f"C.uintptr_t(m.{'give' if has_destroy else 'hold'}({local(a.name)}))")

    # What a caller gets.

    def out_scalar(self, a: Argument) -> None:
        kind = go_type(self.interface, a.type.name)
        self.result(a, kind, f"C.{a.type.name}", f"{kind}({{}})")

    def out_handle(self, a: Argument) -> None:
        self.result(a, go_type(self.interface, a.type.name), f"*C.{a.type.name}", "{}")

    def out_borrowed_text(self, a: Argument) -> None:
        self.result(a, "string", "*C.char", "C.GoString({})")

    def out_memory(self, a: Argument) -> None:
        self.result(a, "unsafe.Pointer", "unsafe.Pointer", "{}")

    def out_struct(self, a: Argument) -> None:
        struct = a.type.name
        self.result(a, pascal(bare(struct)), f"C.{struct}", f"{local(bare(struct))}Of(&{{}})")
        found = self.interface.struct(struct)
        if found and found.is_sized:
            self.before.append(f"{local(a.name)}C.struct_size = C.sizeof_{struct}")

    def out_text(self, a: Argument) -> None:
        self.fill(a, "string", "(*C.char)(unsafe.Pointer(unsafe.SliceData(buffer)))")

    def out_bytes(self, a: Argument) -> None:
        self.fill(a, "[]byte", "unsafe.Pointer(unsafe.SliceData(buffer))")

    def out_rows(self, a: Argument) -> None:
        self.fill(a, f"[]{pascal(bare(a.type.name))}", "unsafe.SliceData(buffer)")

    def fill(self, a: Argument, kind: str, pointer: str) -> None:
        self.filled = a
        self.results.append(f"{local(a.name)} {kind}")
        self.passed += [pointer, "C.size_t(len(buffer))"]
