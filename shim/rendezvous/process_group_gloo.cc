// c10d::ProcessGroupGloo with absent members: the class of libtorch's public header, redefined on
// top of the exchange among sandbox ranks. libtorch_python creates objects of it through the
// constructor that torch_hooks.cc interposes; this library is linked -Bsymbolic, so that they have
// the virtual function table from here. isinstance, options, wrappers and mixed groups work as they
// do with libtorch's own. Here: the group itself, barriers and point-to-point; collectives are in
// gloo_collectives.cc.
#include <algorithm>
#include <memory>
#include <new>
#include <sstream>
#include <utility>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "shim/observer/torch_versions.h"
#include "shim/rendezvous/gloo_calls.h"
#include "shim/rendezvous/gloo_group.h"
#include "shim/rendezvous/host_buffer.h"
#include "shim/rendezvous/python_hooks.h"

namespace c10d {

using prism::shim::Collective;
using prism::shim::CpuCall;
using prism::shim::CpuGroup;
using prism::shim::CpuWork;
using prism::shim::ExchangeOperation;
using prism::shim::GroupOf;
using prism::shim::HostBuffer;

namespace {

using WorkPointer = c10::intrusive_ptr<Work>;

struct Transfer {
  bool is_send;
  int peer;
  int tag;
  bool is_of_anyone = false;  // a receive: the peer is only one that it may be
};

// Sends and receives of one peer and tag keep their order, and wait for nothing else. Queue 0 is
// that of the collectives.
uint64_t QueueOf(const Transfer& transfer) {
  return (uint64_t{1} << 63U) | (uint64_t{transfer.is_send} << 62U) |
         (static_cast<uint64_t>(static_cast<uint32_t>(transfer.peer)) << 32U) |
         static_cast<uint32_t>(transfer.tag);
}

// For prism check; what to call where it is waited for.
std::function<void()> Tell(CpuGroup& group, const at::Tensor& tensor, const Transfer& transfer) {
  std::ostringstream channel;
  channel << (transfer.is_send ? "send/" : "recv/") << transfer.peer << "/" << transfer.tag;
  std::ostringstream call;
  call << (transfer.is_send ? "send:" : "recv:") << transfer.peer << ":0:"
       << prism::shim::SizeText(static_cast<int64_t>(tensor.nbytes()), tensor.scalar_type());
  if (transfer.is_of_anyone) {
    group.TellUnknown();
    return nullptr;
  }
  return group.Tell(channel.str(), call.str());
}

WorkPointer StartTransfer(CpuGroup& group, const at::Tensor& tensor, const Transfer& transfer) {
  const HostBuffer buffer(tensor);
  CpuCall call =
      prism::shim::Moved(transfer.is_send ? ExchangeOperation::kSend : ExchangeOperation::kRecv,
                         buffer.bytes(), transfer.peer);
  call.channel = uint64_t{1} << 32U | static_cast<uint32_t>(transfer.tag);
  call.send = transfer.is_send ? buffer.data() : nullptr;
  call.recv = transfer.is_send ? nullptr : buffer.data();
  group.Spend(static_cast<ExchangeOperation>(call.operation), buffer.bytes());
  CpuWork::Description description;
  description.rank = group.rank();
  description.type = transfer.is_send ? OpType::SEND : OpType::RECV;
  description.sequence = group.sequence();
  description.source = transfer.is_send ? -1 : transfer.peer;
  description.outputs = {tensor};
  description.tell_wait = Tell(group, tensor, transfer);
  auto work = c10::make_intrusive<CpuWork>(std::move(description), [&group, buffer, call] {
    group.Run({call});
    if (call.recv != nullptr) {
      buffer.Publish();
    }
  });
  group.Submit(QueueOf(transfer), work);
  return work;
}

#if PRISM_TORCH_GLOO_SPLITS
// Options of another backend are passed if a group for both kinds of device is split.
c10::intrusive_ptr<ProcessGroupGloo::Options> OptionsFrom(
    const c10::intrusive_ptr<Backend::Options>& given) {
  auto options = c10::dynamic_intrusive_pointer_cast<ProcessGroupGloo::Options>(given);
  if (options == nullptr) {
    options = ProcessGroupGloo::Options::create();
    options->group_name = given == nullptr ? "" : given->group_name;
  }
  return options;
}
#endif

}  // namespace

ProcessGroupGloo::ProcessGroupGloo(const c10::intrusive_ptr<Store>& store,
                                   int rank,
                                   int size,
                                   c10::intrusive_ptr<Options> options)
    : Backend(rank, size), options_(std::move(options)) {
  auto group = std::make_shared<CpuGroup>(store, rank, size);
#if PRISM_TORCH_GLOO_KNOWS_MEMBERS
  local_id_ = 0;
#else
  group->SetMembers(prism::shim::MembersFromPython());
#endif
  contexts_.push_back(std::move(group));
  init();
}

ProcessGroupGloo::~ProcessGroupGloo() = default;

#if PRISM_TORCH_GLOO_KNOWS_MEMBERS
const std::vector<uint64_t>& ProcessGroupGloo::groupRanks() const {
  return options_->global_ranks_in_group;
}
#endif

#if PRISM_TORCH_GLOO_SPLITS
c10::intrusive_ptr<Backend> ProcessGroupGloo::split(
    const c10::intrusive_ptr<Store>& store,
    const std::vector<int>& ranks,
    const c10::intrusive_ptr<Backend::Options>& opts) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) {
    return nullptr;
  }
  auto options = OptionsFrom(opts);
  options->global_ranks_in_group.clear();
  for (const int rank : ranks) {
    options->global_ranks_in_group.push_back(groupRanks().empty()
                                                 ? static_cast<uint64_t>(rank)
                                                 : groupRanks()[static_cast<size_t>(rank)]);
  }
  return c10::make_intrusive<ProcessGroupGloo>(store->clone(),
                                               static_cast<int>(place - ranks.begin()),
                                               static_cast<int>(ranks.size()), options);
}

c10::intrusive_ptr<Backend> ProcessGroupGloo::merge(
    const c10::intrusive_ptr<Store>& store,
    const c10::intrusive_ptr<Backend::Options>& opts,
    const int& rank,
    const int& size) {
  auto options = OptionsFrom(opts);
  return c10::make_intrusive<ProcessGroupGloo>(store->clone(), rank, size, options);
}
#endif

#if PRISM_TORCH_GLOO_RECONFIGURES
ReconfigureHandle ProcessGroupGloo::get_reconfigure_handle() const {
  TORCH_CHECK(false, "a CPU process group with absent members cannot be reconfigured");
}

c10::intrusive_ptr<Work> ProcessGroupGloo::reconfigure(const ReconfigureOptions& /*opts*/) {
  TORCH_CHECK(false, "a CPU process group with absent members cannot be reconfigured");
}
#endif

c10::intrusive_ptr<Work> ProcessGroupGloo::send(std::vector<at::Tensor>& tensors,
                                                int dstRank,
                                                int tag) {
  prism::shim::CheckOne("send", tensors);
  return StartTransfer(GroupOf(*this, contexts_), tensors[0], {true, dstRank, tag});
}

c10::intrusive_ptr<Work> ProcessGroupGloo::recv(std::vector<at::Tensor>& tensors,
                                                int srcRank,
                                                int tag) {
  prism::shim::CheckOne("recv", tensors);
  return StartTransfer(GroupOf(*this, contexts_), tensors[0], {false, srcRank, tag});
}

// From whoever arrives first; among absent ranks, the next one.
c10::intrusive_ptr<Work> ProcessGroupGloo::recvAnysource(std::vector<at::Tensor>& tensors,
                                                         int tag) {
  prism::shim::CheckOne("recvAnysource", tensors);
  CpuGroup& group = GroupOf(*this, contexts_);
  TORCH_CHECK(group.IsAlone(),
              "a receive from any source is not supported between several sandbox ranks");
  return StartTransfer(group, tensors[0], {false, (rank_ + 1) % size_, tag, true});
}

c10::intrusive_ptr<Work> ProcessGroupGloo::barrier(const BarrierOptions& /*opts*/) {
  return prism::shim::StartCollective(
      GroupOf(*this, contexts_), OpType::BARRIER, {}, [](const Collective& collective) {
        collective.Run(prism::shim::Moved(ExchangeOperation::kBarrier, 0), nullptr, nullptr);
      });
}

// Absent ranks are always alive.
void ProcessGroupGloo::monitoredBarrier(const BarrierOptions& opts, bool /*waitAllRanks*/) {
  if (opts.timeout != kUnsetTimeout) {
    prism::shim::SetNextTimeout(opts.timeout);
  }
  barrier(opts)->wait();
}

void ProcessGroupGloo::enableCollectivesTiming() {
}

#if PRISM_TORCH_GLOO_NUMBERS_GROUP
void ProcessGroupGloo::setSequenceNumberForGroup() {
}
#endif

uint64_t ProcessGroupGloo::getSequenceNumberForGroup() {
  return GroupOf(*this, contexts_).sequence();
}

}  // namespace c10d

extern "C" __attribute__((visibility("default"))) void prism_rendezvous_make_gloo(
    void* self,
    const c10::intrusive_ptr<c10d::Store>* store,
    int rank,
    int size,
    c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>* options) {
  new (self) c10d::ProcessGroupGloo(*store, rank, size, std::move(*options));
}

// No connection is made, so no device is needed.
extern "C" __attribute__((visibility("default"))) void* prism_rendezvous_make_gloo_device(
    std::shared_ptr<::gloo::transport::Device>* result, bool /*lazy*/) {
  return new (result) std::shared_ptr<::gloo::transport::Device>();
}
