"""What a configuration says of users who are held out: which runs may, and what they need."""

from __future__ import annotations

from typing import Final

from ...accountant.errors import enumerated
from ..declarations.declaration import Complaint, Rule
from ..declarations.given_settings import GivenSettings
from ..declarations.registry import with_use_for
from ..declarations.toml_keys import HELD_OUT_KEYS
from ..tables.schema_text import schema_in

_NOISE: Final = "held_out_noise"
_NONE_INSTEAD: Final = 'Write test = "none" under [evaluation], or the name of a public file.'


def _idle_keys(given: GivenSettings) -> Complaint | None:
    key = next((key for key in HELD_OUT_KEYS if given.states("evaluation", key)), None)
    if given.holds_out or key is None or not given.system.has_use_for("evaluation", key):
        return None  # whose system has no use for it, whatever is tested on, hears so
    return (
        f"gives `{key}` in [evaluation], which has no effect",
        'It is of users who are held out, as test = "held-out" has it.',
        f'Leave `{key}` out, or write test = "held-out" under [evaluation].',
    )


def _of_table(given: GivenSettings) -> Complaint | None:
    if not given.holds_out or given.of_table:
        return None
    return (
        f'has test = "held-out" in [evaluation], and "{given.dataset}" in [data]',
        "Users of a table have ids by which they are held out; a data set of a paper has test data "
        "of its own.",
        'Write test = "public", or leave [evaluation] out.',
    )


def _systems(given: GivenSettings) -> Complaint | None:
    if not given.holds_out or given.system.has_use_for("evaluation", _NOISE):
        return None
    others = enumerated(with_use_for("evaluation", _NOISE), "and") or "none that is installed"
    if not given.system.trains:
        return (
            f'has test = "held-out" in [evaluation], and {given.system.name} trains no model',
            f"A vote is on the answers of a model.  Systems that train one on a table: {others}.",
            _NONE_INSTEAD,
        )
    return (
        f'has test = "held-out" in [evaluation], and {given.system.name} does not pay for the '
        "votes of users yet",
        f"They are one noisy sum more in its plan.  Systems that make it: {others}.",
        _NONE_INSTEAD,
    )


def _hidden_weights(given: GivenSettings) -> Complaint | None:
    if not given.holds_out or given.security.aggregation != "private-weighting":
        return None
    return (
        'has test = "held-out" in [evaluation], and aggregation = "private-weighting"',
        "Its weights are encrypted for those who are trained on, and votes would need their own.",
        f'Write aggregation = "masked" under [security]. {_NONE_INSTEAD}',
    )


def _label(given: GivenSettings) -> Complaint | None:
    if not given.holds_out or not given.of_table:
        return None
    label = schema_in(given.data.schema or "{}").label
    if label is None or label.kind in ("binary", "classes"):
        return None
    return (
        f'has test = "held-out" in [evaluation], and kind = "{label.kind}" in [label] of its '
        "schema",
        "A vote is a user's share of right answers, and of one row by itself no number and no time "
        "is right or wrong.",
        _NONE_INSTEAD,
    )


def _records_of_users(given: GivenSettings) -> Complaint | None:
    if not given.holds_out or given.privacy.unit != "record" or not given.states("data", "user"):
        return None
    others = [unit for unit in given.system.units if unit != "record"]
    return (
        'has test = "held-out" in [evaluation], unit = "record" in [privacy], and `user` in [data]',
        "Each record votes, and of the records of users no public number is known.",
        "Leave `user` out: a record is then held out by what it holds"
        + (f'; or write unit = "{others[0]}".' if others else "."),
    )


def _noise(given: GivenSettings) -> Complaint | None:
    if not given.holds_out or given.states("evaluation", _NOISE):
        return None
    return (
        f'has test = "held-out" in [evaluation], and lacks `{_NOISE}` there',
        "The votes of private users are summed with that noise, and cost budget.",
        f"Write {_NOISE} = 5.0 under [evaluation], for example.",
    )


def _source(given: GivenSettings) -> Complaint | None:
    if not given.holds_out or not given.states("evaluation", "source"):
        return None
    return (
        'gives `source` in [evaluation], which has no effect with test = "held-out"',
        "It says who declared test data public, and users who are held out are private.",
        "Leave it out.",
    )


HELD_OUT_RULES: Final[tuple[Rule, ...]] = (
    _idle_keys,
    _of_table,
    _systems,
    _hidden_weights,
    _label,
    _records_of_users,
    _noise,
    _source,
)
"""In the order in which they are asked."""
