// The rendezvous store of a rank whose peers are absent: keys set here are kept, and a key that
// only an absent rank would set (an NCCL unique id) is answered with 128 bytes derived from its
// name, the same in every process that asks. Nothing ever waits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace prism::launch {

class LoneStore : public c10d::HashStore {
 public:
  std::vector<uint8_t> get(const std::string& key) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& /*keys*/) override {}
  void wait(const std::vector<std::string>& /*keys*/,
            const std::chrono::milliseconds& /*timeout*/) override {}
};

}  // namespace prism::launch
