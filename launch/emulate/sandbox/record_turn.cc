#include "launch/emulate/sandbox/record_turn.h"

namespace prism::launch {
namespace {

constexpr int kRecordsPerTurn = 8192;
constexpr int64_t kTurnWaitNs = 2'000'000;

}  // namespace

Result<RecordTurn> TakeRecords(SandboxProcess& process, const RecordTaker& take) {
  // Checked first: everything that the process wrote before it exited is then in the ring.
  RecordTurn turn = {.exited = process.Exited()};
  channel::Record record;
  std::span<const std::byte> payload;
  bool wanted = true;
  while (wanted && (turn.exited || turn.records < kRecordsPerTurn) &&
         process.channel().TryPop(&record, &payload)) {
    ++turn.records;
    turn.moves += record.kind != channel::RecordKind::kHostGap ? 1 : 0;
    PRISM_ASSIGN_OR_RETURN(wanted, take(record, payload));
  }
  process.PumpOutput();
  return turn;
}

void WaitForRecords(SandboxProcess& process) {
  process.channel().WaitForRecord(kTurnWaitNs);
}

}  // namespace prism::launch
