// Unmodified users' programs through recording, graph, replay and emulation, and every way in which
// one can misbehave.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/programs/user_program.h"

namespace prism {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The program's own clock shows the time of the target: every step of the emulation is as long as
// an iteration.
TEST_F(UserProgram, its_log_shows_the_time_of_the_target) {
  const Finished run = Train("plain");
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("ranks form dp 2"), HasSubstr("Optimizer.step#AdamW"),
                                HasSubstr("host time of the preset ddp, since it has ranges ")));
  const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  EXPECT_EQ(summary["job"]["dp"], 2);
  EXPECT_TRUE(summary["mfu"].is_null());
  const auto record = nlohmann::json::parse(ReadText(folder_ / "out/run.json"));
  EXPECT_TRUE(record["versions"]["torch"].is_string()) << record["versions"];
  const double iteration = summary["iteration_time_s"].get<double>();
  const std::string log = Log();
  const size_t last = log.rfind(" took ");
  ASSERT_NE(last, std::string::npos) << log;
  EXPECT_NEAR(std::stod(log.substr(last + 6)), iteration, 1e-6) << log;
  ExpectNothingLeft();
}

// Threads of the framework (autograd, c10d's watchdog) and sets ordered by address have no effect.
TEST_F(UserProgram, gives_the_same_bytes_again) {
  std::vector<std::string> files;
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(Train("plain", {"--force"}).code, 0);
    for (const char* name : {"graph.prism", "summary.json", "ranks.csv"}) {
      files.push_back(ReadText(folder_ / (std::string("out/") + name)));
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(files[i].empty());
    EXPECT_TRUE(files[i] == files[i + 3]) << i;
  }
}

// On any machine, Python takes longer for an op than the preset's C++ host, if multiplied by a
// large factor.
TEST_F(UserProgram, host_time_may_be_measured) {
  ASSERT_EQ(Train("plain", {"--host-time", "fixed"}).code, 0);
  const auto time = [&] {
    return nlohmann::json::parse(ReadText(folder_ / "out/summary.json"))["iteration_time_s"]
        .get<double>();
  };
  const double fixed = time();
  const Finished run = Train("plain", {"--force", "--host-time", "measured:100"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("host time as measured: "));
  EXPECT_GT(time(), 2 * fixed);
}

TEST_F(UserProgram, sleep_is_host_time_of_the_rank) {
  const Finished run = Train("sleep");
  ASSERT_EQ(run.code, 0) << run.output;
  const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  EXPECT_GE(summary["iteration_time_s"].get<double>(), 0.5);
  EXPECT_LE(summary["iteration_time_s"].get<double>(), 0.6);
}

// While it is recorded nothing takes time and everything that it polls is complete.
TEST_F(UserProgram, waits_for_events_as_time_asks_for) {
  const Finished run = Train("bounded");
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("host_waits_beyond_graph"));
  ExpectNothingLeft();
}

TEST_F(UserProgram, what_it_waited_for_is_over) {
  const Finished run = Train("late");
  ASSERT_EQ(run.code, 0) << run.output;
}

TEST_F(UserProgram, asking_until_a_stream_is_done_takes_as_long_as_waiting_for_it) {
  std::vector<double> times;
  for (const char* how : {"asks", "waits", "plain"}) {
    const Finished run = Train(how, {"--force"});
    ASSERT_EQ(run.code, 0) << run.output;
    const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
    times.push_back(summary["iteration_time_s"].get<double>());
  }
  EXPECT_EQ(times[0], times[1]);
  EXPECT_GT(times[0], times[2]);
}

// Five iterations; what comes before them takes no time.
TEST_F(UserProgram, times_of_steps_long_ago_stay_known) {
  const Finished run = Train("times", {"--iterations", "5"});
  ASSERT_EQ(run.code, 0) << run.output;
  const std::string log = Log();
  std::istringstream line(log.substr(log.rfind("times ") + 6));
  std::vector<double> times;
  for (double time = 0; line >> time;) {
    times.push_back(time);
  }
  ASSERT_GE(times.size(), 5U) << log;
  EXPECT_GT(times.back(), 0);
  for (size_t i = times.size() - 5; i < times.size(); ++i) {
    EXPECT_EQ(times[i], times.back()) << log;
  }
}

TEST_F(UserProgram, crash_is_named_with_its_last_lines) {
  const Finished run = Train("crash", {"--quiet"});
  ExpectFailure(run, "RuntimeError: planted");
  EXPECT_EQ(std::ranges::count(run.output, '\n'), 5) << run.output;
  EXPECT_THAT(run.output, Not(HasSubstr("Traceback")));
  EXPECT_THAT(ReadText(folder_ / "out/FAILED"), HasSubstr("Traceback (most recent call last)"));
}

// The GPU that this process was given is not one of the program's.
TEST_F(UserProgram, memory_of_peers_is_refused_by_name) {
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  const Finished run = RunScript("symmetric_memory.py", {"--target-gpus", "4"});
  unsetenv("CUDA_VISIBLE_DEVICES");
  ExpectFailure(run,
                "prism shim: cuMemExportToShareableHandle is not supported by the virtual "
                "device\n");
  EXPECT_THAT(run.output, HasSubstr("RuntimeError: CUDA driver error: operation not supported\n"));
  const std::string failed = ReadText(folder_ / "out/FAILED");
  EXPECT_THAT(failed, HasSubstr("devices 4 70726973-6d2d-6465-7669-63652d000001\n"));
  EXPECT_THAT(failed, HasSubstr("by NVML 4 GPU-70726973-6d2d-6465-7669-63652d000001\n"));
  EXPECT_THAT(failed, HasSubstr("allocated 1024\n"));
}

TEST_F(UserProgram, exit_without_handlers_is_named_with_its_code) {
  ExpectFailure(Train("leave"), "ended with exit code 3");
}

TEST_F(UserProgram, hang_is_named_with_what_it_waits_in) {
  const Finished run = Train("hang", {"--stall-timeout", "8"});
  ExpectFailure(run, "has issued nothing for 8 s");
  EXPECT_FALSE(run.output.ends_with("\n\n")) << run.output;
}

TEST_F(UserProgram, loads_data_in_workers) {
  const Finished run = Train("workers");
  EXPECT_EQ(run.code, 0) << run.output;
  ExpectNothingLeft();
}

// Each batch takes a tenth of a second to load, and a step next to nothing.
TEST_F(UserProgram, waits_for_batches_until_workers_have_made_them) {
  setenv("LOADS", "100", 1);
  struct Case {
    const char* kind;
    const char* workers;
    double seconds;
  };
  for (const Case& loads : {Case{"map", "0", 0.1}, Case{"map", "1", 0.1}, Case{"pinned", "2", 0.05},
                            Case{"persistent", "4", 0.025}, Case{"stream", "2", 0.05}}) {
    const Finished run =
        RunCommand({PRISM_EMULATE, "--target-gpus", "1", "--force", "--out", folder_ / "out", "--",
                    PRISM_PYTHON, PRISM_PROGRAM_DIR "/loading.py", loads.kind, loads.workers});
    ASSERT_EQ(run.code, 0) << run.output;
    const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
    EXPECT_NEAR(summary["iteration_time_s"].get<double>(), loads.seconds, loads.seconds / 50)
        << loads.kind << " " << loads.workers;
  }
  unsetenv("LOADS");
}

TEST_F(UserProgram, what_has_a_session_of_its_own_ends_with_the_run) {
  const Finished run = Train("daemon");
  ASSERT_EQ(run.code, 0) << run.output;
  ExpectNothingLeft();
}

TEST_F(UserProgram, shows_where_it_is_when_asked) {
  RunningCommand running({PRISM_EMULATE, "--target-gpus", "2", "--out", folder_ / "out", "--",
                          PRISM_PYTHON, PRISM_PROGRAM_DIR "/training.py", "hang"},
                         folder_ / "log");
  ASSERT_TRUE(running.WaitForOutput(": slice ", 60)) << running.Output();
  int asked = 0;
  do {
    kill(running.pid(), SIGUSR1);
  } while (++asked < 100 && !running.WaitForOutput("in misbehave\n", 1));
  kill(running.pid(), SIGTERM);
  const Finished run = running.Wait(60);
  EXPECT_EQ(run.code, 128 + SIGTERM);
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("rank 0 is being recorded\n"), HasSubstr("in misbehave\n")));
}

// None of its own handlers runs then.
TEST_F(UserProgram, what_has_a_session_of_its_own_ends_with_a_killed_run) {
  RunningCommand running({PRISM_EMULATE, "--target-gpus", "2", "--out", folder_ / "out", "--",
                          PRISM_PYTHON, PRISM_PROGRAM_DIR "/training.py", "leaves"},
                         folder_ / "log");
  const auto sleeps = [](pid_t process) { return ProcessName(process) == "sleep"; };
  for (int look = 0; look < 2'000 && !std::ranges::any_of(Descendants(), sleeps); ++look) {
    usleep(50'000);
  }
  ASSERT_TRUE(std::ranges::any_of(Descendants(), sleeps)) << running.Output();
  kill(running.pid(), SIGKILL);
  EXPECT_EQ(running.Wait(60).code, 128 + SIGKILL);
  for (int look = 0; look < 400 && !Descendants().empty(); ++look) {
    usleep(50'000);
  }
  EXPECT_TRUE(Descendants().empty());
}

TEST_F(UserProgram, forks_writes_in_bursts_and_loses_no_line) {
  const Finished run = Train("burst");
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(Log(), HasSubstr("the child was here"));
  ExpectNothingLeft();
  EXPECT_THAT(Log(), HasSubstr("line 19999\n"));
}

// Like the two networks of a GAN: every second step differs.
TEST_F(UserProgram, steps_that_take_turns_make_one_iteration) {
  const Finished run = Train("turns", {"--iterations", "2"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("iterations begin with one in 2 of the ranges \"Optimizer."));
  EXPECT_THAT(Log(), HasSubstr("step 5 took"));
}

// DiLoCo: an outer step in every fourth.
TEST_F(UserProgram, an_outer_step_that_recurs_makes_one_iteration_with_its_inner_ones) {
  const Finished outer = RunScript("outer_steps.py", {"--target-gpus", "2"});
  ASSERT_EQ(outer.code, 0) << outer.output;
  EXPECT_THAT(outer.output, HasSubstr("iterations begin with one in 4 of the ranges \"Optimizer."));
  EXPECT_THAT(outer.output, Not(HasSubstr("odd_iteration")));
}

// The graph is that of the plain program; the edited one has one product more. A real rank
// enqueues: where no stream waits for both groups, the order does not matter.
TEST_F(UserProgram, may_use_groups_in_different_order_where_no_stream_waits_for_both) {
  const auto run = [&](const std::string& how, const std::string& option) {
    return RunCommand({PRISM_EMULATE, "--target-gpus", "2", "--sandbox-ranks", "0,1", option,
                       "--force", "--out", folder_ / "out", "--", PRISM_PYTHON,
                       PRISM_PROGRAM_DIR "/crossed_groups.py", how});
  };
  const Finished checked = run("wait", "--quiet");
  EXPECT_EQ(checked.code, 1) << checked.output;
  EXPECT_THAT(checked.output, HasSubstr("ranks wait for each other in a circle: rank 0 waits in "
                                        "all_reduce of 4 float32 (crossed_groups.py:"));
  const Finished waits = run("wait", "--no-check");
  EXPECT_EQ(waits.code, 1) << waits.output;
  EXPECT_THAT(waits.output, HasSubstr("the graph is not valid"));
  EXPECT_THAT(waits.output, HasSubstr("all_reduce (sum) of 16 bytes float32"));
  const Finished enqueues = run("enqueue", "--quiet");
  ASSERT_EQ(enqueues.code, 0) << enqueues.output;
  EXPECT_THAT(Log(0), HasSubstr("2 step: 3.0 30.0, received 2.0"));
  EXPECT_THAT(Log(1), HasSubstr("2 step: 3.0 30.0, received 1.0"));
}

TEST_F(UserProgram, departure_is_adopted_for_the_role) {
  ASSERT_EQ(Train("plain", {"--memory-snapshot", "all"}).code, 0);
  const std::string graph = folder_ / "plain.prism";
  std::filesystem::rename(folder_ / "out/graph.prism", graph);
  const std::string snapshot = folder_ / "out/memory/rank0.pickle";
  const Finished read = RunCommand({PRISM_PYTHON, PRISM_PROGRAM_DIR "/read_snapshot.py", snapshot,
                                    folder_ / "out/summary.json"});
  EXPECT_EQ(read.code, 0) << read.output;
  const auto edited = [&](const std::string& choice) {
    return RunCommand({PRISM_EMULATE, "--graph", graph, "--out", folder_ / "out", "--force",
                       "--sandbox-ranks", "0", "--on-mismatch", choice, "--", PRISM_PYTHON,
                       PRISM_PROGRAM_DIR "/training.py", "edited"});
  };
  const Finished adopted = edited("adopt");
  ASSERT_EQ(adopted.code, 0) << adopted.output;
  EXPECT_THAT(adopted.output, HasSubstr("rank 0 departs from the graph in iteration 0"));
  EXPECT_THAT(ReadText(folder_ / "out/summary.json"), HasSubstr("now do what rank 0 did"));
  const Finished aborted = edited("abort");
  EXPECT_EQ(aborted.code, 1) << aborted.output;
  // Both sides, where it is, and who waits.
  EXPECT_THAT(aborted.output,
              AllOf(HasSubstr("it does:  kernel "), HasSubstr("(aten::mul ["),
                    HasSubstr("    had then got to \""), HasSubstr("graph:    rank 0 op "),
                    HasSubstr("waits in all_reduce number 0 of default_pg")));
  ExpectNothingLeft();
}

// One rank joins a collective that no other one calls. Its time continues until c10d's watchdog
// ends it, as on a cluster, and writes its flight recorder's dump, which torch's own tool compares
// with those of the virtual peers.
TEST_F(UserProgram, hang_is_found_by_the_frameworks_own_watchdog) {
  ASSERT_EQ(Train("plain").code, 0);
  const std::string graph = folder_ / "plain.prism";
  std::filesystem::rename(folder_ / "out/graph.prism", graph);
  const Finished run = RunCommand(
      {"env", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=2500", "TORCH_FR_BUFFER_SIZE=2000",
       "TORCH_NCCL_DUMP_ON_TIMEOUT=1", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=" + (folder_ / "dump_"),
       PRISM_EMULATE, "--graph", graph, "--out", folder_ / "out", "--force", "--sandbox-ranks", "0",
       "--on-mismatch", "hang", "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/training.py", "extra"});
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("rank 0 departs from the graph"),
                                HasSubstr("no faster than on a clock, until their own watchdogs"),
                                HasSubstr("Watchdog caught collective operation timeout"),
                                HasSubstr("OpType=ALLREDUCE")));
  ExpectNothingLeft();
  const Finished flight =
      RunCommand({PRISM_PROGRAM, "flight", graph, folder_ / "dump_0", "-o", folder_ / "dumps"});
  EXPECT_THAT(
      flight.output,
      AllOf(HasSubstr("then it did      nccl:all_reduce of [4096, 4096] Float"),
            HasSubstr("training.py:"), HasSubstr("all_reduce (sum) of 132352 bytes float32")));
  const Finished trace = RunCommand(
      {PRISM_PYTHON, "-m", "torch.distributed.flight_recorder.fr_trace", folder_ / "dumps"});
  EXPECT_THAT(trace.output, HasSubstr("Expected input sizes: '[[4096, 4096]]' does not match found "
                                      "input sizes: '[[33088]]'"));
}

// It departs and exits: nothing is left for a watchdog to end.
TEST_F(UserProgram, hang_ends_where_nobody_is_left) {
  ASSERT_EQ(Train("plain").code, 0);
  const std::string graph = folder_ / "plain.prism";
  std::filesystem::rename(folder_ / "out/graph.prism", graph);
  const Finished run = RunCommand({PRISM_EMULATE, "--graph", graph, "--out", folder_ / "out",
                                   "--force", "--sandbox-ranks", "0", "--on-mismatch", "hang", "--",
                                   PRISM_PYTHON, PRISM_PROGRAM_DIR "/training.py", "gone"});
  ExpectFailure(run, "rank 0 departs from the graph");
}

// Every bug is found while the graph is built, before any time is reported. Wrong groups in one
// stage still make a job that runs: it does, and the report says what is odd about it.
TEST_F(UserProgram, planted_bugs_are_found_by_the_report) {
  const auto report = [&](const std::string& bug, const std::string& gpus, int code) {
    const Finished run = RunCommand({PRISM_EMULATE, "--target-gpus", gpus, "--out", folder_ / "out",
                                     "--force", "--no-check", "--sandbox-ranks", "3", "--",
                                     PRISM_PYTHON, PRISM_PROGRAM_DIR "/planted_bugs.py", bug});
    EXPECT_EQ(run.code, code) << run.output;
    return run.output;
  };
  EXPECT_THAT(report("skip", "8", 1),
              AllOf(HasSubstr("collective_mismatch: collective 0 of communicator"),
                    HasSubstr("rank 0 at \""), HasSubstr(" in sum_gradients\n"),
                    HasSubstr("rank 3 at \""), HasSubstr(" in sum_losses\n")));
  EXPECT_THAT(report("shape", "8", 1),
              AllOf(HasSubstr("all_reduce (sum) of 32 bytes"), HasSubstr("rank 3 op "),
                    HasSubstr("all_reduce (sum) of 36 bytes"), HasSubstr(" in sum_losses\n")));
  EXPECT_THAT(report("group", "128", 0),
              HasSubstr("odd_group: 2 × all_reduce, 16.03 KiB in all: stage 1 (rank 64) over "
                        "the 32 ranks 64 to 95, but stage 0 (rank 0) over the 64 ranks 0 to 63"));
  EXPECT_THAT(report("order", "8", 1),
              AllOf(HasSubstr("stall: "), HasSubstr("communicator dp #1 of ranks 0-3"),
                    HasSubstr("communicator dp #2 of ranks 0-3")));
  EXPECT_THAT(report("twins", "8", 1),
              HasSubstr("collective_missing: collective 1 of communicator dp "));
  EXPECT_THAT(report("early", "8", 0),
              HasSubstr("1 × early_mismatch: before its first iteration rank 0 makes 3 calls of "
                        "all_reduce on a group of 4 ranks, rank 1 2; the program hangs, unless"));
  ExpectNothingLeft();
}

// A hook with more buckets than torch has streams in a pool does not make iterations differ. No
// range says which pass a block belongs to.
TEST_F(UserProgram, has_a_hook_of_many_buckets_and_its_memory_told_by_what_it_is_for) {
  const Finished run = RunScript("hooks.py", {"--target-gpus", "2"});
  ASSERT_EQ(run.code, 0) << run.output;
  const Finished mem = RunCommand({PRISM_PROGRAM, "mem", folder_ / "out", "--format", "json"});
  ASSERT_EQ(mem.code, 0) << mem.output;
  std::map<std::string, int64_t> bytes;
  const auto profile = nlohmann::json::parse(mem.output);
  for (const auto& part : profile["at_peak"]) {
    bytes[part["name"]] = part["bytes"];
  }
  constexpr int64_t kLayer = 64 * 64 * 4;
  EXPECT_GE(bytes["parameters"], 40 * kLayer);
  EXPECT_GE(bytes["gradients"], 30 * kLayer);
  EXPECT_GT(bytes["activations"], 0);
}

// Sums of gradients, which belong to no autograd node, do not end the pass.
TEST_F(UserProgram, steps_in_hooks_of_a_backward_pass_on_its_own_thread) {
  const Finished run = RunScript("steps_in_hooks.py", {"--target-gpus", "1"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("iterations begin with the range \"Optimizer.step#SGD.step\" "
                                    "inside a backward pass"));
}

// Sizes and numbers of calls follow from what other ranks contribute.
TEST_F(UserProgram, gathers_objects_of_unequal_sizes) {
  const Finished run = RunScript("unequal_objects.py", {"--target-gpus", "16"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("info: no fault on 4 of 16 ranks until exit"));
}

// What absent ranks would save, or under which names, is not known.
TEST_F(UserProgram, saves_its_shards_and_loads_them) {
  const Finished run =
      RunCommand({PRISM_EMULATE, "--out", folder_ / "out", "--target-gpus", "8", "--", PRISM_PYTHON,
                  PRISM_PROGRAM_DIR "/checkpoints.py", folder_ / "saved"});
  ASSERT_EQ(run.code, 0) << run.output;
  const std::string summary = ReadText(folder_ / "out/summary.json");
  EXPECT_THAT(summary, HasSubstr("gathered_objects_repeated"));
  EXPECT_THAT(summary, HasSubstr("checkpoint_of_absent_ranks"));
  EXPECT_THAT(Log(), HasSubstr("saved as rank 0"));
}

TEST_F(UserProgram, is_told_that_it_has_no_such_groups_and_never_communicates) {
  const Finished run = RunScript("alone.py", {"--target-gpus", "4", "--tp", "2"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("--tp is 2, but the program's groups make tp 1"),
                    HasSubstr("iterations looked at: its 4 ranks are as many independent jobs")));
  EXPECT_THAT(Log(), HasSubstr("NVIDIA H100 80GB HBM3, 81090 MiB\nchild got 0\n"));
}

// An optimizer on the CPU, and code traced with symbolic sizes, are both reported, and nothing else
// is.
TEST_F(UserProgram, is_told_that_its_optimizer_runs_on_the_cpu) {
  const Finished run = RunScript("cpu_optimizer.py", {"--target-gpus", "2"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(Log(), Not(HasSubstr("RecordFunction")));
  const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  std::map<std::string, std::string> examples;
  for (const auto& warning : summary["warnings"]) {
    examples[warning["code"]] = warning["example"];
  }
  EXPECT_THAT(examples["optimizer_on_cpu"], HasSubstr("rank 0: aten::"));
  EXPECT_EQ(examples["results_assumed_true"], "rank 0: aten::all");
  EXPECT_EQ(examples.count("op_not_described"), 0U);
}

// One in C++, with the runtime inside and ranges of NVTX.
TEST_F(UserProgram, needs_no_framework) {
  std::map<std::string, double> times;
  for (const char* precision : {"fp32", "tf32"}) {
    const Finished run =
        RunCommand({PRISM_EMULATE, "--target-gpus", "16", "--out", folder_ / "out", "--force", "--",
                    PRISM_RAW_PROGRAM, folder_ / "id", precision});
    ASSERT_EQ(run.code, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr("iterations begin with the range \"iteration\""));
    const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
    EXPECT_TRUE(summary["warnings"].empty()) << summary["warnings"];
    EXPECT_EQ(summary["peak_memory"]["reserved_bytes"], 0);
    EXPECT_GE(summary["peak_memory"]["device_bytes"], 2 * (int64_t{64} << 20));
    times[precision] = summary["iteration_time_s"];
  }
  // Of 137 GFLOP on an H100, at 67 and 495 TFLOP/s at most, and a sum of 64 MiB over two nodes.
  EXPECT_GT(times["fp32"], 2.05e-3);
  EXPECT_GT(times["tf32"], 0.28e-3);
  EXPECT_LT(times["tf32"], times["fp32"] / 2);
}

// MPI would start each rank alone; a job of one rank is.
TEST_F(UserProgram, that_starts_by_mpi_is_refused_unless_alone) {
  if (std::string(PRISM_MPI_PROGRAM).empty()) {
    GTEST_SKIP() << "no MPI";
  }
  const auto run = [&](const char* gpus) {
    return RunCommand({PRISM_EMULATE, "--target-gpus", gpus, "--out", folder_ / "out", "--force",
                       "--", PRISM_MPI_PROGRAM});
  };
  ExpectFailure(run("4"), "prism shim: MPI among a program's ranks (take RANK, ");
  EXPECT_EQ(run("1").code, 1);
  EXPECT_THAT(ReadText(folder_ / "out/FAILED"), HasSubstr("rank 0 of 1\n"));
}

// 64 tokens choose 2 of 8 experts each.
TEST_F(UserProgram, routes_to_experts_by_rule) {
  const Finished uniform = RunScript("experts.py", {"--target-gpus", "4", "--sandbox-ranks", "2"});
  ASSERT_EQ(uniform.code, 0) << uniform.output;
  EXPECT_THAT(Log(2), HasSubstr("step 2 experts [16, 16, 16, 16, 16, 16, 16, 16] order 128 sent "
                                "[32, 32, 32, 32] received [32, 32, 32, 32]\n"));
  EXPECT_THAT(Log(2), HasSubstr("first [8, 8, 8, 8, 8, 8, 8, 8] [8, 8, 8, 8, 8, 8, 8, 8]\n"));
  EXPECT_THAT(Log(2), HasSubstr("counted [16, 16, 16, 16, 16, 16, 16, 16]\n"));
  const Finished zipf = RunScript("experts.py", {"--target-gpus", "4", "--sandbox-ranks", "2",
                                                 "--routing", "zipf:1", "--force"});
  ASSERT_EQ(zipf.code, 0) << zipf.output;
  EXPECT_THAT(Log(2), Not(HasSubstr("experts [16, 16")));
  EXPECT_THAT(Log(2), HasSubstr("order 128"));
  EXPECT_THAT(ReadText(folder_ / "out/summary.json"), HasSubstr("were made by rule"));
}

}  // namespace
}  // namespace prism
