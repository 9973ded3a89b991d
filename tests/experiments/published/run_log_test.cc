// Logs as frameworks print them, written anew.
#include "experiments/published/run_log.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::launch {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

using Columns = std::map<std::string, std::string>;

TEST(RunLog, of_megatron_lm) {
  const Result<Columns> columns = ReadRunLog(
      "------------------------ arguments ------------------------\n"
      "  bf16 ............................................ True\n"
      "  fp16 ............................................ False\n"
      "  global_batch_size ............................... 128\n"
      "  gradient_accumulation_fusion .................... False\n"
      "  hidden_size ..................................... 4096\n"
      "  kv_channels ..................................... 128\n"
      "  moe_ffn_hidden_size ............................. None\n"
      "  num_layers ...................................... 32\n"
      "  swiglu .......................................... True\n"
      "  tensor_model_parallel_size ...................... 4\n"
      "  transformer_impl ................................ transformer_engine\n"
      "  world_size ...................................... 64\n"
      "-------------------- end of arguments ---------------------\n"
      " iteration        1/  10 | elapsed time per iteration (ms): 20000.5 | lm loss: 1.0E+01 |\n"
      " iteration        2/  10 | elapsed time per iteration (ms): 1250.0 | lm loss: 1.0E+01 |\n"
      " iteration        3/  10 | elapsed time per iteration (ms): 1240.0 | lm loss: 1.0E+01 |\n"
      " iteration        4/  10 | elapsed time per iteration (ms): 1260.0 | lm loss: 1.0E+01 |\n",
      "run.log");
  ASSERT_TRUE(columns.ok()) << columns.status().message();
  EXPECT_THAT(*columns,
              AllOf(Contains(Pair("framework", "megatron-core")), Contains(Pair("layers", "32")),
                    Contains(Pair("hidden", "4096")), Contains(Pair("tp", "4")),
                    Contains(Pair("num_gpus", "64")), Contains(Pair("precision", "bf16")),
                    Contains(Pair("global_batch", "128")), Not(Contains(Key("moe_ffn")))));
  EXPECT_DOUBLE_EQ(std::stod(columns->at("iter_time_s")), 1.26) << "of the later half";
  EXPECT_THAT(columns->at("extra"), AllOf(HasSubstr("swiglu"), HasSubstr("kv-channels=128"),
                                          HasSubstr("no-gradient-accumulation-fusion"),
                                          HasSubstr("transformer_impl=transformer_engine")));
}

TEST(RunLog, lines_may_end_as_those_of_windows_or_of_a_progress_bar) {
  const std::vector<std::string> lines = {
      "  world_size ...................................... 64",
      "  swiglu .......................................... True",
      "  transformer_impl ................................ transformer_engine",
      " iteration        1/  10 | elapsed time per iteration (ms): 1250.0",
      " iteration        2/  10 | elapsed time per iteration (ms): 1240.0"};
  const auto columns_of = [&](const char* end) {
    std::string log;
    for (const std::string& line : lines) {
      log += line + end;
    }
    Result<Columns> columns = ReadRunLog(log, "run.log");
    EXPECT_TRUE(columns.ok()) << columns.status().message();
    return columns.ok() ? *columns : Columns();
  };
  const Columns usual = columns_of("\n");
  EXPECT_EQ(usual.at("num_gpus"), "64");
  EXPECT_EQ(columns_of("\r\n"), usual);
  EXPECT_EQ(columns_of("\r"), usual);
}

TEST(RunLog, of_torchtitan_with_colours) {
  const Result<Columns> columns = ReadRunLog(
      "[titan] INFO - Building device mesh with parallelism: pp=2, dp_replicate=4, dp_shard=8, "
      "cp=1, tp=2, ep=1, etp=1\n"
      "[titan] INFO - CUDA capacity: NVIDIA H100 with 94.99GiB memory\n"
      "[titan] INFO - \x1b[34mModel llama3 8B \x1b[31msize: 8,030,261,248 total "
      "parameters\x1b[39m\n"
      "[titan] INFO - Training starts at step 1, with local batch size 1, global batch size 512, "
      "sequence length 8192, total steps 1000\n"
      "[titan] INFO - \x1b[31mstep: 10  \x1b[34mtps: 5,878  \x1b[36mtflops: 340.42\x1b[39m\n",
      "run.log");
  ASSERT_TRUE(columns.ok()) << columns.status().message();
  EXPECT_THAT(*columns,
              AllOf(Contains(Pair("framework", "torchtitan")), Contains(Pair("model", "llama3 8B")),
                    Contains(Pair("gpu", "NVIDIA H100")), Contains(Pair("dp", "32")),
                    Contains(Pair("num_gpus", "128")), Contains(Pair("tp", "2")),
                    Contains(Pair("global_batch", "512")), Contains(Pair("seq_len", "8192")),
                    Contains(Pair("tokens_per_s_per_gpu", "5878"))));
}

TEST(RunLog, of_nanotron_and_of_a_trainer) {
  const Result<Columns> nanotron = ReadRunLog(
      "parallelism=ParallelismArgs(dp=8,\n pp=2,\n tp=4,\n hidden_size=2048,\n"
      "iteration: 3 / 9 | elapsed_time_per_iteration_ms: 11.5K | global_batch_size: 64 | lr: 1\n",
      "run.log");
  ASSERT_TRUE(nanotron.ok());
  EXPECT_THAT(*nanotron, AllOf(Contains(Pair("iter_time_s", "11.5")), Contains(Pair("dp", "8")),
                               Contains(Pair("hidden", "2048")), Contains(Pair("tp", "4"))));
  const Result<Columns> trainer = ReadRunLog(
      "  Instantaneous batch size per device = 4\n"
      "  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
      "{'train_runtime': 120.5, 'train_samples_per_second': 33.2, 'epoch': 1.0}\n",
      "run.log");
  ASSERT_TRUE(trainer.ok());
  EXPECT_THAT(*trainer,
              AllOf(Contains(Pair("samples_per_s", "33.2")), Contains(Pair("global_batch", "64"))));
}

TEST(RunLog, as_older_releases_and_launchers_write_them) {
  const auto columns_of = [](const std::string& log) {
    const Result<Columns> columns = ReadRunLog(log, "run.log");
    EXPECT_TRUE(columns.ok()) << columns.status().message();
    return columns.ok() ? *columns : Columns();
  };
  EXPECT_THAT(columns_of("[default0]:  num_layers ...................... 4\n"
                         "0:   swiglu .................................. True\n"
                         "> loading dataset ............................ done\n"
                         "3: [2025-01-01 10:00:00.1] iteration 2/ 9 | elapsed time per iteration "
                         "(ms): 100.0 |\n"),
              AllOf(Contains(Pair("layers", "4")), Contains(Pair("iter_time_s", "0.1")),
                    Contains(Pair("extra", "num-layers=4;swiglu"))));
  EXPECT_EQ(columns_of("Epoch 0: global_step=5, train_step_timing in s=5.61\n").at("iter_time_s"),
            "5.61");
  EXPECT_EQ(columns_of("step: 10  loss: 4.1  wps: 5,878  mfu: 34.42%\n").at("tokens_per_s_per_gpu"),
            "5878");
  EXPECT_EQ(
      columns_of("iteration: 3 / 9 | time_per_iteration_ms: 1.5K | lr: 1\n").at("iter_time_s"),
      "1.5");
  EXPECT_EQ(columns_of("0/10, SamplesPerSec=33.5\n").at("samples_per_s"), "33.5");
}

TEST(RunLog, of_a_progress_bar) {
  const auto seconds = [](const std::string& more) {
    const Result<Columns> columns = ReadRunLog(
        "  Instantaneous batch size per device = 4\n"
        "Loading checkpoint shards: 100%|####| 2/2 [00:09<00:00,  4.50s/it]\r"
        "  3%|#   | 30/1000 [00:45<24:15,  1.50s/it]\r"
        "Map: 100%|####| 9/9 [00:09<00:00, 800.00 examples/s]\n" +
            more,
        "run.log");
    EXPECT_TRUE(columns.ok()) << columns.status().message();
    return columns->contains("iter_time_s") ? columns->at("iter_time_s") : "";
  };
  EXPECT_EQ(seconds(""), "1.5");
  EXPECT_EQ(seconds("Steps:  10%|#  | 100/1000 [02:30<22:30,  2.00it/s, loss=0.1]"), "0.5");
  EXPECT_EQ(seconds("{'train_samples_per_second': 33.2}"), "");
}

TEST(RunLog, of_nothing_known_lists_what_is) {
  const Result<Columns> columns = ReadRunLog("hello\nworld\n\x1b", "run.log");
  ASSERT_FALSE(columns.ok());
  EXPECT_EQ(columns.status().code(), StatusCode::kBadFile);
  EXPECT_THAT(columns.status().message(), AllOf(HasSubstr("run.log"), HasSubstr("torchtitan")));
}

}  // namespace
}  // namespace prism::launch
