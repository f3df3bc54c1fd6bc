// SPDX-License-Identifier: MIT OR Apache-2.0
#include "text_file.h"

#include <lzma.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <string_view>

#include "input_error.h"

namespace cachalot::differential {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kXzMagic{"\xfd\x37zXZ\0", 6};
constexpr size_t kChunk = size_t{1} << 16;

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError("cannot be opened");
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) throw InputError("cannot be read");
  return bytes;
}

// zlib and lzma ask for bytes without a sign, and zlib for ones that are not const.
unsigned char* as_bytes(const std::string& text) {
  return reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
}

// Ends a decoder whatever way its scope is left.
template <typename Stream, auto end>
struct Ending {
  Stream* stream;
  ~Ending() { end(stream); }
};

std::string gunzip(const std::string& bytes) {
  if (bytes.size() > std::numeric_limits<uInt>::max()) throw InputError("is too large");
  z_stream stream{};
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw InputError("zlib cannot be started");
  const Ending<z_stream, inflateEnd> ending{&stream};
  stream.next_in = as_bytes(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string text;
  std::array<unsigned char, kChunk> chunk;
  for (int result = Z_OK; result != Z_STREAM_END;) {
    stream.next_out = chunk.data();
    stream.avail_out = static_cast<uInt>(chunk.size());
    result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) throw InputError("is a damaged gzip file");
    text.append(chunk.data(), chunk.data() + (chunk.size() - stream.avail_out));
  }
  if (stream.avail_in != 0) throw InputError("has bytes behind its gzip stream");
  return text;
}

std::string unxz(const std::string& bytes) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, UINT64_MAX, LZMA_CONCATENATED) != LZMA_OK) {
    throw InputError("lzma cannot be started");
  }
  const Ending<lzma_stream, lzma_end> ending{&stream};
  stream.next_in = as_bytes(bytes);
  stream.avail_in = bytes.size();
  std::string text;
  std::array<unsigned char, kChunk> chunk;
  for (lzma_ret result = LZMA_OK; result != LZMA_STREAM_END;) {
    stream.next_out = chunk.data();
    stream.avail_out = chunk.size();
    result = lzma_code(&stream, LZMA_FINISH);
    if (result != LZMA_OK && result != LZMA_STREAM_END) throw InputError("is a damaged xz file");
    text.append(chunk.data(), chunk.data() + (chunk.size() - stream.avail_out));
  }
  return text;
}

}  // namespace

std::string read_text_file(const std::string& path) {
  std::string bytes = read_bytes(path);
  if (bytes.starts_with(kGzipMagic)) return gunzip(bytes);
  if (bytes.starts_with(kXzMagic)) return unxz(bytes);
  return bytes;
}

}  // namespace cachalot::differential
