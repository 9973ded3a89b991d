#include "slicer/synthesize/block.h"

#include "graph/describe.h"

namespace prism::slicer {

int64_t BlockParameter::ElementCount() const {
  int64_t count = 1;
  for (const int64_t size : shape) {
    count *= size;
  }
  return count;
}

BlockTables::BlockTables() {
  InternString("");
}

uint32_t BlockTables::InternString(const std::string& text) {
  const auto [found, inserted] =
      string_ids_.try_emplace(text, static_cast<uint32_t>(strings_.size()));
  if (inserted) {
    strings_.push_back(text);
  }
  return found->second;
}

uint32_t BlockTables::InternSignature(const graph::KernelSignature& signature) {
  const auto [found, inserted] = signature_ids_.try_emplace(
      graph::SignatureKey(signature, strings_), static_cast<uint32_t>(signatures_.size()));
  if (inserted) {
    signatures_.push_back(signature);
  }
  return found->second;
}

}  // namespace prism::slicer
