// What a rank that does not exist would have written into the store, by the pattern of the key.
//
// Patterns are those of torch 2.6 to 2.15, in one table (absent_answers.cc); a key that matches
// none gets what another recorded rank wrote, if that is known; else no answer, and blocks whoever
// waits for it, as if its writer were late.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace prism::launch {

using StoreValues = std::map<std::string, std::string, std::less<>>;

// What the store's answers depend on in the job.
struct AbsentRanks {
  int32_t world_size = 1;
  int32_t ranks_per_node = 1;
  int32_t present = 1;  // ranks that run here
  // What other ranks were seen to write that run elsewhere or before; null: not known.
  std::shared_ptr<const StoreValues> written = nullptr;
};

class AbsentAnswers {
 public:
  using Values = StoreValues;

  explicit AbsentAnswers(const AbsentRanks& ranks) : ranks_(ranks) {}

  // The value that an absent rank would write to the key; null: no absent rank is known to write
  // it. `values`: what the store holds, for keys where absent ranks write what present ones wrote.
  [[nodiscard]] std::optional<std::string> Answer(const std::string& key,
                                                  const Values& values) const;

  // The key with its numbers and hashes replaced by <n> and <hash>, for messages.
  static std::string PatternOf(std::string_view key);

 private:
  AbsentRanks ranks_;
};

// Whether a key matches a pattern: '*' matches any text, '#' one or more digits.
bool KeyMatches(std::string_view pattern, std::string_view key);

}  // namespace prism::launch
