#include "launch/rendezvous/absent_answers.h"

#include <algorithm>
#include <cctype>
#include <regex>

#include <fmt/format.h>

namespace prism::launch {
namespace {

constexpr size_t kUniqueIdBytes = 128;  // sizeof(ncclUniqueId)

// FNV-1a of the key, stretched to the length of an id. Equal keys give equal ids everywhere.
std::string IdFromKey(std::string_view key) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char letter : key) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
  }
  std::string id(kUniqueIdBytes, '\0');
  for (size_t i = 0; i < id.size(); ++i) {
    hash = (hash ^ i) * 0x100000001B3U;
    id[i] = static_cast<char>(hash >> 56U);
  }
  return id;
}

bool IsDigit(char letter) {
  return letter >= '0' && letter <= '9';
}

bool EndsWithDigits(std::string_view text, std::string_view before) {
  const size_t digits =
      static_cast<size_t>(std::find_if_not(text.rbegin(), text.rend(), IsDigit) - text.rbegin());
  text.remove_suffix(digits);
  return digits > 0 && text.ends_with(before);
}

// "cuda//<n>", "cuda//UniqueNCCLID:<root>", "cuda//<low>:<high>": one id for the group, one a root,
// one a pair of ranks.
bool IsNcclId(std::string_view key) {
  const size_t begin = key.rfind("cuda//");
  if (begin == key.npos) {
    return false;
  }
  std::string_view rest = key.substr(begin + 6);
  constexpr std::string_view kRoot = "UniqueNCCLID:";
  if (rest.starts_with(kRoot)) {
    rest.remove_prefix(kRoot.size());
  } else if (const size_t colon = rest.find(':');
             colon != rest.npos && EndsWithDigits(rest.substr(0, colon), "")) {
    rest.remove_prefix(colon + 1);
  }
  return !rest.empty() && std::all_of(rest.begin(), rest.end(), IsDigit);
}

}  // namespace

std::optional<std::string> AbsentAnswers::Answer(const std::string& key,
                                                 const Values& /*values*/) const {
  if (IsNcclId(key)) {
    return IdFromKey(key);
  }
  // Whoever hosts the store waits until all have added one.
  if (key == "init/") {
    return fmt::format("{}", ranks_.world_size - ranks_.present);
  }
  // The last of all ranks to come to _store_based_barrier writes it.
  if (key.find("store_based_barrier_key:") != key.npos && key.ends_with(":last_worker")) {
    return "1";
  }
  return std::nullopt;
}

std::string AbsentAnswers::Adapt(const std::string& /*key*/, const std::string& desired) const {
  return desired;
}

std::string AbsentAnswers::PatternOf(std::string_view key) {
  static const std::regex hash("[0-9a-f]{40}");
  static const std::regex number("[0-9]+");
  const std::string without_hashes = std::regex_replace(std::string(key), hash, "<hash>");
  return std::regex_replace(without_hashes, number, "<n>");
}

}  // namespace prism::launch
