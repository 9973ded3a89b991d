#include "slicer/synthesize/synthesize.h"

#include "slicer/synthesize/phrase_synthesizer.h"

namespace prism::slicer {

Result<graph::PhrasedJob> SynthesizePhrases(const graph::JobSpec& job,
                                            const graph::TrainingStyle& style,
                                            Markers markers) {
  return PhraseSynthesizer(style.host_cost == graph::HostCost::kGraph).Run(job, style, markers);
}

Result<graph::JobProgram> Synthesize(const graph::JobSpec& job,
                                     const graph::TrainingStyle& style,
                                     Markers markers) {
  PRISM_ASSIGN_OR_RETURN(const graph::PhrasedJob phrased, SynthesizePhrases(job, style, markers));
  return graph::WriteOut(phrased);
}

}  // namespace prism::slicer
