#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bov/export.h"

/// Where a layer's value vectors come from, as four axes (docs/value_sources.md lists every row of the paper as a
/// point of this space).
namespace bov {

/// Axis 1. `replace`: c·Ṽ. `add`: a·V + b·Ṽ, where V = x·W_V and Ṽ is the source's value.
enum class ValueCombine { replace, add };

/// Axis 2. What multiplies the source.
struct BOV_API ValueCoefficient {
  /// Where the number comes from.
  enum class Kind {
    fixed,             ///< the number `value`: c, or a = b
    learned,           ///< one scalar a layer: γ (replace) or α and β (add)
    learned_per_head,  ///< the same for each kv head
    gated,             ///< 3·sigmoid(W_g·h[:12]) a token and kv head on the source; V itself keeps weight 1
  };
  Kind kind = Kind::fixed;  ///< where the number comes from
  double value = 1.0;       ///< read by `fixed` alone

  /// The number `value`.
  static ValueCoefficient fixed(double value) { return {Kind::fixed, value}; }
  /// A scalar a layer.
  static ValueCoefficient learned() { return {Kind::learned, 1.0}; }
  /// A scalar a kv head.
  static ValueCoefficient learned_per_head() { return {Kind::learned_per_head, 1.0}; }
  /// A number a token and kv head.
  static ValueCoefficient gated() { return {Kind::gated, 1.0}; }
  /// γ, or α and β, are parameters.
  bool is_learned() const { return kind == Kind::learned || kind == Kind::learned_per_head; }
  bool operator==(const ValueCoefficient&) const = default;  ///< member by member
};

/// Axis 4. Which layers the spec changes (0-based; rules of the published code).
enum class TargetRule {
  last_third,       ///< i >= floor(2L/3)
  every_other,      ///< i mod 2 == (L-1) mod 2
  every,            ///< all
  second_half,      ///< i >= floor(L/2)
  last_two_thirds,  ///< i >= floor(L/3)
};

/// A rule, or an explicit list of layer indices.
using TargetLayers = std::variant<TargetRule, std::vector<int64_t>>;

/// How a table's rows start: `aligned` = the layer's own fresh W_V applied to RMSNorm(wte[t]); `uniform` = U(-s, s)
/// with s = sqrt(3/C).
enum class BankInit { aligned, uniform };

/// A point on the four axes, plus what only a bank has. The default is standard attention.
struct BOV_API ValueSpec {
  ValueCombine combine = ValueCombine::replace;       ///< axis 1
  ValueCoefficient coefficient;                       ///< axis 2
  std::string source = "stream";                      ///< axis 3: a name in the registry (value_sources.h)
  TargetLayers layers = TargetRule::every;            ///< axis 4
  bool shared = false;                                ///< bank: one table for all target layers
  BankInit init = BankInit::aligned;                  ///< bank
  bool operator==(const ValueSpec&) const = default;  ///< member by member

  /// Throws c10::Error, naming the field, its value and what was expected, if the point is impossible: an unknown
  /// source, `add` of the stream to itself, a bank-only field on another source.
  void validate() const;
};

/// "replace" or "add".
BOV_API std::string to_string(ValueCombine combine);
/// "aligned" or "uniform".
BOV_API std::string to_string(BankInit init);
/// "0.5", "learned", "learned_per_head" or "gated".
BOV_API std::string to_string(const ValueCoefficient& coefficient);
/// "last_third" or "[8, 9, 11]".
BOV_API std::string to_string(const TargetLayers& layers);

/// Inverse of to_string. Throws c10::Error naming the text and the known spellings.
BOV_API ValueCombine parse_value_combine(const std::string& text);
/// Inverse of to_string. Throws c10::Error naming the text and the known spellings.
BOV_API BankInit parse_bank_init(const std::string& text);
/// Inverse of to_string. Throws c10::Error naming the text and the known spellings.
BOV_API ValueCoefficient parse_value_coefficient(const std::string& text);
/// Inverse of to_string for a rule. Throws c10::Error naming the text and the known spellings.
BOV_API TargetRule parse_target_rule(const std::string& text);

/// The target layers of `spec` in a model of `n_layer` layers, ascending. A rule skips layers that the source cannot
/// serve (`first_layer` never targets layer 0, which makes V1). Throws if a list names a layer outside [0, n_layer),
/// one that the source cannot serve or one twice, or if nothing is left.
BOV_API std::vector<int64_t> target_layers(const ValueSpec& spec, int64_t n_layer);

}  // namespace bov
