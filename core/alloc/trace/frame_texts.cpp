// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/frame_texts.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "base/text.h"

namespace cachalot {

namespace {

// A name that is not C++'s stays as it is.
std::string demangle(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  return name ? name.get() : symbol;
}

// Names in files may be any bytes, and readers take what is behind a line break for the next frame.
std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', '?');
  return text;
}

std::string text_without_line(const std::string& function, uintptr_t address, const Dl_info& info) {
  const uintptr_t offset = address - reinterpret_cast<uintptr_t>(info.dli_fbase);
  return function + " (" + info.dli_fname + "+" + hex_address(offset) + ")";
}

}  // namespace

// The loader runs constructors of libraries under its lock, and they may ask for a text. So nobody
// waits for the loader while holding the lock here.
std::string FrameTexts::text_of(const void* return_address) {
  // It can lie behind the end of the function that made the call.
  const uintptr_t address = reinterpret_cast<uintptr_t>(return_address) - 1;
  const LoadedCode code = loaded_code_at(address);
  if (!code.is_known()) return "?? (" + hex_address(address) + ")";
  {
    std::lock_guard lock(mutex_);
    if (const std::string* const known = known_text(code, address)) return *known;
  }
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(address), &info)) return "?? (" + hex_address(address) + ")";
  std::lock_guard lock(mutex_);
  if (const std::string* const known = known_text(code, address)) return *known;
  LoadedFile& file = file_of(code, info.dli_fname);
  const uint64_t in_file = address - code.bias;
  const std::string symbol = info.dli_sname ? info.dli_sname : file.function_at(in_file);
  const std::string function = symbol.empty() ? "??" : demangle(symbol.c_str());
  const SourceLine place = file.line_at(in_file);
  const bool is_known = place.line != 0 && !place.file.empty();
  std::string text =
      in_one_line(is_known ? place.file + ":" + std::to_string(place.line) + ":" + function
                           : text_without_line(function, address, info));
  keep(address, text);
  return text;
}

// Where there are too many all go, since none is dearer than others.
void FrameTexts::keep(uintptr_t address, const std::string& text) {
  text_bytes_ += text.size();
  if (text_bytes_ > most_text_bytes_) {
    texts_.clear();
    text_bytes_ = text.size();
  }
  texts_.emplace(address, text);
}

// Null if it is unknown. An address stands for the same code as long as nothing is unloaded. After
// that other code may lie there.
const std::string* FrameTexts::known_text(const LoadedCode& code, uintptr_t address) {
  if (code.unloaded != unloaded_) {
    texts_.clear();
    text_bytes_ = 0;
    files_.clear();
    unloaded_ = code.unloaded;
  }
  const auto found = texts_.find(address);
  return found != texts_.end() ? &found->second : nullptr;
}

// The files that were asked least recently go first.
LoadedFile& FrameTexts::file_of(const LoadedCode& code, const char* path) {
  // The loader may know the program by a name that leads nowhere from the current folder.
  const std::string name = code.is_program ? "/proc/self/exe" : path;
  const std::string build_id = hex_digits({code.build_id.data(), code.build_id_size});
  auto found = std::find_if(files_.begin(), files_.end(), [&](const LoadedFile& file) {
    return file.path() == name && file.build_id() == build_id;
  });
  if (found == files_.end()) found = files_.emplace(files_.end(), name, build_id);
  files_.splice(files_.begin(), files_, found);
  size_t bytes = 0;
  for (auto file = files_.begin(); file != files_.end();) {
    bytes += file->bytes();
    file =
        bytes <= most_index_bytes_ || file == files_.begin() ? std::next(file) : files_.erase(file);
  }
  return files_.front();
}

}  // namespace cachalot
