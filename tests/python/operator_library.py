"""Checks operators of libbov_ops from Python. A test is called with PATH_TO_libbov_ops.so and LIBTORCH_FOLDER, and
exits with status 77 and a reason where torch cannot be imported, or is not the LibTorch that the library is linked to.
"""

import pathlib
import sys

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def load():
    """The operators, torch.ops.bov."""
    library, libtorch = sys.argv[1:]
    if pathlib.Path(torch.__file__).parent.resolve() != pathlib.Path(libtorch).resolve():
        print(f"skipped: Python's torch is {torch.__file__}, but the library is linked to {libtorch}")
        sys.exit(77)
    torch.manual_seed(0)
    torch.ops.load_library(library)
    return torch.ops.bov


def check(op, samples):
    """Opcheck on each sample of arguments, and gradcheck where all tensors that require a gradient are float64."""
    for arguments in samples:
        torch.library.opcheck(op.default, arguments)
        leaves = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
        if leaves and all(leaf.dtype == torch.float64 for leaf in leaves):
            torch.autograd.gradcheck(op, arguments)
    print(f"{op}: opcheck and gradcheck passed")
