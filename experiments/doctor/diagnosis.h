#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/doctor/facts.h"

namespace bov::experiments {

/// The facts by section, then "advice", a list of "problem" and "remedy". Sizes are in bytes, rates a second.
nlohmann::ordered_json diagnosis_to_json(const DoctorFacts& facts);

/// The same for a reader.
std::string diagnosis_to_text(const DoctorFacts& facts);

}  // namespace bov::experiments
