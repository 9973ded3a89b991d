// Flight recorder dumps of several ranks beside each other, without a graph: who is missing, and
// the first collective of each group at which its ranks differ.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/analyse/flight/flight_dump.h"

namespace prism::launch {

// The rank of the file's name: its last digits, "dump_3", "rank_3.json". -1: there are none.
int64_t RankOfDumpName(const std::string& path);

// What a rank did at a place of its group. Null entry: nothing; its dump ends before.
struct FlightPart {
  uint32_t rank = 0;
  const FlightEntry* entry = nullptr;
  const FlightEntry* last = nullptr;  // its last one on the group; null: none
};

// A group whose ranks part, or wait; or two of them, at a message.
struct FlightGap {
  std::string name;  // c10d's
  const FlightGroup* group = nullptr;
  int64_t number = 0;                 // of the collective on the group; of messages: their order
  std::vector<FlightPart> parts;      // of the members with a dump, ascending
  std::vector<uint32_t> missing;      // have not called it
  std::vector<uint32_t> other;        // called something else than most
  std::vector<uint32_t> absent;       // members without a dump
  const FlightEntry* call = nullptr;  // what most called
  int64_t created_ns = 0;             // the earliest of the calls
};

struct FlightComparison {
  std::vector<uint32_t> ranks;   // with a dump
  std::vector<uint32_t> absent;  // members of groups without one
  size_t groups = 0;
  size_t unlisted = 0;  // of these: their ranks are not known, but for those that called on them
  std::vector<FlightGap> gaps;  // earliest first
};

// The dumps must outlive the result.
FlightComparison CompareDumps(const std::map<uint32_t, FlightDump>& dumps);

}  // namespace prism::launch
