#include "slicer/record/fragment_parts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

constexpr const char* kDefaultGroup = "default_pg";  // torch's name for the group of all ranks

// A program that starts ranks itself, or counts the GPUs of its machine, creates its own world. The
// framework also gives the world's name to the communicators that it creates for a pair of ranks,
// so two members prove nothing.
Status CheckWorld(const RecordedCommunicator& comm, int32_t world) {
  if (world == 0 || comm.name != kDefaultGroup || comm.size == world || comm.size == 2) {
    return OkStatus();
  }
  return RunFailed(
      fmt::format("the program made a world of {} ranks, but the job has {}; it must use the RANK "
                  "and WORLD_SIZE in its environment, as under torchrun",
                  comm.size, world));
}

Status MembersUnknown(const RecordedCommunicator& comm, int32_t world) {
  if (comm.name == kDefaultGroup && comm.size == world) {
    return RunFailed(
        "the program took another rank than RANK in its environment; if it starts processes for "
        "the GPUs of its node itself, let it start that of LOCAL_RANK alone, as under torchrun "
        "(those of torch.multiprocessing.spawn are told apart)");
  }
  return RunFailed(fmt::format(
      "the members of process group \"{}\" ({} ranks) are unknown: the framework named no start "
      "and stride of global ranks for it when its communicator was made",
      comm.name.empty() ? "unnamed" : comm.name, comm.size));
}

}  // namespace

graph::Program MakeProgram(const Iteration& iteration) {
  graph::Program program;
  for (const CanonicalOp& op : iteration.ops) {
    program.Append(op);
  }
  program.collectives = iteration.tables.collectives;
  program.peer_groups = iteration.tables.peer_groups;
  program.stream_count = iteration.tables.stream_count;
  program.comm_slot_count = static_cast<uint16_t>(iteration.tables.comm_slots.size());
  program.peer_slot_count = static_cast<uint16_t>(iteration.tables.peer_slots.size());
  return program;
}

Result<std::vector<graph::FragmentCommunicator>> MakeCommunicators(const OpTables& tables,
                                                                   int32_t world) {
  std::vector<graph::FragmentCommunicator> communicators;
  for (const RecordedCommunicator& comm : tables.comm_slots) {
    PRISM_RETURN_IF_ERROR(CheckWorld(comm, world));
    if (!comm.members_known) {
      return MembersUnknown(comm, world);
    }
    graph::FragmentCommunicator made = {comm.name, comm.members, comm.group_number,
                                        comm.backward_sum_bytes};
    std::ranges::sort(made.members);
    communicators.push_back(std::move(made));
  }
  return communicators;
}

}  // namespace prism::slicer
