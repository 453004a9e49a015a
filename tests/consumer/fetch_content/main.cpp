// Rows of a table by id, scaled, from the library of operators alone.
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <csrc/value_gather.h>
#include <csrc/version.h>

#include <cstdio>

int main() {
  const at::Tensor table = at::rand({10, 4});
  const at::Tensor ids = at::arange(10, at::kLong).flip(0);
  const at::Tensor rows = bov::ops::value_gather(table, ids, at::full({1}, 0.5));
  std::printf("bov %s: rows are %s\n", bov::ops::version(),
              at::allclose(rows, table.flip(0).mul(0.5)) ? "those of the table" : "wrong");
}
