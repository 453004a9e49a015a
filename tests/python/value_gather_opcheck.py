"""Checks bov::value_gather from Python: torch.library.opcheck and gradcheck.

usage: value_gather_opcheck.py PATH_TO_libbov_ops.so LIBTORCH_FOLDER
Exits with status 77 and a reason where torch cannot be imported, or is not the LibTorch that the library is linked to.
"""

import pathlib
import sys

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def samples():
    """Arguments of every kind the schema allows; float64 leaves also go to gradcheck."""
    ids = torch.tensor([[3, 0, 3], [6, 3, 1]])
    table = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    yield table, ids, scale, None
    yield table, ids, None, None
    yield table, ids.int(), scale.detach().reshape(1).requires_grad_(), torch.float64
    yield table.detach(), ids.t(), scale, None
    yield table, ids[:0], scale, None
    yield torch.randn(7, 5, dtype=torch.bfloat16, requires_grad=True), ids, scale.detach().float(), torch.float32
    yield torch.randn(7, 5, requires_grad=True), ids, None, torch.float16


def main():
    library, libtorch = sys.argv[1:]
    if pathlib.Path(torch.__file__).parent.resolve() != pathlib.Path(libtorch).resolve():
        print(f"skipped: Python's torch is {torch.__file__}, but the library is linked to {libtorch}")
        sys.exit(77)
    torch.manual_seed(0)
    torch.ops.load_library(library)
    op = torch.ops.bov.value_gather
    for arguments in samples():
        torch.library.opcheck(op.default, arguments)
        leaves = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
        if all(leaf.dtype == torch.float64 for leaf in leaves):
            torch.autograd.gradcheck(op, arguments)
    print("value_gather: opcheck and gradcheck passed")


if __name__ == "__main__":
    main()
