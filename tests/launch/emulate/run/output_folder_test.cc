#include "launch/emulate/run/output_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOurs = R"({"versions": {"prism": "0.1.0"}})";  // run.json

class OutputFolders : public ::testing::Test {
 protected:
  [[nodiscard]] std::string Path(const std::string& name) const { return root_ / name; }

  [[nodiscard]] std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  [[nodiscard]] std::string Read(const std::string& name) const {
    Result<std::string> text = ReadFile(Path(name));
    return text.ok() ? *text : text.status().message();
  }

  const ScratchFolder root_;
};

TEST_F(OutputFolders, appears_only_when_committed) {
  Result<OutputFolder> folder = OutputFolder::Create({Path("out"), false, false});
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  ASSERT_TRUE(folder->Write("logs/rank0.log", "line\n").ok());
  EXPECT_FALSE(fs::exists(Path("out")));
  ASSERT_TRUE(folder->Commit().ok());
  EXPECT_TRUE(fs::exists(Path("out/logs/rank0.log")));
  EXPECT_EQ(Names(), std::vector<std::string>{"out"});
}

// The temporary name of "out" for a process of this machine with this id.
std::string PartialOf(OutputFolder* folder, pid_t process) {
  const std::string own = fs::path(folder->TemporaryPath("")).parent_path().filename().string();
  return own.substr(0, own.rfind('.') + 1) + std::to_string(process);
}

// A process that is killed before its report removes nothing any more. A process id from another
// machine or container may belong to anything here.
TEST_F(OutputFolders, only_what_killed_runs_of_this_machine_left_is_removed) {
  const pid_t gone = fork();
  if (gone == 0) {
    _exit(0);
  }
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  Result<OutputFolder> first = OutputFolder::Create({Path("out"), false, false});
  ASSERT_TRUE(first.ok());
  fs::create_directories(Path(PartialOf(&*first, gone) + "/of_a_killed_run"));
  const std::string of_a_living_run = PartialOf(&*first, getppid());
  const std::string of_another_machine = "out.partial.elsewhere.7." + std::to_string(gone);
  fs::create_directories(Path(of_a_living_run));
  fs::create_directories(Path(of_another_machine));
  Result<OutputFolder> folder = OutputFolder::Create({Path("out"), false, false});
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  std::vector<std::string> left = {of_a_living_run, of_another_machine};
  std::sort(left.begin(), left.end());
  EXPECT_EQ(Names(), left);
  ASSERT_TRUE(folder->Write("run.json", "{}").ok());
  EXPECT_EQ(Names().size(), 3U);
}

TEST_F(OutputFolders, a_link_is_followed_and_stays) {
  fs::create_directory_symlink("there/", Path("link"));
  for (const char* const text : {"first", "second"}) {
    Result<OutputFolder> folder = OutputFolder::Create({Path("link"), false, /*force=*/true});
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    ASSERT_TRUE(folder->Write("run.json", text).ok());
    ASSERT_TRUE(folder->Commit().ok());
    EXPECT_TRUE(fs::is_symlink(Path("link")));
    EXPECT_EQ(Read("there/run.json"), text);
    EXPECT_EQ(Names().size(), 2U);
  }
  fs::create_directory_symlink("circle", Path("circle"));
  EXPECT_EQ(OutputFolder::Check({Path("circle"), false, true}).code(),
            StatusCode::kInvalidArgument);
}

// Two runs with the same folder, started before either had a result.
TEST_F(OutputFolders, result_of_another_run_is_replaced_only_by_force) {
  for (const bool force : {false, true}) {
    Result<OutputFolder> late = OutputFolder::Create({Path("out"), false, force});
    ASSERT_TRUE(late.ok());
    ASSERT_TRUE(late->Write("run.json", "late").ok());
    fs::create_directories(Path("out"));
    std::ofstream(Path("out/run.json")) << "early";
    const Status committed = late->Commit();
    EXPECT_EQ(committed.ok(), force);
    EXPECT_EQ(Read("out/run.json"), force ? "late" : "early");
    if (!force) {
      EXPECT_NE(committed.message().find(Path("out.2")), std::string::npos) << committed.message();
      EXPECT_EQ(Read("out.2/run.json"), "late");
      late->CommitFailure(committed.message());
      EXPECT_EQ(Read("out/run.json"), "early");
    }
    fs::remove_all(Path("out"));
  }
}

// The second run fails while the first one, begun before it, has its result.
TEST_F(OutputFolders, failure_leaves_the_result_of_another_run_alone) {
  Result<OutputFolder> first = OutputFolder::Create({Path("out"), false, false});
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->Write("run.json", "{}").ok());
  const pid_t second = fork();
  if (second == 0) {
    Result<OutputFolder> folder = OutputFolder::Create({Path("out"), false, false});
    if (folder.ok() && folder->Write("summary.json", "{}").ok() && first->Commit().ok()) {
      folder->CommitFailure("rank 3 was killed");
    }
    _exit(folder.ok() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(second, &status, 0), second);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(Path("out/run.json")));
  EXPECT_FALSE(fs::exists(Path("out/FAILED")));
  EXPECT_FALSE(fs::exists(Path("out/summary.json")));
}

TEST_F(OutputFolders, named_folder_that_exists_needs_force) {
  fs::create_directories(Path("out"));
  EXPECT_EQ(OutputFolder::Check({Path("out"), false, false}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(OutputFolder::Check({Path("out"), false, true}).ok());
}

TEST_F(OutputFolders, folder_that_holds_an_input_is_not_replaced) {
  fs::create_directories(Path("project"));
  std::ofstream(Path("project/train.py")) << "precious";
  const auto check = [&](const std::string& input) {
    return OutputFolder::Check({Path("project"), false, true, {Path(input)}}).code();
  };
  EXPECT_EQ(check("project/train.py"), StatusCode::kInvalidArgument);
  EXPECT_EQ(check("project/../project/train.py"), StatusCode::kInvalidArgument);
  EXPECT_EQ(check("project/config.toml"), StatusCode::kInvalidArgument);
  EXPECT_EQ(check("elsewhere/train.py"), StatusCode::kOk);
  // Files of an earlier run of ours, which the next one writes again.
  std::ofstream(Path("project/run.json")) << kOurs;
  EXPECT_EQ(check("project/config.toml"), StatusCode::kOk);
  EXPECT_EQ(check("project/graph.prism"), StatusCode::kOk);
  EXPECT_EQ(check("project/train.py"), StatusCode::kInvalidArgument);
}

TEST_F(OutputFolders, file_is_not_replaced_even_by_force) {
  std::ofstream(Path("notes.txt")) << "precious";
  for (const bool by_default : {false, true}) {
    EXPECT_EQ(OutputFolder::Check({Path("notes.txt"), by_default, true}).code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(OutputFolders, input_that_has_the_name_of_the_folder_is_not_replaced) {
  std::ofstream(Path("model.toml")) << "name = \"mine\"\n";
  const Status refused =
      OutputFolder::Check({Path("model.toml"), false, true, {Path("model.toml")}});
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.message();
}

TEST_F(OutputFolders, refusal_says_what_force_would_delete) {
  fs::create_directories(Path("thesis"));
  std::ofstream(Path("thesis/chapter1.tex")) << "text";
  const Status refused = OutputFolder::Check({Path("thesis"), false, false});
  EXPECT_NE(refused.message().find("--force would delete everything"), std::string::npos)
      << refused.message();
}

TEST_F(OutputFolders, check_tries_to_write) {
  EXPECT_TRUE(OutputFolder::Check({Path("new/out"), false, false}).ok());
  EXPECT_TRUE(Names().empty());
  std::ofstream(Path("file")) << "text";
  for (const std::string& path :
       {std::string("/proc/out"), Path(std::string(300, 'a')), Path("file/out")}) {
    const Status refused = OutputFolder::Check({path, false, false});
    EXPECT_EQ(refused.code(), StatusCode::kEnvironment) << path;
    EXPECT_TRUE(refused.message().starts_with("cannot write " + path)) << refused.message();
  }
}

TEST_F(OutputFolders, default_folder_is_replaced_only_when_it_is_ours) {
  fs::create_directories(Path("out"));
  std::ofstream(Path("out/thesis.txt")) << "precious";
  EXPECT_EQ(OutputFolder::Check({Path("out"), true, false}).code(), StatusCode::kInvalidArgument);
  std::ofstream(Path("out/FAILED")) << "of something else";
  EXPECT_EQ(OutputFolder::Check({Path("out"), true, false}).code(), StatusCode::kInvalidArgument);
  std::ofstream(Path("out/run.json")) << R"({"tool": "other"})";
  EXPECT_EQ(OutputFolder::Check({Path("out"), true, false}).code(), StatusCode::kInvalidArgument);
  std::ofstream(Path("out/run.json")) << kOurs;
  EXPECT_TRUE(OutputFolder::Check({Path("out"), true, false}).ok());
}

TEST_F(OutputFolders, failure_leaves_nothing_but_its_note) {
  Result<OutputFolder> folder = OutputFolder::Create({Path("out"), false, false});
  ASSERT_TRUE(folder.ok());
  ASSERT_TRUE(folder->Write("summary.json", "{}").ok());
  folder->CommitFailure("rank 3 was killed");
  EXPECT_TRUE(fs::exists(Path("out/FAILED")));
  EXPECT_FALSE(fs::exists(Path("out/summary.json")));
  // Trying again needs no --force.
  EXPECT_TRUE(OutputFolder::Check({Path("out"), false, false}).ok());
}

TEST_F(OutputFolders, failed_write_names_the_final_path) {
  Result<OutputFolder> folder = OutputFolder::Create({Path("out"), false, false});
  ASSERT_TRUE(folder.ok());
  ASSERT_TRUE(folder->Write("memory", "").ok());
  const Status failed = folder->Write("memory/rank0.pickle", "");
  EXPECT_EQ(failed.code(), StatusCode::kRunFailed);
  EXPECT_EQ(failed.message(), "cannot write " + Path("out/memory/rank0.pickle") +
                                  ": Not a directory; free space, or write elsewhere with --out");
}

TEST_F(OutputFolders, place_below_a_file_cannot_be_written) {
  std::ofstream(Path("file")) << "";
  EXPECT_EQ(OutputFolder::Check({Path("file/out"), false, false}).code(), StatusCode::kEnvironment);
}

}  // namespace
}  // namespace prism::launch
