"""Checks bov's safetensors files against Python's safetensors library, both ways.

Usage: safetensors_interchange.py FROM_BOV TO_BOV

Reads FROM_BOV, compares it with tensors made here by the rule that tests/io/io_test.cpp uses too, and writes the same
tensors to TO_BOV. Exit status 77: the library is not installed.
"""

import sys

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file
except ImportError as error:
    print(f"cannot import: {error}")
    sys.exit(77)

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64,
          torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool]
METADATA = {"source": "bov", "text": 'quote " and line\nbreak, größe'}


def expected_tensors():
    tensors = {}
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        tensors[f"{name}.matrix"] = torch.arange(15).reshape(3, 5).to(dtype)
        tensors[f"{name}.scalar"] = torch.tensor(1).to(dtype)
        tensors[f"{name}.empty"] = torch.empty(0, 7, dtype=dtype)
    tensors["schlüssel \"γ\""] = torch.tensor([0.1], dtype=torch.float64)
    return tensors


def same_bytes(left, right):
    return left.shape == right.shape and torch.equal(left.flatten().view(torch.uint8), right.flatten().view(torch.uint8))


def main():
    from_bov, to_bov = sys.argv[1:]
    expected = expected_tensors()
    with safe_open(from_bov, framework="pt") as file:
        assert file.metadata() == METADATA, file.metadata()
        assert set(file.keys()) == set(expected), set(file.keys()) ^ set(expected)
        for name, tensor in expected.items():
            found = file.get_tensor(name)
            assert found.dtype == tensor.dtype, (name, found.dtype)
            assert same_bytes(found, tensor), (name, found, tensor)
    save_file(expected, to_bov, metadata=METADATA)


if __name__ == "__main__":
    main()
