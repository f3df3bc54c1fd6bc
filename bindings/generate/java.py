# SPDX-License-Identifier: MIT OR Apache-2.0
"""Java's low layer. Native.java has every function as it is in C, with pointers as numbers; Structs.java writes
structs to native memory and reads them from it; Callbacks.java is what native code calls. Only the glue of
jni.py needs a C compiler. What they need beside that is in Memory.java."""

from . import jni
from .entries import Entry, entries, values
from .header import Constant, Field, Function, HeaderError, Interface, Signature, Struct, Type
from .java_names import FOLDER, HEAD, comment, failed, inside, name_of, scalar, type_name
from .names import bare, camel, pascal
from .roles import Group, arguments, bound, directions, groups, is_own, signature


def write(interface: Interface) -> dict[str, str]:
    files = {"Constants": constants(interface), "Native": native(interface), "Structs": structs(interface),
             "Callbacks": callbacks(interface)}
    return {f"{FOLDER}/{name}.java": text for name, text in files.items()} | jni.write(interface)


def java_class(name: str, doc: str, members: list[str], imports: str = "") -> str:
    body = "\n".join(inside(member.rstrip("\n")) + "\n" for member in [f"private {name}() {{}}\n", *members])
    return f"{HEAD}\n{imports}/** {doc} */\npublic final class {name} {{\n{body}}}\n"


# ---- Constants ----


def constants(interface: Interface) -> str:
    members = [comment("", "The interface that this package was generated for: the header's version without its "
                           "patch. Memory.checkInterface compares it with the library.")
               + f"public static final int INTERFACE = {interface.number};"]
    for c in interface.constants:
        if not c.name.startswith("CACHALOT_VERSION_"):
            members.append(comment("", c.doc or c.group, c.name)
                           + f"public static final {constant(c)};")
    return java_class("Constants", "The numbers of the C interface, named as in C without CACHALOT_.", members)


def constant(c: Constant) -> str:
    """Java has no unsigned numbers: a value above the largest has the same bits."""
    if c.bits == 32:
        return f"int {bare(c.name)} = {c.value}"
    return f"long {bare(c.name)} = {(c.value + 2**63) % 2**64 - 2**63}L"


# ---- Functions ----


def native(interface: Interface) -> str:
    members = [comment("", f.doc, f.name) + function(interface, f) for f in bound(interface)]
    return java_class("Native", "The functions of the C interface. Pointers are numbers; 0 is NULL.", members)


def function(interface: Interface, f: Function) -> str:
    parameters = ", ".join(f"{kind} {name}" for kind, name in flat_parameters(interface, f.signature))
    return f"public static native {scalar(f.signature.returns)} {camel(bare(f.name))}({parameters});"


def flat_parameters(interface: Interface, s: Signature) -> list[tuple[str, str]]:
    """Java's types and names; a struct by value is its fields."""
    found = []
    for p in s.parameters:
        struct = interface.struct(p.type.name)
        if struct and not p.type.pointers:
            found += [(scalar(f.type), name_of(f"{p.name}_{f.name}")) for f in struct.fields]
        else:
            found.append((scalar(p.type), name_of(p.name)))
    return found


# ---- Structs ----


def structs(interface: Interface) -> str:
    sides = directions(interface)
    members = [struct(interface, s, s.name in sides.given, s.name in sides.got)
               for s in interface.structs if s.name in sides.given | sides.got]
    return java_class("Structs", "Mirrors of the structs. All fields are 0 or null at first, which means default.",
                      members, "import java.nio.ByteBuffer;\n\n")


def own_fields(interface: Interface, s: Struct) -> list[Field]:
    hidden = {f for g in groups(interface, s) for f in (g.user_data, g.destroy)}
    return [f for f in s.fields if is_own(f) and f not in hidden]


def struct(interface: Interface, s: Struct, is_given: bool, is_got: bool) -> str:
    fields = own_fields(interface, s)
    members = [f"public static final int SIZE = {s.size};\n"]
    members += [comment("", f.doc) + f"public {field_type(interface, s, f)} {name_of(f.name)}{initial(interface, f)};\n"
                for f in fields]
    if is_got:
        lines = [line for f in fields for line in read_field(interface, f)]
        members.append(method(f"public static {type_name(s.name)} read(ByteBuffer from, int at)",
                              [f"{type_name(s.name)} value = new {type_name(s.name)}();", *lines, "return value;"]))
    if is_given:
        size = ["to.putLong(at, SIZE);"] if s.is_sized else []
        lines = [line for f in fields for line in put_field(interface, s, f)]
        lines += [line for g in groups(interface, s) for line in put_group(s, g)]
        members.append(comment("", "Writes it to memory that is 0.")
                       + method("public void put(ByteBuffer to, int at, Memory memory)", [*size, *lines]))
        members.append(comment("", "Writes it to new memory; its address.")
                       + method("public long write(Memory memory)",
                                ["ByteBuffer to = memory.allocate(SIZE);", "put(to, 0, memory);",
                                 "return Memory.addressOf(to);"]))
    body = "\n".join(inside(member) for member in members)
    return comment("", s.doc, s.name) + f"public static final class {type_name(s.name)} {{\n{body}}}\n"


def method(declaration: str, lines: list[str]) -> str:
    return "\n".join([f"{declaration} {{", *(f"  {line}" for line in lines), "}"]) + "\n"


def field_type(interface: Interface, s: Struct, f: Field) -> str:
    if f.type.name == "char":
        return "String"
    if f.type.function:
        return f"Callbacks.{pascal(bare(s.name))}{pascal(f.name)}"
    if signature(interface, f.type):
        return f"Callbacks.{type_name(f.type.name)}"
    if interface.struct(f.type.name):
        return type_name(f.type.name)
    return scalar(f.type) + ("[]" if f.type.length else "")


def initial(interface: Interface, f: Field) -> str:
    if interface.struct(f.type.name) and not f.type.pointers:
        return f" = new {type_name(f.type.name)}()"
    return f" = new {scalar(f.type)}[{f.type.length}]" if f.type.length and f.type.name != "char" else ""


def accessor(type_: Type) -> str:
    return {"int": "Int", "long": "Long", "double": "Double", "byte": ""}[scalar(type_)]


def read_field(interface: Interface, f: Field) -> list[str]:
    target, at = f"value.{name_of(f.name)}", f"at + {f.offset}"
    if f.type.name == "char":
        return [f"{target} = Memory.textAt(from, {at}, {f.size});" if f.type.length
                else f"{target} = Memory.textOf(from.getLong({at}));"]
    if interface.struct(f.type.name):
        return [f"{target} = {type_name(f.type.name)}.read(from, {at});"]
    if f.type.length:
        return [f"for (int i = 0; i < {f.type.length}; i++) {{",
                f"  {target}[i] = from.get{accessor(f.type)}({at} + {f.size // f.type.length} * i);", "}"]
    return [f"{target} = from.get{accessor(f.type)}({at});"]


def put_field(interface: Interface, s: Struct, f: Field) -> list[str]:
    source, at = f"this.{name_of(f.name)}", f"at + {f.offset}"
    if signature(interface, f.type):
        return [f"if ({source} != null) {{",
                f"  to.putLong({at}, Memory.entry(Callbacks.{constant_name(f'{bare(s.name)}_{f.name}')}));", "}"]
    if f.type.name == "char":
        return [f"to.putLong({at}, memory.text({source}));"]
    if interface.struct(f.type.name) and f.type.pointers:
        return [f"to.putLong({at}, {source} == null ? 0 : {source}.write(memory));"]
    if interface.struct(f.type.name):
        return [f"{source}.put(to, {at}, memory);"]
    if f.type.length:
        return [f"for (int i = 0; i < {f.type.length}; i++) {{",
                f"  to.put{accessor(f.type)}({at} + {f.size // f.type.length} * i, {source}[i]);", "}"]
    return [f"to.put{accessor(f.type)}({at}, {source});"]


def put_group(s: Struct, group: Group) -> list[str]:
    """user_data refers to the struct. Who ends the reference: the library, by its destroy function, or the caller."""
    some = " || ".join(f"this.{name_of(f.name)} != null" for f in group.functions)
    refer = "Memory.newReference" if group.destroy else "memory.hold"
    lines = [f"if ({some}) {{", f"  to.putLong(at + {group.user_data.offset}, {refer}(this));"]
    if group.destroy:
        lines.append(f"  to.putLong(at + {group.destroy.offset}, Memory.entry(Callbacks.DESTROY));")
    return [*lines, "}"]


# ---- Callbacks ----


def constant_name(entry: str) -> str:
    return entry.upper()


def callbacks(interface: Interface) -> str:
    members = [comment("", "The number of the native function that ends a reference, for Memory.entry.")
               + "public static final int DESTROY = 0;"]
    for number, entry in enumerate(entries(interface), 1):
        members.append(comment("", "A native function that calls a callback, for Memory.entry.")
                       + f"public static final int {constant_name(entry.name)} = {number};")
    for c in interface.callbacks:
        members.append(comment("", c.doc, c.name) + functional(interface, type_name(c.name), c.signature))
    given = directions(interface).given
    for s in interface.structs:
        for f in s.fields if s.name in given else ():
            if f.type.function and not f.name.endswith("destroy"):
                members.append(comment("", f.doc, f"{s.name}::{f.name}")
                               + functional(interface, f"{type_name(s.name)}{pascal(f.name)}", f.type.function))
    members += [dispatch(interface, entry) for entry in entries(interface)]
    doc = "What the library calls. Each has a native function that calls the method of its name."
    return java_class("Callbacks", doc, members, "import java.nio.ByteBuffer;\n\n")


def functional(interface: Interface, name: str, s: Signature) -> str:
    rest = arguments(interface, name, s)[1:]
    kinds = {"text": "String", "fill bytes": "ByteBuffer", "bytes": "ByteBuffer"}
    parameters = ", ".join(
        f"{kinds.get(a.role) or ('Structs.' + type_name(a.type.name) if a.role == 'struct' else scalar(a.type))} "
        f"{name_of(a.name)}" for a in rest if a.role != "fill text")
    returns = "String" if any(a.role == "fill text" for a in rest) else scalar(s.returns)
    return f"@FunctionalInterface\npublic interface {name} {{\n  {returns} call({parameters});\n}}\n"


def dispatch(interface: Interface, entry: Entry) -> str:
    """Called by the native function of the same name; pointers are numbers, and nothing is thrown into C."""
    parameters = ["Object target"] + [f"{scalar(p.type)} {name_of(p.name)}" for p in entry.signature.parameters[1:]]
    passed, filled = [], None
    for a in values(interface, entry):
        name = name_of(a.name)
        if a.role == "text":
            passed.append(f"Memory.textOf({name})")
        elif a.role == "struct":
            size = f"Structs.{type_name(a.type.name)}.SIZE"
            passed.append(f"Structs.{type_name(a.type.name)}.read(Memory.view({name}, {size}), 0)")
        elif a.role in ("fill bytes", "bytes"):
            passed.append(f"Memory.view({name}, {name_of(a.parameters[1].name)})")
        elif a.role == "fill text":
            filled = a
        elif a.role == "scalar":
            passed.append(name)
        else:
            raise HeaderError(f"{entry.name}: no rule for {a.role} {a.name}")
    target = f"((Structs.{type_name(entry.owner)}) target).{name_of(entry.field)}" if entry.field \
        else f"(({type_name(entry.owner)}) target)"
    call = f"{target}.call({', '.join(passed)})"
    returns = scalar(entry.signature.returns)
    if filled:
        buffer, capacity = (name_of(p.name) for p in filled.parameters)
        call = f"Memory.copyText({call}, {buffer}, {capacity})"
    give_up = [] if returns == "void" else [f"  return {failed(interface, entry)};"]
    return method(f"static {returns} {camel(entry.name)}({', '.join(parameters)})",
                  ["try {", f"  {'' if returns == 'void' else 'return '}{call};", "} catch (Throwable thrown) {",
                   "  Memory.report(thrown);", *give_up, "}"])
