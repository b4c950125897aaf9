"""What a model and a number of users allow in FLAME's systems, whoever builds them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant.amplification.shuffling.double import overflow_probability
from privplan.accountant.errors import InvalidInput, PrivplanError
from privplan.fl.flame.padding import OVERFLOW_PART, USUAL_PADDING_FACTOR
from privplan.fl.flame.settings import FlameSettings, Protocol
from privplan.fl.flame.system import Flame
from privplan.fl.running.preparation import prepare
from privplan.fl.settings.schema import SecuritySettings

from ..cases import for_each
from .conftest import make_federation, make_setup
from .extras import needs
from .flame_runs import USERS, flame
from .refusals import refusals

pytestmark = needs("sklearn", "nacl", "torch")

D = 31
"""Parameters of the model of the runs here."""

UNPROMISED = "noise_multiplier alone in place of epsilon runs it without a guarantee."

PREPARED = refusals(
    f"""
flame-simple | data.users = 1
    A shuffle needs two users who tell nothing; there is 1.
    Have more `users` in [data], or lower `colluders` in [security].
flame-double | security.colluders = {USERS - 1}
    there are {USERS}, and `colluders` is {USERS - 1}
    Have more `users` in [data], or lower `colluders` in [security].
flame-topk | security.colluders = 20; flame.transport = "ideal"
    there are {USERS}, and `colluders` is 20
    Have more `users` in [data], or lower `colluders` in [security].
flame-double | security.colluders = 6; flame.padded_to = 6
    `padded_to` in [flame] is 6, and `colluders` in [security] is 6
    Give `padded_to` = 8 or more, or lower `colluders`.
flame-double | security.colluders = 5; flame.padded_to = 6
    `padded_to` in [flame] is 6, and `colluders` in [security] is 5
    Give `padded_to` = 7 or more, or lower `colluders`.
flame-double | flame.padded_to = 100000000000; flame.transport = "ideal"
    A round draws {D * 10**11:,} messages
    Give a smaller `padded_to` under [flame], or have a smaller model or fewer users.
flame-double | flame.chosen = {D + 1}
    `chosen` is {D + 1}; the model has {D} coordinates.
    Give `chosen`, from 1 to {D}, under [flame].
flame-topk | flame.padded_to = {USERS - 1}; privacy.epsilon = 3.5
    padded_to = {USERS - 1} is below users = {USERS}.
    Write padded_to = {USERS}, or leave it out; {UNPROMISED}
flame-topk | flame.granularity = "tuple"; privacy.epsilon = 3.5
    granularity = "tuple" keeps together what a user of flame-topk sends.
    Write granularity = "coordinate", or leave it out; {UNPROMISED}
flame-topk | flame.chosen = 5; flame.decoys = {D - 4}
    `chosen` and `decoys` must be at most {D} together.
    Give `chosen`, 1 or above, and fewer of both.
flame-double | flame.chosen = {D}; flame.padded_to = {USERS - 1}
    `padded_to` must be {USERS} or above
    Give `padded_to` = {USERS} or more.
flame-double | privacy.observer = "server"
    This run has no observer 'server' of its own.
    Name one of them as `observer` in [privacy].
"""
)


@for_each("name", PREPARED)
def test_what_does_not_fit_is_refused_before_anything_runs(name: str) -> None:
    system, tables, said, way_out = PREPARED[name]
    own = flame(system, **tables)
    with pytest.raises(InvalidInput) as caught:
        prepare(own)
    assert said in str(caught.value)
    assert caught.value.why
    assert caught.value.next_step == way_out


def test_the_refusal_of_a_target_blames_nothing_that_was_not_written() -> None:
    table = FlameSettings(chosen=2, padded_to=5)
    for given in ({"epsilon": 3.5, "noise_multiplier": None}, {"epsilon": 3.5}):
        with pytest.raises(InvalidInput, match="padded_to = 5 is below users = 6") as caught:
            built("topk", table, **given).plan()
        assert "published" not in f"{caught.value} {caught.value.why} {caught.value.next_step}"
    assert built("topk", table, noise_multiplier=2.0).promise.claim.epsilon == float("inf")


@for_each(
    ("system", "tables"),
    [
        ("flame-simple", {"security": {"colluders": str(USERS - 2)}}),
        ("flame-double", {"data": {"users": "2"}}),
        ("flame-double", {"flame": {"chosen": str(D)}}),
        ("flame-topk", {"flame": {"chosen": "5", "decoys": str(D - 5)}}),  # nu = 1
        ("flame-topk", {"flame": {"chosen": "5", "decoys": "0"}}),  # nu = 1 / beta
    ],
)
def test_the_edge_of_what_fits_is_taken(system: str, tables: dict[str, dict[str, str]]) -> None:
    prepare(flame(system, **tables))


SHUFFLED = SecuritySettings(aggregation="shuffle")
SHUFFLE: dict[str, Any] = {"neighbours": "replace-one", "observer": "analyzer", "delta": 1e-5}


def built(
    protocol: Protocol = "double",
    table: FlameSettings | None = None,
    *,
    silos: int = 1,
    security: SecuritySettings = SHUFFLED,
    **privacy: Any,
) -> Flame:
    """Return a system of 6 users with 4 parameters, beside every rule on what files say."""
    setup = make_setup(f"flame-{protocol}", make_federation(silos=silos), **{**SHUFFLE, **privacy})
    given_table = FlameSettings(chosen=2) if table is None else table
    return Flame(replace(setup, security=security), given_table, protocol)


BUILT: dict[str, tuple[dict[str, Any], str, str]] = {
    "add-remove": (
        {"neighbours": "add-remove"},
        "accounted under replace-one alone",
        'Write neighbours = "replace-one"',
    ),
    "zero-out": ({"neighbours": "zero-out"}, "accounted under replace-one alone", '"replace-one"'),
    "a record": (
        {"unit": "record"},
        "promises privacy for all records of a user",
        'Write unit = "user"',
    ),
    "a sample": ({"sampling_rate": 0.5}, "does not sample users", "`sampling_rate`"),
    "silos": ({"silos": 3}, "has silos = 3", "Write silos = 1"),
    "in the clear": (
        {"security": SecuritySettings()},
        'aggregation = "plain" in [security], and flame-double cannot sum by it',
        'Write aggregation = "shuffle"',
    ),
    "two of six honest, less one": (
        {"security": replace(SHUFFLED, colluders=5)},
        "tell the analyzer nothing",
        "fewer that collude",
    ),
    "nothing chosen": ({"table": FlameSettings()}, "`chosen` is missing", "Give `chosen`"),
    "0 chosen": ({"table": FlameSettings(chosen=0)}, "`chosen` is 0", "from 1 to 4"),
    "5 of 4": ({"table": FlameSettings(chosen=5)}, "has 4 coordinates", "from 1 to 4"),
    "decoys": ({"table": FlameSettings(chosen=2, decoys=1)}, "`decoys` is 1.", "Leave `decoys`"),
    "decoys of the largest, beyond all": (
        {"protocol": "topk", "table": FlameSettings(chosen=2, decoys=3)},
        "must be at most 4 together",
        "fewer of both",
    ),
    "fewer decoys than none": (
        {"protocol": "topk", "table": FlameSettings(chosen=2, decoys=-1)},
        "`decoys` is -1.",
        "Leave `decoys` out.",
    ),
    "padded to less than all": (
        {"table": FlameSettings(chosen=4, padded_to=5)},
        "all send everything",
        "Give `padded_to` = 6 or more.",
    ),
}


@for_each("name", BUILT)
def test_a_system_that_does_not_go_together_is_refused(name: str) -> None:
    given, said, way_out = BUILT[name]
    with pytest.raises(PrivplanError) as caught:
        built(**given)
    assert said in str(caught.value)
    assert caught.value.why
    assert way_out in str(caught.value.next_step)


@for_each("protocol", ["simple", "double", "topk"])
@for_each("transport", ["sealed", "ideal"])
def test_a_system_that_goes_together_is_built(protocol: Any, transport: Any) -> None:
    table = FlameSettings(chosen=2, transport=transport)
    system = built(protocol, table, security=replace(SHUFFLED, colluders=3))
    assert system.terms.chosen == (4 if protocol == "simple" else 2)
    assert (system.network is None) == (transport == "ideal")
    assert system.security.colluders == 3


@for_each("rounds", [2, 50])
def test_the_usual_padding_is_twice_the_least_that_hardly_ever_overflows(rounds: int) -> None:
    users, dimensions, chosen = 200, 31, 5
    federation = make_federation(users=users, silos=1, records=300, features=dimensions)

    def padded_to(protocol: Protocol) -> int | None:
        setup = make_setup(f"flame-{protocol}", federation, rounds=rounds, **SHUFFLE)
        own = replace(setup, security=SHUFFLED)
        return Flame(own, FlameSettings(chosen=chosen), protocol).terms.padded_to

    def chance(padded: int) -> float:
        sizes = (users, dimensions, chosen, padded)
        event = ev.SampledShuffle(*sizes, "coordinate", "oblivious", "refuse", ev.Local(1.0))
        return float(overflow_probability(event))

    usual = padded_to("double")
    assert usual is not None
    least = usual // USUAL_PADDING_FACTOR
    assert usual == USUAL_PADDING_FACTOR * least
    assert chance(least) <= 1e-5 * OVERFLOW_PART / rounds < chance(least - 1)
    assert users * chosen / dimensions < usual < users
    assert (padded_to("topk"), padded_to("simple")) == (users, None)
