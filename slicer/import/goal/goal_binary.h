// GOAL in the binary form that LogGOPSim maps (txt2bin writes it; src/LogGOPSim/Parser.hpp of
// https://github.com/spcl/LogGOPSim reads it). Little-endian, unaligned:
//
//   u64 4223; u32 ranks; u8 highest cpu; u8 highest nic
//   by rank: u64 begin, u64 end of its part, counted from after the first eight bytes
//   by part: u32 tasks; u32 roots; u32 root[roots];
//            by task: u32 waits for; u8 kind (1 send, 2 recv, 3 calc); u32 peer; u64 size; u32 tag;
//                     u8 cpu; u8 nic; u32 count, u32 first of those that wait for its end;
//                     u32 count, u32 first of those that wait for its begin
//            u32 waiting[]: the lists that count and first name
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/base/status.h"
#include "slicer/import/goal/goal_text.h"
#include "slicer/tasks/task_graph.h"

namespace prism::slicer {

bool IsGoalBinary(std::string_view bytes);

// As ReadGoalText; ranks come in order. Task::line is the task's number in its rank, from 1.
// kBadFile: "<file>: byte <n>: ...".
Status ReadGoalBinary(std::string_view bytes, const std::string& file, GoalHandler* handler);

// The data before the parts, known once all parts are.
struct GoalBinaryHead {
  uint8_t highest_cpu = 0;
  uint8_t highest_nic = 0;
  std::vector<uint64_t> part_bytes;  // by rank
};

std::string GoalBinaryHeadBytes(const GoalBinaryHead& head);

// One rank's part.
std::string GoalBinaryPart(const TaskGraph& tasks);

}  // namespace prism::slicer
