#include "shim/rendezvous/cpu_group.h"

#include <array>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <string>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "graph/base/fnv.h"
#include "shim/observer/observer_calls.h"

namespace prism::shim {
namespace {

// Answered by the server with the key's own prefix (launch/emulate/store/store_server.h).
constexpr const char* kNameKey = "prism/name";

// The prefix that the framework gives each group's keys: unlike any other group's, and the same on
// all members. Stores that exist only in this process have no other members.
std::string NameOf(const c10::intrusive_ptr<c10d::Store>& store) {
  c10::intrusive_ptr<c10d::Store> base = store;
  if (auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(store.get())) {
    base = prefixed->getUnderlyingNonPrefixStore();
  }
  const bool served = dynamic_cast<c10d::TCPStore*>(base.get()) != nullptr ||
                      dynamic_cast<c10d::FileStore*>(base.get()) != nullptr;
  return served ? store->get_to_str(kNameKey) : "";
}

// FIRST/STRIDE/COUNT, or numbers with commas.
std::string MembersText(const std::vector<int64_t>& ranks) {
  const int64_t stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;
  bool is_even = stride > 0;
  std::ostringstream list;
  for (size_t i = 0; i < ranks.size(); ++i) {
    is_even = is_even && ranks[i] == ranks[0] + stride * static_cast<int64_t>(i);
    list << (i == 0 ? "" : ",") << ranks[i];
  }
  std::ostringstream even;
  even << ranks[0] << "/" << stride << "/" << ranks.size();
  return is_even ? even.str() : list.str();
}

int WorldSize() {
  const char* const text = std::getenv("WORLD_SIZE");
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

CpuGroup::CpuGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size)
    : identity_(FnvHash(NameOf(store))), rank_(rank), size_(size) {
}

void CpuGroup::SetMembers(const std::vector<uint64_t>& global_ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (group_ != nullptr) {
    return;
  }
  std::vector<int64_t> ranks(global_ranks.begin(), global_ranks.end());
  if (ranks.empty() && size_ == WorldSize()) {
    ranks.resize(static_cast<size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  const bool known = ranks.size() == static_cast<size_t>(size_);
  const CpuGroupSpec spec = {identity_, size_, rank_, known ? ranks.data() : nullptr};
  if (!known) {
    prism_shim_count("cpu_group_without_members");
  }
  group_ = prism_shim_cpu_group(&spec);
  members_ = known && size_ > 0 ? MembersText(ranks) : "";
}

std::function<void()> CpuGroup::Tell(const std::string& channel, const std::string& call) {
  if (identity_ == FnvHash("") || members_.empty()) {
    return nullptr;
  }
  std::ostringstream note;
  note << (prism_shim_is_on_side_thread() ? "prism:side:cpu:" : "prism:cpu:") << identity_ << ":"
       << members_ << ":" << channel << ":" << call;
  if (!prism_shim_cpu_tell(note.str().c_str(), CpuNote::kCall)) {
    return nullptr;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::ostringstream wait;
  wait << ":" << identity_ << ":" << channel << ":" << ++calls_[channel];
  return [text = wait.str()] {
    const std::string kind =
        prism_shim_is_on_side_thread() ? "prism:side:cpu-wait" : "prism:cpu-wait";
    prism_shim_cpu_tell((kind + text).c_str(), CpuNote::kOther);
  };
}

void CpuGroup::TellUnknown() const {
  std::ostringstream note;
  note << "prism:cpu-unknown:" << identity_ << ":" << members_;
  prism_shim_cpu_tell(note.str().c_str(), CpuNote::kOther);
}

void CpuGroup::Run(const std::vector<CpuCall>& calls) const {
  std::array<char, kCpuMessageBytes> message = {};
  TORCH_CHECK(prism_shim_cpu_run(group_, calls.data(), calls.size(), message.data()) == 0,
              message.data());
}

void CpuGroup::Submit(uint64_t queue, const c10::intrusive_ptr<CpuWork>& work) {
  if (IsAlone()) {
    work->Execute();
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<SerialQueue>& serial = queues_[queue];
  if (serial == nullptr) {
    serial = std::make_unique<SerialQueue>();
  }
  serial->Push(work);
}

}  // namespace prism::shim
