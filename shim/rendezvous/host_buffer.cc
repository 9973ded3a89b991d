#include "shim/rendezvous/host_buffer.h"

namespace prism::shim {

HostBuffer::HostBuffer(const at::Tensor& tensor)
    : tensor_(tensor), host_((tensor.is_cpu() ? tensor : tensor.cpu()).contiguous()) {
}

void HostBuffer::Publish() const {
  if (!host_.is_same(tensor_)) {
    at::Tensor target = tensor_;
    target.copy_(host_);
  }
}

HostList::HostList(const std::vector<at::Tensor>& tensors, bool filled)
    : tensors_(tensors),
      flat_(at::empty({static_cast<int64_t>(tensors.size()), tensors.front().numel()},
                      tensors.front().options().device(at::kCPU))) {
  for (size_t i = 0; filled && i < tensors.size(); ++i) {
    flat_[static_cast<int64_t>(i)].copy_(tensors[i].reshape({-1}));
  }
}

void HostList::Publish() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    at::Tensor target = tensors_[i];
    target.copy_(flat_[static_cast<int64_t>(i)].view(target.sizes()));
  }
}

}  // namespace prism::shim
