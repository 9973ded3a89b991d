// What the program reads and writes costs its storage's time ([storage] of a cluster): host time of
// the rank, or of a data loader's worker, and no real time beyond the copy.
//
// A file's bytes are due when it is written out, at fsync or close, since the file systems that
// jobs share (NFS, Lustre, GPFS) write out at close, and a checkpoint is larger than what a local
// one keeps as dirty pages. Bytes are read once: from then on they are in the page cache, as is
// what the program itself has written. The latency is paid by each writing out, and by a read that
// does not continue where the last one ended, which no readahead has fetched.
//
// Free are pipes, devices, files without storage behind them (/proc, shared memory), what belongs
// to interpreter, libraries and their caches, whose reads depend on what ran before, and what comes
// before the rank's first op. Not seen: files that are mapped, and other threads, which do not hold
// the rank up (a checkpoint that is written in the background).
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "shim/clock/host_meter.h"
#include "shim/clock/real_time.h"
#include "shim/clock/spend.h"
#include "shim/counters.h"
#include "shim/observer/loader_workers.h"
#include "shim/session.h"
#include "shim/virtual_device/written_bytes.h"

namespace prism::shim {
namespace {

constexpr auto kFreeFolders = std::to_array<std::string_view>(
    {"/dev/", "/proc/", "/sys/", "/run/", "/usr/", "/lib/", "/lib64/", "/etc/"});
constexpr auto kFreeParts =
    std::to_array<std::string_view>({"/lib/python", "/site-packages/", "/__pycache__/", "/.cache/",
                                     "/torchinductor_", "/.triton/"});
constexpr auto kFreeEnds = std::to_array<std::string_view>({".py", ".pyc", ".so"});

// 0: no time.
struct Storage {
  int64_t read_bytes_per_s = 0;
  int64_t write_bytes_per_s = 0;
  int64_t latency_ns = 0;
};

const Storage& GetStorage() {
  static const Storage storage = [] {
    Storage given;
    if (const char* const text = getenv("PRISM_STORAGE"); text != nullptr) {
      sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNd64, &given.read_bytes_per_s,
             &given.write_bytes_per_s, &given.latency_ns);
    }
    return given;
  }();
  return storage;
}

// The name of a regular file that costs time, else "".
std::string StoredFile(int descriptor) {
  struct stat status = {};
  if (descriptor <= STDERR_FILENO || fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    return "";
  }
  std::array<char, PATH_MAX> name = {};
  std::array<char, 32> link = {};
  snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link.data(), name.data(), name.size());
  const std::string_view path(name.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
  const auto begins = [&](std::string_view folder) { return path.starts_with(folder); };
  const auto contains = [&](std::string_view part) { return path.find(part) != path.npos; };
  const auto ends = [&](std::string_view end) { return path.ends_with(end); };
  const bool is_free =
      std::ranges::any_of(kFreeFolders, begins) || std::ranges::any_of(kFreeParts, contains) ||
      std::ranges::any_of(kFreeEnds, ends) || contains(".so.") || begins("/memfd:");
  return is_free ? "" : std::string(path);
}

struct FileUse {
  WrittenBytes cached;    // what was read or written
  int64_t unwritten = 0;  // bytes that are due
  int64_t next = -1;      // where the last read ended
};

struct Files {
  std::mutex mutex;
  std::unordered_map<std::string, FileUse> by_name;
  std::atomic<int> unwritten{0};  // files with bytes that are due
};

// Never destroyed: files are closed during exit too.
Files& GetFiles() {
  static auto* const files = new Files();
  return *files;
}

// Only threads that issue ops, which is one or two, and a loader's worker; not a child of vfork,
// which has its parent's variables.
bool Counts() {
  static thread_local const pid_t process = getpid();
  return ThreadIssuesOps() ? getpid() == process : SleepAsWorker(0);
}

int64_t TimeOf(int64_t bytes, int64_t bytes_per_s) {
  return bytes_per_s == 0 ? 0
                          : static_cast<int64_t>(std::ceil(static_cast<double>(bytes) * 1e9 /
                                                           static_cast<double>(bytes_per_s)));
}

// `begin`: where in the file.
void HasRead(int descriptor, int64_t bytes, int64_t begin) {
  if (bytes <= 0 || !Counts()) {
    return;
  }
  const InShim inside;
  const std::string name = StoredFile(descriptor);
  if (name.empty()) {
    return;
  }
  int64_t missing = 0;
  bool jumps = false;
  {
    Files& files = GetFiles();
    const std::lock_guard<std::mutex> lock(files.mutex);
    FileUse& use = files.by_name[name];
    const auto from = static_cast<uintptr_t>(begin);
    const auto count = static_cast<size_t>(bytes);
    missing = bytes - static_cast<int64_t>(use.cached.Count(from, count));
    if (missing > 0) {
      jumps = begin != std::exchange(use.next, begin + bytes);
      use.cached.Add(from, count);
    }
  }
  if (missing > 0) {
    const Storage& storage = GetStorage();
    Spend(TimeOf(missing, storage.read_bytes_per_s) + (jumps ? storage.latency_ns : 0));
  }
}

// `begin`: -1: up to where the descriptor is now.
void HasWritten(int descriptor, int64_t bytes, int64_t begin) {
  if (bytes <= 0 || !Counts()) {
    return;
  }
  const InShim inside;
  const std::string name = StoredFile(descriptor);
  if (name.empty()) {
    return;
  }
  Files& files = GetFiles();
  const std::lock_guard<std::mutex> lock(files.mutex);
  FileUse& use = files.by_name[name];
  files.unwritten += use.unwritten == 0 ? 1 : 0;
  use.unwritten += bytes;
  begin = begin < 0 ? lseek64(descriptor, 0, SEEK_CUR) - bytes : begin;
  use.cached.Add(static_cast<uintptr_t>(begin), static_cast<size_t>(bytes));
}

// What has been written to the file goes to its storage.
void WriteOut(int descriptor) {
  if (!Counts() || GetFiles().unwritten == 0) {
    return;
  }
  const InShim inside;
  const std::string name = StoredFile(descriptor);
  int64_t bytes = 0;
  {
    Files& files = GetFiles();
    const std::lock_guard<std::mutex> lock(files.mutex);
    const auto found = files.by_name.find(name);
    if (found == files.by_name.end() || found->second.unwritten == 0) {
      return;
    }
    std::swap(bytes, found->second.unwritten);
    --files.unwritten;
  }
  const Storage& storage = GetStorage();
  if (storage.write_bytes_per_s == 0) {
    Count("file_bytes_written", bytes);
    EmitCounters();
  }
  Spend(TimeOf(bytes, storage.write_bytes_per_s) + storage.latency_ns);
}

// Where the next read of the descriptor begins.
int64_t Position(int descriptor) {
  return Counts() ? lseek64(descriptor, 0, SEEK_CUR) : -1;
}

// A call that reads or writes; it leaves its own errno.
template <typename Result>
Result AfterRead(Result bytes, int descriptor, int64_t begin) {
  const int error = errno;
  HasRead(descriptor, static_cast<int64_t>(bytes), begin);
  errno = error;
  return bytes;
}

template <typename Result>
Result AfterWrite(Result bytes, int descriptor, int64_t begin = -1) {
  const int error = errno;
  HasWritten(descriptor, static_cast<int64_t>(bytes), begin);
  errno = error;
  return bytes;
}

}  // namespace
}  // namespace prism::shim

using prism::shim::AfterRead;
using prism::shim::AfterWrite;
using prism::shim::Position;
using prism::shim::WriteOut;

#define PRISM_REAL(name, ...) \
  static constinit prism::shim::RealFunction<__VA_ARGS__> function(#name)

#define PRISM_READ(name, Buffer, Count)                                             \
  PRISM_INTERPOSED ssize_t name(int descriptor, Buffer buffer, Count count) {       \
    PRISM_REAL(name, ssize_t(int, Buffer, Count));                                  \
    const int64_t begin = Position(descriptor);                                     \
    return AfterRead(function.get()(descriptor, buffer, count), descriptor, begin); \
  }
#define PRISM_READ_AT(name, Buffer, Count)                                                   \
  PRISM_INTERPOSED ssize_t name(int descriptor, Buffer buffer, Count count, off64_t begin) { \
    PRISM_REAL(name, ssize_t(int, Buffer, Count, off64_t));                                  \
    return AfterRead(function.get()(descriptor, buffer, count, begin), descriptor, begin);   \
  }
#define PRISM_WRITE(name, Buffer, Count)                                      \
  PRISM_INTERPOSED ssize_t name(int descriptor, Buffer buffer, Count count) { \
    PRISM_REAL(name, ssize_t(int, Buffer, Count));                            \
    return AfterWrite(function.get()(descriptor, buffer, count), descriptor); \
  }
#define PRISM_WRITE_AT(name, Buffer, Count)                                                  \
  PRISM_INTERPOSED ssize_t name(int descriptor, Buffer buffer, Count count, off64_t begin) { \
    PRISM_REAL(name, ssize_t(int, Buffer, Count, off64_t));                                  \
    return AfterWrite(function.get()(descriptor, buffer, count, begin), descriptor, begin);  \
  }
#define PRISM_WRITE_OUT(name)                 \
  PRISM_INTERPOSED int name(int descriptor) { \
    PRISM_REAL(name, int(int));               \
    WriteOut(descriptor);                     \
    return function.get()(descriptor);        \
  }
PRISM_READ(read, void*, size_t)
PRISM_READ(readv, const iovec*, int)
PRISM_READ_AT(pread, void*, size_t)
PRISM_READ_AT(pread64, void*, size_t)
PRISM_READ_AT(preadv, const iovec*, int)
PRISM_READ_AT(preadv64, const iovec*, int)
PRISM_WRITE(write, const void*, size_t)
PRISM_WRITE(writev, const iovec*, int)
PRISM_WRITE_AT(pwrite, const void*, size_t)
PRISM_WRITE_AT(pwrite64, const void*, size_t)
PRISM_WRITE_AT(pwritev, const iovec*, int)
PRISM_WRITE_AT(pwritev64, const iovec*, int)
PRISM_WRITE_OUT(fsync)
PRISM_WRITE_OUT(fdatasync)
PRISM_WRITE_OUT(close)
#undef PRISM_READ
#undef PRISM_READ_AT
#undef PRISM_WRITE
#undef PRISM_WRITE_AT
#undef PRISM_WRITE_OUT

// C's streams: libc reads and writes them itself. What is buffered counts when it is put there.
PRISM_INTERPOSED size_t fread(void* buffer, size_t size, size_t count, FILE* stream) {
  PRISM_REAL(fread, size_t(void*, size_t, size_t, FILE*));
  const int64_t begin = prism::shim::Counts() ? ftello64(stream) : -1;
  const size_t read = function.get()(buffer, size, count, stream);
  AfterRead(read * size, fileno(stream), begin);
  return read;
}

PRISM_INTERPOSED size_t fwrite(const void* buffer, size_t size, size_t count, FILE* stream) {
  PRISM_REAL(fwrite, size_t(const void*, size_t, size_t, FILE*));
  const int64_t begin = prism::shim::Counts() ? ftello64(stream) : -1;
  const size_t written = function.get()(buffer, size, count, stream);
  AfterWrite(written * size, fileno(stream), begin);
  return written;
}

PRISM_INTERPOSED int fclose(FILE* stream) {
  PRISM_REAL(fclose, int(FILE*));
  WriteOut(fileno(stream));
  return function.get()(stream);
}

// How Python's shutil copies.
PRISM_INTERPOSED ssize_t sendfile(int to, int from, off_t* offset, size_t count) noexcept {
  PRISM_REAL(sendfile, ssize_t(int, int, off_t*, size_t));
  const int64_t begin = offset != nullptr ? *offset : Position(from);
  const ssize_t bytes = AfterRead(function.get()(to, from, offset, count), from, begin);
  return AfterWrite(bytes, to);
}

PRISM_INTERPOSED ssize_t sendfile64(int to, int from, off64_t* offset, size_t count) noexcept {
  return sendfile(to, from, offset, count);
}

PRISM_INTERPOSED ssize_t copy_file_range(
    int from, off64_t* from_offset, int to, off64_t* to_offset, size_t count, unsigned flags) {
  PRISM_REAL(copy_file_range, ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned));
  const int64_t begin = from_offset != nullptr ? *from_offset : Position(from);
  const ssize_t bytes =
      AfterRead(function.get()(from, from_offset, to, to_offset, count, flags), from, begin);
  return AfterWrite(bytes, to, to_offset != nullptr ? *to_offset - bytes : -1);
}
#undef PRISM_REAL
