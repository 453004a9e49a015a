"""Means over seeds with Student's 95 % interval, and differences paired by seed."""

import math
import typing

import scipy.special


class Estimate(typing.NamedTuple):
    count: int
    mean: float  # nan without samples
    half_width: float  # nan below two samples: one says nothing about its spread


def estimate(samples):
    samples = [float(sample) for sample in samples]
    count = len(samples)
    if not count:
        return Estimate(0, math.nan, math.nan)
    mean = math.fsum(samples) / count
    if count == 1:
        return Estimate(1, mean, math.nan)
    variance = math.fsum((sample - mean) ** 2 for sample in samples) / (count - 1)
    return Estimate(count, mean, scipy.special.stdtrit(count - 1, 0.975) * math.sqrt(variance / count))


def bits_per_byte(row):
    return estimate(run.bits_per_byte for run in row.complete())


def paired_difference(row, baseline):
    """Final bits per byte of `row` minus those of `baseline`, over the seeds that both have finished."""
    references = {run.seed: run.bits_per_byte for run in baseline.complete()}
    return estimate(run.bits_per_byte - references[run.seed] for run in row.complete() if run.seed in references)
