"""Loads libbov_ops.so for the tests of its operators from Python.

Each test is started as: TEST PATH_TO_libbov_ops.so LIBTORCH_FOLDER [UNITTEST_ARGUMENT...]
It exits with status 77 and a reason where torch cannot be imported, or is not the LibTorch that the library is linked to.
"""

import pathlib
import sys
import unittest

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def check(op, arguments):
    """Opcheck in all its kinds: schema, autograd registration, fake tensors, AOT dispatch with dynamic shapes; and
    gradcheck where all tensors that require a gradient are float64."""
    torch.library.opcheck(op.default, arguments)
    flat = [x for a in arguments for x in (a if isinstance(a, list) else [a])]
    leaves = [x for x in flat if isinstance(x, torch.Tensor) and x.requires_grad]
    if leaves and all(leaf.dtype == torch.float64 for leaf in leaves):
        torch.autograd.gradcheck(lambda *_: op(*arguments), leaves)


def main():
    """Loads the library and runs the test cases of the calling script."""
    library, libtorch = sys.argv[1:3]
    del sys.argv[1:3]
    if pathlib.Path(torch.__file__).parent.resolve() != pathlib.Path(libtorch).resolve():
        print(f"skipped: Python's torch is {torch.__file__}, but the library is linked to {libtorch}")
        sys.exit(77)
    torch.ops.load_library(library)
    torch.manual_seed(0)
    unittest.main()
