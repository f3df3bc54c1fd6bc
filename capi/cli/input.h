// SPDX-License-Identifier: MIT OR Apache-2.0
// Files to read: plain, gzip or xz, told apart by their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace cachalot::cli {

// The bytes of a file as they are stored.
class Source {
 public:
  explicit Source(const std::string& path);  // "-": standard input

  // The bytes that are there, more if there were none; empty at the end. Throws Failure.
  void fill();
  const uint8_t* data() const { return chunk_.data() + begin_; }
  size_t size() const { return end_ - begin_; }
  void consume(size_t count) { begin_ += count; }

  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t file_size() const { return file_size_; }  // 0: not known
  bool is_regular() const { return file_size_ != 0 && file_.get() != stdin; }

 private:
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdin) std::fclose(file);
    }
  };

  std::unique_ptr<std::FILE, Close> file_;
  std::vector<uint8_t> chunk_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t file_size_ = 0;
};

class Decoder {
 public:
  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  virtual ~Decoder() = default;
  // As many bytes as there are, up to capacity; 0 at the end. Throws Failure.
  virtual size_t read(uint8_t* buffer, size_t capacity) = 0;
  virtual bool unpacks() const { return true; }
};

// The bytes of a file as they were before they were packed.
class Input {
 public:
  explicit Input(const std::string& path);

  size_t read(void* buffer, size_t capacity);

  // Whether others can read it by its path, as it is.
  bool is_plain_file() const { return source_.is_regular() && !decoder_->unpacks(); }
  uint64_t packed_bytes_read() const { return source_.bytes_read(); }
  uint64_t packed_size() const { return source_.file_size(); }
  // What reading and unpacking took so far.
  double seconds() const { return seconds_; }

 private:
  Source source_;
  std::unique_ptr<Decoder> decoder_;
  double seconds_ = 0;
};

}  // namespace cachalot::cli
