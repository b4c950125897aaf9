"""What libraries call the keys, and which key a word most likely means."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...accountant.decoding import nearest
from .keys import DOTTED, KEYS

SYNONYMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sigma": "noise.noise_multiplier",
        "noise_scale": "noise.noise_multiplier",
        "z": "noise.noise_multiplier",
        "stddev": "noise.std",
        "l2_norm_clip": "noise.clip",
        "max_grad_norm": "noise.clip",
        "clipping_norm": "noise.clip",
        "mechanism": "noise.family",
        "distribution": "noise.family",
        "n": "data.records",
        "num_examples": "data.records",
        "dataset_size": "data.records",
        "population": "data.records",
        "clients": "data.users",
        "q": "sampling.rate",
        "sample_rate": "sampling.rate",
        "sampling_rate": "sampling.rate",
        "sampling_probability": "sampling.rate",
        "batch_size": "sampling.batch",
        "lot_size": "sampling.batch",
        "sampler": "sampling.method",
        "sampling": "sampling.method",
        "noise": "noise.noise_multiplier",
        "schedule": "schedule.steps",
        "sampling_method": "sampling.method",
        "iterations": "schedule.steps",
        "num_steps": "schedule.steps",
        "rounds": "schedule.steps",
        "t": "schedule.steps",
        "num_microbatches": "schedule.microbatches",
        "accumulation_steps": "schedule.accumulation",
        "relation": "claim.neighbours",
        "adjacency": "claim.neighbours",
        "neighbors": "claim.neighbours",
        "neighboring_relation": "claim.neighbours",
        "privacy_unit": "claim.unit",
        "eps": "claim.epsilon",
        "target_delta": "claim.delta",
    }
)
"""What libraries call a key, for the question whether it was meant."""


def likely_key(word: str) -> str | None:
    """Return the dotted key that a word most likely means; None where none is like it.

    >>> likely_key("epsilon"), likely_key("sigma"), likely_key("noise.noise_multipler")
    ('claim.epsilon', 'noise.noise_multiplier', 'noise.noise_multiplier')
    """
    last = word.rpartition(".")[2].lower()
    return (
        DOTTED.get(last)
        or SYNONYMS.get(last)
        or nearest(word, KEYS, least_ratio=0.75)
        or DOTTED.get(nearest(last, DOTTED, least_ratio=0.75) or "")
    )
