"""The fields of a `BandMFConfig`: their ranges, their defaults, and their printed text.

Fields that are left out have the library's defaults, and what the library refuses is refused.
Printed text is parsed in a closed grammar and never evaluated; an array that numpy printed with
dots in it is known by its length only.

Source: jax_privacy 2.2 and the head of August 2026, module execution_plan (`BandMFConfig`; until
2.2 `BandMFExecutionPlanConfig` with `sampling_prob`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from .band_mf import BandedStrategy, BandMF
from .dp_event_text import called_name, literal, outside, parsed
from .read_values import known_fields

CONFIG_NAMES: Final = ("BandMFConfig", "BandMFExecutionPlanConfig")
RATES: Final = ("expected_participations", "sampling_prob")
FIELDS: Final = (
    "iterations",
    *RATES,
    "strategy",
    "noise_multiplier",
    "l2_clip_norm",
    "rescale_to_unit_norm",
    "normalize_by",
    "truncated_batch_size",
    "num_examples",
    "column_normalize",
)


def checked(fields: Mapping[str, Any]) -> BandMF:
    """Return a configuration whose fields are in their ranges.

    Raises `InvalidInput` for an unknown or missing field, and a value that the library refuses.
    """
    known_fields(fields, FIELDS, "", "jax_privacy")
    iterations = validate.count(iterations=_needed(fields, "iterations"))
    strategy = _strategy(_needed(fields, "strategy"), iterations)
    optional = {key: fields.get(key) for key in FIELDS}
    noise, truncated, records = (
        optional[key] for key in ("noise_multiplier", "truncated_batch_size", "num_examples")
    )
    validate.non_negative(normalize_by=fields.get("normalize_by", 1.0))
    normalised = fields.get("column_normalize", False)
    if not isinstance(normalised, bool):
        raise InvalidInput("`column_normalize` must be true or false.")
    return BandMF(
        iterations,
        strategy,
        _rate(fields, iterations, strategy.bands),
        None if noise is None else validate.non_negative(noise_multiplier=noise),
        validate.non_negative(l2_clip_norm=fields.get("l2_clip_norm", 1.0)),
        None if truncated is None else validate.count(truncated_batch_size=truncated),
        None if records is None else validate.count(num_examples=records),
        normalised,
    )


def _rate(fields: Mapping[str, Any], iterations: int, bands: int) -> float:
    if all(fields.get(key) is not None for key in RATES):
        raise InvalidInput("`sampling_prob` and `expected_participations` are both given.")
    if fields.get("expected_participations") is None:
        rate = validate.probability(sampling_prob=fields.get("sampling_prob", 1.0))
        field = "sampling_prob"
    else:
        field = "expected_participations"
        expected = validate.non_negative(expected_participations=fields[field])
        if expected > iterations // bands:
            raise InvalidInput(
                f"`expected_participations` is {expected:g}; one record can take part in "
                f"{iterations // bands:,} iterations in full cycles.",
                "The library refuses more.",
                "Correct the configuration.",
            )
        rate = min(expected * bands / iterations, 1.0)
    if rate == 0.0:
        raise InvalidInput(f"`{field}` is 0: nothing would ever be sampled.")
    return rate


def _strategy(value: object, iterations: int) -> BandedStrategy:
    if isinstance(value, BandedStrategy):
        strategy = value
    elif isinstance(value, list) and value:
        coefficients = tuple(_coefficient(item) for item in value)
        strategy = BandedStrategy(len(coefficients), coefficients)
    else:
        raise InvalidInput("`strategy` must be a list of at least one coefficient.")
    if strategy.bands > iterations:
        raise InvalidInput(
            f"`strategy` has {strategy.bands:,} bands for {iterations:,} iterations.",
            "The library refuses more bands than iterations.",
            "Correct the configuration.",
        )
    return strategy


def _coefficient(value: object) -> float:
    magnitude = abs(value) if isinstance(value, (int, float)) else value
    return validate.non_negative(strategy=magnitude)


def _needed(fields: Mapping[str, Any], field: str) -> Any:
    if fields.get(field) is None:
        raise InvalidInput(
            f"`{field}` is missing.",
            "Every configuration of the library has it.",
            "Check that the file is whole.",
        )
    return fields[field]


def printed_fields(text: str) -> dict[str, object]:
    """Return the fields of a configuration as it is printed.

    Raises `InvalidInput` for text outside the grammar.
    """
    tree = parsed(text)
    if not isinstance(tree, ast.Call) or tree.args or called_name(tree) not in CONFIG_NAMES:
        raise outside("it is no configuration with named fields")
    fields: dict[str, object] = {}
    for keyword in tree.keywords:
        if keyword.arg is None or keyword.arg in fields:
            raise outside("it has a field without a name, or one twice")
        is_strategy = keyword.arg == "strategy"
        shortened = _shortened(keyword.value) if is_strategy else None
        fields[keyword.arg] = shortened or literal(keyword.value, 0)
    return fields


def _shortened(node: ast.expr) -> BandedStrategy | None:
    """Return the strategy of an array that is printed with dots in it; its shape says how long."""
    if not isinstance(node, ast.Call) or not any(
        isinstance(part, ast.Constant) and part.value is ... for part in ast.walk(node)
    ):
        return None
    for keyword in node.keywords:
        if keyword.arg == "shape":
            shape = literal(keyword.value, 0)
            if isinstance(shape, list) and len(shape) == 1:
                return BandedStrategy(validate.count(shape=shape[0]), None)
    raise InvalidInput(
        "`strategy` is printed with dots in it, and without its length.",
        "The number of bands decides how often a record takes part.",
        "Save the coefficients in full: config.strategy.tolist().",
    )
