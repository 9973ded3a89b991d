#include "launch/process/linked_libraries.h"

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "graph/base/file.h"
#include "graph/base/split.h"
#include "launch/process/elf_file.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 4096;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string Canonical(const fs::path& path) {
  std::error_code error;
  const fs::path found = fs::canonical(path, error);
  return error ? path.string() : found.string();
}

// Where the loader looks after the paths that are written in the files.
std::vector<std::string> CommonFolders() {
  std::vector<std::string> folders;
  if (const char* const path = std::getenv("LD_LIBRARY_PATH"); path != nullptr) {
    for (const std::string_view folder : SplitAt(path, ':')) {
      if (!folder.empty()) {
        folders.emplace_back(folder);
      }
    }
  }
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* const home = std::getenv(variable); home != nullptr) {
      folders.push_back(std::string(home) + "/lib64");
    }
  }
  for (const char* const folder :
       {"/usr/local/cuda/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64",
        "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}) {
    folders.emplace_back(folder);
  }
  return folders;
}

// A number after `#define macro`; -1 if the text has none.
int MacroIn(const std::string& text, std::string_view macro) {
  std::smatch match;
  const std::regex line("#define\\s+" + std::string(macro) + "\\s+(\\d{1,6})\\b");
  return std::regex_search(text, match, line) ? std::stoi(match[1]) : -1;
}

// By the header beside it, as wheels and toolkits have one; -1 if there is none.
int VersionInHeader(const ReplacedLibrary& kind, const fs::path& library) {
  const Result<std::string> text =
      ReadFile((library.parent_path().parent_path() / "include" / kind.header).string());
  if (!text.ok()) {
    return -1;
  }
  if (kind.macros[1].empty()) {
    return MacroIn(*text, kind.macros[0]);
  }
  int version = 0;
  for (size_t i = 0; i < kind.macros.size(); ++i) {
    const int part = MacroIn(*text, kind.macros[i]);
    if (part < 0) {
      return -1;
    }
    version += part * kind.steps[i];
  }
  return version;
}

// By the name that links lead to, "libcudart.so.12.4.127".
int VersionInName(const ReplacedLibrary& kind, const std::string& name) {
  const std::regex pattern("\\.so\\.(\\d{1,4})(?:\\.(\\d{1,4})(?:\\.(\\d{1,4}))?)?");
  std::smatch match;
  int version = 0;
  if (std::regex_search(name, match, pattern)) {
    for (size_t i = 0; i < kind.steps.size(); ++i) {
      version += match[i + 1].matched ? std::stoi(match[i + 1]) * kind.steps[i] : 0;
    }
  }
  return version;
}

int VersionOf(const LinkedLibrary& library) {
  if (library.kind->header.empty()) {
    return 0;
  }
  if (!library.path.empty()) {
    const std::string name = fs::path(Canonical(library.path)).filename().string();
    const int version = name == library.soname ? VersionInHeader(*library.kind, library.path)
                                               : VersionInName(*library.kind, name);
    if (version >= 0) {
      return version;
    }
  }
  // Which of CUDA's structures the program has follows from the first part alone.
  return library.kind->stem == "libcudart" ? VersionInName(*library.kind, library.soname) : 0;
}

class Finder {
 public:
  LinkedLibraries Find(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      Follow(file, {});
    }
    while (!waiting_.empty() && seen_.size() < kMostFiles) {
      const File file = waiting_.front();
      waiting_.pop_front();
      Visit(file);
    }
    for (const std::string& folder : nvidia_folders_) {
      AddFolder(folder);
    }
    for (const char* const soname : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
      found_.emplace(soname, "");  // opened by name
    }
    return Sorted();
  }

 private:
  struct File {
    std::string path;
    std::vector<std::string> folders;  // that what loads it searches
  };

  void Follow(const std::string& path, const std::vector<std::string>& folders) {
    if (seen_.insert(Canonical(path)).second) {
      waiting_.push_back({path, folders});
    }
  }

  void Visit(const File& file) {
    const Result<ElfFile> elf = ElfFile::Open(file.path);
    if (!elf.ok()) {
      return;  // not a library: nothing that it could link
    }
    std::vector<std::string> folders;
    const std::string origin = fs::path(Canonical(file.path)).parent_path().string();
    static const std::regex own_folder("\\$ORIGIN|\\$\\{ORIGIN\\}");
    for (const std::string_view folder : SplitAt(elf->search_path(), ':')) {
      if (folder.starts_with('/') || folder.starts_with('$')) {
        folders.push_back(std::regex_replace(std::string(folder), own_folder, origin));
      }
    }
    folders.insert(folders.end(), file.folders.begin(), file.folders.end());
    bool is_user = false;
    for (const std::string_view needed : elf->needed()) {
      const std::string soname(needed);
      const bool is_replaced = FindReplaced(soname) != nullptr;
      const std::string path = Locate(soname, folders, is_replaced);
      is_user = is_user || is_replaced;
      if (!is_replaced && !path.empty()) {
        Follow(path, folders);
      } else if (is_replaced && found_[soname].empty()) {
        found_[soname] = path;
      }
    }
    if (is_user) {
      users_.push_back(file.path);
      nvidia_folders_.insert(folders.begin(), folders.end());
    }
  }

  // "" if there is none; of libraries that are not replaced, only those that lie elsewhere than the
  // system's own can lead to replaced ones.
  std::string Locate(const std::string& soname,
                     const std::vector<std::string>& folders,
                     bool in_common) const {
    for (const std::vector<std::string>& some : {folders, common_}) {
      for (const std::string& folder : some) {
        if (Exists(fs::path(folder) / soname)) {
          return (fs::path(folder) / soname).string();
        }
      }
      if (!in_common) {
        break;
      }
    }
    return "";
  }

  void AddFolder(const std::string& folder) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename().string();
      if (FindReplaced(name) == nullptr || name.find(".so.") == name.npos) {
        continue;
      }
      const Result<ElfFile> elf = ElfFile::Open(entry.path().string());
      if (elf.ok() && FindReplaced(elf->soname()) != nullptr) {
        found_.emplace(elf->soname(), entry.path().string());
      }
    }
  }

  LinkedLibraries Sorted() const {
    LinkedLibraries result;
    result.users = users_;
    for (const ReplacedLibrary& kind : ReplacedLibraries()) {
      for (const auto& [soname, path] : found_) {
        if (FindReplaced(soname) == &kind) {
          LinkedLibrary library = {soname, &kind, kind.stem == "libcuda" ? "" : path};
          library.version = VersionOf(library);
          result.replaced.push_back(library);
        }
      }
    }
    return result;
  }

  const std::vector<std::string> common_ = CommonFolders();
  std::deque<File> waiting_;
  std::set<std::string> seen_;
  std::map<std::string, std::string> found_;  // soname to path
  std::vector<std::string> users_;
  std::set<std::string> nvidia_folders_;
};

}  // namespace

LinkedLibraries FindLinkedLibraries(const std::vector<std::string>& files) {
  return Finder().Find(files);
}

}  // namespace prism::launch
