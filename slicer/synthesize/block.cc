#include "slicer/synthesize/block.h"

#include <utility>

namespace prism::slicer {
namespace {

void AppendNumber(int64_t number, std::string* text) {
  text->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// The content of a signature as bytes.
std::string KeyOf(const graph::KernelSignature& signature) {
  const graph::MatmulShape& matmul = signature.matmul;
  std::string key;
  key.reserve((16 + 4 * signature.inputs.size()) * sizeof(int64_t));
  for (const int64_t number :
       {int64_t{signature.name.value()}, int64_t{signature.framework_op.value()}, matmul.m,
        matmul.n, matmul.k, matmul.batch, static_cast<int64_t>(matmul.input),
        static_cast<int64_t>(matmul.output), int64_t{matmul.transpose_a},
        int64_t{matmul.transpose_b}}) {
    AppendNumber(number, &key);
  }
  for (size_t i = 0; i < signature.grid.size(); ++i) {
    AppendNumber(signature.grid[i], &key);
    AppendNumber(signature.block[i], &key);
  }
  for (const graph::TensorShape& input : signature.inputs) {
    AppendNumber(static_cast<int64_t>(input.dtype), &key);
    AppendNumber(static_cast<int64_t>(input.dims.size()), &key);
    for (const int64_t dim : input.dims) {
      AppendNumber(dim, &key);
    }
  }
  return key;
}

}  // namespace

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

void BlockTables::MoveInto(graph::JobProgram* job) {
  job->strings = std::move(strings_);
  job->signatures = std::move(signatures_);
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
  const auto [found, inserted] =
      signature_ids_.try_emplace(KeyOf(signature), static_cast<uint32_t>(signatures_.size()));
  if (inserted) {
    signatures_.push_back(signature);
  }
  return found->second;
}

}  // namespace prism::slicer
