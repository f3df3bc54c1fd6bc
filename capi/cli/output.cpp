// SPDX-License-Identifier: MIT OR Apache-2.0
#include "output.h"

#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "failure.h"

namespace cachalot::cli {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 16;

class PlainEncoder : public Encoder {
 public:
  void encode(std::string_view bytes, std::string* out) override { *out += bytes; }
  void finish(std::string*) override {}
};

class GzipEncoder : public Encoder {
 public:
  GzipEncoder() {
    constexpr int kGzip = 16 + MAX_WBITS;
    constexpr int kMemoryLevel = 8;
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK)
      throw Failure("zlib cannot be started");
  }
  ~GzipEncoder() override { deflateEnd(&stream_); }

  void encode(std::string_view bytes, std::string* out) override {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPieceBytes)))
      run(bytes.substr(0, kPieceBytes), Z_NO_FLUSH, out);
  }
  void finish(std::string* out) override { run({}, Z_FINISH, out); }

 private:
  void run(std::string_view bytes, int flush, std::string* out) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = room_.data();
      stream_.avail_out = static_cast<uInt>(room_.size());
      deflate(&stream_, flush);
      out->append(reinterpret_cast<char*>(room_.data()), room_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

  z_stream stream_{};
  std::array<Bytef, kPieceBytes> room_;
};

class XzEncoder : public Encoder {
 public:
  XzEncoder() {
    if (lzma_easy_encoder(&stream_, LZMA_PRESET_DEFAULT, LZMA_CHECK_CRC64) != LZMA_OK)
      throw Failure("lzma cannot be started");
  }
  ~XzEncoder() override { lzma_end(&stream_); }

  void encode(std::string_view bytes, std::string* out) override { run(bytes, LZMA_RUN, out); }
  void finish(std::string* out) override { run({}, LZMA_FINISH, out); }

 private:
  void run(std::string_view bytes, lzma_action action, std::string* out) {
    stream_.next_in = reinterpret_cast<const uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
    do {
      stream_.next_out = room_.data();
      stream_.avail_out = room_.size();
      const lzma_ret result = lzma_code(&stream_, action);
      if (result != LZMA_OK && result != LZMA_STREAM_END && result != LZMA_BUF_ERROR)
        throw Failure("lzma cannot pack it");
      out->append(reinterpret_cast<char*>(room_.data()), room_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  std::array<uint8_t, kPieceBytes> room_;
};

std::unique_ptr<Encoder> encoder_for(const std::string& path) {
  if (path.ends_with(".gz")) return std::make_unique<GzipEncoder>();
  if (path.ends_with(".xz")) return std::make_unique<XzEncoder>();
  return std::make_unique<PlainEncoder>();
}

}  // namespace

Output::Output(const std::string& path)
    : path_(path),
      file_(path == "-" ? stdout : std::fopen(path.c_str(), "wb")),
      encoder_(encoder_for(path)) {
  if (file_ == nullptr) throw Failure(path + ": " + std::strerror(errno));
}

// A device or a pipe stays.
Output::~Output() {
  if (file_ == stdout) return;
  struct stat status {};
  const bool is_file = fstat(fileno(file_), &status) == 0 && S_ISREG(status.st_mode);
  std::fclose(file_);
  if (!is_finished_ && is_file) unlink(path_.c_str());
}

void Output::write(std::string_view bytes) {
  pending_ += bytes;
  if (pending_.size() >= kPieceBytes) pass();
}

void Output::pass() {
  std::string packed;
  encoder_->encode(pending_, &packed);
  pending_.clear();
  put(packed);
}

void Output::finish() {
  pass();
  std::string packed;
  encoder_->finish(&packed);
  put(packed);
  if (std::fflush(file_) != 0) throw Failure(path_ + ": " + std::strerror(errno));
  is_finished_ = true;
}

void Output::put(const std::string& bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size())
    throw Failure(path_ + ": " + std::strerror(errno));
}

}  // namespace cachalot::cli
