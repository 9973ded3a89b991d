// What programs without a framework share: checked calls, variables, and how ranks that have no
// store find each other.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <nccl.h>

namespace prism {

template <typename Status>
void Check(Status status, const char* call) {
  if (static_cast<int>(status) != 0) {
    std::fprintf(stderr, "%s failed: %d\n", call, static_cast<int>(status));
    std::exit(1);
  }
}

inline int Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

// Rank 0 writes NCCL's id to the file, the others read it.
inline ncclUniqueId ShareId(int rank, const std::string& path) {
  ncclUniqueId id = {};
  if (rank == 0) {
    Check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const std::string written = path + ".new";
    std::FILE* const file = std::fopen(written.c_str(), "wb");
    Check(file == nullptr || std::fwrite(&id, sizeof(id), 1, file) != 1, "fwrite");
    std::fclose(file);
    Check(std::rename(written.c_str(), path.c_str()), "rename");
    return id;
  }
  std::FILE* file = nullptr;
  while ((file = std::fopen(path.c_str(), "rb")) == nullptr) {
    usleep(1'000);
  }
  Check(std::fread(&id, sizeof(id), 1, file) != 1, "fread");
  std::fclose(file);
  return id;
}

}  // namespace prism
