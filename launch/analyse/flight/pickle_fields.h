// Reads fields of a pickle's dictionaries. The first mismatch is remembered, so that a file is read
// to its end and judged once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replayer/memory/pickle.h"

namespace prism::launch {

class PickleFields {
 public:
  // A pickle can refer to one list many times, which valid dumps do not do, so at most `bytes`
  // elements are read. `tree` must outlive this object.
  PickleFields(const replayer::PickleTree& tree, size_t bytes)
      : tree_(tree), elements_left_(bytes) {}

  // Without `otherwise` the key must exist.
  int64_t Int(const replayer::PickleValue& dict,
              const char* key,
              std::optional<int64_t> otherwise = {});
  std::string Text(const replayer::PickleValue& dict, const char* key);
  [[nodiscard]] bool Flag(const replayer::PickleValue& dict,
                          const char* key) const;  // false without it

  // Elements of a list; of a list that contains only dictionaries.
  std::vector<const replayer::PickleValue*> Elements(const replayer::PickleValue* list);
  std::vector<const replayer::PickleValue*> Dicts(const replayer::PickleValue* list);

  [[nodiscard]] const replayer::PickleTree& tree() const { return tree_; }

  // Something did not fit.
  void Fail() { failed_ = true; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  const replayer::PickleTree& tree_;
  size_t elements_left_;
  bool failed_ = false;
};

}  // namespace prism::launch
