// prism check on programs with faults as people report them (checked.py).
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/job_run.h"

namespace prism {
namespace {

using Json = nlohmann::json;

struct Checked {
  int code = 0;
  Json report;
};

Checked Check(const std::string& fault, const std::string& gpus = "4") {
  const std::string program = std::string(PRISM_PROGRAM_DIR) + "/checked.py";
  const Finished run = RunCommand({PRISM_PROGRAM, "check", "--gpus", gpus, "--format", "json", "--",
                                   PRISM_PYTHON, program, fault});
  // Progress comes before it, the message of a fault behind it.
  const size_t begin = std::min(run.output.find("{\n"), run.output.size());
  const size_t end = run.output.rfind("\n}");
  Checked checked = {.code = run.code,
                     .report = Json::parse(run.output.substr(begin, end + 2 - begin), nullptr,
                                           /*allow_exceptions=*/false)};
  EXPECT_FALSE(checked.report.is_discarded()) << run.output;
  return checked;
}

// The number of the line of checked.py that contains the text, in order.
int LineWith(const std::string& text, int occurrence = 1) {
  std::ifstream file(std::string(PRISM_PROGRAM_DIR) + "/checked.py");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find(text) != std::string::npos && --occurrence == 0) {
      return number;
    }
  }
  return 0;
}

void ExpectFault(const Checked& checked, const std::string& kind, const std::vector<int>& lines) {
  EXPECT_EQ(checked.code, 1);
  ASSERT_EQ(checked.report["verdict"], "fault") << checked.report.dump(1);
  const Json& fault = checked.report["faults"][0];
  EXPECT_EQ(fault["kind"], kind) << fault.dump(1);
  EXPECT_EQ(checked.report["sentence"], fault["sentence"]);
  for (const int line : lines) {
    EXPECT_TRUE(
        std::ranges::any_of(fault["calls"], [&](const Json& call) { return call["line"] == line; }))
        << "line " << line << " in " << fault.dump(1);
  }
}

TEST(CheckedPrograms, right_ones_have_no_fault) {
  for (const char* right : {"none", "one"}) {
    const Checked checked = Check(right);
    EXPECT_EQ(checked.code, 0) << checked.report.dump(1);
    EXPECT_EQ(checked.report["verdict"], "ok");
    EXPECT_TRUE(checked.report["warnings"].empty()) << checked.report.dump(1);
    EXPECT_EQ(checked.report["sentence"], "no fault on 4 of 4 ranks");
    EXPECT_EQ(checked.report["checked_until"], "exit");
    EXPECT_TRUE(checked.report["assumed"].empty());
  }
}

TEST(CheckedPrograms, a_handle_that_is_never_waited_for_is_a_warning) {
  const Checked checked = Check("dropped");
  EXPECT_EQ(checked.code, 0) << checked.report.dump(1);
  ASSERT_EQ(checked.report["warnings"].size(), 1U) << checked.report.dump(1);
  const std::string warning = checked.report["warnings"][0].get<std::string>();
  EXPECT_NE(warning.find("all_reduce of 24 float32"), std::string::npos) << warning;
}

TEST(CheckedPrograms, a_save_of_one_rank_alone_ends_in_a_rank_that_has_left) {
  const Checked checked = Check("checkpoint");
  ExpectFault(checked, "left_early", {LineWith("dist.barrier()"), LineWith("dist.barrier()", 3)});
  EXPECT_EQ(checked.report["faults"][0]["waiting"], Json::array({0}));
}

TEST(CheckedPrograms, groups_that_only_members_make_differ) {
  ExpectFault(Check("own_group"), "group", {LineWith("group = dist.new_group([first")});
}

TEST(CheckedPrograms, two_groups_in_another_order_are_a_circle) {
  const Checked checked = Check("order");
  ExpectFault(checked, "cycle", {LineWith("dist.all_reduce(value")});
  EXPECT_EQ(checked.report["faults"][0]["waiting"].size(), 4U);
}

TEST(CheckedPrograms, another_size_is_named) {
  ExpectFault(Check("twice"), "size", {LineWith("dist.all_reduce(value")});
}

// No power of two away from the first or last rank.
TEST(CheckedPrograms, a_rank_that_the_source_singles_out_is_recorded) {
  const Checked checked = Check("computed", "80");
  ExpectFault(checked, "size", {LineWith("dist.all_reduce(value")});
  EXPECT_EQ(checked.report["faults"][0]["ranks"], Json::array({69}));
  const auto behind = std::ranges::find_if(
      checked.report["assumed"], [](const Json& each) { return each["ranks"].front() == 70; });
  ASSERT_NE(behind, checked.report["assumed"].end());
  EXPECT_LT((*behind)["like"], 69);
}

TEST(CheckedPrograms, ranks_with_fewer_batches_leave) {
  const Checked checked = Check("uneven");
  EXPECT_EQ(checked.code, 1);
  ASSERT_EQ(checked.report["verdict"], "fault");
  EXPECT_FALSE(checked.report["faults"][0]["waiting"].empty());
}

TEST(CheckedPrograms, a_save_longer_than_the_time_out_says_both) {
  const Checked checked = Check("save");
  ExpectFault(checked, "timeout", {LineWith("dist.barrier()")});
  const std::string sentence = checked.report["sentence"];
  EXPECT_NE(sentence.find("660 s"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("600 s"), std::string::npos) << sentence;
}

TEST(CheckedPrograms, a_start_later_than_the_store_waits_says_both) {
  const Checked checked = Check("late");
  ExpectFault(checked, "timeout", {LineWith("dist.all_reduce(value")});
  const std::string sentence = checked.report["sentence"];
  EXPECT_NE(sentence.find("660 s in the creation of the communicator"), std::string::npos)
      << sentence;
  EXPECT_NE(sentence.find("600 s"), std::string::npos) << sentence;
}

TEST(CheckedPrograms, collectives_of_cpu_groups_are_compared) {
  const Checked alone = Check("alone");
  ExpectFault(
      alone, "missing_call",
      {LineWith("dist.barrier(group=of_hosts)"), LineWith("dist.all_reduce(torch.ones(4)")});
  EXPECT_EQ(alone.report["faults"][0]["ranks"], Json::array({0}));
  EXPECT_EQ(alone.report["faults"][0]["calls"][0]["group"], "the CPU group of ranks 0-3");
  const Checked roots = Check("roots");
  ExpectFault(roots, "root", {LineWith("dist.broadcast_object_list(")});
  EXPECT_EQ(roots.report["faults"][0]["ranks"], Json::array({1}));
}

TEST(CheckedPrograms, sizes_and_messages_of_cpu_groups_are_compared) {
  ExpectFault(Check("sizes"), "size", {LineWith("dist.all_reduce(torch.ones(64")});
  const Checked right = Check("messages");
  EXPECT_EQ(right.code, 0) << right.report.dump(1);
  EXPECT_EQ(right.report["verdict"], "ok");
  const Checked anybody = Check("anybody");
  EXPECT_EQ(anybody.code, 0) << anybody.report.dump(1);
  EXPECT_NE(anybody.report["assumptions"].dump().find("from anybody"), std::string::npos)
      << anybody.report.dump(1);
  const Checked received = Check("received");
  ExpectFault(received, "missing_call", {LineWith("dist.send(torch.ones(8), 1,")});
}

TEST(CheckedPrograms, a_key_that_is_set_behind_its_readers_or_too_late_is_named) {
  const Checked behind = Check("behind");
  ExpectFault(behind, "cycle", {LineWith("dist.all_reduce(value"), LineWith("store.wait([\"go")});
  const Checked late = Check("set_late");
  ExpectFault(late, "timeout", {LineWith("store.set(\"go"), LineWith("store.wait([\"go")});
  const std::string sentence = late.report["sentence"];
  EXPECT_NE(sentence.find("the store's time-out of 300 s"), std::string::npos) << sentence;
}

TEST(CheckedPrograms, cpu_groups_have_a_time_out_of_their_own) {
  const Checked checked = Check("cpu");
  ExpectFault(checked, "timeout", {LineWith("dist.all_reduce(torch.ones(4)")});
  const std::string sentence = checked.report["sentence"];
  EXPECT_NE(sentence.find("80 s in all_reduce"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("60 s"), std::string::npos) << sentence;
}

TEST(CheckedPrograms, ranks_that_read_what_others_set_are_right) {
  const Checked checked = Check("keys");
  EXPECT_EQ(checked.code, 0) << checked.report.dump(1);
  EXPECT_EQ(checked.report["sentence"], "no fault on 4 of 4 ranks");
}

TEST(CheckedPrograms, a_key_that_nobody_sets_is_named) {
  const Checked checked = Check("counter");
  ExpectFault(checked, "missing_call", {LineWith("store.wait([\"all here")});
  EXPECT_EQ(checked.report["faults"][0]["waiting"], Json::array({0, 1, 2}));
}

TEST(CheckedPrograms, a_key_that_is_polled_is_waited_for) {
  const Checked polled = Check("polled");
  EXPECT_EQ(polled.code, 0) << polled.report.dump(1);
  const Checked never = Check("never");
  ExpectFault(never, "missing_call", {LineWith("while not store.check")});
  EXPECT_EQ(never.report["faults"][0]["waiting"], Json::array({0, 1, 2, 3}));
}

TEST(CheckedPrograms, waits_for_a_key_that_nobody_sets_may_be_meant_to_time_out) {
  const Checked checked = Check("optional");
  EXPECT_EQ(checked.code, 0) << checked.report.dump(1);
  EXPECT_EQ(checked.report["sentence"], "no fault on 4 of 4 ranks");
}

TEST(CheckedPrograms, collectives_of_another_thread_are_compared) {
  const Checked right = Check("thread");
  EXPECT_EQ(right.code, 0) << right.report.dump(1);
  EXPECT_TRUE(right.report["assumptions"].empty()) << right.report.dump(1);
  const Checked fewer = Check("fewer");
  ExpectFault(fewer, "left_early", {LineWith("dist.all_reduce(torch.ones(12)")});
  EXPECT_EQ(fewer.report["faults"][0]["waiting"], Json::array({0, 1, 3}));
  ExpectFault(Check("crossed"), "cycle",
              {LineWith("dist.all_reduce(torch.ones(12)"), LineWith("dist.all_reduce(value")});
}

TEST(CheckedPrograms, ranks_on_one_gpu_are_warned_of) {
  const Checked checked = Check("gpu");
  EXPECT_EQ(checked.code, 0) << checked.report.dump(1);
  ASSERT_EQ(checked.report["warnings"].size(), 1U) << checked.report.dump(1);
  const std::string warning = checked.report["warnings"][0];
  EXPECT_TRUE(warning.starts_with("ranks 0-3 use device 0")) << warning;
}

TEST(CheckedPrograms, buffers_that_overlap_are_named) {
  ExpectFault(Check("overlap"), "overlap", {LineWith("8 * rank + 12")});
}

TEST(CheckedPrograms, a_rank_that_fails_alone_at_the_very_end_is_named) {
  const Checked checked = Check("teardown");
  ExpectFault(checked, "left_early", {LineWith("dist.all_reduce(value")});
  EXPECT_EQ(checked.report["faults"][0]["ranks"], Json::array({3}));
  const std::string sentence = checked.report["sentence"];
  EXPECT_NE(sentence.find("cannot write the log"), std::string::npos) << sentence;
}

TEST(CheckedPrograms, a_rank_that_the_source_gives_more_work_counts_in_the_time_of_a_run) {
  for (const auto& [by, rank] : {std::pair{"table", "rank 5"}, std::pair{"local", "rank 6"}}) {
    const ScratchFolder scratch;
    const Finished run = RunCommand({PRISM_EMULATE, "--target-gpus", "16", "--sandbox-ranks",
                                     "none", "--out", scratch / "run", "--", PRISM_PYTHON,
                                     std::string(PRISM_PROGRAM_DIR) + "/uneven_work.py", by});
    ASSERT_EQ(run.code, 0) << run.output;
    EXPECT_NE(run.output.find(std::string(rank) + " computes"), std::string::npos) << run.output;
    EXPECT_NE(run.output.find("a straggler"), std::string::npos) << run.output;
  }
}

// A run of the program at 4 ranks with these options.
struct RunOf {
  ScratchFolder scratch;
  std::string out = scratch.path() + "/run";
  Finished finished;

  explicit RunOf(const std::string& fault, const std::vector<std::string>& options = {}) {
    const std::string program = std::string(PRISM_PROGRAM_DIR) + "/checked.py";
    std::vector<std::string> command = {PRISM_EMULATE, "--target-gpus", "4", "--sandbox-ranks",
                                        "none",        "--out",         out};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"--", PRISM_PYTHON, program, fault});
    finished = RunCommand(command);
  }

  [[nodiscard]] Json Summary() const { return Json::parse(ReadText(out + "/summary.json")); }
};

TEST(CheckedPrograms, a_run_says_what_the_check_says_and_no_time) {
  for (const std::string fault : {"checkpoint", "own_group", "order", "twice", "uneven", "save"}) {
    const RunOf run(fault, {"--check-seconds", "20"});
    EXPECT_EQ(run.finished.code, 1) << run.finished.output;
    EXPECT_NE(run.finished.output.find("the program has a fault: "), std::string::npos)
        << fault << ": " << run.finished.output;
    EXPECT_NE(run.finished.output.find("checked.py:"), std::string::npos) << run.finished.output;
    EXPECT_EQ(Entries(run.out), std::vector<std::string>{"FAILED"});
  }
}

TEST(CheckedPrograms, a_run_goes_on_where_it_is_to_adopt_or_not_to_check) {
  const RunOf warned("checkpoint", {"--on-mismatch", "adopt", "--check-seconds", "20"});
  EXPECT_EQ(warned.finished.code, 0) << warned.finished.output;
  EXPECT_NE(warned.finished.output.find("left_early"), std::string::npos);
  EXPECT_EQ(warned.Summary()["checked"], "fault");
  const RunOf unchecked("checkpoint", {"--no-check"});
  EXPECT_EQ(unchecked.finished.code, 0) << unchecked.finished.output;
  EXPECT_EQ(unchecked.Summary()["checked"], "off");
}

TEST(CheckedPrograms, the_check_changes_nothing_of_a_run_but_what_it_says_of_itself) {
  const RunOf checked("none", {"--record-ranks", "all"});
  const RunOf unchecked("none", {"--record-ranks", "all", "--no-check"});
  ASSERT_EQ(checked.finished.code, 0) << checked.finished.output;
  ASSERT_EQ(unchecked.finished.code, 0) << unchecked.finished.output;
  Json summary = checked.Summary();
  EXPECT_EQ(summary["checked"], "ok");
  Json other = unchecked.Summary();
  for (Json* const one : {&summary, &other}) {
    one->erase("checked");
    (*one)["graph"].erase("bytes");
  }
  EXPECT_EQ(summary, other);
  const std::string ranks = ReadText(checked.out + "/ranks.csv");
  EXPECT_EQ(ranks, ReadText(unchecked.out + "/ranks.csv"));
  EXPECT_EQ(ranks.find(",role\n"), std::string::npos) << ranks;  // all were recorded
  EXPECT_EQ(Json::parse(ReadText(checked.out + "/run.json"))["check"]["ranks"], 4);
}

}  // namespace
}  // namespace prism
