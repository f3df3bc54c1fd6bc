// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/loaded_code.h"

#include <link.h>

#include <algorithm>
#include <span>
#include <utility>

#include "alloc/trace/elf_file.h"

namespace cachalot {

namespace {

using Parts = std::span<const Elf64_Phdr>;

// Null where no loaded part has all of the bytes.
const Elf64_Phdr* part_around(Parts parts, uint64_t begin, uint64_t size) {
  const auto found = std::find_if(parts.begin(), parts.end(), [=](const Elf64_Phdr& part) {
    return part.p_type == PT_LOAD && begin >= part.p_vaddr && begin - part.p_vaddr < part.p_memsz &&
           size <= part.p_memsz - (begin - part.p_vaddr);
  });
  return found != parts.end() ? &*found : nullptr;
}

// The loader maps notes with the rest of the file; those of an odd file that it does not map are
// left alone.
void note_build_id(Parts parts, LoadedCode& code) {
  for (const Elf64_Phdr& part : parts) {
    if (part.p_type != PT_NOTE) continue;
    const Elf64_Phdr* const around = part_around(parts, part.p_vaddr, part.p_memsz);
    if (!around || (around->p_flags & PF_R) == 0) continue;
    const auto* const notes = reinterpret_cast<const uint8_t*>(code.bias + part.p_vaddr);
    const auto found = build_id_in({notes, static_cast<size_t>(part.p_memsz)});
    if (found.empty() || found.size() > code.build_id.size()) continue;
    std::copy(found.begin(), found.end(), code.build_id.begin());
    code.build_id_size = found.size();
  }
}

struct Search {
  uintptr_t address;
  bool is_program = true;  // the object that is visited next
  LoadedCode code;
};

// Objects are visited beginning with the program.
int visit(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const bool is_program = std::exchange(search.is_program, false);
  search.code.unloaded = object->dlpi_subs;
  const Parts parts(object->dlpi_phdr, object->dlpi_phnum);
  const Elf64_Phdr* const part = part_around(parts, search.address - object->dlpi_addr, 1);
  if (!part) return 0;
  LoadedCode& code = search.code;
  code.begin = object->dlpi_addr + part->p_vaddr;
  code.end = code.begin + part->p_memsz;
  code.bias = object->dlpi_addr;
  code.is_program = is_program;
  note_build_id(parts, code);
  return 1;
}

}  // namespace

LoadedCode loaded_code_at(uintptr_t address) {
  Search search{.address = address};
  dl_iterate_phdr(visit, &search);
  return search.code;
}

}  // namespace cachalot
