// Instance: a candidate over symbols of its own choice, built at any sizes: what generalise() tries things on.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/random.h"
#include "propose/candidate.h"
#include "propose/trial_kernels.h"

namespace isomer::propose {

// One side with all sizes of its calls over the symbols.
struct ResolvedSide {
  std::vector<Template> templates;  // of the steps, with the cut that was chosen
  std::vector<std::vector<ResolvedCall>> calls;
  std::vector<Shape> outputs;
};

class Instance {
 public:
  Instance(const Candidate& candidate, const Family& family, TrialKernels& kernels)
      : candidate_(&candidate), family_(&family), kernels_(&kernels), inputs(candidate.inputs) {}

  // Types both sides over the symbols; false when they do not fit.
  bool resolve();
  std::vector<std::string> symbols() const;

  enum class Answer : uint8_t { NotApplicable, Holds, Fails };
  // Whether the pair holds at these sizes, on random elements of the field.
  Answer test(const Sizes& sizes, uint64_t seed) const;
  bool same_arithmetic(const Sizes& sizes) const;
  std::string side_text(bool left) const;
  std::string input_text() const;

 private:
  const Candidate* candidate_;
  const Family* family_;
  TrialKernels* kernels_;
  ResolvedSide left_, right_;

  bool resolve(const Sketch& s, ResolvedSide& side);
  Expected<ir::Graph> build_side(const Sketch& s, const ResolvedSide& side, const Sizes& sizes) const;
  // Dims and contents of the outputs; nothing where a step does not fit.
  std::optional<std::vector<uint64_t>> run(const Sketch& s, const ResolvedSide& side, const Sizes& sizes,
                                           uint64_t seed) const;
  std::string value_text(const Sketch& s, const ResolvedSide& side, Ref r) const;
  std::string call_text(const Sketch& s, const ResolvedSide& side, size_t step, size_t call) const;

 public:
  std::vector<std::vector<Dim>> inputs;                    // may be changed before resolve()
  std::map<std::string, std::string> constants = {};       // the family's symbols in constant kernels -> symbols
  std::array<std::array<uint8_t, kMaxSteps>, 2> cut = {};  // of steps that split
  std::string list = {};                                   // set: every input has this list symbol as its shape
};

}  // namespace isomer::propose
