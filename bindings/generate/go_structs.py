# SPDX-License-Identifier: MIT OR Apache-2.0
"""Go's mirrors of the structs, and the copies to and from C."""

from .go_names import HEAD, PREAMBLE, comment, go_type, local
from .header import Field, Interface, Struct
from .names import bare, pascal
from .roles import directions, groups, is_own, signature


def write(interface: Interface) -> str:
    sides = directions(interface)
    parts = [HEAD.rstrip(), PREAMBLE]
    parts += [comment("", pascal(bare(h.name)), h.name, h.doc) + f"type {pascal(bare(h.name))} = *C.{h.name}"
              for h in interface.handles]
    for struct in interface.structs:
        is_given, is_got = struct.name in sides.given, struct.name in sides.got
        if is_given or is_got:
            parts.append(mirror(interface, struct, is_given))
        if is_got:
            parts.append(from_c(interface, struct, is_given))
        if is_given:
            parts.append(to_c(interface, struct))
            if not is_id(struct):
                parts.append(pointer(struct))
    return "\n\n".join(parts) + "\n"


def is_id(struct: Struct) -> bool:
    return not struct.is_sized


def own_fields(interface: Interface, struct: Struct) -> list[Field]:
    """Without what the copies fill in by themselves."""
    hidden = {f for g in groups(interface, struct) for f in (g.user_data, g.destroy)} if struct.is_sized else set()
    return [f for f in struct.fields if is_own(f) and f not in hidden]


def field_type(interface: Interface, struct: Struct, field: Field, is_given: bool) -> str:
    type_ = field.type
    if type_.name == "char":
        return "*string" if is_given else "string"
    if signature(interface, type_):
        return f"{pascal(bare(struct.name))}{pascal(field.name)}Fn" if type_.function else pascal(bare(type_.name))
    name = go_type(interface, type_.name)
    if type_.length:
        return f"[{type_.length}]{name}"
    return f"*{name}" if type_.pointers and interface.struct(type_.name) else name


def mirror(interface: Interface, struct: Struct, is_given: bool) -> str:
    name = pascal(bare(struct.name))
    fields = [comment("\t", "", "", f.doc) + f"\t{pascal(f.name)} {field_type(interface, struct, f, is_given)}\n"
              for f in own_fields(interface, struct)]
    return comment("", name, struct.name, struct.doc) + f"type {name} struct {{\n" + "\n".join(fields) + "}"


def from_c(interface: Interface, struct: Struct, is_given: bool) -> str:
    lines = [f"func {local(bare(struct.name))}Of(c *C.{struct.name}) (s {pascal(bare(struct.name))}) {{"]
    for f in own_fields(interface, struct):
        target, source = f"s.{pascal(f.name)}", f"c.{f.name}"
        type_ = f.type
        if type_.name == "char":
            lines.append(f"\t{target} = C.GoString({'&' + source + '[0]' if type_.length else source})")
        elif interface.struct(type_.name):
            lines.append(f"\t{target} = {local(bare(type_.name))}Of(&{source})")
        elif type_.length:
            lines += [f"\tfor i := range {target} {{",
                      f"\t\t{target}[i] = {go_type(interface, type_.name)}({source}[i])", "\t}"]
        else:
            lines.append(f"\t{target} = {go_type(interface, type_.name)}({source})")
    return "\n".join([*lines, "\treturn", "}"])


def to_c(interface: Interface, struct: Struct) -> str:
    lines = [f"func (s *{pascal(bare(struct.name))}) fill(c *C.{struct.name}, m *memory) {{"]
    if struct.is_sized:
        lines.append(f"\tc.struct_size = C.sizeof_{struct.name}")
    for f in own_fields(interface, struct):
        source, target = f"s.{pascal(f.name)}", f"c.{f.name}"
        type_ = f.type
        if signature(interface, type_):
            entry = f"C.cachalot_go_{bare(struct.name)}_{f.name}"
            lines += [f"\tif {source} != nil {{", f"\t\t{target} = (*[0]byte)({entry})", "\t}"]
        elif type_.name == "char":
            lines.append(f"\t{target} = m.optionalText({source})")
        elif interface.struct(type_.name):
            lines.append(f"\t{target} = {source}.c(m)" if type_.pointers else f"\t{source}.fill(&{target}, m)")
        elif type_.length:
            lines += [f"\tfor i := range {source} {{", f"\t\t{target}[i] = C.{type_.name}({source}[i])", "\t}"]
        else:
            lines.append(f"\t{target} = {source}" if type_.pointers else f"\t{target} = C.{type_.name}({source})")
    for group in groups(interface, struct) if struct.is_sized else []:
        some = " || ".join(f"s.{pascal(f.name)} != nil" for f in group.functions)
        handle = f"m.{'give' if group.destroy else 'hold'}(s)"
        lines += [f"\tif {some} {{", f"\t\tc.{group.user_data.name} = C.cachalot_go_data(C.uintptr_t({handle}))"]
        lines += [f"\t\tc.{group.destroy.name} = (*[0]byte)(C.cachalot_go_destroy)"] if group.destroy else []
        lines.append("\t}")
    return "\n".join([*lines, "}"])


def pointer(struct: Struct) -> str:
    return "\n".join([
        f"func (s *{pascal(bare(struct.name))}) c(m *memory) *C.{struct.name} {{",
        "\tif s == nil {", "\t\treturn nil", "\t}",
        f"\tc := (*C.{struct.name})(m.allocate(C.sizeof_{struct.name}))",
        "\ts.fill(c, m)", "\treturn c", "}"])
