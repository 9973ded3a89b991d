// Byte messages between the processes of one run: numbers in the machine's own format, and texts
// with their length. Both ends are the same program on the same kind of machine, so there is no
// version; a message that does not parse is a broken invariant.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

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

// Reads in the order in which the fields were written. The bytes must outlive the reader.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    PRISM_CHECK_GE(rest_.size(), sizeof(T));
    T value;
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return value;
  }

  std::string_view GetText() {
    const auto size = Get<uint64_t>();
    PRISM_CHECK_GE(rest_.size(), size);
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }

  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace prism::launch
