// Two present ranks of a job of four, each a process with its channel, one exchange between them:
// their records are compared with what they did (nccl_program.cc).
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/program/op.h"
#include "shim/channel/channel.h"
#include "shim/nccl/exchange_arena.h"
#include "tests/support/channel_drain.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;
using ::testing::ElementsAre;

channel::Config JobOfFour(int32_t rank) {
  channel::Config config = {};
  config.version = channel::kProtocolVersion;
  config.mode = channel::Mode::kRecord;
  config.rank = rank;
  config.world_size = 4;
  config.device.device_count = 8;
  config.device.memory_bytes = int64_t{80} << 30;
  config.nccl = {.collective_channels = 24,
                 .p2p_channels = 32,
                 .p2p_channels_per_peer = 32,
                 .nvls_channels = 16,
                 .granularity_bytes = 2 << 20,
                 .local_bytes_per_s = 0,
                 .network_bytes_per_s = 0};
  config.sandbox_rank_count = 2;
  config.sandbox_ranks[0] = 1;
  config.sandbox_ranks[1] = 3;
  return config;
}

// What one process recorded, as text.
class Transcript {
 public:
  void Add(const Record& record, std::span<const std::byte> payload) {
    switch (record.kind) {
      case RecordKind::kDefine:
        names_[{record.define.table, record.define.id}] =
            std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
        return;
      case RecordKind::kCommInit:
        AddInit(record.comm_init, payload);
        return;
      case RecordKind::kCollective:
        AddCollective(record.collective);
        return;
      case RecordKind::kPeerTransfer:
        Line(record.peer.is_send != 0 ? "send to " : "recv from ", record.peer.peer, " of ",
             record.peer.comm, ", ", record.peer.bytes, " bytes");
        return;
      case RecordKind::kGroupEnd:
        Line("group end");
        return;
      case RecordKind::kCommName:
        Line("name ", record.comm_name.comm, " '",
             Name(channel::Table::kGroupName, record.comm_name.group_name), "'");
        return;
      case RecordKind::kCommDestroy:
        Line("destroy ", record.comm_destroy.comm);
        return;
      case RecordKind::kMatmul:
        AddProduct(record.matmul);
        return;
      case RecordKind::kOutsideAlloc:
        AddOutside(record.outside);
        return;
      default:
        return;
    }
  }

  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
  [[nodiscard]] const std::vector<uint64_t>& identities() const { return identities_; }

 private:
  // One line of all the parts.
  template <typename... Parts>
  void Line(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    lines_.push_back(text.str());
  }

  const std::string& Name(channel::Table table, uint32_t id) { return names_[{table, id}]; }

  void AddInit(const channel::CommInitBody& body, std::span<const std::byte> payload) {
    identities_.push_back(body.identity);
    std::ostringstream members;
    for (size_t i = 0; i + 4 <= payload.size(); i += 4) {
      int32_t member = 0;
      std::memcpy(&member, payload.data() + i, sizeof(member));
      members << " " << member;
    }
    Line("init ", body.comm, " '", Name(channel::Table::kGroupName, body.group_name), "' rank ",
         body.rank, " of ", body.size, " start ", body.global_start, " stride ", body.global_stride,
         " parent ", body.parent, " members", members.str());
  }

  void AddCollective(const channel::CollectiveBody& body) {
    Line(graph::CollectiveKindName(static_cast<graph::CollectiveKind>(body.collective)), " ",
         body.comm, "/", body.sequence, " ", DataTypeName(static_cast<DataType>(body.dtype)),
         " reduce ", static_cast<int>(body.reduce), " root ", body.root, ", ", body.bytes, " bytes",
         body.grouped_with_next != 0 ? " +" : "");
  }

  void AddProduct(const channel::MatmulBody& body) {
    Line(Name(channel::Table::kKernelName, body.name), " ", body.m, "x", body.n, "x", body.k,
         " batch ", body.batch, " ", DataTypeName(static_cast<DataType>(body.input_dtype)), " to ",
         DataTypeName(static_cast<DataType>(body.output_dtype)), body.transpose_a != 0 ? " A'" : "",
         body.transpose_b != 0 ? " B'" : "");
  }

  void AddOutside(const channel::OutsideBody& body) {
    const std::string& name = Name(channel::Table::kOutsideName, body.name);
    if (name != "context" && body.comm == 1) {
      Line(name, " ", body.bytes / (1 << 20), " MiB");
    }
  }

  std::map<std::pair<channel::Table, uint32_t>, std::string> names_;
  std::vector<std::string> lines_;
  std::vector<uint64_t> identities_;
};

// Reads until the process has exited; returns its exit code.
int Drain(channel::Consumer* consumer, pid_t process, Transcript* transcript) {
  return testing::DrainChannel(consumer, process,
                               [&](const Record& record, std::span<const std::byte> payload) {
                                 if (record.kind != RecordKind::kExit) {
                                   transcript->Add(record, payload);
                                 }
                               });
}

// What ranks 1 and 3 record while they run `part` of nccl_program.
struct Said {
  Transcript first;
  Transcript last;
};

void RunProgram(const char* part, Said* said) {
  ExchangeArena arena = ExchangeArena::Create(size_t{256} << 20U);
  ASSERT_TRUE(arena.valid());
  const std::string path =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(arena.descriptor());
  channel::Consumer first(JobOfFour(1));
  channel::Consumer last(JobOfFour(3));
  std::vector<pid_t> processes;
  for (const channel::Consumer* consumer : {&first, &last}) {
    const pid_t process = fork();
    if (process == 0) {
      setenv("PRISM_CHANNEL_FD", std::to_string(consumer->descriptor()).c_str(), 1);
      setenv("PRISM_EXCHANGE", path.c_str(), 1);
      execl(PRISM_NCCL_PROGRAM, PRISM_NCCL_PROGRAM, part, nullptr);
      _exit(127);
    }
    processes.push_back(process);
  }
  EXPECT_EQ(Drain(&first, processes[0], &said->first), 0);
  EXPECT_EQ(Drain(&last, processes[1], &said->last), 0);
  for (const pid_t process : processes) {
    int state = 0;
    waitpid(process, &state, 0);
    EXPECT_EQ(state, 0);
  }
}

TEST(NcclRecords, watchdogs_follow_their_rank) {
  Said said;
  RunProgram("watchdog", &said);
  EXPECT_THAT(said.first.lines(), ::testing::Not(::testing::IsEmpty()));
}

TEST(NcclRecords, two_present_ranks_of_four) {
  Said said;
  RunProgram("calls", &said);
  // All have the same identity on both, except the communicator in which each is alone.
  auto first = said.first.identities();
  auto last = said.last.identities();
  ASSERT_EQ(first.size(), 4U);
  ASSERT_EQ(last.size(), 4U);
  EXPECT_NE(first.back(), last.back());
  first.pop_back();
  last.pop_back();
  EXPECT_EQ(first, last);
  EXPECT_THAT(
      said.first.lines(),
      ElementsAre("init 1 'world' rank 1 of 4 start 0 stride 1 parent 0 members",
                  "nccl setup 230 MiB", "nccl nvls 128 MiB",
                  "all_reduce 1/0 float32 reduce 1 root -1, 4 bytes", "nccl p2p 64 MiB",
                  "nccl p2p 320 MiB", "send to 3 of 1, 4 bytes", "recv from 3 of 1, 4 bytes",
                  "group end", "nccl ring 288 MiB",
                  "all_gather 1/1 float32 reduce 0 root -1, 16 bytes +",
                  "reduce_scatter 1/2 float32 reduce 3 root -1, 16 bytes",
                  "broadcast 1/3 float32 reduce 0 root 3, 4 bytes", "nccl p2p 64 MiB",
                  "send to 0 of 1, 4 bytes", "group end",
                  "init 2 'pair' rank 0 of 2 start 1 stride 2 parent 1 members",
                  "init 3 '' rank 1 of 2 start 0 stride 0 parent 2 members 3 1", "name 3 'turned'",
                  "broadcast 3/0 float32 reduce 0 root 0, 4 bytes",
                  "init 4 'alone' rank 0 of 1 start 1 stride 1 parent 3 members",
                  "broadcast 3/1 float32 reduce 0 root 0, 4 bytes", "destroy 4", "destroy 3",
                  "destroy 2", "cublasGemmEx 2x3x4 batch 1 bfloat16 to float32 A'",
                  "cublasDgemmStridedBatched 5x6x7 batch 8 float64 to float64 B'",
                  "cublasLtMatmul 32x16x64 batch 1 bfloat16 to bfloat16 A'", "nccl setup -230 MiB",
                  "nccl ring -288 MiB", "nccl nvls -128 MiB", "nccl p2p -448 MiB", "destroy 1"));
}

}  // namespace
}  // namespace prism::shim
