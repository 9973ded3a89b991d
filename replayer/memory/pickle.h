// The part of Python's pickle format that torch's dumps use: None, booleans, integers, floats,
// strings, lists, tuples and dictionaries with string keys. Nothing that imports or calls anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::replayer {

// Writes protocol 4 into a string, values in call order. A string that was written before is stored
// as a reference, so repeated keys cost two bytes.
class PickleWriter {
 public:
  PickleWriter();

  void BeginList();  // elements follow
  void EndList();
  void BeginDict();  // Key and value alternate
  void EndDict();
  void Key(const std::string& key) { String(key); }
  void Pair(int64_t first, int64_t second);  // a tuple
  void Int(int64_t value);
  void Bool(bool value);
  void String(const std::string& text);

  // Ends the pickle.
  [[nodiscard]] std::string Finish();

 private:
  void Little(uint64_t value, int bytes);

  std::string out_;
  std::map<std::string, uint32_t> memo_;
};

// A value read from a pickle; what it holds is in its PickleTree, since a pickle may refer to the
// same value twice.
struct PickleValue {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kString, kSequence, kDict };

  Kind kind = Kind::kNone;
  uint32_t count = 0;  // kString: bytes; kSequence: elements; kDict: keys and values
  int64_t number = 0;  // kBool, kInt; of others where what they hold is
};

class PickleTree {
 public:
  [[nodiscard]] const PickleValue& at(uint32_t index) const { return values_[index]; }

  [[nodiscard]] const PickleValue& root() const { return values_[root_]; }

  // kString.
  [[nodiscard]] std::string_view Text(const PickleValue& value) const;

  // kSequence: values; kDict: keys and values alternating. Indices for at().
  [[nodiscard]] std::vector<uint32_t> Elements(const PickleValue& value) const;

  // The value of a dictionary's key; nullptr if it has no such key or is not a dictionary.
  [[nodiscard]] const PickleValue* Find(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleReader;

  template <typename Visit>  // until it returns false
  void ForElements(const PickleValue& value, const Visit& visit) const;

  std::string_view bytes_;
  std::deque<PickleValue> values_;  // grows without a copy
  std::deque<uint32_t> pieces_;     // of containers: elements, the next piece, and the elements
  uint32_t root_ = 0;
};

// What a pickle may take in memory beside its bytes: a few of them can stand for many values.
inline constexpr size_t kMostPickleRatio = 3;
inline constexpr size_t kFreePickleBytes = size_t{16} << 20U;

// `bytes` must outlive the tree. kBadFile, with the position, for an opcode outside this subset and
// for a pickle that is truncated, malformed or takes more than kMostPickleRatio times its size.
Result<PickleTree> ReadPickle(std::string_view bytes, const std::string& name);

}  // namespace prism::replayer
