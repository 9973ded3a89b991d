#include "slicer/synthesize/shared_phrases.h"

#include <algorithm>
#include <utility>

namespace prism::slicer {

uint32_t SharedPhrases::NumberOf(const ModelChunk& chunk) {
  const auto known = std::find_if(chunks_.begin(), chunks_.end(), [&](const ModelChunk* other) {
    return HaveSameContent(*other, chunk);
  });
  if (known == chunks_.end()) {
    chunks_.push_back(&chunk);
    return static_cast<uint32_t>(chunks_.size() - 1);
  }
  return static_cast<uint32_t>(known - chunks_.begin());
}

uint32_t SharedPhrases::Add(std::vector<uint32_t> calls) {
  phrases_.push_back(std::move(calls));
  return static_cast<uint32_t>(phrases_.size() - 1);
}

uint32_t SharedPhrases::NumberOf(std::vector<uint32_t> calls) {
  ContentHash content;
  for (const uint32_t call : calls) {
    content.Add(call);
  }
  const uint64_t hash = content.Digest();
  for (size_t i = 0; i < phrases_.size(); ++i) {
    if (phrase_hashes_[i] == hash && phrases_[i] == calls) {
      return static_cast<uint32_t>(i);
    }
  }
  phrase_hashes_.push_back(hash);
  return Add(std::move(calls));
}

}  // namespace prism::slicer
