#include "launch/trainer/lone_store.h"

#include "launch/process/unique_id.h"

namespace prism::launch {
c10::intrusive_ptr<c10d::Store> LoneStore::clone() {
  return c10::intrusive_ptr<c10d::Store>::reclaim_copy(this);
}

void LoneStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  values_[key] = value;
}

std::vector<uint8_t> LoneStore::get(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = values_.find(key);
  if (found != values_.end()) {
    return found->second;
  }
  const std::string id = UniqueIdFromKey(key);
  return {id.begin(), id.end()};
}

int64_t LoneStore::add(const std::string& key, int64_t value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<uint8_t>& kept = values_[key];
  const std::string before(kept.begin(), kept.end());
  const int64_t sum = (before.empty() ? 0 : std::stoll(before)) + value;
  const std::string after = std::to_string(sum);
  kept.assign(after.begin(), after.end());
  return sum;
}

bool LoneStore::deleteKey(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return values_.erase(key) > 0;
}

bool LoneStore::check(const std::vector<std::string>& keys) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::string& key : keys) {
    if (!values_.contains(key)) {
      return false;
    }
  }
  return true;
}

int64_t LoneStore::getNumKeys() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(values_.size());
}

void LoneStore::wait(const std::vector<std::string>&) {
}

void LoneStore::wait(const std::vector<std::string>&, const std::chrono::milliseconds&) {
}

std::vector<std::vector<uint8_t>> LoneStore::multiGet(const std::vector<std::string>& keys) {
  std::vector<std::vector<uint8_t>> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) {
    values.push_back(get(key));
  }
  return values;
}

}  // namespace prism::launch
