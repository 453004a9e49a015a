#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "bov/optim/adamw.h"
#include "bov/optim/muon.h"

/// Slow, plain float64 forms of the two published updates: the oracles of the optimizer tests.
namespace bov::testing {

inline at::Tensor parameter(at::IntArrayRef sizes, torch::Dtype dtype = torch::kDouble) {
  return torch::randn(sizes, torch::kDouble).to(dtype).set_requires_grad(true);
}

inline void set_gradient(const at::Tensor& p, double scale = 1.0) {
  p.mutable_grad() = (torch::randn(p.sizes(), torch::kDouble) * scale).to(p.scalar_type());
}

/// AdamW of one element, in the order of the published recipe.
struct ScalarAdamW {
  double p, m, s;

  void step(double g, int64_t t, const AdamWOptions& o) {
    const auto [beta1, beta2] = o.betas();
    p = p * (1 - o.lr() * o.weight_decay());
    m = m + (1 - beta1) * (g - m);
    s = s + (1 - beta2) * (g * g - s);
    const double b1 = 1 - std::pow(beta1, t), b2 = 1 - std::pow(beta2, t);
    p = p - (o.lr() / b1) * m / (std::sqrt(s / b2) + o.eps());
  }
};

constexpr double kPolarTriples[5][3] = {{8.156554524902461, -22.48329292557795, 15.878769915207462},
                                        {4.042929935166739, -2.808917465908714, 0.5000178451051316},
                                        {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
                                        {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
                                        {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};

inline at::Tensor reference_polar(const at::Tensor& u) {
  auto x = u / (1.01 * u.norm() + 1e-6);
  for (const auto& [a, b, c] : kPolarTriples) {
    const auto gram = x.size(0) > x.size(1) ? x.t().mm(x) : x.mm(x.t());
    const auto polynomial = b * gram + c * gram.mm(gram);
    x = x.size(0) > x.size(1) ? a * x + x.mm(polynomial) : a * x + polynomial.mm(x);
  }
  return x;
}

/// Muon of one matrix: loops over its rows or columns.
struct ReferenceMuon {
  at::Tensor p, buffer, variance;

  explicit ReferenceMuon(const at::Tensor& start) : p(start.detach().clone()), buffer(torch::zeros_like(p)) {
    const int64_t rows = p.size(0), columns = p.size(1);
    variance = torch::zeros({std::max(rows, columns)}, p.options());
  }

  void step(const at::Tensor& gradient, const MuonOptions& o) {
    const int64_t rows = p.size(0), columns = p.size(1);
    buffer = o.momentum() * buffer + (1 - o.momentum()) * gradient;
    const auto x = reference_polar((1 - o.momentum()) * gradient + o.momentum() * buffer);
    const bool by_row = rows >= columns;
    const auto lines = by_row ? x.clone() : x.t().clone();  // one line shares one variance
    const int64_t length = lines.size(1);
    auto scaled = lines.clone();
    double norm = 0, scaled_norm = 0;
    for (int64_t i = 0; i < lines.size(0); ++i) {
      const double mean_square = lines[i].square().sum().item<double>() / static_cast<double>(length);
      const double s =
          variance[i].item<double>() + (1 - o.beta2()) * (mean_square - variance[i].item<double>());
      variance[i] = s;
      const double r = 1 / std::sqrt(std::max(s, 1e-10));
      norm += mean_square * static_cast<double>(length);
      scaled_norm += mean_square * static_cast<double>(length) * r * r;
      scaled[i] *= r;
    }
    scaled *= std::sqrt(norm) / std::max(std::sqrt(scaled_norm), 1e-10);
    const auto update = by_row ? scaled : scaled.t();
    const double lr =
        o.lr() * std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
    const auto mask = (update * p >= 0).to(torch::kDouble);
    p = p - lr * update - lr * o.weight_decay() * p * mask;
  }
};

}  // namespace bov::testing
