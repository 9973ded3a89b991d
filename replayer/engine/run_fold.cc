#include "replayer/engine/run_fold.h"

#include <algorithm>

#include "replayer/engine/role_plan.h"

namespace prism::replayer {

std::vector<RunFold> FoldRuns(const RolePlan& plan) {
  std::vector<RunFold> folds;
  for (const std::vector<Step>& steps : plan.streams) {
    RunFold& fold = folds.emplace_back();
    fold.before.assign(steps.size() + 1, 0);
    fold.lead.assign(steps.size(), 0);
    fold.run_end.assign(steps.size(), 0);
    const auto computes = [&](size_t i) {
      return steps[i].kind == StepKind::kWork && steps[i].compute;
    };
    for (size_t i = 0; i < steps.size(); ++i) {
      fold.before[i + 1] = fold.before[i] + (computes(i) ? steps[i].duration : 0);
    }
    size_t waits = plan.host_waits.size();  // the waits before this index are before op i + 1
    for (size_t i = steps.size(); i-- > 0;) {
      bool goes_on = i + 1 < steps.size() && computes(i) && computes(i + 1);
      for (; waits > 0 && plan.host_waits[waits - 1].op > steps[i].op; --waits) {
        goes_on = false;
      }
      const DurationNs own = steps[i].host_ns - fold.before[i];
      fold.lead[i] = goes_on ? std::max(own, fold.lead[i + 1]) : own;
      fold.run_end[i] = goes_on ? fold.run_end[i + 1] : static_cast<uint32_t>(i + 1);
    }
  }
  return folds;
}

}  // namespace prism::replayer
