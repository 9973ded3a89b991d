#include "launch/trainer/lone_store.h"

#include "launch/process/unique_id.h"

namespace prism::launch {

std::vector<uint8_t> LoneStore::get(const std::string& key) {
  if (check({key})) {
    return HashStore::get(key);
  }
  const std::string id = UniqueIdFromKey(key);
  return {id.begin(), id.end()};
}

std::vector<std::vector<uint8_t>> LoneStore::multiGet(const std::vector<std::string>& keys) {
  std::vector<std::vector<uint8_t>> values;
  for (const std::string& key : keys) {
    values.push_back(get(key));
  }
  return values;
}

}  // namespace prism::launch
