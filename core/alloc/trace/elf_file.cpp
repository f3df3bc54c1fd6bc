// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/elf_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "alloc/trace/byte_reader.h"
#include "base/text.h"

namespace cachalot {

namespace {

// What is larger is taken for damaged. Linked files have some 40 sections.
constexpr uint64_t kMostSections = 1024;
constexpr uint64_t kMostNameBytes = uint64_t{1} << 20;
constexpr uint64_t kMostNoteBytes = 4096;
// Names are short, but those of templates may have thousands of characters.
constexpr uint64_t kTextBytes[] = {256, uint64_t{64} << 10};

// The headers are used as they lie in the file, so the order of their bytes must be that of the
// machine.
bool is_readable(const Elf64_Ehdr& header) {
  return std::endian::native == std::endian::little &&
         std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
         header.e_shentsize == sizeof(Elf64_Shdr);
}

template <typename Header>
std::span<uint8_t> header_bytes(Header* headers, size_t count) {
  return {reinterpret_cast<uint8_t*>(headers), count * sizeof(Header)};
}

}  // namespace

// An open must not wait for a pipe's other end.
ElfFile::ElfFile(const std::string& path)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  struct stat status {};
  if (!descriptor_.is_open() || ::fstat(descriptor_.number(), &status) != 0 ||
      !S_ISREG(status.st_mode))
    return;
  version_ = {.device = status.st_dev,
              .inode = status.st_ino,
              .size = static_cast<uint64_t>(status.st_size),
              .changed_s = status.st_mtim.tv_sec,
              .changed_ns = status.st_mtim.tv_nsec};
  Elf64_Ehdr header{};
  if (read_bytes(0, header_bytes(&header, 1)) && is_readable(header)) read_sections(header);
}

// All of them or none. The section of names is one of them.
void ElfFile::read_sections(const Elf64_Ehdr& header) {
  if (header.e_shnum > kMostSections || header.e_shstrndx >= header.e_shnum) return;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!read_bytes(header.e_shoff, header_bytes(sections.data(), sections.size()))) return;
  const Elf64_Shdr& names = sections[header.e_shstrndx];
  if (!fits(names) || names.sh_size > kMostNameBytes) return;
  names_ = read(names, 0, names.sh_size);
  names_.push_back(0);
  sections_ = std::move(sections);
}

bool ElfFile::fits(const Elf64_Shdr& section) const {
  return section.sh_type != SHT_NOBITS && section.sh_offset <= version_.size &&
         section.sh_size <= version_.size - section.sh_offset;
}

// By comparing names: a file is asked for two or three sections.
const Elf64_Shdr* ElfFile::section(std::string_view name) const {
  for (const Elf64_Shdr& section : sections_)
    if (section.sh_name < names_.size() &&
        name == reinterpret_cast<const char*>(names_.data() + section.sh_name))
      return fits(section) && (section.sh_flags & SHF_COMPRESSED) == 0 ? &section : nullptr;
  return nullptr;
}

// A file of debug information has the headers of sections of code too, without the code.
bool ElfFile::has_code_at(uint64_t address) const {
  return std::any_of(sections_.begin(), sections_.end(), [address](const Elf64_Shdr& section) {
    return (section.sh_flags & SHF_EXECINSTR) != 0 && address >= section.sh_addr &&
           address - section.sh_addr < section.sh_size;
  });
}

std::vector<uint8_t> ElfFile::read(const Elf64_Shdr& section, uint64_t offset,
                                   uint64_t size) const {
  if (!fits(section) || offset > section.sh_size || size > section.sh_size - offset) return {};
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  if (!read_bytes(section.sh_offset + offset, bytes)) bytes.clear();
  return bytes;
}

std::string ElfFile::text_at(std::string_view name, uint64_t offset) const {
  const Elf64_Shdr* const texts = section(name);
  if (!texts || offset >= texts->sh_size) return "";
  for (const uint64_t most : kTextBytes) {
    const std::vector<uint8_t> bytes =
        read(*texts, offset, std::min(texts->sh_size - offset, most));
    ByteReader reader(bytes);
    const std::string_view text = reader.text();
    if (!reader.has_failed()) return std::string(text);
  }
  return "";
}

std::string ElfFile::build_id() const {
  const Elf64_Shdr* const notes = section(".note.gnu.build-id");
  if (!notes || notes->sh_size > kMostNoteBytes) return "";
  const std::vector<uint8_t> bytes = read(*notes, 0, notes->sh_size);
  return hex_digits(build_id_in(bytes));
}

// A read may be interrupted, or give less than it was asked for.
bool ElfFile::read_bytes(uint64_t offset, std::span<uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t count =
        ::pread(descriptor_.number(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    offset += static_cast<uint64_t>(count);
    out = out.subspan(static_cast<size_t>(count));
  }
  return true;
}

// A note has the sizes of its name and its contents, its type, and both of these, each filled up to
// a multiple of four bytes.
std::span<const uint8_t> build_id_in(std::span<const uint8_t> notes) {
  ByteReader reader(notes);
  const auto padded_bytes = [&reader](uint64_t size) {
    const auto bytes = reader.bytes(size);
    reader.bytes(std::min<uint64_t>(-size % 4, reader.size()));
    return bytes;
  };
  while (!reader.is_at_end()) {
    const uint64_t name_size = reader.number(4);
    const uint64_t size = reader.number(4);
    const uint64_t type = reader.number(4);
    const auto name = padded_bytes(name_size);
    const auto contents = padded_bytes(size);
    if (type == NT_GNU_BUILD_ID && name.size() == sizeof ELF_NOTE_GNU &&
        std::memcmp(name.data(), ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0)
      return contents;
  }
  return {};
}

}  // namespace cachalot
