// Programs with the CUDA runtime, cuBLAS or NCCL linked in: nvcc links the runtime statically by
// default. A preloaded library cannot replace functions inside the program, so each of them that is
// in the program's symbol table is patched to jump to ours, before any of the program's own code
// runs. A stripped program has no such table (cuGetExportTable in driver.cc).
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

// jmp *0(%rip), followed by the address.
constexpr unsigned char kJump[] = {0xff, 0x25, 0, 0, 0, 0};
constexpr size_t kJumpBytes = sizeof(kJump) + sizeof(void*);
constexpr uintptr_t kFunctionAlignment = 16;  // the bytes between short functions are not code

// The program's file, mapped for reading.
class ProgramFile {
 public:
  ProgramFile() {
    const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat about = {};
    if (file >= 0 && fstat(file, &about) == 0) {
      bytes_ = static_cast<size_t>(about.st_size);
      void* const mapped = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
      data_ = mapped == MAP_FAILED ? nullptr : static_cast<const char*>(mapped);
    }
    if (file >= 0) {
      close(file);
    }
  }
  ~ProgramFile() {
    if (data_ != nullptr) {
      munmap(const_cast<char*>(data_), bytes_);
    }
  }
  ProgramFile(const ProgramFile&) = delete;
  ProgramFile& operator=(const ProgramFile&) = delete;

  // `count` objects at an offset; empty if the file does not contain them.
  template <typename Object>
  [[nodiscard]] std::span<const Object> At(size_t offset, size_t count) const {
    if (data_ == nullptr || offset > bytes_ || count > (bytes_ - offset) / sizeof(Object) ||
        offset % alignof(Object) != 0) {
      return {};
    }
    return {reinterpret_cast<const Object*>(data_ + offset), count};
  }

 private:
  const char* data_ = nullptr;
  size_t bytes_ = 0;
};

bool IsOfCuda(const char* name) {
  for (const char* const prefix : {"cuda", "__cuda", "cublas", "nccl"}) {
    if (strncmp(name, prefix, strlen(prefix)) == 0) {
      return true;
    }
  }
  return false;
}

// Makes the function writable while the jump is written. False if the system forbids it.
bool WriteJump(uintptr_t function, void* target) {
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = function / page_bytes * page_bytes;
  const size_t bytes = function + kJumpBytes - begin;
  if (mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    return false;
  }
  memcpy(reinterpret_cast<void*>(function), kJump, sizeof(kJump));
  memcpy(reinterpret_cast<void*>(function + sizeof(kJump)), &target, sizeof(target));
  return mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ | PROT_EXEC) == 0;
}

// The base of the program's addresses: it is the first object in the list.
uintptr_t ProgramBase() {
  uintptr_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        *static_cast<uintptr_t*>(found) = info->dlpi_addr;
        return 1;
      },
      &base);
  return base;
}

void ReplaceFunctions(const ProgramFile& file, const Elf64_Shdr& table, const Elf64_Shdr& names) {
  const uintptr_t base = ProgramBase();
  const auto text = file.At<char>(names.sh_offset, names.sh_size);
  for (const Elf64_Sym& symbol :
       file.At<Elf64_Sym>(table.sh_offset, table.sh_size / sizeof(Elf64_Sym))) {
    const bool fits = symbol.st_size >= kJumpBytes || symbol.st_value % kFunctionAlignment == 0;
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF || !fits ||
        symbol.st_name >= text.size() || !IsOfCuda(text.data() + symbol.st_name)) {
      continue;
    }
    void* const ours = FindOwnFunction(text.data() + symbol.st_name);
    if (ours != nullptr && reinterpret_cast<uintptr_t>(ours) != base + symbol.st_value) {
      WriteJump(base + symbol.st_value, ours);
    }
  }
}

__attribute__((constructor)) void ReplaceStaticRuntime() {
  const ProgramFile file;
  const auto header = file.At<Elf64_Ehdr>(0, 1);
  if (header.empty() || memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      header[0].e_ident[EI_CLASS] != ELFCLASS64 || header[0].e_machine != EM_X86_64) {
    return;
  }
  const auto sections = file.At<Elf64_Shdr>(header[0].e_shoff, header[0].e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_SYMTAB && section.sh_link < sections.size()) {
      ReplaceFunctions(file, section, sections[section.sh_link]);
    }
  }
}

}  // namespace
}  // namespace prism::shim
