"""Pages of `explain` about checks, events and loaders: examples parse, and numbers are computed."""

from __future__ import annotations

import json
import math
import re
import tomllib

from scipy.optimize import brentq
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import rounding
from privplan.accountant.events import definitions, from_json
from privplan.cli.inputs import options
from privplan.cli.inputs.schedule import from_epochs
from privplan.cli.pages import topics

from ..cases import for_each

SCHEDULE = from_epochs(60000, 256, 15.0)
DELTA = 1e-5


def examples(page: str) -> list[str]:
    """Return the JSON objects of a page: they begin a line, and may go on in the next ones.

    >>> examples('  {"a": 1}  so\\n  {"b":\\n    2}\\n')
    ['{"a": 1}', '{"b":\\n    2}']
    """
    found, decoder = [], json.JSONDecoder()
    for match in re.finditer(r'^ +(?=\{")', page, re.MULTILINE):
        _, length = decoder.raw_decode(page[match.end() :])
        found.append(page[match.end() : match.end() + length])
    return found


def kinds() -> set[str]:
    """Return the types of all events of the package; other tests define some of their own."""
    every, waiting = set(), [definitions.Event]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.type and kind.__module__.startswith(definitions.__package__):
            every.add(kind.type)
    return every


def epsilon(sampler: str, neighbours: str) -> pp.Bounds:
    """Return what the run of the pages proves under a sampler."""
    event = SCHEDULE.drawn_by(sampler).around(ev.Gaussian(1.1))
    return pp.account(event, delta=DELTA, neighbours=neighbours).epsilon


def test_every_example_of_an_event_is_one_and_every_event_has_one() -> None:
    shown = [from_json(text) for text in examples(topics.page("events"))]
    assert {event.type for event in shown} == kinds()
    for event in shown:
        assert ev.from_json(event.to_json()) == event


def test_the_python_of_the_events_is_the_same() -> None:
    page = topics.page("events")
    assert "ev.Poisson(0.01, ev.Gaussian(1.0))" in page
    assert '{"type": "poisson", "rate": 0.01, "event": {"type": "gaussian"' in page
    assert ev.Poisson(0.01, ev.Gaussian(1.0)) in [from_json(text) for text in examples(page)]


def test_the_table_of_samplers() -> None:
    page = topics.page("sampling")
    relations = ("add-remove", "zero-out", "replace-one")
    noise, steps = ev.Gaussian(1.1), SCHEDULE.rounds
    drawn = {
        "with-replacement": ev.Repeat(steps, ev.WithReplacement(256, 60_000, noise)),
        "client-sampled": ev.Repeat(steps, ev.ClientSampled(256 / 60_000, noise)),
    }
    rows = {
        **{
            name: [
                rounding.up(pp.account(event, delta=DELTA, neighbours=relation).epsilon.upper)
                for relation in relations
            ]
            for name, event in drawn.items()
        },
        **{
            sampler: [rounding.up(epsilon(sampler, name).upper) for name in relations]
            for sampler in ("poisson", "random-allocation", "fixed-size")
        },
        "shuffled, at most": [rounding.up(epsilon("shuffled", n).upper) for n in relations],
        "shuffled, at least": [rounding.down(epsilon("shuffled", n).lower) for n in relations],
    }
    for name, numbers in rows.items():
        (line,) = re.findall(rf"^  {name} +(\d.*)$", page, re.MULTILINE)
        assert line.split() == numbers, name
    assert all(sampler in page for sampler in options.SAMPLERS if sampler != "full")


def test_the_numbers_of_a_sampled_client() -> None:
    page = " ".join(topics.page("sampling").split())
    said = {
        "Poisson sampling of records says": ev.Poisson(0.1, ev.Gaussian(1.0)),
        "and": ev.ClientSampled(0.1, ev.Gaussian(1.0)),
    }
    for words, event in said.items():
        number = rounding.up(pp.account(event, delta=DELTA).epsilon.upper)
        assert f"{words} {number}" in page


def test_the_numbers_of_dp_sgd() -> None:
    page = topics.page("dp-sgd")
    assert f"epsilon {rounding.up(epsilon('poisson', 'add-remove').upper)}" in page
    assert f"at least {rounding.down(epsilon('shuffled', 'zero-out').lower)}" in page
    assert f"{rounding.up(epsilon('poisson', 'replace-one').upper)} and not 1.134" in page
    (example,) = re.findall(r'\{"type".*?\}\}\}', page, re.DOTALL)
    filled = example.replace('"count": T', '"count": 9').replace('"rate": q', '"rate": 0.1')
    event = from_json(filled.replace('"noise_multiplier": z', '"noise_multiplier": 2'))
    assert event == ev.Repeat(9, ev.Poisson(0.1, ev.Gaussian(2.0)))


def test_the_approximation_of_the_page_on_opacus() -> None:
    """mu = q sqrt(T (e^(1/s^2) - 1)), and delta(epsilon) of Gaussian noise 1 / mu."""
    mu = 0.001 * math.sqrt(10_000 * math.expm1(1.0 / 0.5**2))

    def excess(value: float) -> float:
        below = norm.cdf(-value / mu + mu / 2.0) - math.exp(value) * norm.cdf(-value / mu - mu / 2)
        return float(below - 1e-6)

    assert f"{brentq(excess, 0.1, 20.0):.2f}" == "3.44"
    run = ev.Repeat(10_000, ev.Poisson(0.001, ev.Gaussian(0.5)))
    assert abs(pp.account(run, delta=1e-6).epsilon.upper - 6.35) < 0.005
    page = " ".join(topics.page("opacus").split())
    assert "noise 0.5, rate 0.001, 10,000 steps and delta 1e-6 it says 3.44" in page


def test_the_example_of_a_description_is_one() -> None:
    from privplan.audit.description.merging import describe
    from privplan.audit.description.tables import reading_of_tables

    page = topics.page("check")
    block = page.split("every key is optional:\n")[1].split("\nAlso known:")[0]
    text = re.sub(r"^  ", "", block, flags=re.MULTILINE)
    run = describe([reading_of_tables(tomllib.loads(text), "run.toml")])
    assert run.contradictions == ()
    assert run.get("schedule.steps", int) == SCHEDULE.rounds


def test_the_page_on_checks_names_every_key_word_and_verdict() -> None:
    from typing import get_args

    from privplan.audit.check.check_result import Verdict
    from privplan.audit.description.keys import KEYS

    page = topics.page("check")
    for key in KEYS.values():
        assert re.search(rf"\b{key.name.rpartition('.')[2]}\b", page), key.name
        for word in key.words:
            assert re.search(rf"\b{word}\b", page), (key.name, word)
    for verdict in get_args(Verdict):
        assert f"\n  {verdict} " in page


@for_each("topic", ["opacus", "dp-sgd", "check"])
def test_the_keys_that_pages_name_exist(topic: str) -> None:
    from privplan.audit.description.keys import KEYS, TABLES

    tables = "|".join(TABLES)
    named = set(re.findall(rf"\b(?:{tables})\.[a-z_]+", topics.page(topic)))
    assert named <= set(KEYS)
