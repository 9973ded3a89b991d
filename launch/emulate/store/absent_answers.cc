#include "launch/emulate/store/absent_answers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <regex>

#include <fmt/format.h>

#include "graph/base/parse_number.h"
#include "launch/process/unique_id.h"

namespace prism::launch {
namespace {

enum class AnswerKind {
  kUniqueId,       // an NCCL id, derived from the key
  kOne,            // the value is not used
  kAbsentCount,    // how many ranks are absent
  kMirror,         // what a present rank wrote under its own number
  kMirrorDevice,   // the same, for a structure that begins with a device index
  kAssignedRanks,  // JSON of the ranks of a node: [first, all, first in role, all in role]
  kMasterAddress,
  kMasterPort,
};

struct Pattern {
  std::string_view keys;
  AnswerKind answer;
};

// What prefix stores add always comes before the group's own part.
constexpr std::array kPatterns = {
    // The host of a store waits until all ranks have added one.
    Pattern{"init/", AnswerKind::kAbsentCount},
    // ProcessGroupNCCL: one id per group, one per root (128 ranks each), one per pair of ranks.
    Pattern{"*cuda//#", AnswerKind::kUniqueId},
    Pattern{"*cuda//UniqueNCCLID:#", AnswerKind::kUniqueId},
    Pattern{"*cuda//#:#", AnswerKind::kUniqueId},
    // nccl2::ProcessGroupNCCL, torch's "nccl" from 2.15 on: under the group's name, by how often
    // the
    // group was configured anew; one id per group or one per root.
    Pattern{"*/nccl_storekey_#", AnswerKind::kUniqueId},
    Pattern{"*/nccl_storekey_#_#", AnswerKind::kUniqueId},
    // _store_based_barrier: written by the last rank to arrive.
    Pattern{"*store_based_barrier_key:*:last_worker", AnswerKind::kOne},
    // torch.distributed.elastic.utils.store: barriers, and the data of each agent.
    Pattern{"*/last_member", AnswerKind::kOne},
    Pattern{"*/TRACE", AnswerKind::kOne},
    Pattern{"*/TRACING_GATE", AnswerKind::kOne},
    Pattern{"*torchelastic/assigned_ranks/#", AnswerKind::kAssignedRanks},
    Pattern{"*torchelastic/*#", AnswerKind::kMirror},
    Pattern{"*MASTER_ADDR", AnswerKind::kMasterAddress},
    Pattern{"*MASTER_PORT", AnswerKind::kMasterPort},
    // c10d::symmetric_memory::StoreExchange.
    Pattern{"*CUDASymmetricMemory*/#/#", AnswerKind::kMirrorDevice},
};

bool IsDigit(char letter) {
  return letter >= '0' && letter <= '9';
}

// The key without the number that it ends with.
std::string_view Stem(std::string_view key) {
  while (!key.empty() && IsDigit(key.back())) {
    key.remove_suffix(1);
  }
  return key;
}

int64_t NumberAtEnd(std::string_view key) {
  int64_t number = 0;
  ParseNumber(key.substr(Stem(key).size()), &number);  // 0 of none
  return number;
}

// The value of a key that differs only in its last number.
std::optional<std::string> MirrorOf(std::string_view key, const AbsentAnswers::Values& values) {
  const std::string_view stem = Stem(key);
  for (auto entry = values.lower_bound(stem);
       entry != values.end() && entry->first.starts_with(stem); ++entry) {
    if (Stem(entry->first) == stem) {
      return entry->second;
    }
  }
  return std::nullopt;
}

std::optional<std::string> WithDevice(std::optional<std::string> structure, int32_t device) {
  if (structure && structure->size() > sizeof(device)) {
    std::memcpy(structure->data(), &device, sizeof(device));
  }
  return structure;
}

}  // namespace

bool KeyMatches(std::string_view pattern, std::string_view key) {
  if (pattern.empty()) {
    return key.empty();
  }
  const std::string_view rest = pattern.substr(1);
  if (pattern[0] == '*') {
    return KeyMatches(rest, key) || (!key.empty() && KeyMatches(pattern, key.substr(1)));
  }
  if (pattern[0] == '#') {
    return !key.empty() && IsDigit(key[0]) &&
           (KeyMatches(rest, key.substr(1)) || KeyMatches(pattern, key.substr(1)));
  }
  return !key.empty() && key[0] == pattern[0] && KeyMatches(rest, key.substr(1));
}

std::optional<std::string> AbsentAnswers::Answer(const std::string& key,
                                                 const Values& values) const {
  const auto pattern = std::find_if(kPatterns.begin(), kPatterns.end(), [&](const Pattern& each) {
    return KeyMatches(each.keys, key);
  });
  if (pattern == kPatterns.end()) {
    const bool is_known = ranks_.written != nullptr && ranks_.written->contains(key);
    return is_known ? std::optional(ranks_.written->find(key)->second) : std::nullopt;
  }
  const int64_t number = NumberAtEnd(key);
  switch (pattern->answer) {
    case AnswerKind::kUniqueId:
      return UniqueIdFromKey(key);
    case AnswerKind::kOne:
      return "1";
    case AnswerKind::kAbsentCount:
      return fmt::format("{}", ranks_.world_size - ranks_.present);
    case AnswerKind::kMirror:
      return MirrorOf(key, values);
    case AnswerKind::kMirrorDevice:
      return WithDevice(MirrorOf(key, values), static_cast<int32_t>(number));
    case AnswerKind::kAssignedRanks:
      return fmt::format("[{0}, {1}, {0}, {1}]", number * ranks_.ranks_per_node, ranks_.world_size);
    case AnswerKind::kMasterAddress:
      return "127.0.0.1";
    case AnswerKind::kMasterPort:
      return "29500";
  }
  return std::nullopt;
}

std::string AbsentAnswers::PatternOf(std::string_view key) {
  static const std::regex hash("[0-9a-f]{40}");
  static const std::regex number("[0-9]+");
  const std::string without_hashes = std::regex_replace(std::string(key), hash, "<hash>");
  return std::regex_replace(without_hashes, number, "<n>");
}

}  // namespace prism::launch
