// prism calibrate: a cluster file from a user's own runs. The work is prism-published's
// (experiments/published/calibrate.cc), which has the rows and what they mean.
#include "launch/cli/verb.h"
#include "launch/process/install_paths.h"

namespace prism::launch {

Verb CalibrateVerb() {
  Verb verb;
  verb.spec = {
      "calibrate",
      "INPUT...",
      "fit a cluster file to runs that you measured",
      "An input is a table of runs (.csv, in the columns that prism bench accuracy reads), the log "
      "of\n"
      "a run of Megatron-LM, torchtitan, nanotron, Hugging Face's Trainer or DeepSpeed, or a "
      "graph\n"
      "or output folder of Prism with the seconds that its iteration took: FOLDER=SECONDS. Fitted\n"
      "are the rate of the GPU, the share of the links and the time of the host, as far as "
      "the\n"
      "runs determine them; two runs of one job at different sizes usually do.\n",
      1,
      1000,
      {{"o", "FILE", "required", "the cluster file to write"},
       {"row", "COLUMN=VALUE;...", "none",
        "what logs do not say, in the columns of tables: gpu=H100;num_gpus=64"},
       {"model", "PRESET|FILE", "none", "sizes of the model of logs that do not print them"}}};
  verb.run = [](const VerbArguments& arguments) -> Result<VerbOutput> {
    std::vector<std::string> words = {"calibrate"};
    words.insert(words.end(), arguments.words().begin(), arguments.words().end());
    return BecomeProgram("prism-published", words);
  };
  return verb;
}

}  // namespace prism::launch
