// SPDX-License-Identifier: MIT OR Apache-2.0
// The other process of tests of share.h: it does what it is told on its standard input, a line a time, and answers each
// with a line that begins with "ok" or with the name of the failure's status.
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "../hex_digits.h"
#include "cachalot/cachalot.h"

namespace {

cachalot_error last_error = CACHALOT_ERROR_INIT;

struct Failed {};

void must(cachalot_status status) {
  if (status != CACHALOT_OK) throw Failed();
}

unsigned char* pointer_to(cachalot_address address) {
  return reinterpret_cast<unsigned char*>(address);
}

class Helper {
 public:
  explicit Helper(const char* driver_name, const char* config) {
    cachalot_driver* driver = nullptr;
    must(cachalot_driver_open(driver_name, &driver, &last_error));
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver;
    options.config = config;
    options.shareable_pages = 1;
    const cachalot_status status = cachalot_allocator_create(&options, &allocator_, &last_error);
    cachalot_driver_destroy(driver);
    must(status);
  }

  ~Helper() {
    cachalot_opened_block_destroy(opened_);
    cachalot_shared_block_destroy(shared_);
    cachalot_allocator_destroy_all(allocator_, nullptr);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  std::string run(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "allocate") return allocate(words);
    if (word == "share") return share();
    if (word == "users") return text(cachalot_shared_block_users(shared_));
    if (word == "end") return end();
    if (word == "bytes") return bytes();
    if (word == "open") return open(words);
    if (word == "open_bytes") return open_bytes(words);
    if (word == "close_bytes") return close_bytes();
    if (word == "read") return read(words);
    if (word == "write") return write(words);
    if (word == "has_sharer") return text(cachalot_opened_block_has_sharer(opened_));
    if (word == "close") return close();
    if (word == "free") return free();
    if (word == "destroy") return destroy();
    return "unknown word";
  }

 private:
  template <class T>
  static std::string text(T value) {
    return "ok " + std::to_string(value);
  }

  // BYTES FILLING
  std::string allocate(std::istringstream& words) {
    int filling = 0;
    words >> size_ >> filling;
    must(cachalot_allocate(allocator_, size_, 0, 0, &address_, &last_error));
    std::memset(pointer_to(address_), filling, size_);
    return "ok";
  }

  std::string share() {
    must(cachalot_shared_block_create(allocator_, address_, &shared_, &last_error));
    char ticket[CACHALOT_TICKET_CAPACITY];
    must(cachalot_shared_block_ticket(shared_, ticket, sizeof ticket, nullptr, &last_error));
    return std::string("ok ") + ticket;
  }

  std::string end() {
    cachalot_shared_block_destroy(shared_);
    shared_ = nullptr;
    return "ok";
  }

  // The offset, and hexadecimal digits.
  std::string bytes() {
    std::string buffer(1 << 16, '\0');
    size_t size = 0;
    uint64_t offset = 0;
    must(cachalot_share(allocator_, address_, buffer.data(), buffer.size(), &size, &offset,
                        &last_error));
    buffer.resize(size);
    return text(offset) + " " + cachalot_test::to_hex_digits(buffer);
  }

  std::string open(std::istringstream& words) {
    std::string ticket;
    words >> ticket;
    must(cachalot_opened_block_create(allocator_, 0, ticket.c_str(), &opened_, &last_error));
    must(cachalot_opened_block_address(opened_, &address_, &size_, &last_error));
    return text(size_);
  }

  // OFFSET DIGITS
  std::string open_bytes(std::istringstream& words) {
    uint64_t offset = 0;
    std::string digits;
    words >> offset >> digits;
    const std::string in = cachalot_test::of_hex_digits(digits);
    must(cachalot_open_shared(allocator_, 0, in.data(), in.size(), &memory_, &last_error));
    address_ = memory_ + offset;
    return "ok";
  }

  std::string close_bytes() {
    must(cachalot_close_shared(allocator_, memory_, &last_error));
    return "ok";
  }

  // OFFSET: the byte there
  std::string read(std::istringstream& words) {
    uint64_t offset = 0;
    words >> offset;
    return text(static_cast<int>(pointer_to(address_)[offset]));
  }

  // OFFSET BYTE
  std::string write(std::istringstream& words) {
    uint64_t offset = 0;
    int byte = 0;
    words >> offset >> byte;
    pointer_to(address_)[offset] = static_cast<unsigned char>(byte);
    return "ok";
  }

  std::string close() {
    cachalot_opened_block_destroy(opened_);
    opened_ = nullptr;
    return "ok";
  }

  std::string free() {
    must(cachalot_free(allocator_, address_, &last_error));
    return "ok";
  }

  std::string destroy() {
    must(cachalot_allocator_destroy(allocator_, &last_error));
    allocator_ = nullptr;
    return "ok";
  }

  cachalot_allocator* allocator_ = nullptr;
  cachalot_shared_block* shared_ = nullptr;
  cachalot_opened_block* opened_ = nullptr;
  cachalot_address address_ = 0;
  cachalot_address memory_ = 0;
  uint64_t size_ = 0;
};

std::string answer_to(const std::string& line, Helper& helper) {
  try {
    return helper.run(line);
  } catch (const Failed&) {
    return std::string(cachalot_status_name(last_error.status)) + " " + last_error.message;
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    Helper helper(arguments[1], arguments[2]);
    std::cout << "ok" << std::endl;
    for (std::string line; std::getline(std::cin, line);)
      std::cout << answer_to(line, helper) << std::endl;
  } catch (const Failed&) {
    std::cout << cachalot_status_name(last_error.status) << " " << last_error.message << std::endl;
    return 1;
  }
  return 0;
}
