// The rendezvous store of a rank whose peers are absent: keys set here are kept, and a key that
// only an absent rank would set (an NCCL unique id) is answered with 128 bytes derived from its
// name, the same in every process that asks. Nothing ever waits.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace prism::launch {

class LoneStore : public c10d::Store {
 public:
  LoneStore() = default;

  using c10d::Store::set;
  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  [[nodiscard]] bool hasExtendedApi() const override { return true; }

 private:
  std::mutex mutex_;  // watchdog threads ask too
  std::map<std::string, std::vector<uint8_t>> values_;
};

}  // namespace prism::launch
