// The state of one CPU process group: who its members are, which of them are present, and the
// threads on which its operations run. Stored where c10d::ProcessGroupGloo keeps its gloo context,
// because libtorch fixes the layout of that class.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gloo/context.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "shim/nccl/exchange.h"
#include "shim/rendezvous/cpu_exchange.h"
#include "shim/rendezvous/cpu_work.h"

namespace prism::shim {

class CpuGroup : public gloo::Context {
 public:
  // The prefix of the store identifies the group.
  CpuGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size);

  // Sets the members as global ranks, before the first operation: the framework states them only
  // after it has created the group. Empty: all ranks of the job if the size matches, else not
  // known.
  void SetMembers(const std::vector<uint64_t>& global_ranks);

  [[nodiscard]] bool IsAlone() const { return prism_shim_cpu_present_count(group_) == 1; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // Number of the latest collective.
  [[nodiscard]] uint64_t sequence() const { return sequence_; }

  // Numbers the next collective.
  uint64_t NextSequence() { return ++sequence_; }

  // The calling thread begins an operation on so many bytes, which takes it host time.
  void Spend(ExchangeOperation operation, size_t bytes) const {
    prism_shim_cpu_spend(group_, static_cast<uint8_t>(operation), bytes);
  }

  // Runs one collective, or concurrent sends and receives, to the end. Throws c10::Error when the
  // present members do not agree or one is gone.
  void Run(const std::vector<CpuCall>& calls) const;

  // For prism check: a note of the call that begins (slicer/check/call_recorder.h), the next of its
  // channel, whose calls run in order. What to call where it is waited for; empty: nobody asks.
  std::function<void()> Tell(const std::string& channel, const std::string& call);
  // Likewise of a call that cannot be compared: it is not known whose or in what order it is.
  void TellUnknown() const;

  // Executes the work: at once if nobody else is present, else on the thread of the queue, after
  // everything submitted to it before.
  void Submit(uint64_t queue, const c10::intrusive_ptr<CpuWork>& work);

 private:
  uint64_t identity_;
  int rank_;
  int size_;
  CpuExchangeGroup* group_ = nullptr;
  std::string members_;  // as they are told; "": not known
  uint64_t sequence_ = 0;
  std::map<std::string, uint64_t> calls_;  // by channel, that were told
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<SerialQueue>> queues_;
};

}  // namespace prism::shim
