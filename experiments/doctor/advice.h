#pragma once

#include <string>
#include <vector>

#include "experiments/doctor/facts.h"

namespace bov::experiments {

/// Something that makes bov slower than it could be, or fail, and what to do about it.
struct Advice {
  std::string problem;
  std::string remedy;
};

std::vector<Advice> advise(const DoctorFacts& facts);

}  // namespace bov::experiments
