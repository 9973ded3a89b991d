#include "graph/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace prism {
namespace {

std::string ErrorText(int error) {
  return std::system_category().message(error);
}

Status CannotRead(const std::string& path, int error) {
  if (error == ENOMEM) {
    return EnvironmentLacks(fmt::format("cannot read {}: not enough memory", path));
  }
  return BadFile(fmt::format("cannot read {}: {}", path, ErrorText(error)));
}

Status CannotWrite(const std::string& path, int error) {
  std::string message = fmt::format("cannot write {}: {}", path, ErrorText(error));
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
  return full ? RunFailed(std::move(message)) : EnvironmentLacks(std::move(message));
}

// The process id keeps two runs that write to one place apart.
std::string TemporaryName(const std::string& path) {
  return fmt::format("{}.tmp{}", path, getpid());
}

// An open descriptor of a regular file and its size.
class ReadHandle {
 public:
  explicit ReadHandle(const std::string& path) {
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info = {};
    if (descriptor_ < 0 || fstat(descriptor_, &info) != 0) {
      error_ = errno;
    } else if (S_ISDIR(info.st_mode)) {
      error_ = EISDIR;
    }
    size_ = static_cast<size_t>(info.st_size);
    regular_ = S_ISREG(info.st_mode);
  }

  ReadHandle(const ReadHandle&) = delete;
  ReadHandle& operator=(const ReadHandle&) = delete;

  ~ReadHandle() {
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
  }

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] bool regular() const { return regular_; }

 private:
  int descriptor_ = -1;
  bool regular_ = false;
  size_t size_ = 0;
  int error_ = 0;
};

}  // namespace

std::string ReadBeginning(const std::string& path, size_t most) {
  std::string text(most, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

Result<std::string> ReadFile(const std::string& path) {
  const ReadHandle file(path);
  if (file.error() != 0) {
    return CannotRead(path, file.error());
  }
  // The size is only a hint: /proc files say 0, and a pipe has none.
  std::string bytes;
  bytes.reserve(file.size());
  constexpr size_t kBlock = size_t{1} << 18U;
  while (true) {
    const size_t filled = bytes.size();
    bytes.resize(filled + kBlock);
    const ssize_t count = read(file.descriptor(), bytes.data() + filled, kBlock);
    if (count < 0 && errno != EINTR) {
      return CannotRead(path, errno);
    }
    bytes.resize(filled + static_cast<size_t>(count < 0 ? 0 : count));
    if (count == 0) {
      return bytes;
    }
  }
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  const ReadHandle file(path);
  if (file.error() != 0) {
    return CannotRead(path, file.error());
  }
  if (!file.regular()) {
    return BadFile(fmt::format("cannot read {}: it is a pipe or a device; a file is needed", path));
  }
  if (file.size() == 0) {
    return MappedFile(std::string_view());
  }
  void* address = mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) {
    return CannotRead(path, errno);
  }
  return MappedFile(std::string_view(static_cast<const char*>(address), file.size()));
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
}

void MappedFile::Release(size_t first) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (first >= page) {
    madvise(const_cast<char*>(bytes_.data()), first / page * page, MADV_DONTNEED);
  }
}

Result<AtomicFile> AtomicFile::Create(const std::string& path) {
  constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int unnamed = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (unnamed >= 0) {
    return AtomicFile(path, "", unnamed);
  }
  // The file system cannot make files without a name, or says itself what is wrong.
  std::string temporary = TemporaryName(path);
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (descriptor < 0) {
    return CannotWrite(path, errno);
  }
  return AtomicFile(path, std::move(temporary), descriptor);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {
  other.temporary_.clear();
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
  if (!temporary_.empty()) {
    unlink(temporary_.c_str());
  }
}

Status AtomicFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return CannotWrite(path_, errno);
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return OkStatus();
}

// A link replaces nothing, so that the name is a temporary one first.
Status AtomicFile::Name() {
  std::string temporary = TemporaryName(path_);
  unlink(temporary.c_str());  // of a process with this id that was killed
  const std::string opened = fmt::format("/proc/self/fd/{}", descriptor_);
  if (linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return CannotWrite(path_, errno);
  }
  temporary_ = std::move(temporary);
  return OkStatus();
}

Status AtomicFile::Commit() {
  if (temporary_.empty()) {
    PRISM_RETURN_IF_ERROR(Name());
  }
  // Network file systems report a full disk only here.
  if (close(std::exchange(descriptor_, -1)) != 0) {
    return CannotWrite(path_, errno);
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return CannotWrite(path_, errno);
  }
  temporary_.clear();
  return OkStatus();
}

Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  PRISM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  PRISM_RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

AtomicFileSet::AtomicFileSet(std::string prefix)
    : prefix_(std::move(prefix)), folder_(TemporaryName(prefix_)) {
}

AtomicFileSet::~AtomicFileSet() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Status AtomicFileSet::Write(const std::string& suffix, std::string_view bytes) {
  if (suffixes_.empty()) {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);  // of a process with this id that was killed
    std::filesystem::create_directory(folder_, error);
    if (error) {
      return CannotWrite(prefix_ + suffix, error.value());
    }
  }
  suffixes_.push_back(suffix);
  const Status written = WriteFileAtomically(folder_ + "/" + suffix, bytes);
  std::string message = written.message();
  if (const size_t at = message.find(folder_); at != message.npos) {
    message.replace(at, folder_.size() + 1, prefix_);
  }
  return written.ok() ? written : Status(written.code(), std::move(message));
}

Status AtomicFileSet::Commit() {
  for (const std::string& suffix : suffixes_) {
    const std::string written = folder_ + "/" + suffix;
    const std::string path = prefix_ + suffix;
    if (rename(written.c_str(), path.c_str()) != 0) {
      return CannotWrite(path, errno);
    }
  }
  return OkStatus();
}

}  // namespace prism
