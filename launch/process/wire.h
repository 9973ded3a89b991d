// Byte messages between the processes of one run: numbers in the machine's own format, and texts
// with their length. Both ends are the same program on the same kind of machine, so there is no
// version; a message that does not parse is a broken invariant, unless it was kept in a file.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/base/check.h"

namespace prism::launch {

class WireWriter {
 public:
  template <typename T>
  WireWriter& Put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t offset = bytes_.size();
    bytes_.resize(offset + sizeof(T));
    std::memcpy(bytes_.data() + offset, &value, sizeof(T));
    return *this;
  }

  WireWriter& PutText(std::string_view text) {
    Put<uint64_t>(text.size());
    bytes_.append(text);
    return *this;
  }

  [[nodiscard]] std::string Take() { return std::move(bytes_); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

enum class WireSource : uint8_t { kProcess, kFile };

// Reads in the order in which the fields were written. The bytes must outlive the reader.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes, WireSource source = WireSource::kProcess)
      : rest_(bytes), source_(source) {}

  template <typename T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value = {};
    if (const std::string_view bytes = Take(sizeof(T)); !is_damaged_) {
      std::memcpy(&value, bytes.data(), sizeof(T));
    }
    return value;
  }

  std::string_view GetText() { return Take(Get<uint64_t>()); }

  // Appends `count` items, each by `read(&item)`, which must read something: a damaged number of
  // them takes no more memory than the bytes that are there.
  template <typename T, typename Read>
  void GetEach(uint64_t count, std::vector<T>* items, const Read& read) {
    for (uint64_t i = 0; i < count && !is_damaged_; ++i) {
      read(&items->emplace_back());
    }
  }

  [[nodiscard]] bool empty() const { return rest_.empty(); }

  // Of a file: it ended too early, and everything from there on was read as nothing.
  [[nodiscard]] bool is_damaged() const { return is_damaged_; }

 private:
  std::string_view Take(uint64_t size) {
    if (rest_.size() < size) {
      PRISM_CHECK(source_ == WireSource::kFile);
      is_damaged_ = true;
      rest_ = {};
      return {};
    }
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  std::string_view rest_;
  WireSource source_;
  bool is_damaged_ = false;
};

}  // namespace prism::launch
