// What the C++ runtime inside our programs (prism_standalone in CMakeLists.txt) and we ourselves
// would take from a libc later than 2.34, which is the oldest that they run on. Each function here
// is found before libc's own and does the same with what the older one has.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

namespace {

// Completes the object `data` if the address that it begins with is of the object `info`.
int FindObject(dl_phdr_info* info, size_t /*size*/, void* data) {
  auto* found = static_cast<dl_find_object*>(data);
  const auto address = reinterpret_cast<uintptr_t>(found->dlfo_map_start);
  uintptr_t frames = 0;
  bool is_inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + part.p_vaddr;
    is_inside |= part.p_type == PT_LOAD && address - start < part.p_memsz;
    frames = part.p_type == PT_GNU_EH_FRAME ? start : frames;
  }
  if (is_inside) {
    found->dlfo_eh_frame = reinterpret_cast<void*>(frames);
  }
  return is_inside ? 1 : 0;
}

}  // namespace

extern "C" {

// For std::random_device.
[[gnu::visibility("hidden")]] uint32_t arc4random() noexcept {
  uint32_t drawn = 0;
  if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn)) {
    abort();
  }
  return drawn;
}

// For the unwinder, which reads only where an object's frames are described.
[[gnu::visibility("hidden")]] int _dl_find_object(void* address, dl_find_object* result) noexcept {
  *result = {};
  result->dlfo_map_start = address;
  dl_iterate_phdr(FindObject, result);
  return result->dlfo_eh_frame != nullptr ? 0 : -1;
}

}  // extern "C"
