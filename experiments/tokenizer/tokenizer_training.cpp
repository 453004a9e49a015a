#include "experiments/tokenizer/tokenizer_training.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bov/io/atomic_file.h"
#include "experiments/data/text_hash.h"
#include "experiments/tokenizer/backend/tokenizer_backend.h"
#include "experiments/tokenizer/tokenizer_files.h"
#include "experiments/tokenizer/utf8_runs.h"

namespace bov::experiments {
namespace {

constexpr const char* kBosPiece = "<|bos|>";
constexpr int32_t kBos = 0;
// SentencePiece drops longer sentences without a word; its own limit is set above this.
constexpr size_t kLongestSentence = 4096;

// Cuts the learnable text of documents into sentences that SentencePiece accepts, all of them.
class TrainingSentences {
 public:
  TrainingSentences(DocumentReader& documents, const TokenizerTrainingOptions& options)
      : documents_(documents), options_(options) {}

  std::optional<std::string_view> next() {
    while (run_.empty()) {
      while (rest_.empty()) {
        if (!next_document()) return std::nullopt;
      }
      const TextRun run = take_run(rest_);
      if (run.faithful) {
        run_ = run.bytes;
      } else {
        report_.unlearnable_bytes += static_cast<int64_t>(run.bytes.size());
      }
    }
    return take_sentence(run_, kLongestSentence);
  }

  TokenizerTrainingReport report() const {
    TokenizerTrainingReport report = report_;
    report.read = documents_.counts();
    return report;
  }

 private:
  bool next_document() {
    if (report_.bytes >= options_.max_bytes) {
      report_.stopped_at_max_bytes = true;
      return false;
    }
    std::optional<std::string> document = documents_.next();
    if (!document) return false;
    if (in_validation_split(*document, options_.validation_per_mille)) {
      ++report_.held_out_documents;
      return true;
    }
    document_ = std::move(*document);
    rest_ = document_;
    ++report_.documents;
    report_.bytes += static_cast<int64_t>(document_.size());
    return true;
  }

  DocumentReader& documents_;
  const TokenizerTrainingOptions& options_;
  TokenizerTrainingReport report_;
  std::string document_;
  std::string_view rest_;  // of the document
  std::string_view run_;   // rest of the current run
};

std::string nothing_learned(const TokenizerTrainingReport& report) {
  return "of " + std::to_string(report.read.documents + report.read.empty) + " documents " +
         std::to_string(report.read.empty) + " are empty, " + std::to_string(report.held_out_documents) +
         " are of the validation split, and " + std::to_string(report.documents) +
         " hold nothing but bytes that cannot be learned; " + std::to_string(report.read.invalid) +
         " lines are invalid";
}

TokenTable make_table(const std::string& model) {
  const TokenizerBackend backend(model);
  std::vector<std::string> pieces;
  for (int32_t id = 0; id < backend.vocab_size(); ++id) pieces.push_back(backend.piece_bytes(id));
  return TokenTable(std::move(pieces), kBos, text_hash(model));
}

}  // namespace

nlohmann::json to_json(const TokenizerTrainingReport& report) {
  return {{"documents", report.documents},
          {"bytes", report.bytes},
          {"unlearnable_bytes", report.unlearnable_bytes},
          {"held_out_documents", report.held_out_documents},
          {"stopped_at_max_bytes", report.stopped_at_max_bytes},
          {"read", to_json(report.read)}};
}

TokenizerTrainingReport train_tokenizer(DocumentReader& documents,
                                        const TokenizerTrainingOptions& options,
                                        const std::filesystem::path& folder) {
  if (options.vocab_size <= kSmallestVocabulary) {
    throw std::runtime_error("a vocabulary of " + std::to_string(options.vocab_size) +
                             " is too small: bos and the 256 bytes alone need " +
                             std::to_string(kSmallestVocabulary));
  }
  if (options.vocab_size > kLargestVocabulary) {
    throw std::runtime_error("a vocabulary of " + std::to_string(options.vocab_size) +
                             " is too large; expected at most " + std::to_string(kLargestVocabulary));
  }
  if (std::filesystem::exists(folder / kTokenizerTableFile)) {
    throw std::runtime_error(folder.string() +
                             " already holds a tokenizer; remove it or choose another folder");
  }
  TrainingSentences sentences(documents, options);
  // Before the work: a folder that cannot be made must not cost it.
  std::filesystem::create_directories(folder);
  // The first sentence is looked at here: SentencePiece has no words for a text without one.
  std::optional<std::string_view> sentence = sentences.next();
  if (!sentence)
    throw std::runtime_error("there is no text to learn from: " + nothing_learned(sentences.report()));
  const auto next_sentence = [&sentence, &sentences]() -> std::optional<std::string_view> {
    if (sentence) return std::exchange(sentence, std::nullopt);
    return sentences.next();
  };
  const std::string model =
      train_backend_model(options.vocab_size, options.character_coverage, kBosPiece, next_sentence);
  const TokenTable table = make_table(model);
  if (table.vocab_size() != options.vocab_size) {
    throw std::runtime_error("the trained vocabulary has " + std::to_string(table.vocab_size()) +
                             " ids, expected " + std::to_string(options.vocab_size));
  }

  const TokenizerTrainingReport report = sentences.report();
  nlohmann::json json = token_table_json(table);
  json["training"] = to_json(report);
  json["training"]["character_coverage"] = options.character_coverage;
  json["training"]["validation_per_mille"] = options.validation_per_mille;
  atomic_write_text(folder / kTokenizerModelFile, model);
  // The table comes last: a folder with a table is complete.
  atomic_write_text(folder / kTokenizerTableFile, json.dump(1) + "\n");
  return report;
}

}  // namespace bov::experiments
