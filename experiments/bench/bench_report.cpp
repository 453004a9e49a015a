#include "experiments/bench/bench_report.h"

#include "experiments/environment.h"
#include "experiments/report/number_text.h"
#include "experiments/report/text_table.h"

namespace bov::experiments {
namespace {

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fixed_text(seconds * 1e6, 1) + " us" : fixed_text(seconds * 1e3, 2) + " ms";
}

}  // namespace

std::string to_table(const std::vector<BenchMeasurement>& measurements) {
  TextTable table{{{"benchmark"},
                   {"method"},
                   {"time", Align::right},
                   {"GB/s", Align::right},
                   {"tokens/s", Align::right},
                   {"speed", Align::right},
                   {"extra MiB", Align::right}},
                  {}};
  const BenchMeasurement* above = nullptr;
  for (const BenchMeasurement& m : measurements) {
    const bool same_group = above != nullptr && above->op == m.op && above->problem == m.problem;
    above = &m;
    const double seconds = m.median_seconds();
    table.rows.push_back({same_group ? "" : m.op + ": " + m.problem, m.method, time_text(seconds),
                          m.bytes > 0 ? fixed_text(m.bytes / seconds * 1e-9, 1) : "-",
                          m.tokens > 0 ? fixed_text(m.tokens_per_second(), 1) : "",
                          fixed_text(m.speedup(), 2) + "x",
                          fixed_text(static_cast<double>(m.peak_extra_bytes) / (1 << 20), 1)});
  }
  return render_terminal(without_empty_columns(table));
}

nlohmann::json to_json(const std::vector<BenchMeasurement>& measurements) {
  nlohmann::json list = nlohmann::json::array();
  for (const BenchMeasurement& m : measurements) {
    nlohmann::json entry = {{"op", m.op},
                            {"problem", m.problem},
                            {"method", m.method},
                            {"seconds", m.seconds},
                            {"median_seconds", m.median_seconds()},
                            {"bytes", m.bytes},
                            {"speedup", m.speedup()},
                            {"peak_extra_bytes", m.peak_extra_bytes}};
    if (m.tokens > 0) entry["tokens_per_second"] = m.tokens_per_second();
    entry.update(m.facts);
    list.push_back(std::move(entry));
  }
  return {{"environment", describe_environment()}, {"measurements", std::move(list)}};
}

}  // namespace bov::experiments
