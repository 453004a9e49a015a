#pragma once

namespace CLI {
class App;
}

/// One function a subcommand of the program. Each adds the subcommand with its options and a callback that does the work
/// and throws std::exception, with a message of one line, where it fails.
namespace bov::experiments {

void add_ablate_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_check_golden_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_convert_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_memory_command(CLI::App& app);
void add_tokenizer_command(CLI::App& app);
void add_train_command(CLI::App& app);

}  // namespace bov::experiments
