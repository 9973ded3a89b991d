// The part of Python's pickle format that torch's dumps use: None, booleans, integers, floats,
// strings, lists, tuples and dictionaries with string keys. Nothing that imports or calls anything.
#pragma once

#include <cstdint>
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

// A value read from a pickle. Containers refer to their elements by index into PickleTree, since a
// pickle may refer to the same value twice.
struct PickleValue {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kString, kSequence, kDict };

  Kind kind = Kind::kNone;
  int64_t number = 0;              // kBool, kInt
  double real = 0;                 // kFloat
  std::string text;                // kString
  std::vector<uint32_t> elements;  // kSequence: values; kDict: keys and values alternating
};

class PickleTree {
 public:
  [[nodiscard]] const PickleValue& at(uint32_t index) const { return values_[index]; }

  [[nodiscard]] const PickleValue& root() const { return values_[root_]; }

  // The value of a dictionary's key; nullptr if it has no such key or is not a dictionary.
  [[nodiscard]] const PickleValue* Find(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleReader;

  std::vector<PickleValue> values_;
  uint32_t root_ = 0;
};

// kBadFile, with the position, for an opcode outside this subset and for a pickle that is
// truncated, too large or malformed.
Result<PickleTree> ReadPickle(std::string_view bytes, const std::string& name);

}  // namespace prism::replayer
