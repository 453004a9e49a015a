"""`bov convert import` and `export`.

Usage: convert_names_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)
"""

import json
import math
import struct

from convert_case import ConvertCase, main, read_safetensors, write_safetensors
from quickstart_test import ROOT

GOLDEN = ROOT / "tests/golden"


class Names(ConvertCase):
    def config(self, entry):
        value = json.dumps(entry["value"])
        shape = {"sequence_length" if key == "sequence_len" else key: size for key, size in entry["shape"].items()}
        (self.folder / "config.yaml").write_text(f"value: {value}\nmodel: {json.dumps(shape)}\nbudget: {{steps: 2}}\n"
                                                 "train: {tokens_per_step: 144, micro_batch: 1, device: cpu}\n")
        return "config.yaml"

    def entries(self, *names):
        index = json.loads((GOLDEN / "index.json").read_text())
        return [entry for entry in index if entry["file"].removesuffix(".safetensors") in names]

    def import_arguments(self, file, out, prefix="init/"):
        return ["convert", "import", file, "--prefix", prefix, "--config", "config.yaml", "--out", out]

    def test_published_files_come_back_bit_for_bit(self):
        for entry in self.entries("standard", "bank_learned_shared", "add_bank_gated_every_other", "first_layer_fixed_every"):
            with self.subTest(file=entry["file"]):
                name = entry["file"].removesuffix(".safetensors")
                self.config(entry)
                self.bov(*self.import_arguments(GOLDEN / entry["file"], name))
                self.bov("convert", "export", name, "--out", f"{name}.safetensors")
                golden = read_safetensors(GOLDEN / entry["file"])
                exported = read_safetensors(self.folder / f"{name}.safetensors")
                self.assertEqual({f"init/{key}" for key in exported}, {key for key in golden if key.startswith("init/")})
                for key, tensor in exported.items():
                    # Parameters without a gradient are read by no forward pass.
                    expected = golden[f"init/{key}"]
                    if f"grad/{key}" not in golden:
                        expected = (*expected[:2], bytes(len(expected[2])))
                    self.assertEqual(tensor, expected, key)
                # And ours come back from such a file.
                self.bov(*self.import_arguments(f"{name}.safetensors", f"{name}_again", prefix=""))
                self.assertEqual(*[(self.folder / run / "checkpoints/step-0/model.safetensors").read_bytes()
                                   for run in (name, f"{name}_again")])

    def test_a_file_that_does_not_fit_is_refused_with_the_tensor(self):
        (entry,) = self.entries("bank_learned")
        self.config(entry)
        golden = read_safetensors(GOLDEN / entry["file"])
        gamma = "init/transformer.h.4.attn.gamma_v"
        head = golden["init/lm_head.weight"]

        def refuse(changes, *expected):
            tensors = {**golden, **changes}
            write_safetensors(self.folder / "changed.safetensors",
                              {key: tensor for key, tensor in tensors.items() if tensor is not None})
            self.check_refused(self.import_arguments("changed.safetensors", "run"), "changed.safetensors", *expected)
            self.check_nothing_left("run")

        refuse({gamma: None}, "missing: transformer.h.4.attn.gamma_v")
        refuse({"init/transformer.wpe.weight": head}, "'transformer.wpe.weight' is unknown", "transformer.wte.weight")
        refuse({"init/lm_head.weight": ("F32", [64, 64], head[2])},
               "'init/lm_head.weight' is [64, 64]; the config makes it [128, 32]")
        refuse({"init/lm_head.weight": ("F64", [128, 32], head[2] * 2)}, "'init/lm_head.weight' is Double", "Float")
        refuse({"init/lm_head.weight": ("F8_E4M3", [128, 32], head[2][:128 * 32])}, "'init/lm_head.weight' is Float8_e4m3fn", "Float")
        for number in (math.nan, -math.inf):
            data = bytearray(head[2])
            for row, column in [(3, 5), (3, 7), (90, 0)]:
                struct.pack_into("<f", data, 4 * (32 * row + column), number)
            refuse({"init/lm_head.weight": (*head[:2], bytes(data))},
                   "'init/lm_head.weight' is [128, 32] and holds 3 numbers that are NaN or infinite, the first at [3, 5]")
        self.check_refused(self.import_arguments(GOLDEN / entry["file"], "run", prefix="none/"), "begins with 'none/'")
        self.check_refused(self.import_arguments("config.yaml", "run"), "config.yaml", "header")

    def test_a_checkpoint_that_is_not_the_configs_model_is_not_exported(self):
        (entry,) = self.entries("bank_learned")
        self.config(entry)
        self.bov(*self.import_arguments(GOLDEN / entry["file"], "run"))
        config = self.folder / "run/config.yaml"
        text = config.read_text()

        def refuse(setting, changed, *expected):
            self.assertEqual(text.count(setting), 1, text)
            config.write_text(text.replace(setting, changed))
            self.check_refused(["convert", "export", "run", "--out", "out.safetensors"], "run/checkpoints/step-0: ", *expected)
            self.check_nothing_left("out")

        refuse("vocab_size: 128", "vocab_size: 130",
               "tensor 'blocks.4.attention.value.bank.table' is [128, 32]; the config makes it [130, 32]")
        refuse("smear: true", "smear: false", "bov parameter 'smear.gate' is unknown")
        refuse("source: bank", "source: embedding", "bov parameter 'blocks.4.attention.value.bank.table' is unknown")


if __name__ == "__main__":
    main()
