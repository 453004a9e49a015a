#pragma once

#include <stddef.h>
#include <stdint.h>

/// C interface between bov and libbov_tokenizer.so, the only binary that links SentencePiece. The library is
/// loaded into a linker namespace of its own (tokenizer_backend.h says why), so nothing but plain data may
/// cross: no C++ type, no exception, and memory is freed on the side that allocated it. Functions that can
/// fail return a negative number or NULL and write a zero-terminated message to `error` (`error_size` bytes).
extern "C" {

struct bov_tokenizer_model;

struct bov_tokenizer_training {
  int32_t vocab_size;
  double character_coverage;
  const char* bos_piece;
  /// Sets `*text` and `*size` to the next sentence and returns 1, or returns 0 at the end. The text must live
  /// until the next call.
  int32_t (*next_sentence)(void* context, const char** text, size_t* size);
  /// Receives the serialized model, once.
  void (*take_model)(void* context, const char* model, size_t size);
  void* context;
};

struct bov_tokenizer_api {
  bov_tokenizer_model* (*load)(const char* model, size_t size, char* error, size_t error_size);
  void (*release)(bov_tokenizer_model* model);
  int32_t (*vocab_size)(const bov_tokenizer_model* model);
  /// Copies the bytes that `id` stands for to `bytes` (`capacity` bytes) and returns their number; 0 for
  /// specials.
  int64_t (*piece_bytes)(const bov_tokenizer_model* model, int32_t id, char* bytes, size_t capacity);
  /// Encodes well-formed UTF-8. `ids` needs room for `size` ids, for every id stands for at least one byte.
  /// Returns their number.
  int64_t (*encode)(const bov_tokenizer_model* model,
                    const char* text,
                    size_t size,
                    int32_t* ids,
                    char* error,
                    size_t error_size);
  int32_t (*train)(const bov_tokenizer_training* training, char* error, size_t error_size);
};

/// The one exported symbol.
__attribute__((visibility("default"))) const bov_tokenizer_api* bov_tokenizer_get_api(void);

}  // extern "C"
