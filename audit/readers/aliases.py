"""Names that logs, tables and configurations use, and what they stand for.

Names are compared without case, and with `-`, spaces and dots as `_`; a leading path such as
`train/` or `privacy/` is passed over.  `ALIASES` lists them by role.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    role: tuple(names.split())
    for role, names in {
        "noise": "noise_multiplier sigma noise noise_mult noise_scale nm noisemultiplier dp_noise "
        "σ",
        "rate": "sample_rate sampling_rate q rate sampling_probability sampling_prob sample_prob",
        "steps": "steps num_steps n_steps iterations num_iterations count n_iter max_steps",
        "step": "step global_step iteration iter round global_round",
        "epochs": "epochs num_epochs n_epochs max_epochs num_train_epochs",
        "epoch": "epoch",
        "epsilon": "epsilon eps final_epsilon epsilon_spent spent_epsilon privacy_epsilon "
        "dp_epsilon ε",
        "target": "target_epsilon epsilon_target max_epsilon epsilon_budget epsilon_max "
        "privacy_budget",
        "delta": "delta target_delta dp_delta δ",
        "clip": "max_grad_norm clip clipping_norm l2_norm_clip clip_norm max_per_sample_grad_norm "
        "max_clip_norm l2_clip_norm per_sample_max_grad_norm clipping_threshold",
        "batch": "batch_size lot_size logical_batch_size expected_batch_size train_batch_size",
        "records": "dataset_size num_examples n_train train_size sample_size num_samples n_samples",
        "microbatches": "microbatches num_microbatches",
        "microbatch_size": "microbatch_size",
        "poisson": "poisson_sampling",
        "accumulation": "gradient_accumulation_steps accumulation_steps accumulate_grad_batches",
        "accountant": "accountant accountant_type mechanism",
    }.items()
}
"""What the readers of histories, logs and configurations know, with all names of each."""

OPTIMIZER_EPSILON: Final = 1e-4
"""An epsilon below this, in a log or a configuration, is that of an optimizer."""

_ROLE_OF: Final = {name: role for role, names in ALIASES.items() for name in names}


def role_of(name: str) -> str | None:
    """Return what a name stands for; None for a name that is not known.

    >>> role_of("Noise-Multiplier"), role_of("train/epsilon"), role_of("loss")
    ('noise', 'epsilon', None)
    """
    plain = name.strip().strip("\"'").rpartition("/")[2]
    return _ROLE_OF.get(re.sub(r"[\s.\-]+", "_", plain.strip().lower()))


def speaks_of_privacy(roles: set[str]) -> bool:
    """Return whether names say something of a private run: its noise, or an epsilon."""
    return bool(roles & {"noise", "epsilon", "target"}) and len(roles) > 1
