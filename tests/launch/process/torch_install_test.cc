// An interpreter's torch, in made-up folders, and what is said where it is of no use.
#include "launch/process/torch_install.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/process/command_output.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

using std::string_literals::operator""s;
using testing::HasSubstr;
using testing::StartsWith;

class TorchInstalls : public testing::Test {
 protected:
  // A Python that finds a torch of that version, which must not be imported.
  std::string PythonWith(const std::string& version, const std::string& cuda) {
    scratch_.Write("site/torch/__init__.py", "raise ImportError('imported')\n");
    scratch_.Write("site/torch/version.py",
                   fmt::format("from typing import Optional\n\n__version__ = '{}'\ndebug = False\n"
                               "cuda: Optional[str] = {}\nhip: Optional[str] = None\n",
                               version, cuda));
    return scratch_.WriteScript(
        "python", fmt::format("PYTHONPATH={} exec python3 -S \"$@\"", scratch_ / "site"));
  }

  std::string PythonSaying(const std::string& version) {
    return scratch_.WriteScript("python",
                                fmt::format("echo prism-torch-install version {}\n"
                                            "echo prism-torch-install executable /opt/python",
                                            version));
  }

  ScratchFolder scratch_;
};

TEST_F(TorchInstalls, is_read_without_being_imported) {
  const std::string python = PythonWith("2.8.0+cu128", "'12.8'");
  scratch_.Write("site/torch/lib/libc10.so",
                 "...\0_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112"s);
  scratch_.Write("site/torch/include/torch/torch.h", "");
  scratch_.Write("site/nvidia/cuda_runtime/lib/libcudart.so.12", "");
  scratch_.Write("site/nvidia/cuda_runtime/include/cuda.h", "");
  const Result<TorchInstall> torch = FindTorch(python);
  ASSERT_TRUE(torch.ok()) << torch.status().message();
  EXPECT_EQ(torch->folder, scratch_ / "site/torch");
  EXPECT_EQ(torch->version, "2.8.0+cu128");
  EXPECT_EQ(torch->minor(), "2.8");
  EXPECT_EQ(torch->cuda, "12.8");
  EXPECT_EQ(torch->cuda_major(), "12");
  EXPECT_TRUE(torch->cxx11_abi);
  EXPECT_THAT(torch->python_version, StartsWith("3."));
  EXPECT_THAT(torch->library_folders, testing::Contains(scratch_ / "site/torch/lib"));
  EXPECT_THAT(torch->library_folders, testing::Contains(scratch_ / "site/nvidia/cuda_runtime/lib"));
  EXPECT_THAT(torch->include_folders,
              testing::IsSupersetOf({scratch_ / "site/torch/include",
                                     scratch_ / "site/nvidia/cuda_runtime/include"}));
}

TEST_F(TorchInstalls, the_abi_is_that_of_libc10) {
  const std::string python = PythonWith("2.6.0+cu124", "'12.4'");
  scratch_.Write("site/torch/lib/libc10.so", "_ZN3c105ErrorC2ENS_14SourceLocationESs");
  const Result<TorchInstall> torch = FindTorch(python);
  ASSERT_TRUE(torch.ok()) << torch.status().message();
  EXPECT_FALSE(torch->cxx11_abi);
}

TEST_F(TorchInstalls, an_interpreter_may_have_words_before_it) {
  const std::string python = PythonWith("2.12.1+cu130", "'13.0'");
  const Result<TorchInstall> torch = AskInterpreter({"env", "A=1", python});
  ASSERT_TRUE(torch.ok()) << torch.status().message();
  EXPECT_EQ(torch->minor(), "2.12");
}

TEST_F(TorchInstalls, libtorch_without_python_says_its_build) {
  scratch_.Write("libtorch/build-version", "2.8.0+cu128\n");
  const TorchInstall torch = ReadTorchFolder(scratch_ / "libtorch", "");
  EXPECT_EQ(torch.version, "2.8.0+cu128");
  EXPECT_EQ(torch.cuda, "12.8");
  EXPECT_TRUE(CheckTorch(torch).ok());
}

// What a status of an interpreter without use says; each ends with exit code 5.
std::string Refusal(const std::string& python) {
  const Result<TorchInstall> torch = FindTorch(python);
  EXPECT_FALSE(torch.ok());
  EXPECT_EQ(torch.status().code(), StatusCode::kEnvironment);
  return torch.status().message();
}

TEST_F(TorchInstalls, what_is_of_no_use_says_what_to_install) {
  EXPECT_THAT(Refusal("python-that-is-nowhere"), StartsWith("python-that-is-nowhere is not found"));
  EXPECT_THAT(Refusal(PythonSaying("3.11.7")),
              StartsWith("/opt/python has no torch; install one: /opt/python -m pip install"));
  EXPECT_THAT(Refusal(PythonSaying("3.9.18")),
              StartsWith("/opt/python is Python 3.9.18, and Prism runs programs of Python 3.10"));
  EXPECT_THAT(Refusal(PythonSaying("2.7.18")), HasSubstr("is Python 2.7.18"));
  EXPECT_THAT(Refusal(PythonWith("2.5.1+cu124", "'12.4'")),
              HasSubstr("is torch 2.5.1+cu124, and Prism runs programs of torch 2.6 and later"));
  EXPECT_THAT(Refusal(PythonWith("2.8.0+cpu", "None")),
              HasSubstr("--force-reinstall torch==2.8.0"));
  EXPECT_THAT(Refusal(scratch_.WriteScript("python", "echo broken >&2; exit 3")),
              HasSubstr("broken"));
}

TEST(CommandOutputs, end_in_time) {
  const auto begin = std::chrono::steady_clock::now();
  const CommandOutput output = RunCommand({"sh", "-c", "echo first; sleep 60 & sleep 60"}, 0.3);
  EXPECT_FALSE(output.in_time);
  EXPECT_EQ(output.text, "first\n");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(RunCommand({"sh", "-c", "exit 3"}, 60).exit_code, 3);
  EXPECT_EQ(LastLine("one\ntwo\n\n"), "two");
}

}  // namespace
}  // namespace prism::launch
