#include "experiments/train/train_profile.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <sstream>
#include <stdexcept>

#include "bov/model/accounting.h"
#include "experiments/config/run_options.h"
#include "experiments/data/data_folder.h"
#include "experiments/environment.h"
#include "experiments/train/progress.h"
#include "experiments/train/trainer.h"

namespace bov::experiments {
namespace {

constexpr int64_t kWarmupSteps = 2;
constexpr size_t kListedOperators = 15;
constexpr double kGiga = 1e9;
constexpr double kMebi = 1024.0 * 1024.0;

void take_steps(Trainer& trainer, int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) trainer.step();
}

void add_line(std::ostream& out, const OperatorTime& time, double total) {
  out << "  " << std::left << std::setw(44) << time.name << std::right << std::setw(8) << time.calls
      << std::setw(10) << std::setprecision(3) << time.seconds << " s" << std::setw(7) << std::setprecision(1)
      << 100 * time.seconds / total << " %\n";
}

nlohmann::json times_json(const std::vector<OperatorTime>& times) {
  auto list = nlohmann::json::array();
  for (const auto& time : times) {
    list.push_back({{"name", time.name}, {"calls", time.calls}, {"seconds", time.seconds}});
  }
  return list;
}

}  // namespace

TrainProfile profile_training(const RunConfig& config, int64_t steps, const std::string& wanted) {
  const auto device = resolve_device(config.train, wanted);
  if (!device.is_cpu()) {
    throw std::invalid_argument("--profile works on the CPU alone, and the device is " + device.str() +
                                "; give --device cpu, with train.device: auto or cpu");
  }
  const auto data = DataFolder::open(config.data.shards);
  Trainer trainer(config, data, device);
  if (trainer.total_steps() < kWarmupSteps + 2 * steps) {
    throw std::invalid_argument("--profile " + std::to_string(steps) + " needs a budget of at least " +
                                std::to_string(kWarmupSteps + 2 * steps) + " steps; the config has " +
                                std::to_string(trainer.total_steps()));
  }
  TrainProfile profile;
  profile.steps = steps;
  profile.threads = at::get_num_threads();
  take_steps(trainer, kWarmupSteps);
  const auto start = std::chrono::steady_clock::now();
  take_steps(trainer, steps);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  profile.tokens_per_second = static_cast<double>(steps * trainer.tokens_per_step()) / seconds;
  profile.model_flop_rate =
      profile.tokens_per_second * static_cast<double>(executed_flops_per_token(trainer.model()->options()));
  // Before the profiler, whose events take memory of their own.
  profile.peak_memory_bytes = peak_memory_bytes();
  profile.operators = profile_operators([&] { take_steps(trainer, steps); });
  profile.matmul_rate = measure_matmul_rate();
  return profile;
}

std::string to_text(const TrainProfile& profile) {
  const OperatorProfile& operators = profile.operators;
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  out << "steps                    " << profile.steps << " timed, then as many profiled\n"
      << "threads                  " << profile.threads << '\n'
      << "tokens/s                 " << format_count(profile.tokens_per_second) << '\n'
      << "forward and backward     " << profile.model_flop_rate / kGiga << " GFLOP/s\n"
      << "machine's fp32 matmul    " << profile.matmul_rate / kGiga << " GFLOP/s\n"
      << "fraction reached         " << 100 * profile.model_flop_rate / profile.matmul_rate << " %\n"
      << "time in matmul           " << 100 * operators.matmul_seconds() / operators.seconds << " %\n"
      << "peak memory              " << static_cast<double>(profile.peak_memory_bytes) / kMebi << " MiB\n"
      << "phases (whole)\n";
  for (const auto& phase : operators.phases) add_line(out, phase, operators.seconds);
  out << "operators (own time)\n";
  for (size_t i = 0; i < std::min(kListedOperators, operators.operators.size()); ++i) {
    add_line(out, operators.operators[i], operators.seconds);
  }
  out << "outside operators        " << 100 * operators.other_seconds() / operators.seconds << " %\n";
  return out.str();
}

nlohmann::json to_json(const TrainProfile& profile) {
  return {{"steps", profile.steps},
          {"threads", profile.threads},
          {"tokens_per_second", profile.tokens_per_second},
          {"model_flop_rate", profile.model_flop_rate},
          {"matmul_rate", profile.matmul_rate},
          {"fraction_of_matmul_rate", profile.model_flop_rate / profile.matmul_rate},
          {"matmul_share", profile.operators.matmul_seconds() / profile.operators.seconds},
          {"profiled_seconds", profile.operators.seconds},
          {"peak_memory_bytes", profile.peak_memory_bytes},
          {"phases", times_json(profile.operators.phases)},
          {"operators", times_json(profile.operators.operators)}};
}

}  // namespace bov::experiments
