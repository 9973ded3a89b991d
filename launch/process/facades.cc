#include "launch/process/facades.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/fnv.h"
#include "launch/process/elf_file.h"
#include "launch/process/elf_writer.h"
#include "launch/process/linked_libraries.h"
#include "launch/process/replaced_libraries.h"
#include "launch/version.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

// Part of the key: changes with what is written into a facade.
constexpr uint64_t kFormat = 1;

// Functions of the shim that facades go on in (shim/virtual_device/refused.cc, library_call.S).
enum Target : size_t { kRefuse, kRefuseText, kLibraryCall };
const std::vector<std::string> kTargets = {"prism_shim_refuse", "prism_shim_refuse_text",
                                           "prism_shim_library_call"};

// Data of a library: more would be a damaged file.
constexpr uint64_t kMostDataBytes = 64 << 20;

// A program's name with more letters would be a damaged file's.
constexpr size_t kLongestName = 512;

std::set<std::string, std::less<>> FunctionsOf(const ElfFile& shim) {
  std::set<std::string, std::less<>> names;
  for (const ElfSymbol& symbol : shim.Symbols()) {
    if (symbol.is_defined && symbol.is_function) {
      names.emplace(symbol.name);
    }
  }
  return names;
}

// What a library exports or, if it is not installed, what its users take from it.
struct Exports {
  std::vector<ElfFile> files;  // that names are views into
  std::vector<std::string> versions;
  std::vector<ElfSymbol> symbols;  // calls and data
};

void AddSymbol(ElfSymbol symbol, Exports* exports) {
  const bool is_kept = symbol.is_function || (symbol.is_data && symbol.bytes <= kMostDataBytes);
  if (is_kept && IsCall(symbol.name) && symbol.name.size() <= kLongestName) {
    exports->symbols.push_back(symbol);
  }
}

void AddUses(const LinkedLibrary& library,
             const std::vector<std::string>& users,
             Exports* exports) {
  std::set<std::string> versions;
  for (const std::string& user : users) {
    Result<ElfFile> file = ElfFile::Open(user);
    if (!file.ok()) {
      continue;
    }
    for (ElfSymbol symbol : file->Symbols()) {
      const bool is_its = symbol.file.empty() ? OwnerOf(symbol.name) == library.kind
                                              : symbol.file == library.soname;
      if (!symbol.is_defined && is_its) {
        symbol.is_function = true;  // users do not say what it is
        AddSymbol(symbol, exports);
        versions.emplace(symbol.version);
      }
    }
    exports->files.push_back(*std::move(file));
  }
  versions.erase("");
  exports->versions.assign(versions.begin(), versions.end());
}

Result<Exports> ExportsOf(const LinkedLibrary& library, const std::vector<std::string>& users) {
  Exports exports;
  if (!library.path.empty()) {
    PRISM_ASSIGN_OR_RETURN(ElfFile file, ElfFile::Open(library.path));
    for (const std::string_view version : file.Versions()) {
      exports.versions.emplace_back(version);
    }
    for (const ElfSymbol& symbol : file.Symbols()) {
      if (symbol.is_defined) {
        AddSymbol(symbol, &exports);
      }
    }
    exports.files.push_back(std::move(file));
  } else {
    AddUses(library, users, &exports);
  }
  for (const std::string_view name : AdditionalNames(*library.kind)) {
    AddSymbol({.name = name, .version = {}, .file = {}, .is_function = true}, &exports);
  }
  const auto key = [](const ElfSymbol& symbol) { return std::tie(symbol.name, symbol.version); };
  std::sort(exports.symbols.begin(), exports.symbols.end(),
            [&](const ElfSymbol& a, const ElfSymbol& b) { return key(a) < key(b); });
  const auto same = [&](const ElfSymbol& a, const ElfSymbol& b) { return key(a) == key(b); };
  exports.symbols.erase(std::unique(exports.symbols.begin(), exports.symbols.end(), same),
                        exports.symbols.end());
  return exports;
}

LibraryMember MemberOf(const ReplacedLibrary& library, const ElfSymbol& symbol) {
  LibraryMember member;
  member.name = symbol.name;
  member.version = symbol.version;
  member.is_hidden_version = symbol.is_hidden_version;
  if (symbol.is_data) {
    member.kind = MemberKind::kZeroes;
    member.value = static_cast<int64_t>(symbol.bytes);
  } else if (const auto call = DescribedCall(library, symbol.name)) {
    member.kind = MemberKind::kCall;
    member.value = *call;
    member.target = kLibraryCall;
  } else {
    member.value = RefusalOf(library, symbol.name);
    member.target = ReturnsText(symbol.name) ? kRefuseText : kRefuse;
  }
  return member;
}

class Writer {
 public:
  Writer(LinkedLibraries linked, std::string shim)
      : linked_(std::move(linked)), shim_(std::move(shim)) {}

  // Of all that the facades depend on.
  [[nodiscard]] uint64_t Key() const {
    uint64_t hash = FnvHash(kVersion, ReplacedLibrariesHash() + kFormat);
    hash = AddFile(shim_, hash);
    for (const LinkedLibrary& library : linked_.replaced) {
      hash = FnvHash(library.soname, hash);
      hash = FnvBytes(&library.version, sizeof(library.version), hash);
      hash = library.path.empty() ? hash : AddFile(library.path, hash);
    }
    for (const std::string& user : linked_.users) {
      hash = AddFile(user, hash);
    }
    return hash;
  }

  Status Write(const std::string& folder) const {
    PRISM_ASSIGN_OR_RETURN(const ElfFile shim, ElfFile::Open(shim_));
    const auto ours = FunctionsOf(shim);
    for (const LinkedLibrary& library : linked_.replaced) {
      PRISM_ASSIGN_OR_RETURN(const Exports exports, ExportsOf(library, linked_.users));
      LibraryImage image = {.soname = library.soname,
                            .needed = fs::path(shim_).filename().string(),
                            .search_path = fs::path(shim_).parent_path().string(),
                            .targets = kTargets,
                            .versions = exports.versions,
                            .members = {}};
      for (const ElfSymbol& symbol : exports.symbols) {
        if (!ours.contains(symbol.name)) {
          image.members.push_back(MemberOf(*library.kind, symbol));
        }
      }
      // shim/library_versions.h reads it.
      const std::string version_name = fmt::format("prism_version_of_{}", library.kind->stem);
      if (library.version != 0) {
        image.members.push_back({.name = version_name,
                                 .version = {},
                                 .kind = MemberKind::kNumber,
                                 .value = library.version});
      }
      PRISM_RETURN_IF_ERROR(
          WriteFileAtomically(folder + "/" + library.soname, WriteLibrary(image)));
    }
    return OkStatus();
  }

  [[nodiscard]] Facades In(const std::string& folder) const {
    Facades facades;
    facades.folder = folder;
    for (const LinkedLibrary& library : linked_.replaced) {
      facades.paths.push_back(folder + "/" + library.soname);
      const bool is_first = facades.cuda_version == 0;
      if (library.kind->stem == "libcudart" && is_first) {
        facades.cuda_version = library.version;
      } else if (library.kind->stem == "libnccl") {
        facades.nccl_version = library.version;
      }
    }
    return facades;
  }

 private:
  static uint64_t AddFile(const std::string& path, uint64_t hash) {
    struct stat about = {};
    stat(path.c_str(), &about);
    hash = FnvHash(path, hash);
    hash = FnvBytes(&about.st_size, sizeof(about.st_size), hash);
    return FnvBytes(&about.st_mtim, sizeof(about.st_mtim), hash);
  }

  LinkedLibraries linked_;
  std::string shim_;
};

bool AllExist(const Facades& facades) {
  return std::all_of(facades.paths.begin(), facades.paths.end(),
                     [](const std::string& path) { return access(path.c_str(), R_OK) == 0; });
}

void Remove(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

// A new folder whose name begins so; "" if there can be none.
std::string NewFolder(std::string begin) {
  begin += ".XXXXXX";
  return mkdtemp(begin.data()) == nullptr ? "" : begin;
}

// Whether the facades are in the cache now. Whoever is second uses what the first has put there.
bool WriteInto(const std::string& cache, const std::string& folder, const Writer& writer) {
  std::error_code ignored;
  fs::create_directories(cache, ignored);
  const std::string temporary = NewFolder(folder);
  if (temporary.empty()) {
    return false;
  }
  const bool is_written = writer.Write(temporary).ok();
  const auto put = [&] { return std::rename(temporary.c_str(), folder.c_str()) == 0; };
  if (is_written && !put() && !AllExist(writer.In(folder))) {
    Remove(folder);  // somebody has deleted files in it
    put();
  }
  Remove(temporary);
  return is_written && AllExist(writer.In(folder));
}

}  // namespace

std::string CacheFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  std::string folder;
  if (cache != nullptr && cache[0] == '/') {
    folder = std::string(cache) + "/prism";
  } else if (home != nullptr && home[0] == '/') {
    folder = std::string(home) + "/.cache/prism";
  }
  return folder.find_first_of(" :") == std::string::npos ? folder : "";
}

Result<Facades> WriteFacades(const std::vector<std::string>& files, const std::string& shim) {
  const Writer writer(FindLinkedLibraries(files), shim);
  const std::string cache = CacheFolder();
  const std::string folder = fmt::format("{}/facades-{:016x}", cache, writer.Key());
  if (!cache.empty() && (AllExist(writer.In(folder)) || WriteInto(cache, folder, writer))) {
    return writer.In(folder);
  }
  std::error_code ignored;
  const std::string temporary = NewFolder((fs::temp_directory_path(ignored) / "prism").string());
  if (temporary.empty()) {
    return EnvironmentLacks(fmt::format(
        "cannot write the libraries that stand in for NVIDIA's, neither into {} nor into "
        "the folder for temporary files ({}); set XDG_CACHE_HOME to a folder that can be "
        "written",
        cache.empty() ? "a cache ($HOME is not set)" : cache, std::strerror(errno)));
  }
  const std::shared_ptr<const void> keeper(nullptr,
                                           [temporary](const void*) { Remove(temporary); });
  PRISM_RETURN_IF_ERROR(writer.Write(temporary));
  Facades facades = writer.In(temporary);
  facades.keeper = keeper;
  return facades;
}

Result<std::vector<SurfaceName>> DeviceSurface(const std::vector<std::string>& files,
                                               const std::string& shim) {
  PRISM_ASSIGN_OR_RETURN(const ElfFile own, ElfFile::Open(shim));
  const auto ours = FunctionsOf(own);
  const LinkedLibraries linked = FindLinkedLibraries(files);
  std::vector<SurfaceName> names;
  for (const LinkedLibrary& library : linked.replaced) {
    PRISM_ASSIGN_OR_RETURN(const Exports exports, ExportsOf(library, linked.users));
    for (const ElfSymbol& symbol : exports.symbols) {
      if (symbol.is_function) {
        names.push_back(
            {library.soname, std::string(symbol.name),
             ours.contains(symbol.name) || DescribedCall(*library.kind, symbol.name).has_value()});
      }
    }
  }
  return names;
}

}  // namespace prism::launch
