// SPDX-License-Identifier: MIT OR Apache-2.0
#include "packed.h"

#include <zlib.h>

#include "failure.h"

namespace cachalot::cli {

void NumberColumn::add(uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes_.push_back(static_cast<char>(number | 0x80));
  bytes_.push_back(static_cast<char>(number));
}

void NumberColumn::add_signed(int64_t number) {
  add(static_cast<uint64_t>(number) << 1 ^ static_cast<uint64_t>(number >> 63));
}

std::string gzip(std::string_view bytes) {
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Failure("zlib cannot be started");
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  // zlib counts in 32 bits.
  size_t left = bytes.size();
  int result = Z_OK;
  while (result == Z_OK) {
    if (stream.avail_in == 0) {
      stream.avail_in = static_cast<uInt>(std::min<size_t>(left, UINT32_MAX));
      left -= stream.avail_in;
    }
    const auto made = static_cast<size_t>(reinterpret_cast<char*>(stream.next_out) - packed.data());
    stream.avail_out = static_cast<uInt>(std::min<size_t>(packed.size() - made, UINT32_MAX));
    result = deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH);
  }
  packed.resize(static_cast<size_t>(reinterpret_cast<char*>(stream.next_out) - packed.data()));
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw Failure("zlib cannot pack the page's data");
  return packed;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; k++)
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; k++)
      text.push_back(i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63]);
  }
  return text;
}

}  // namespace cachalot::cli
