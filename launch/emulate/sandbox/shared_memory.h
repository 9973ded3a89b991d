// Anonymous shared memory of this process that others map by path.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace prism::launch {

// Owns the descriptor; the memory is freed when nobody has it mapped any more.
class SharedMemory {
 public:
  // Zero-filled; pages take memory when touched.
  SharedMemory(const char* name, off_t bytes) : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
    if (descriptor_ >= 0 && ftruncate(descriptor_, bytes) != 0) {
      Close();
    }
  }

  SharedMemory(const char* name, std::string_view content)
      : SharedMemory(name, static_cast<off_t>(content.size())) {
    while (valid() && !content.empty()) {
      const ssize_t written = write(descriptor_, content.data(), content.size());
      if (written <= 0) {
        Close();
        return;
      }
      content.remove_prefix(static_cast<size_t>(written));
    }
  }

  ~SharedMemory() { Close(); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] bool valid() const { return descriptor_ >= 0; }
  [[nodiscard]] std::string Path() const {
    return fmt::format("/proc/{}/fd/{}", getpid(), descriptor_);
  }

 private:
  void Close() {
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
    descriptor_ = -1;
  }

  int descriptor_;
};

}  // namespace prism::launch
