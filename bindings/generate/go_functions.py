# SPDX-License-Identifier: MIT OR Apache-2.0
"""Go's thin call of every function."""

from dataclasses import dataclass, field

from .go_names import HEAD, PREAMBLE, comment, go_type, local
from .header import Function, Interface, Type
from .names import bare, pascal
from .roles import OUTLIVES_CALL, Argument, arguments, bound, takes_error


def write(interface: Interface) -> str:
    return "\n\n".join([HEAD.rstrip(), PREAMBLE, 'import "unsafe"',
                        *(function(interface, f) for f in bound(interface))]) + "\n"


def function(interface: Interface, f: Function) -> str:
    """What C has not written is zero, so results are copied whatever came of the call."""
    found = arguments(interface, f.name, f.signature)
    call = Call(interface)
    for argument in found:
        call.add(argument)
    if outlives(found):
        call.results.append("keep Keep")
        call.after += ["if err == nil {", "\tkeep = m.keep()", "}"]
    if takes_error(f):
        call.passed.append("e")
    lines = body(f, call, f"C.{f.name}({', '.join(call.passed)})")
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
    if takes_error(f):
        status = ["e := takeError()", "defer giveError(e)"]
        check = f"check({text}, e)"
    else:
        status, check = [], f"statusError({text})"
    if call.filled:
        return [*call.before, *status, *fill(call.filled, check)]
    return [*call.before, *status, f"err = {check}", *call.after, "return"]


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


@dataclass
class Call:
    """A call in the making. Each argument adds to it, by the method of its role."""

    interface: Interface
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
        """A variable of C that is converted into a result; {} in the value stands for its name."""
        name = local(a.name)
        self.results.append(f"{name} {kind}")
        self.before.append(f"var {name}C {c_type}")
        self.passed.append(f"&{name}C")
        self.after.append(f"{name} = {value.format(name + 'C')}")

    # What a caller gives.

    def scalar(self, a: Argument) -> None:
        self.given.append(f"{local(a.name)} {go_type(self.interface, a.type.name)}")
        self.passed.append(f"C.{a.type.name}({local(a.name)})")

    def handle(self, a: Argument) -> None:
        self.given.append(f"{local(a.name)} {go_type(self.interface, a.type.name)}")
        self.passed.append(local(a.name))

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
        self.passed += [f"(*[0]byte)(C.cachalot_go_{bare(a.type.name)})",
                        f"C.cachalot_go_data(C.uintptr_t(m.{'give' if has_destroy else 'hold'}({local(a.name)})))"]
        if has_destroy:
            self.passed.append("(*[0]byte)(C.cachalot_go_destroy)")

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
        self.passed += [pointer, "C.size_t(len(buffer))", "&count"]
