// The part of Python's pickle format that memory snapshots use: booleans, integers, strings, pairs,
// lists and dictionaries with string keys.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace prism::replayer {

// Writes protocol 4 into a string, values in the order of the calls. A string that was written
// before is referred to, so that keys cost two bytes.
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

}  // namespace prism::replayer
