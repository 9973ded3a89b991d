// Tensors as plain host memory for the exchange.
#pragma once

#include <vector>

#include <ATen/ATen.h>

namespace prism::shim {

// The elements of a tensor in order on the host: its own memory if that is already so, else a copy
// that Publish() writes back.
class HostBuffer {
 public:
  explicit HostBuffer(const at::Tensor& tensor);

  [[nodiscard]] void* data() const { return host_.data_ptr(); }
  [[nodiscard]] size_t bytes() const { return host_.nbytes(); }
  [[nodiscard]] const at::Tensor& tensor() const { return tensor_; }
  void Publish() const;

 private:
  at::Tensor tensor_;
  at::Tensor host_;
};

// A list of tensors of one size, one per rank, as one buffer.
class HostList {
 public:
  // `filled`: the buffer starts with what the tensors hold.
  HostList(const std::vector<at::Tensor>& tensors, bool filled);

  [[nodiscard]] void* data() const { return flat_.data_ptr(); }
  void Publish() const;

 private:
  std::vector<at::Tensor> tensors_;
  at::Tensor flat_;
};

}  // namespace prism::shim
