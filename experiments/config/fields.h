#pragma once

#include <concepts>
#include <type_traits>

#include "experiments/config/field_rules.h"
#include "experiments/config/grid_config.h"
#include "experiments/config/run_config.h"

/// The one list of config fields. Reading, writing, hashing and documentation visit it; a new field is one line here and
/// one in its struct.
///
/// visit_fields(section, visit) calls visit(Field, member) for every field of a section's struct;
/// visit_sections(config, visit) calls visit(Section, struct) for every section of a RunConfig.
namespace bov::experiments {

template <typename T, typename Struct>
concept FieldsOf = std::same_as<std::remove_const_t<T>, Struct>;

/// Names of the value sources that are registered (a function, so that this header needs no torch).
FieldRule value_source_rule();

template <FieldsOf<ValueSpec> T>
void visit_fields(T& value, auto&& visit) {
  visit(Field{"combine", one_of({"replace", "add"}), "axis 1: c·Ṽ, or a·V + b·Ṽ"}, value.combine);
  visit(
      Field{"coefficient", any_text("a number, learned, learned_per_head or gated"),
            "axis 2: fixed number; γ (replace) or α, β (add) of each layer, or of each layer and kv head; or "
            "3·sigmoid(gate) a token and kv head"},
      value.coefficient);
  visit(Field{"source", value_source_rule(), "axis 3: where Ṽ comes from"}, value.source);
  visit(Field{"layers",
              any_text("last_third, every_other, every, second_half, last_two_thirds or a list of layers"),
              "axis 4: the layers that the spec changes, counted from 0"},
        value.layers);
  visit(Field{"shared", any_text("true or false"), "bank: one table for all target layers"}, value.shared);
  visit(Field{"init", one_of({"aligned", "uniform"}),
              "bank: rows start as the layer's W_V applied to the token's normalised embedding, or uniform"},
        value.init);
}

template <FieldsOf<ModelConfig> T>
void visit_fields(T& model, auto&& visit) {
  const FieldRule dtype = one_of({"auto", "float32", "bfloat16", "float64"});
  visit(Field{"n_layer", at_least(1), "layers"}, model.n_layer);
  visit(Field{"n_embd", at_least(1), "width of the residual stream"}, model.n_embd);
  visit(Field{"n_head", at_least(1), "query heads; their width is n_embd / n_head"}, model.n_head);
  visit(Field{"n_kv_head", at_least(1), "key and value heads; a divisor of n_head"}, model.n_kv_head);
  visit(Field{"sequence_length", at_least(2), "tokens of a training sequence, and the reach of an L window"},
        model.sequence_length);
  visit(Field{"vocab_size", at_least(1), "token ids"}, model.vocab_size);
  visit(Field{"window_pattern", window_letters(),
              "short and long windows, tiled over the layers; the last is long"},
        model.window_pattern);
  visit(Field{"smear", any_text("true or false"), "mix the previous token's embedding into each token's"},
        model.smear);
  visit(Field{"rotary_base", above(0), "base of the rotary frequencies"}, model.rotary_base);
  visit(Field{"qk_scale", above(0), "factor on queries and keys after their norm"}, model.qk_scale);
  visit(Field{"logit_softcap", at_least(0), "s of s·tanh(z/s); 0: no softcap"}, model.logit_softcap);
  visit(Field{"compute_dtype", dtype, "activations; auto: bfloat16 on CUDA, float32 on CPU"},
        model.compute_dtype);
  visit(Field{"table_dtype", dtype, "stored token embedding and banks; auto as above"}, model.table_dtype);
  visit(Field{"parameter_dtype", one_of({"float32", "bfloat16", "float64"}),
              "stored matrices, head and coefficients"},
        model.parameter_dtype);
}

template <FieldsOf<OptimizerConfig> T>
void visit_fields(T& optimizer, auto&& visit) {
  visit(Field{"unembedding_lr", at_least(0), "AdamW rate of the head, before the width factor"},
        optimizer.unembedding_lr);
  visit(Field{"embedding_lr", at_least(0), "AdamW rate of the token embedding; banks take half of it"},
        optimizer.embedding_lr);
  visit(Field{"matrix_lr", at_least(0), "Muon rate of the matrices"}, optimizer.matrix_lr);
  visit(Field{"scalar_lr", at_least(0), "AdamW rate of γ and β"}, optimizer.scalar_lr);
  visit(Field{"scalar_beta1", between(0, 0.9999), "AdamW β1 of γ and β"}, optimizer.scalar_beta1);
  visit(Field{"alpha_lr_ratio", at_least(0), "rate of α as a part of scalar_lr"}, optimizer.alpha_lr_ratio);
  visit(Field{"alpha_beta1", between(0, 0.9999), "AdamW β1 of α"}, optimizer.alpha_beta1);
  visit(Field{"alpha_weight_decay", at_least(0), "AdamW weight decay of α; γ and β have none"},
        optimizer.alpha_weight_decay);
  visit(Field{"smear_lr", at_least(0), "AdamW rate of the smear gate"}, optimizer.smear_lr);
  visit(Field{"weight_decay", at_least(0), "Muon's, at the first step; falls to 0 as a cosine"},
        optimizer.weight_decay);
  visit(Field{"batch_lr_scale", above(0),
              "factor on all rates but smear's: sqrt(tokens_per_step / 2^19) in the paper"},
        optimizer.batch_lr_scale);
  visit(Field{"warmup_steps", at_least(0), "steps of linear warm-up"}, optimizer.warmup_steps);
  visit(Field{"warmdown_fraction", between(0, 1), "last part of training, in which the rates fall"},
        optimizer.warmdown_fraction);
  visit(Field{"final_lr_fraction", between(0, 1), "rate at the end, as a part of the full rate"},
        optimizer.final_lr_fraction);
  visit(Field{"momentum_warmup_steps", at_least(0), "steps in which Muon's momentum rises"},
        optimizer.momentum_warmup_steps);
  visit(Field{"muon_dtype", one_of({"auto", "float32", "bfloat16", "float64"}),
              "orthogonalisation; auto: bfloat16 on CUDA, float32 on CPU"},
        optimizer.muon_dtype);
}

template <FieldsOf<DataConfig> T>
void visit_fields(T& data, auto&& visit) {
  visit(Field{.key = "shards",
              .rule = any_text("a folder"),
              .meaning = "token shards made by `bov data build`",
              .decides_result = false},
        data.shards);
  visit(Field{"packing", one_of({"best_fit", "as_published"}),
              "as_published lets documents longer than a sequence pile up in the buffer"},
        data.packing);
  visit(Field{"buffer_documents", between(1, 1e6), "documents to choose from when a row is packed"},
        data.buffer_documents);
}

template <FieldsOf<BudgetConfig> T>
void visit_fields(T& budget, auto&& visit) {
  visit(Field{"flops", above(0), "training FLOPs as the paper counts them; variants differ in steps"},
        budget.flops);
  visit(Field{"tokens", at_least(1), "training tokens"}, budget.tokens);
  visit(Field{"steps", at_least(1), "optimizer steps"}, budget.steps);
}

template <FieldsOf<TrainConfig> T>
void visit_fields(T& train, auto&& visit) {
  visit(Field{"tokens_per_step", at_least(1),
              "tokens of an optimizer step; a multiple of micro_batch · sequence_length"},
        train.tokens_per_step);
  visit(Field{"micro_batch", between(1, 1 << 20), "sequences of a forward pass"}, train.micro_batch);
  visit(Field{"seed", at_least(0), "of initialisation and data order"}, train.seed);
  visit(Field{"device", device_name(), "auto: CUDA if there is one"}, train.device);
}

template <FieldsOf<EvaluationConfig> T>
void visit_fields(T& evaluation, auto&& visit) {
  visit(Field{"every", at_least(0), "steps between evaluations; 0: at the end only"}, evaluation.every);
  visit(Field{"tokens", at_least(0),
              "validation tokens an evaluation, in whole micro-batches; 0: the whole split"},
        evaluation.tokens);
}

template <FieldsOf<LogConfig> T>
void visit_fields(T& log, auto&& visit) {
  visit(Field{"every", at_least(1), "steps between lines of metrics"}, log.every);
  visit(Field{"coefficients_every", at_least(1), "steps between records of γ, α, β and gates"},
        log.coefficients_every);
}

template <FieldsOf<CheckpointConfig> T>
void visit_fields(T& checkpoint, auto&& visit) {
  visit(Field{"every", at_least(0), "steps between checkpoints; 0: at the end and on a signal only"},
        checkpoint.every);
  visit(Field{"keep", at_least(1), "newest checkpoints that are kept"}, checkpoint.keep);
}

template <FieldsOf<PaperConfig> T>
void visit_fields(T& paper, auto&& visit) {
  visit(Field{"row", any_text("text"), "rows of the paper that this run stands for"}, paper.row);
  visit(Field{"value", above(0), "published validation bits per byte"}, paper.value);
}

template <FieldsOf<PrepareConfig> T>
void visit_fields(T& prepare, auto&& visit) {
  visit(Field{"corpus", one_of({"quick", "core", "full"}), "profile of scripts/fetch_corpus"},
        prepare.corpus);
  visit(Field{"corpus_folder", any_text("a folder"), "where the text goes"}, prepare.corpus_folder);
  visit(Field{"tokenizer", any_text("a folder"), "where the tokenizer trained on that text goes"},
        prepare.tokenizer);
}

/// One section of a RunConfig.
struct Section {
  const char* key;
  const char* meaning;
  bool decides_result = true;  ///< counts in config_hash
  bool whole = false;          ///< replaces an inherited section instead of changing fields of it
};

template <FieldsOf<RunConfig> T>
void visit_sections(T& config, auto&& visit) {
  visit(Section{.key = "value",
                .meaning = "where value vectors come from; `preset: name` sets every axis at once",
                .whole = true},
        config.value);
  visit(Section{.key = "model", .meaning = "shape and dtypes of the GPT"}, config.model);
  visit(Section{.key = "optimizer", .meaning = "Muon and AdamW, and their schedules"}, config.optimizer);
  visit(Section{.key = "data", .meaning = "where tokens come from"}, config.data);
  visit(Section{.key = "budget", .meaning = "length of training; exactly one of the three", .whole = true},
        config.budget);
  visit(Section{.key = "train", .meaning = "batch, seed and device"}, config.train);
  visit(Section{.key = "evaluation", .meaning = "bits per byte of the validation split"}, config.evaluation);
  visit(Section{.key = "log", .meaning = "what is written while training", .decides_result = false},
        config.log);
  visit(Section{.key = "checkpoint", .meaning = "when the state is saved", .decides_result = false},
        config.checkpoint);
  visit(
      Section{
          .key = "paper", .meaning = "what the run is compared with", .decides_result = false, .whole = true},
      config.paper);
}

}  // namespace bov::experiments
