// SPDX-License-Identifier: MIT OR Apache-2.0
#include "input.h"

#include <lzma.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "failure.h"

namespace cachalot::cli {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kXzMagic{"\xfd\x37zXZ\0", 6};
// What `xz -9` needs, four times over: a file can ask for much more.
constexpr uint64_t kXzMemory = uint64_t{256} << 20;

class PlainDecoder : public Decoder {
 public:
  explicit PlainDecoder(Source* source) : source_(*source) {}

  size_t read(uint8_t* buffer, size_t capacity) override {
    source_.fill();
    const size_t count = std::min(capacity, source_.size());
    if (count > 0) std::memcpy(buffer, source_.data(), count);
    source_.consume(count);
    return count;
  }
  bool unpacks() const override { return false; }

 private:
  Source& source_;
};

// A file may be several streams one after another, as `cat a.gz b.gz` makes it.
class GzipDecoder : public Decoder {
 public:
  explicit GzipDecoder(Source* source) : source_(*source) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw Failure("zlib cannot be started");
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }

  size_t read(uint8_t* buffer, size_t capacity) override {
    stream_.next_out = buffer;
    stream_.avail_out = static_cast<uInt>(std::min(capacity, kChunk));
    while (stream_.next_out == buffer) {
      source_.fill();
      if (source_.size() == 0 && is_between_streams_) return 0;
      if (source_.size() == 0) throw Failure("the gzip file ends too early");
      step();
    }
    return static_cast<size_t>(stream_.next_out - buffer);
  }

 private:
  void step() {
    const auto available = static_cast<uInt>(source_.size());
    stream_.next_in = const_cast<uint8_t*>(source_.data());
    stream_.avail_in = available;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) throw Failure("the gzip file is damaged");
    source_.consume(available - stream_.avail_in);
    is_between_streams_ = result == Z_STREAM_END;
    if (is_between_streams_) inflateReset(&stream_);
  }

  Source& source_;
  z_stream stream_{};
  bool is_between_streams_ = false;
};

class XzDecoder : public Decoder {
 public:
  explicit XzDecoder(Source* source) : source_(*source) {
    if (lzma_stream_decoder(&stream_, kXzMemory, LZMA_CONCATENATED) != LZMA_OK)
      throw Failure("lzma cannot be started");
  }
  ~XzDecoder() override { lzma_end(&stream_); }

  size_t read(uint8_t* buffer, size_t capacity) override {
    stream_.next_out = buffer;
    stream_.avail_out = capacity;
    while (stream_.next_out == buffer && !has_ended_) step();
    return static_cast<size_t>(stream_.next_out - buffer);
  }

 private:
  void step() {
    source_.fill();
    const size_t available = source_.size();
    stream_.next_in = source_.data();
    stream_.avail_in = available;
    const lzma_ret result = lzma_code(&stream_, available > 0 ? LZMA_RUN : LZMA_FINISH);
    source_.consume(available - stream_.avail_in);
    has_ended_ = result == LZMA_STREAM_END;
    if (result == LZMA_MEMLIMIT_ERROR) throw Failure("the xz file needs too much memory");
    if (result == LZMA_BUF_ERROR) throw Failure("the xz file ends too early");
    if (result != LZMA_OK && !has_ended_) throw Failure("the xz file is damaged");
  }

  Source& source_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool has_ended_ = false;
};

std::unique_ptr<Decoder> make_decoder(Source* source) {
  source->fill();
  const std::string_view begin(reinterpret_cast<const char*>(source->data()), source->size());
  if (begin.starts_with(kGzipMagic)) return std::make_unique<GzipDecoder>(source);
  if (begin.starts_with(kXzMagic)) return std::make_unique<XzDecoder>(source);
  return std::make_unique<PlainDecoder>(source);
}

}  // namespace

Source::Source(const std::string& path)
    : file_(path == "-" ? stdin : std::fopen(path.c_str(), "rb")), chunk_(kChunk) {
  if (!file_) throw Failure(std::strerror(errno));
  struct stat status {};
  if (fstat(fileno(file_.get()), &status) != 0) throw Failure(std::strerror(errno));
  if (S_ISREG(status.st_mode)) file_size_ = static_cast<uint64_t>(status.st_size);
}

void Source::fill() {
  if (size() > 0) return;
  begin_ = 0;
  end_ = std::fread(chunk_.data(), 1, chunk_.size(), file_.get());
  bytes_read_ += end_;
  if (end_ == 0 && std::ferror(file_.get())) throw Failure(std::strerror(errno));
}

Input::Input(const std::string& path) : source_(path), decoder_(make_decoder(&source_)) {}

size_t Input::read(void* buffer, size_t capacity) {
  const auto begin = std::chrono::steady_clock::now();
  const size_t count = decoder_->read(static_cast<uint8_t*>(buffer), capacity);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return count;
}

}  // namespace cachalot::cli
