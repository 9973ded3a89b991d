#include "launch/trainer/nccl_groups.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "launch/process/unique_id.h"
#include "shim/observer/torch_versions.h"

namespace prism::launch {
namespace {

// The rendezvous store of a rank whose peers are absent: keys set here are kept, and a key that
// only an absent rank would set (an NCCL unique id) is answered with 128 bytes derived from its
// name, the same in every process that asks. Nothing ever waits.
class LoneStore : public c10d::HashStore {
 public:
  std::vector<uint8_t> get(const std::string& key) override {
    if (check({key})) {
      return HashStore::get(key);
    }
    const std::string id = UniqueIdFromKey(key);
    return {id.begin(), id.end()};
  }

  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    std::vector<std::vector<uint8_t>> values;
    for (const std::string& key : keys) {
      values.push_back(get(key));
    }
    return values;
  }

  void wait(const std::vector<std::string>& /*keys*/) override {}
  void wait(const std::vector<std::string>& /*keys*/,
            const std::chrono::milliseconds& /*timeout*/) override {}
};

}  // namespace

BackendFactory NcclBackends() {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<LoneStore>();
  return [store](const GroupSpec& spec) -> c10::intrusive_ptr<c10d::Backend> {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->group_name = spec.name;
#if PRISM_TORCH_DESCRIBES_OPTIONS
    options->group_desc = spec.name;
#endif
    for (int32_t i = 0; i < spec.size; ++i) {
      options->global_ranks_in_group.push_back(static_cast<uint64_t>(spec.start + i * spec.stride));
    }
    // Like torch.distributed: keys of different groups, even of different groups with the same
    // name, are kept separate.
    const std::string prefix =
        spec.name + "/" + std::to_string(spec.start) + "/" + std::to_string(spec.stride) + "/";
    auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
        c10::make_intrusive<c10d::PrefixStore>(prefix, store), spec.index, spec.size, options);
#if !PRISM_TORCH_DESCRIBES_OPTIONS
    group->setGroupDesc(spec.name);
#endif
    return group;
  };
}

}  // namespace prism::launch
