#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bov/value/value_spec.h"

/// Everything that decides what a training run computes, as plain data. One field list (fields.h) reads,
/// writes, hashes and documents these structs; run_options.h turns them into what the library takes.
namespace bov::experiments {

/// `model:` the GPT (bov::GPTOptions) with dtypes as text; `auto` is bf16 on CUDA and fp32 on CPU.
struct ModelConfig {
  int64_t n_layer = 12;
  int64_t n_embd = 768;
  int64_t n_head = 6;
  int64_t n_kv_head = 6;
  int64_t sequence_length = 2048;
  int64_t vocab_size = 32768;
  std::string window_pattern = "SSSL";
  bool smear = true;
  double rotary_base = 100000.0;
  double qk_scale = 1.2;
  double logit_softcap = 15.0;
  std::string compute_dtype = "auto";  ///< auto | float32 | bfloat16 | float64
  std::string table_dtype = "auto";    ///< token embedding and banks
  std::string parameter_dtype = "float32";

  bool operator==(const ModelConfig&) const = default;
};

/// `optimizer:` base rates before the width and batch factors (bov::optim).
struct OptimizerConfig {
  double unembedding_lr = 0.008;
  double embedding_lr = 0.3;
  double matrix_lr = 0.02;
  double scalar_lr = 0.5;
  double scalar_beta1 = 0.96;
  double alpha_lr_ratio = 0.01;  ///< α's rate as a part of scalar_lr
  double alpha_beta1 = 0.8;
  double alpha_weight_decay = 0.05;
  double smear_lr = 0.2;
  double weight_decay = 0.28;   ///< Muon's, before its cosine schedule
  double batch_lr_scale = 1.0;  ///< factor on all rates but smear's: sqrt(B/2^19) in the paper
  int64_t warmup_steps = 40;
  double warmdown_fraction = 0.65;  ///< the last part of training
  double final_lr_fraction = 0.05;
  int64_t momentum_warmup_steps = 400;
  std::string muon_dtype = "auto";  ///< orthogonalisation: auto = bfloat16 on CUDA, float32 on CPU

  bool operator==(const OptimizerConfig&) const = default;
};

/// `data:` where tokens come from (`bov data build` makes the folder).
struct DataConfig {
  std::string shards;  ///< folder of token shards with train and validation splits
  /// best_fit, or as_published: long documents pile up in the buffer, as in the published loader.
  std::string packing = "best_fit";
  int64_t buffer_documents = 1000;

  bool operator==(const DataConfig&) const = default;
};

/// `budget:` exactly one of the three is set.
struct BudgetConfig {
  std::optional<double> flops;
  std::optional<int64_t> tokens;
  std::optional<int64_t> steps;

  bool operator==(const BudgetConfig&) const = default;
};

/// `train:`
struct TrainConfig {
  int64_t tokens_per_step = 524288;
  int64_t micro_batch = 16;  ///< sequences a forward pass
  int64_t seed = 42;
  std::string device = "auto";  ///< auto | cpu | cuda | cuda:N

  bool operator==(const TrainConfig&) const = default;
};

/// `evaluation:` bits per byte on the validation split.
struct EvaluationConfig {
  int64_t every = 50;         ///< steps; 0: at the end only
  int64_t tokens = 41943040;  ///< at each evaluation; rounded down to whole micro-batches, at least one; 0:
                              ///< the whole split

  bool operator==(const EvaluationConfig&) const = default;
};

/// `log:` intervals in steps.
struct LogConfig {
  int64_t every = 10;
  int64_t coefficients_every = 10;

  bool operator==(const LogConfig&) const = default;
};

/// `checkpoint:`
struct CheckpointConfig {
  int64_t every = 0;  ///< steps; 0: at the end and on a signal only
  int64_t keep = 2;   ///< newest checkpoints kept

  bool operator==(const CheckpointConfig&) const = default;
};

/// `paper:` what this run is compared with; never changes what it computes, and is not hashed.
struct PaperConfig {
  std::string row;              ///< "T1-9, T2-3"
  std::optional<double> value;  ///< published validation bits per byte

  bool operator==(const PaperConfig&) const = default;
};

struct RunConfig {
  std::string name;
  ValueSpec value;  ///< `value:` the four axes, or a preset
  ModelConfig model;
  OptimizerConfig optimizer;
  DataConfig data;
  BudgetConfig budget;
  TrainConfig train;
  EvaluationConfig evaluation;
  LogConfig log;
  CheckpointConfig checkpoint;
  PaperConfig paper;

  bool operator==(const RunConfig&) const = default;
};

}  // namespace bov::experiments
