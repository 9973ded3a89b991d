// Stand-ins of NVIDIA's libraries: what the writer makes is loaded and called, what the reader
// reads is compared with it, damaged files are read, and the table covers what the torch at hand
// links.
#include "launch/process/facades.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "graph/base/rng.h"
#include "launch/process/elf_file.h"
#include "launch/process/elf_writer.h"
#include "launch/process/linked_libraries.h"
#include "launch/process/replaced_libraries.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

// In this program: what stubs go on in.
LibraryImage Image() {
  return {.soname = "libtried.so.7",
          .needed = "libc.so.6",
          .search_path = "/nowhere",
          .targets = {"strchr", "labs"},
          .versions = {"TRIED_1", "TRIED_2"},
          .members = {{"tried_first", "TRIED_1", MemberKind::kForward, 's', 0, false},
                      {"tried_both", "TRIED_1", MemberKind::kForward, 'b', 0, true},
                      {"tried_both", "TRIED_2", MemberKind::kForward, 'h', 0, false},
                      {"tried_call", "", MemberKind::kCall, int64_t{1} << 40, 1, false},
                      {"tried_number", "", MemberKind::kNumber, 130020, 0, false},
                      {"tried_zeroes", "TRIED_2", MemberKind::kZeroes, 100'000, 0, false}}};
}

class Written : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteFileAtomically(path_, WriteLibrary(Image())).ok());
    library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }

  void TearDown() override { dlclose(library_); }

  template <typename Function>
  Function* Find(const char* name, const char* version = nullptr) {
    return reinterpret_cast<Function*>(version == nullptr ? dlsym(library_, name)
                                                          : dlvsym(library_, name, version));
  }

  const ScratchFolder folder_;
  const std::string path_ = folder_ / "libtried.so.7";
  void* library_ = nullptr;
};

TEST_F(Written, function_goes_on_with_its_name_and_value) {
  // strchr of its own name: which says that both arguments arrive.
  EXPECT_STREQ(Find<const char*()>("tried_first")(), "st");
}

TEST_F(Written, names_have_their_versions) {
  EXPECT_STREQ(Find<const char*()>("tried_both", "TRIED_1")(), "both");
  EXPECT_STREQ(Find<const char*()>("tried_both", "TRIED_2")(), "h");
  EXPECT_STREQ(Find<const char*()>("tried_both")(), "h");
  EXPECT_EQ(Find<void>("tried_first", "TRIED_2"), nullptr);
  EXPECT_EQ(Find<void>("tried_absent"), nullptr);
}

TEST_F(Written, described_call_keeps_its_arguments) {
  EXPECT_EQ(Find<long(long)>("tried_call")(-12), 12);
}

TEST_F(Written, data_is_zeroed_and_numbers_are_there) {
  EXPECT_EQ(*Find<int>("tried_number"), 130020);
  auto* const bytes = Find<char>("tried_zeroes");
  EXPECT_TRUE(std::all_of(bytes, bytes + 100'000, [](char byte) { return byte == 0; }));
  bytes[99'999] = 1;
}

TEST_F(Written, reader_finds_what_the_writer_wrote) {
  const Result<ElfFile> file = ElfFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->soname(), "libtried.so.7");
  EXPECT_THAT(file->needed(), ElementsAre("libc.so.6"));
  EXPECT_EQ(file->search_path(), "/nowhere");
  EXPECT_THAT(file->Versions(), ElementsAre("TRIED_1", "TRIED_2"));
  std::vector<std::string> names;
  for (const ElfSymbol& symbol : file->Symbols()) {
    names.push_back(std::string(symbol.name) + "@" + std::string(symbol.version) +
                    (symbol.is_hidden_version ? "!" : "") + (symbol.is_function ? "()" : "") +
                    (symbol.is_defined ? "" : "?"));
    if (symbol.name == "tried_zeroes") {
      EXPECT_EQ(symbol.bytes, 100'000U);
      EXPECT_TRUE(symbol.is_data);
    }
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("strchr@?", "labs@?", "tried_first@TRIED_1()",
                                                     "tried_both@TRIED_1!()",
                                                     "tried_both@TRIED_2()", "tried_call@()",
                                                     "tried_number@", "tried_zeroes@TRIED_2"));
}

TEST_F(Written, empty_library_loads) {
  LibraryImage image = Image();
  image.soname = "libempty.so";
  image.versions.clear();
  image.members.clear();
  ASSERT_TRUE(WriteFileAtomically(folder_ / "libempty.so", WriteLibrary(image)).ok());
  void* const empty = dlopen((folder_ / "libempty.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(empty, nullptr) << dlerror();
}

// Whatever bytes are wrong, reading ends, within the file.
TEST_F(Written, damaged_files_are_read_to_an_end) {
  const std::string whole = WriteLibrary(Image());
  Rng rng(20261128, "damage");
  const auto below = [&](size_t count) {
    return static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(count) - 1));
  };
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (size_t i = below(8) + 1; i > 0; --i) {
      // Mostly in the tables, which the first page and the dynamic segment at the end are.
      const size_t at = below(2) == 0 ? below(1024) : below(bytes.size());
      bytes[at] = static_cast<char>(below(3) == 0 ? 0xff : below(256));
    }
    bytes.resize(below(4) == 0 ? below(bytes.size()) : bytes.size());
    const std::string path = folder_ / "damaged.so";
    ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
    const Result<ElfFile> file = ElfFile::Open(path);
    if (file.ok()) {
      EXPECT_LE(file->Symbols().size(), bytes.size());
      EXPECT_LE(file->Versions().size(), bytes.size());
    }
  }
}

TEST(ReplacedLibraries, are_recognised_in_every_version) {
  for (const char* const soname :
       {"libcublas.so.12", "libcublas.so.13", "libcublasLt.so.12", "libcudart.so.12",
        "libcuda.so.1", "libcudnn.so.9", "libcufft.so.11", "libcusolver.so.11", "libcusparse.so.12",
        "libcusparseLt.so.0", "libcupti.so.12", "libcufile.so.0", "libnccl.so.2", "libcurand.so.10",
        "libnvshmem_host.so.3", "libcudss.so.0", "libnvidia-ml.so.1"}) {
    EXPECT_NE(FindReplaced(soname), nullptr) << soname;
  }
  for (const char* const soname : {"libnvrtc.so.12", "libnvJitLink.so.13", "libc.so.6"}) {
    EXPECT_EQ(FindReplaced(soname), nullptr) << soname;
  }
}

TEST(ReplacedLibraries, calls_are_described_refused_and_owned) {
  const ReplacedLibrary& blas = *FindReplaced("libcublas.so.12");
  // product 14 of library_calls.txt: action 11, the handle of cuBLAS, S.
  EXPECT_EQ(DescribedCall(blas, "cublasSgemmBatched"),
            std::optional<int64_t>(11 | 2 << 8 | 'S' << 16 | 14LL << 24 | 0xffffffLL << 32));
  EXPECT_EQ(DescribedCall(blas, "cublasXtSgemm"), std::nullopt);
  EXPECT_EQ(RefusalOf(blas, "cublasXtSgemm"), 15);
  EXPECT_EQ(RefusalOf(*FindReplaced("libcufile.so.0"), "cuFileRead"), -5007);
  EXPECT_EQ(RefusalOf(*FindReplaced("libnvshmem_host.so.3"), "nvshmem_malloc"), 0);
  EXPECT_TRUE(ReturnsText("cusparseGetErrorString"));
  EXPECT_EQ(OwnerOf("cuFileRead")->stem, "libcufile");
  EXPECT_EQ(OwnerOf("cuMemAlloc_v2")->stem, "libcuda");
  EXPECT_EQ(OwnerOf("cungqr_"), nullptr);  // LAPACK's
}

class Facades : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& entry : std::filesystem::directory_iterator(PRISM_TORCH_LIBRARIES)) {
      if (entry.path().extension() == ".so") {
        files_.push_back(entry.path().string());
      }
    }
    std::sort(files_.begin(), files_.end());
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  }

  const ScratchFolder folder_;
  std::vector<std::string> files_;
};

// Every library of NVIDIA that this torch links is in the table, or known to need no device.
TEST_F(Facades, table_covers_what_torch_links) {
  for (const std::string& path : files_) {
    const Result<ElfFile> file = ElfFile::Open(path);
    for (const std::string_view needed : file->needed()) {
      const bool is_nvidias = needed.starts_with("libcu") || needed.starts_with("libnv") ||
                              needed.starts_with("libnccl");
      const bool is_alone = needed.starts_with("libnvrtc") || needed.starts_with("libnvJitLink") ||
                            needed.starts_with("libnvToolsExt");
      EXPECT_TRUE(!is_nvidias || is_alone || FindReplaced(needed) != nullptr)
          << path << " needs " << needed;
    }
  }
}

TEST_F(Facades, are_found_with_their_versions) {
  for (const LinkedLibrary& library : FindLinkedLibraries(files_).replaced) {
    if (!library.kind->header.empty()) {
      EXPECT_GT(library.version, library.kind->steps[0]) << library.soname;
    }
  }
}

// What the loader does with each facade alone, and what it then finds.
TEST_F(Facades, load_are_kept_and_refuse_by_name) {
  const Result<launch::Facades> facades = WriteFacades(files_, PRISM_SHIM_LIBRARY);
  ASSERT_TRUE(facades.ok()) << facades.status().message();
  EXPECT_THAT(facades->folder, StartsWith(folder_ / "cache/prism/facades-"));
  EXPECT_EQ(facades->keeper, nullptr);
  EXPECT_GE(facades->cuda_version, 12000);
  const auto written = std::filesystem::last_write_time(facades->paths[0]);
  EXPECT_EQ(WriteFacades(files_, PRISM_SHIM_LIBRARY)->folder, facades->folder);
  EXPECT_EQ(std::filesystem::last_write_time(facades->paths[0]), written);
  const pid_t child = fork();
  if (child == 0) {  // the shim replaces functions of libc
    for (const std::string& path : facades->paths) {
      if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        _exit(1);
      }
    }
    const auto refused = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "cufftXtSetGPUs"));
    _exit(refused != nullptr && refused() == 16 ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Facades, without_a_cache_live_in_a_folder_of_the_run) {
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  std::string folder;
  {
    const Result<launch::Facades> facades = WriteFacades(files_, PRISM_SHIM_LIBRARY);
    ASSERT_TRUE(facades.ok()) << facades.status().message();
    folder = facades->folder;
    EXPECT_TRUE(std::filesystem::exists(facades->paths[0]));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

// A torch whose libraries of NVIDIA are not installed: names and versions are those that it uses.
TEST_F(Facades, of_a_library_that_is_not_installed_have_the_names_that_are_used) {
  LibraryImage user = Image();
  user.soname = "libuser.so";
  user.needed = "libcufft.so.11";
  user.search_path = "/nowhere";
  user.targets = {"cufftXtSetGPUs", "cublasXtCreate"};
  user.versions.clear();
  user.members.clear();
  const std::string path = folder_ / "libuser.so";
  ASSERT_TRUE(WriteFileAtomically(path, WriteLibrary(user)).ok());
  const Result<std::vector<SurfaceName>> names = DeviceSurface({path}, PRISM_SHIM_LIBRARY);
  ASSERT_TRUE(names.ok());
  std::vector<std::string> of_fft;
  for (const SurfaceName& name : *names) {
    if (name.library == "libcufft.so.11") {
      of_fft.push_back(name.name);
    }
  }
  EXPECT_THAT(of_fft, ElementsAre("cufftXtSetGPUs"));
}

TEST_F(Facades, surface_lists_both_kinds) {
  const Result<std::vector<SurfaceName>> names = DeviceSurface(files_, PRISM_SHIM_LIBRARY);
  ASSERT_TRUE(names.ok());
  const auto find = [&](const std::string& name) {
    return std::find_if(names->begin(), names->end(),
                        [&](const SurfaceName& each) { return each.name == name; });
  };
  EXPECT_TRUE(find("cublasGemmEx")->is_implemented);
  EXPECT_TRUE(find("cudaMalloc")->is_implemented);
  EXPECT_FALSE(find("cuTexRefCreate")->is_implemented);
}

}  // namespace
}  // namespace prism::launch
