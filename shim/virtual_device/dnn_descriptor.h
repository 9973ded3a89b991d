// Descriptors of cuDNN's graph API as a store of attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop

namespace prism::shim {

struct DnnAttribute {
  cudnnBackendAttributeType_t type;
  int64_t count;
  std::vector<std::byte> bytes;
};

struct DnnDescriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  // The framework op that its operation graph represents (kContext id, 0: none): passed on from
  // graph to heuristics, engine configuration and plan.
  uint32_t context = 0;
  // Of a convolution of fp32, which two engines can do: the context without TF32; 0 where this
  // descriptor stands for one of them that does not use it.
  uint32_t exact_context = 0;
  bool replaces_framework_op = false;  // the context takes precedence over the caller's
  std::map<cudnnBackendAttributeName_t, DnnAttribute> attributes;

  // The attribute's elements; empty if it was not set.
  template <typename Element>
  [[nodiscard]] std::vector<Element> Elements(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) {
      return {};
    }
    std::vector<Element> elements(found->second.bytes.size() / sizeof(Element));
    if (!elements.empty()) {
      std::memcpy(elements.data(), found->second.bytes.data(), elements.size() * sizeof(Element));
    }
    return elements;
  }

  // Descriptors that the attribute names.
  [[nodiscard]] std::vector<const DnnDescriptor*> Descriptors(
      cudnnBackendAttributeName_t name) const {
    return Elements<const DnnDescriptor*>(name);
  }
};

}  // namespace prism::shim
