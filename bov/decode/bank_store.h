#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bov/decode/bank_table.h"
#include "bov/io/safetensors.h"
#include "bov/model/gpt.h"

/// Where the tables E_V lie while a model decodes. Attention reads a few rows at a time and never a whole table, so
/// they need not be in the memory of the device that computes.
namespace bov {

/// By layer: every layer whose values need token ids alone. Layers that share a table hold the same tensor.
using BankTables = std::map<int64_t, BankTable>;

/// Bytes of all tables, each counted once, by where they are.
struct BOV_API BankBytes {
  int64_t device = 0;  ///< memory of the device that computes
  int64_t host = 0;    ///< memory beside it
  int64_t file = 0;    ///< read from the file as needed; the system may drop them at any time
};

/// Gives attention the tables of a model, wherever they lie.
class BOV_API BankStore {
 public:
  virtual ~BankStore() = default;

  /// The row of table() that holds each token id's values, the same for all layers: ids [..] int64 -> [..] int64 on the
  /// device that computes. Called once at the start of a pass, so that rows which are far away are under way before the
  /// first layer asks for them. Throws c10::Error naming an id out of range; of ids on a GPU a store that does not read
  /// them leaves that to the operators, and nothing waits for the GPU.
  virtual torch::Tensor row_numbers(const torch::Tensor& token_ids) = 0;

  /// The table of `layer`, valid until the next row_numbers(). Throws std::out_of_range for a layer that has none, because
  /// it needs more than token ids.
  virtual BankTable table(int64_t layer) const = 0;

  /// What the tables take.
  virtual BankBytes bytes() const = 0;
};

/// The tables in `model`'s own modules, whose memory is shared. Never throws.
BOV_API BankTables bank_tables(const GPT& model);

/// The tables of `model` among the tensors of a checkpoint, int8 ones with their `row_scale`. Memory is shared. Throws
/// c10::Error naming a table that is missing or of another shape.
BOV_API BankTables bank_tables(const GPT& model, const TensorMap& tensors);

/// The same in the safetensors file `path`, as memory-mapped tensors that must not be written: nothing is read before it
/// is used. Throws std::runtime_error if the file cannot be mapped, too.
BOV_API BankTables map_bank_tables(const GPT& model, const std::filesystem::path& path);

/// Name in a checkpoint of the table that `layer` reads, without the last part: `.table` or, int8, `.row_scale`. Never
/// throws.
BOV_API std::string bank_name(const GPTOptions& options, int64_t layer);

/// Device: tables are read where they are, in the memory of the device that computes. Never throws.
BOV_API std::shared_ptr<BankStore> make_device_bank_store(BankTables tables);

/// Mapped file: as above on tables from map_bank_tables, and the system is told of rows that are needed for the first
/// time before they are read. CPU alone. Never throws.
BOV_API std::shared_ptr<BankStore> make_mapped_bank_store(BankTables tables);

/// Pinned host memory: tables stay in the host's memory, pinned if `device` is CUDA; the rows that were seen are kept on
/// `device`. All new rows of a pass, of all layers, travel in one asynchronous copy. Int8 rows are multiplied out on the
/// way.
class BOV_API HostBankStore : public BankStore {
 public:
  /// Rows on the device have dtype `dtype`. Throws c10::Error if there is no table.
  HostBankStore(BankTables tables, torch::Device device, torch::Dtype dtype);

  torch::Tensor row_numbers(const torch::Tensor& token_ids) override;
  BankTable table(int64_t layer) const override;
  BankBytes bytes() const override;

  /// Rows on the device: distinct token ids so far.
  int64_t rows_seen() const { return static_cast<int64_t>(seen_.size()); }
  /// Copies to the device so far.
  int64_t copies() const { return copies_; }

 private:
  void fetch(const std::vector<int64_t>& token_ids);

  std::vector<BankTable> tables_;     // distinct ones
  std::map<int64_t, int64_t> index_;  // layer -> in tables_
  torch::Device device_;
  std::vector<int32_t> row_of_;  // by token id, -1 if not seen
  std::vector<int64_t> seen_;    // token id of each row
  torch::Tensor cache_;          // [capacity, tables, Hkv·D]: one pass's rows lie side by side
  int64_t copies_ = 0;
};

}  // namespace bov
