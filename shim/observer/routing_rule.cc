#include "shim/observer/routing_rule.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "shim/observer/observer_calls.h"
#include "shim/observer/true_results.h"
#include "shim/observer/zipf_draws.h"

namespace prism::shim {
namespace {

// 0 is uniform.
double ReadExponent() {
  const char* const text = std::getenv("PRISM_ROUTING");
  const std::string_view rule = text == nullptr ? "uniform" : text;
  constexpr std::string_view kZipf = "zipf:";
  return rule.starts_with(kZipf) ? std::strtod(rule.data() + kZipf.size(), nullptr) : 0;
}

std::vector<int64_t> Uniform(int64_t rows, int64_t choices, int64_t selected) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < rows * selected; ++i) {
    indices.push_back(i % choices);
  }
  return indices;
}

// The same call recurs in every layer and micro-batch.
const std::vector<int64_t>& Selection(int64_t rows, int64_t choices, int64_t selected) {
  static std::mutex mutex;
  static auto* const made = new std::map<std::array<int64_t, 3>, std::vector<int64_t>>();
  static const double exponent = ReadExponent();
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [entry, is_new] = made->try_emplace({rows, choices, selected});
  if (is_new) {
    entry->second = exponent == 0 ? Uniform(rows, choices, selected)
                                  : DrawByZipf(exponent, rows, choices, selected);
  }
  return entry->second;
}

}  // namespace

bool WriteRouting(const at::Tensor& indices, int64_t choices, int64_t axis) {
  if (indices.dim() == 0 || indices.numel() == 0 || indices.nbytes() > kMaxRuleBytes) {
    return false;
  }
  axis = axis < 0 ? axis + indices.dim() : axis;
  const int64_t selected = indices.size(axis);
  const std::vector<int64_t>& made = Selection(indices.numel() / selected, choices, selected);
  std::vector<int64_t> sizes = indices.sizes().vec();
  std::swap(sizes[static_cast<size_t>(axis)], sizes.back());
  at::Tensor rows = at::empty(sizes, indices.options().device(at::kCPU));
  std::copy(made.begin(), made.end(), rows.data_ptr<int64_t>());
  if (!WriteResult(rows.transpose(axis, -1), indices)) {
    return false;
  }
  prism_shim_count("routing_by_rule");
  return true;
}

}  // namespace prism::shim
