#include "bov/decode/bank_store.h"

#include <set>

#include "bov/decode/cache_layout.h"
#include "bov/io/mapped_tensors.h"

namespace bov {
namespace {

std::shared_ptr<CausalSelfAttentionImpl> attention(const GPT& model, int64_t layer) {
  return model->blocks->ptr(layer)->as<BlockImpl>()->attention.ptr();
}

std::vector<int64_t> bank_layers(const GPT& model) {
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < model->options().n_layer; ++layer) {
    if (attention(model, layer)->value->cache_need() == ValueCacheNeed::token_ids) layers.push_back(layer);
  }
  return layers;
}

/// `tensor` gives the tensor of a name or throws; `where` is where it looks.
template <typename Find>
BankTables named_tables(const GPT& model, const std::string& where, const Find& tensor) {
  const GPTOptions& options = model->options();
  BankTables tables;
  for (const int64_t layer : bank_layers(model)) {
    const std::string name = bank_name(options, layer);
    BankTable& table = tables[layer];
    table.rows = tensor(name + ".table");
    if (table.rows.scalar_type() == torch::kInt8) table.row_scale = tensor(name + ".row_scale");
    const int64_t width = options.n_kv_head * options.head_dim();
    TORCH_CHECK(table.rows.sizes() == torch::IntArrayRef({options.vocab_size, width}), where, ": ", name,
                ".table is ", table.rows.sizes(), "; expected [", options.vocab_size, ", ", width, "]");
  }
  return tables;
}

/// Sum over distinct tensors: a shared table counts once.
int64_t table_bytes(const BankTables& tables) {
  std::set<const void*> counted;
  int64_t bytes = 0;
  for (const auto& [layer, table] : tables) {
    if (!counted.insert(table.rows.const_data_ptr()).second) continue;
    bytes += static_cast<int64_t>(table.rows.nbytes());
    if (table.row_scale) bytes += static_cast<int64_t>(table.row_scale->nbytes());
  }
  return bytes;
}

/// Ids that lie on a device are left to the operators that read the rows: nothing waits for it here.
void check_ids(const torch::Tensor& token_ids, int64_t rows) {
  if (!token_ids.is_cpu() || token_ids.numel() == 0) return;
  const auto [lowest, highest] = token_ids.aminmax();
  const int64_t low = lowest.item<int64_t>(), high = highest.item<int64_t>();
  TORCH_CHECK(low >= 0 && high < rows, "token id ", low < 0 ? low : high, " is outside the table of ", rows,
              " rows");
}

class DeviceBankStore : public BankStore {
 public:
  explicit DeviceBankStore(BankTables tables) : tables_(std::move(tables)) {}
  torch::Tensor row_numbers(const torch::Tensor& token_ids) override {
    if (!tables_.empty()) check_ids(token_ids, tables_.begin()->second.rows.size(0));
    return token_ids;
  }
  BankTable table(int64_t layer) const override { return tables_.at(layer); }
  BankBytes bytes() const override { return {.device = table_bytes(tables_)}; }

 protected:
  BankTables tables_;
};

class MappedBankStore : public DeviceBankStore {
 public:
  explicit MappedBankStore(BankTables tables) : DeviceBankStore(std::move(tables)) {
    if (!tables_.empty()) seen_.resize(tables_.begin()->second.rows.size(0));
  }

  torch::Tensor row_numbers(const torch::Tensor& token_ids) override {
    const torch::Tensor ids = DeviceBankStore::row_numbers(token_ids).contiguous();
    if (tables_.empty()) return token_ids;
    const int64_t* id = ids.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < ids.numel(); ++i) {
      if (seen_[id[i]]) continue;
      seen_[id[i]] = true;
      for (const auto& [layer, table] : tables_) will_need(table.rows[id[i]]);
    }
    return token_ids;
  }
  BankBytes bytes() const override { return {.file = table_bytes(tables_)}; }

 private:
  std::vector<bool> seen_;
};

}  // namespace

std::string bank_name(const GPTOptions& options, int64_t layer) {
  return options.value.shared ? "shared_bank" : "blocks." + std::to_string(layer) + ".attention.value.bank";
}

BankTables bank_tables(const GPT& model) {
  BankTables tables;
  for (const int64_t layer : bank_layers(model)) {
    const BankOfValues own = attention(model, layer)->value->bank();
    const BankOfValues& bank = own.is_empty() ? model->shared_bank : own;
    TORCH_CHECK(!bank.is_empty(), "layer ", layer,
                " needs token ids alone, but has no bank to read them with");
    TORCH_CHECK(!bank->table.is_meta(), "the bank of layer ", layer,
                " has no memory (bank_device is meta); map it from a file");
    tables[layer].rows = bank->table.detach();
  }
  return tables;
}

BankTables bank_tables(const GPT& model, const TensorMap& tensors) {
  return named_tables(model, "the checkpoint", [&](const std::string& name) {
    const auto entry = tensors.find(name);
    TORCH_CHECK(entry != tensors.end(), "the checkpoint holds no tensor '", name, "'");
    return entry->second;
  });
}

BankTables map_bank_tables(const GPT& model, const std::filesystem::path& path) {
  const MappedTensors file(path);
  return named_tables(model, path.string(), [&](const std::string& name) { return file.tensor(name); });
}

std::shared_ptr<BankStore> make_device_bank_store(BankTables tables) {
  return std::make_shared<DeviceBankStore>(std::move(tables));
}

std::shared_ptr<BankStore> make_mapped_bank_store(BankTables tables) {
  return std::make_shared<MappedBankStore>(std::move(tables));
}

HostBankStore::HostBankStore(BankTables tables, torch::Device device, torch::Dtype dtype) : device_(device) {
  TORCH_CHECK(!tables.empty(), "HostBankStore: the model has no bank whose rows replace cached values");
  std::map<const void*, int64_t> distinct;
  for (auto& [layer, table] : tables) {
    const auto [entry, is_new] = distinct.try_emplace(table.rows.const_data_ptr(), tables_.size());
    index_[layer] = entry->second;
    if (is_new) tables_.push_back(std::move(table));
  }
  const torch::Tensor& rows = tables_.front().rows;
  row_of_.assign(rows.size(0), -1);
  cache_ = torch::empty({0, static_cast<int64_t>(tables_.size()), rows.size(1)},
                        torch::TensorOptions(dtype).device(device));
  if (!device.is_cuda()) return;
  for (BankTable& table : tables_) table.rows = table.rows.cpu().pin_memory();
}

torch::Tensor HostBankStore::row_numbers(const torch::Tensor& token_ids) {
  const torch::Tensor ids = token_ids.cpu().contiguous();
  check_ids(ids, static_cast<int64_t>(row_of_.size()));
  const int64_t* id = ids.const_data_ptr<int64_t>();
  torch::Tensor numbers = torch::empty_like(ids);
  int64_t* number = numbers.mutable_data_ptr<int64_t>();
  std::vector<int64_t> unseen;
  for (int64_t i = 0; i < ids.numel(); ++i) {
    int32_t& row = row_of_[id[i]];
    if (row < 0) {
      row = static_cast<int32_t>(rows_seen() + static_cast<int64_t>(unseen.size()));
      unseen.push_back(id[i]);
    }
    number[i] = row;
  }
  if (!unseen.empty()) fetch(unseen);
  return numbers.to(device_);
}

void HostBankStore::fetch(const std::vector<int64_t>& token_ids) {
  const int64_t before = rows_seen(), count = static_cast<int64_t>(token_ids.size());
  const int64_t capacity = cache_capacity(before + count, static_cast<int64_t>(row_of_.size()));
  if (capacity > cache_.size(0)) {
    torch::Tensor grown = torch::empty({capacity, cache_.size(1), cache_.size(2)}, cache_.options());
    grown.slice(0, 0, before).copy_(cache_.slice(0, 0, before));
    cache_ = grown;
  }
  // Pinned memory comes from a pool that waits for the copy before it is used again.
  torch::Tensor staging =
      torch::empty({count, cache_.size(1), cache_.size(2)},
                   torch::TensorOptions(cache_.scalar_type()).pinned_memory(device_.is_cuda()));
  const torch::Tensor index = torch::tensor(token_ids, torch::kInt64);
  for (int64_t i = 0; i < cache_.size(1); ++i) {
    staging.select(1, i).copy_(gather_rows(tables_[i], index, cache_.scalar_type()));
  }
  cache_.slice(0, before, before + count).copy_(staging, /*non_blocking=*/true);
  ++copies_;
  seen_.insert(seen_.end(), token_ids.begin(), token_ids.end());
}

BankTable HostBankStore::table(int64_t layer) const {
  return {cache_.select(1, index_.at(layer)), std::nullopt};
}

BankBytes HostBankStore::bytes() const {
  BankTables tables;
  for (size_t i = 0; i < tables_.size(); ++i) tables[static_cast<int64_t>(i)] = tables_[i];
  return {.device = static_cast<int64_t>(cache_.nbytes()), .host = table_bytes(tables)};
}

}  // namespace bov
