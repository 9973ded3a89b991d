#include "slicer/check/call_notes.h"

#include <algorithm>

#include "graph/base/parse_number.h"
#include "graph/base/split.h"
#include "graph/validate/limits.h"

namespace prism::slicer {

std::string_view TakePart(std::string_view* text) {
  const size_t colon = std::min(text->find(':'), text->size());
  const std::string_view part = text->substr(0, colon);
  text->remove_prefix(std::min(colon + 1, text->size()));
  return part;
}

int64_t NumberIn(std::string_view text) {
  int64_t number = 0;
  ParseNumber(text, &number);
  return number;
}

std::vector<Rank> MembersIn(std::string_view text) {
  std::vector<Rank> members;
  const size_t slash = text.find('/');
  if (slash == text.npos) {
    for (const std::string_view part : SplitAt(text, ',')) {
      members.emplace_back(static_cast<uint32_t>(NumberIn(part)));
    }
    return members;
  }
  const size_t second = text.find('/', slash + 1);
  const int64_t first = NumberIn(text.substr(0, slash));
  const int64_t stride = NumberIn(text.substr(slash + 1, second - slash - 1));
  const int64_t count = std::min<int64_t>(NumberIn(text.substr(second + 1)), graph::kMaxRanks);
  for (int64_t i = 0; i < count; ++i) {
    members.emplace_back(static_cast<uint32_t>(first + i * stride));
  }
  return members;
}

uint64_t IdentityIn(std::string_view text) {
  uint64_t identity = 0;
  ParseNumber(text, &identity);
  return identity;
}

}  // namespace prism::slicer
