"""`bov convert fold --calibrate`: a standard model with tables of its mean values.

Usage: convert_calibrate_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)
"""

import json

from convert_case import TOKENS_PER_STEP, VOCABULARY, TrainedCase, main


class Calibrate(TrainedCase):
    def evaluations(self, run):
        rows = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        return [row for row in rows if "validation_bpb" in row]

    def test_a_standard_model_goes_on_with_tables_of_its_mean_values(self):
        self.train("standard", "{preset: standard}", smear="true")
        means = self.bov_json("convert", "fold", "standard", "--out", "means", "--calibrate", "shards",
                              "--recover-tokens", "5000", "--tokens", "512")
        self.assertEqual(means["layers"], [2])
        self.assertEqual(means["rows_seen"] + means["rows_unseen"], VOCABULARY)
        self.assertGreater(means["rows_unseen"], 0)
        self.assertEqual(means["calibration_tokens"], self.training_tokens("shards"))
        # 5,000 tokens are 19.5 steps.
        self.assertEqual(means["recover_tokens"], 20 * TOKENS_PER_STEP)
        result = json.loads((self.folder / "means/result.json").read_text())
        self.assertEqual((result["step"], result["tokens"]), (20, 20 * TOKENS_PER_STEP))

        # All of it is measured over the same targets, those of `bov eval --tokens 512`.
        before, after, recovered = (means[f"bits_per_byte_{when}"] for when in ("before", "after", "recovered"))
        self.assertLess(abs(after - before), 0.5)
        self.assertLess(recovered, after)
        evaluation = self.bov_json("eval", "standard", "--tokens", "512")
        self.assertEqual((before, means["validation_tokens"]), (evaluation["validation_bpb"], evaluation["validation_tokens"]))
        self.assertLessEqual(means["validation_tokens"], 512)
        self.assertEqual([(row["step"], row["validation_tokens"]) for row in self.evaluations("means")],
                         [(0, means["validation_tokens"]), (20, means["validation_tokens"])])
        self.assertEqual([row["validation_bpb"] for row in self.evaluations("means")], [after, recovered])
        self.assertEqual(self.bov_json("eval", "means")["validation_bpb"], recovered)
        self.assertEqual(means["checkpoint"], str(self.checkpoint("means")))

        self.check_refused(["convert", "fold", "standard", "--out", "out"], f"{self.folder / 'standard'}: ", "'stream'",
                           "--calibrate TEXT")
        self.check_nothing_left("out")

    def test_the_asked_tokens_of_a_text_are_seen_once(self):
        self.train("standard", "{preset: standard}", smear="true")
        (self.folder / "some.txt").write_text("the and of " * 50)
        self.build_data("some", "some.txt", 0)
        length = self.training_tokens("some")
        fold = ["convert", "fold", "standard", "--calibrate", "some.txt", "--tokens", "512", "--out"]
        text = self.bov(*fold, "text", "--layers", "0,2")
        self.assertIn("tables in layers [0,2]", text)
        self.assertIn(f"mean values over {length} tokens", text)
        self.assertIn("filled with the mean over all tokens", text)
        self.assertEqual(sorted(path.name for path in (self.folder / "text").iterdir()),
                         ["checkpoints", "config.yaml", "environment.json"])
        self.assertEqual(sorted(path.name for path in self.folder.glob("text*")), ["text", "text.jsonl"])
        # Its first token and the bos before it.
        first = self.bov_json(*fold, "first", "--calibrate-tokens", "1")
        self.assertEqual((first["calibration_tokens"], first["rows_seen"]), (1, 2))

    def test_a_run_of_published_packing_sees_each_token_once(self):
        self.train("published", "{preset: standard}", smear="true", packing="as_published")
        fold = ["convert", "fold", "published", "--calibrate", "shards", "--tokens", "512", "--out"]
        self.assertEqual(self.bov_json(*fold, "all")["calibration_tokens"], self.training_tokens("shards"))
        some = self.bov_json(*fold, "some", "--calibrate-tokens", "1000", "--recover-tokens", "512")
        self.assertEqual((some["calibration_tokens"], some["recover_tokens"]), (1000, 512))
        self.assertEqual([row["validation_bpb"] for row in self.evaluations("some")],
                         [some["bits_per_byte_after"], some["bits_per_byte_recovered"]])

    def test_other_data_are_measured_on_and_not_trained_on(self):
        self.train("standard", "{preset: standard}", smear="true")
        self.build_data("other", "text.jsonl", 500)
        other = self.bov_json("convert", "fold", "standard", "--out", "means", "--calibrate", "shards",
                              "--calibrate-tokens", "2000", "--recover-tokens", "512", "--data", "other", "--tokens", "512")
        evaluate = ["eval", "--tokens", "512", "--data", "other"]
        self.assertEqual(other["bits_per_byte_before"], self.bov_json(*evaluate, "standard")["validation_bpb"])
        self.assertEqual(other["bits_per_byte_recovered"], self.bov_json(*evaluate, "means")["validation_bpb"])
        # The new run is one of the old run's data.
        self.assertIn("shards: shards\n", (self.folder / "means/config.yaml").read_text())
        runs = [json.loads((self.folder / run / "environment.json").read_text())["data"] for run in ("means", "standard")]
        self.assertEqual(*runs)
        (last,) = self.evaluations("means")[1:]
        self.assertEqual(last["validation_bpb"], self.bov_json("eval", "means")["validation_bpb"])
        self.assertNotEqual(last["validation_bpb"], other["bits_per_byte_recovered"])


if __name__ == "__main__":
    main()
