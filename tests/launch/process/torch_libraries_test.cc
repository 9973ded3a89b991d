// What a torch without ready libraries leads to: a key, one build for all who want it, or a reason.
#include "launch/process/torch_libraries.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/process/program_torch.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// A release that does not exist, with the headers that a build asks for, and a compiler that counts
// its calls and writes what it is to write.
class Libraries : public testing::Test {
 protected:
  void SetUp() override {
    scratch_.Write("torch/include/c10/core/Device.h", "struct Device;\n");
    for (const char* header : {"torch/include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp",
                               "cuda/cuda_runtime_api.h", "cuda/cublas_v2.h", "cuda/cusolverDn.h",
                               "cuda/cusparse.h", "cuda/nccl.h"}) {
      scratch_.Write(header, "");
    }
    setenv("XDG_CACHE_HOME", (scratch_ / "cache").c_str(), 1);
    setenv(
        "CXX",
        scratch_
            .WriteScript("compiler", "echo call >>" + (scratch_ / "calls") +
                                         "\nsleep 0.3\nwhile [ $# -gt 1 ]; do shift; "
                                         "[ \"$1\" != -o ] || { echo built >\"$2\"; exit; }; done")
            .c_str(),
        1);
    torch_.folder = scratch_ / "torch";
    torch_.version = "2.99.0+cu990";
    torch_.cuda = "99.0";
    torch_.include_folders = {scratch_ / "torch/include", scratch_ / "cuda"};
  }

  void TearDown() override {
    unsetenv("CXX");
    unsetenv("XDG_CACHE_HOME");
  }

  [[nodiscard]] size_t Calls() const {
    std::ifstream file(scratch_ / "calls");
    size_t calls = 0;
    for (std::string line; std::getline(file, line);) {
      ++calls;
    }
    return calls;
  }

  [[nodiscard]] std::string Key() const {
    const Result<std::string> name = CacheName(torch_);
    return name.ok() ? *name : name.status().message();
  }

  ScratchFolder scratch_;
  TorchInstall torch_;
};

TEST_F(Libraries, key_is_version_and_headers) {
  const std::string key = Key();
  EXPECT_THAT(key, StartsWith("torch-2.99.0+cu990-"));
  EXPECT_EQ(Key(), key);
  scratch_.Write("torch/include/c10/core/Device.h", "struct Device { int index; };\n");
  const std::string other_headers = Key();
  EXPECT_NE(other_headers, key);
  torch_.cxx11_abi = false;
  EXPECT_NE(Key(), other_headers);
  torch_.version = "2.99.0/../x";
  EXPECT_THAT(Key(), StartsWith("torch-2.99.0_.._x-"));
}

TEST_F(Libraries, ready_ones_are_named_after_minor_version_cuda_and_abi) {
  torch_.version = "2.6.0+cu124";
  torch_.cuda = "12.4";
  EXPECT_EQ(ReadyName(torch_), "torch-2.6-cu12");
  torch_.cxx11_abi = false;
  EXPECT_EQ(ReadyName(torch_), "torch-2.6-cu12-oldabi");
}

TEST_F(Libraries, two_processes_build_once) {
  const pid_t other = fork();
  if (other == 0) {
    _exit(ProvideTorchLibraries(torch_, {kObserver}).ok() ? 0 : 1);
  }
  const Result<std::string> folder = ProvideTorchLibraries(torch_, {kObserver});
  int status = -1;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  EXPECT_TRUE(std::filesystem::exists(*folder + "/" + kObserver));
  EXPECT_EQ(Calls(), 5U);  // four names in place of libtorch's libraries, and the file
  EXPECT_TRUE(ProvideTorchLibraries(torch_, {kObserver}).ok());
  EXPECT_EQ(Calls(), 5U);
  for (const auto& entry : std::filesystem::directory_iterator(scratch_ / "cache/prism")) {
    EXPECT_FALSE(entry.path().string().ends_with(".part")) << entry.path();
  }
}

TEST_F(Libraries, what_lacks_says_which_package_brings_it) {
  std::filesystem::remove(scratch_ / "cuda/nccl.h");
  EXPECT_THAT(ProvideTorchLibraries(torch_, {kObserver}).status().message(),
              HasSubstr("nccl.h is missing; install nvidia-nccl-cu99"));
  setenv("CXX", scratch_.WriteScript("compiler", "echo 'x.cc:1: error: no' >&2; exit 1").c_str(),
         1);
  scratch_.Write("cuda/nccl.h", "");
  const Status failed = ProvideTorchLibraries(torch_, {kObserver}).status();
  EXPECT_EQ(failed.code(), StatusCode::kEnvironment);
  EXPECT_THAT(failed.message(), HasSubstr("x.cc:1: error: no"));
  unsetenv("CXX");
  const std::string path = getenv("PATH");
  setenv("PATH", scratch_.path().c_str(), 1);
  const Status none = ProvideTorchLibraries(torch_, {kObserver}).status();
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(none.code(), StatusCode::kEnvironment);
  EXPECT_THAT(none.message(), HasSubstr("g++ of Debian and Ubuntu, gcc-c++ of Fedora"));
}

TEST_F(Libraries, the_python_of_a_command_is_found) {
  const std::string python = scratch_.WriteScript("python3.12", "exit 0");
  const std::string link = scratch_ / "py";
  std::filesystem::create_symlink(python, link);
  scratch_.Write("script", "#!/usr/bin/env " + python + "\n");
  std::filesystem::permissions(scratch_ / "script", std::filesystem::perms::owner_all);
  EXPECT_THAT(PythonOf({"python", "-u", "train.py"}), ElementsAre("python"));
  EXPECT_THAT(PythonOf({"env", "A=1", python, "train.py"}), ElementsAre("env", "A=1", python));
  EXPECT_THAT(PythonOf({"uv", "run", "python", "x.py"}), ElementsAre("uv", "run", "python"));
  EXPECT_THAT(PythonOf({link, "train.py"}), ElementsAre(link));
  EXPECT_THAT(PythonOf({scratch_ / "script"}), ElementsAre("/usr/bin/env", python));
  EXPECT_THAT(PythonOf({scratch_.WriteScript("run.sh", "python train.py")}), IsEmpty());
  EXPECT_THAT(PythonOf({"/bin/true", "python"}), IsEmpty());
}

}  // namespace
}  // namespace prism::launch
