"""What configurations of the published algorithms may say, and what their logs then state."""

from __future__ import annotations

from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.frame.expected_log import first_of, phase_of
from privplan.fl.frame.expected_opening import OPENING, NotStated, security_of
from privplan.fl.settings.toml_file import parse

from ...cases import for_each
from .published_small import SYSTEMS, built, settings

ALL = ("original", "utility", "private")
PUBLISHED = {"as_published": True, "largest_element": 3.0, "entry_clip": 0.25}

TEXT = """\
[run]
system = "fedpower-{algorithm}"
[data]
name = "digits"
silos = {silos}
[privacy]
{privacy}
[security]
{security}
[fedpower]
rank = 3
row_norm = 4.0
{table}
"""


def parsed(
    algorithm: str,
    table: str = "",
    privacy: str = "noise_multiplier = 5.0",
    security: str = "",
    silos: int = 5,
) -> Any:
    given = {"privacy": privacy, "security": security, "table": table, "silos": silos}
    return parse(TEXT.format(algorithm=algorithm, **given).encode(), "run.toml")


@for_each("algorithm", ALL)
def test_what_is_not_said_is_the_usual(algorithm: str) -> None:
    read = parsed(algorithm)
    assert read.security.aggregation == ("plain" if algorithm == "original" else "masked")
    assert read.privacy.unit == "record"
    assert read.table.synchronise_every == 1
    assert not read.as_published
    assert read.run.rounds == 6


@for_each("algorithm", ALL)
@for_each(
    ("table", "privacy", "named"),
    [
        ("as_published = true", "epsilon = 8.0", "epsilon"),
        ("synchronise_every = 4", "noise_multiplier = 5.0", "synchronise_every"),
        ("largest_element = 3.0", "noise_multiplier = 5.0", "largest_element"),
        ("divide_by_rows = true", "noise_multiplier = 5.0", "divide_by_rows"),
        ('design = "power"', "noise_multiplier = 5.0", "design"),
        ("most_values = 100", "noise_multiplier = 5.0", "most_values"),
        ("signal = 0.25", "noise_multiplier = 5.0", "signal"),
        ("synchronise_every = 0", "noise_multiplier = 5.0", "synchronise_every"),
        ("entry_clip = 0.0", "noise_multiplier = 5.0", "entry_clip"),
        ("largest_change = 1.0", "noise_multiplier = 5.0", "largest_change"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    algorithm: str, table: str, privacy: str, named: str
) -> None:
    with pytest.raises(InvalidInput, match=named):
        parsed(algorithm, table, privacy)


@for_each("algorithm", ["original", "utility"])
def test_only_the_third_clips_entries_where_noise_is_for_a_row(algorithm: str) -> None:
    with pytest.raises(InvalidInput, match="entry_clip"):
        parsed(algorithm, "entry_clip = 0.5")
    assert parsed("private", "entry_clip = 0.5").table.entry_clip == 0.5
    published = parsed(algorithm, "entry_clip = 0.5\nas_published = true")
    assert published.table.entry_clip == 0.5


@for_each("algorithm", ALL)
def test_rows_are_divided_by_where_their_number_stays(algorithm: str) -> None:
    noise = "noise_multiplier = 5.0\n"
    for table, privacy in (
        (
            "divide_by_rows = true\nlargest_change = 1.0",
            noise + 'unit = "entry"\nneighbours = "replace-one"',
        ),
        ("divide_by_rows = true\nsilo_rows = 9", noise + 'unit = "silo"'),
        ("divide_by_rows = true\nas_published = true", noise),
    ):
        assert parsed(algorithm, table, privacy).table.divide_by_rows


@for_each("algorithm", ["original", "utility"])
def test_a_public_cap_below_the_columns_allows_no_steps_by_themselves(algorithm: str) -> None:
    table = "as_published = true\nsynchronise_every = 2\nsilo_rows = 2"
    silo = 'noise_multiplier = 5.0\nunit = "silo"'
    with pytest.raises(InvalidInput, match="silo_rows = 2"):
        parsed(algorithm, table, silo)
    assert parsed("private", table, silo).table.silo_rows == 2
    assert parsed(algorithm, table.replace("silo_rows = 2", "silo_rows = 3"), silo)


def test_who_sums_decides_the_algorithm_and_what_else_it_takes() -> None:
    read = parsed("utility", security="key_bits = 2048\nprocesses = 2")
    assert (read.security.key_bits, read.security.processes) == (2048, 2)
    assert parsed("private", security="dropouts = 1").security.dropouts == 1
    steps = "as_published = true\nsynchronise_every = 2"
    for algorithm, table, security, what in (
        ("original", "", 'aggregation = "masked"', "cannot sum by it"),
        ("utility", "", 'aggregation = "plain"', "cannot sum by it"),
        ("private", "", 'aggregation = "plain"', "cannot sum by it"),
        ("private", "", "processes = 2", "processes"),
        ("utility", "", "key_bits = 1024", "key_bits"),
        ("utility", "", "dropouts = 1", "dropouts"),
        ("private", steps, "dropouts = 1", "dropouts"),
    ):
        with pytest.raises(InvalidInput, match=what):
            parsed(algorithm, table, security=security)


@for_each("algorithm", SYSTEMS)
def test_one_silo_is_refused_where_sums_are_masked(algorithm: str, tiny: Any) -> None:
    federation = tiny(silos=1)
    if algorithm == "original":
        assert "silo" not in built(algorithm, federation).views(5.0)
        return
    with pytest.raises(InvalidInput, match="Masks need two silos"):
        built(algorithm, federation)


@for_each("algorithm", [one for one in SYSTEMS if one != "private"])
def test_a_node_with_too_few_rows_is_named_and_not_its_number(algorithm: str, tiny: Any) -> None:
    with pytest.raises(InvalidInput, match=r"silo-\d has fewer rows") as refusal:
        built(algorithm, tiny(features=40), rank=14, synchronise_every=2, as_published=True)
    assert not any(f" {count} " in str(refusal.value) for count in range(2, 14))
    assert built(algorithm, tiny(features=40), rank=14, as_published=True)


def test_noise_gives_few_rows_all_directions(tiny: Any, run: Any) -> None:
    if "private" not in SYSTEMS:
        pytest.skip("masked sums need the extra `fl`")
    table = {**PUBLISHED, "rank": 14, "synchronise_every": 2}
    models, _ = run(built("private", tiny(features=40), rounds=1, **table))
    assert abs(models[1]).max() <= 0.25


VARIANTS: dict[str, dict[str, Any]] = {
    "for a row": {},
    "found": {"privacy": {"epsilon": 4.0}},
    "as published": PUBLISHED,
    "divided, as published": {**PUBLISHED, "divide_by_rows": True, "divisor": 3.0},
    "four steps": {**PUBLISHED, "synchronise_every": 4},
    "divided": {
        "divide_by_rows": True,
        "divisor": 3.0,
        "largest_change": 1.0,
        "privacy": {"unit": "entry", "neighbours": "replace-one"},
    },
}


@for_each("variant", VARIANTS)
@for_each("algorithm", SYSTEMS)
def test_the_configuration_alone_says_what_the_log_states(
    algorithm: str, variant: str, tiny: Any, run: Any
) -> None:
    """What the audit expects, from the configuration, against what rounds state; all fields."""
    changes = {"rounds": 2, **VARIANTS[variant]}
    federation = tiny(features=64)  # as many as `digits` has
    given_settings = settings(algorithm, federation, **changes)
    system = built(algorithm, federation, **changes)
    models, log = run(system)
    tables = given_settings.tables()

    def read(table: str, key: str) -> Any:
        return getattr(tables[table], key)

    for intent, release in zip(log.intents, log.releases, strict=True):
        expected = phase_of(read, intent, release.values)
        assert expected.contribution == intent.contribution
        assert expected.noise == intent.noise
        assert expected.sensitivity == intent.sensitivity
        assert expected.normaliser == release.normaliser
        assert expected.clip_enforced == release.clip_enforced
        # Where no stated bound holds, no number may follow from the log.
        assert release.clip_enforced == (variant not in ("four steps", "divided, as published"))
        assert (expected.weights, expected.sampling) == (intent.weights, intent.sampling)
    assert (first_of(read) == models[0]).all()
    opening = system.opening()
    assert security_of(read) == opening.security
    facts = dict(OPENING)
    assert facts["as_published"](read) == opening.as_published
    declared = given_settings.sealed_items()
    assert {name for one in log.sealed for name in one} == set(declared["release"])
    assert all(intent.phase == "release" for intent in log.intents)
    if "epsilon" not in changes.get("privacy", {}):
        with pytest.raises(NotStated):
            facts["claim.epsilon"](read)
