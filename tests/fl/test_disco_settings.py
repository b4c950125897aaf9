"""What a configuration of DISCO's peers may say; all else is refused before the first intent."""

from __future__ import annotations

from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.declarations.given_settings import GivenSettings
from privplan.fl.declarations.registry import declaration_of
from privplan.fl.disco.settings import RULES, TABLE, DiscoSettings

from ..cases import for_each
from .configured import read
from .disco_runs import built, configuration, settings
from .extras import needs

LOCAL = {"noise": '"local"'}
RECORD = {"unit": '"record"'}
DIVIDED = {"divisor": "40"}

REFUSED: dict[str, list[tuple[dict[str, dict[str, str]], str]]] = {
    'Write noise = "local" under [disco], or aggregation = "shares".': [
        (
            {"security": {"aggregation": '"plain"'}},
            'has aggregation = "plain" in [security], and noise = "shared" in [disco]',
        ),
        (
            {"security": {"aggregation": '"masked"'}},
            "Each message then has a part of the noise only, which hides no peer.",
        ),
    ],
    'Write aggregation = "shares", "masked" or "plain"; or choose another system: flame-': [
        ({"security": {"aggregation": '"shuffle"'}}, "disco cannot sum by it")
    ],
    'write aggregation = "masked".': [
        ({"security": {"aggregation": '"private-weighting"'}}, "disco has no weights to hide")
    ],
    "Leave `dropouts` out": [
        (
            {"security": {"dropouts": "1"}},
            'gives `dropouts` in [security], which aggregation = "shares" has no use for',
        )
    ],
    "Leave it out.": [
        (
            {"security": {"dropouts": "1", "aggregation": '"masked"'}, "disco": LOCAL},
            "A peer that is missing ends the round for all; no smaller group is summed.",
        ),
        *(
            (
                {"privacy": RECORD, "disco": DIVIDED, "training": {key: value}},
                f'gives `{key}` in [training] for unit = "record" in [privacy]',
            )
            for key, value in (("local_epochs", "2"), ("local_rate", "0.2"), ("batch", "8"))
        ),
    ],
    "Write silos = 3 or more": [
        ({"data": {"silos": "2"}}, "Of two, each learns what the other sent."),
    ],
    "Write silos = 3 or more under [data].": [
        (
            {"data": {"silos": "2"}, "disco": LOCAL, "security": {"aggregation": '"plain"'}},
            "has silos = 2 in [data], and a round needs 3 peers",
        )
    ],
    "Write silos = 5 or more under [data].": [
        (
            {"data": {"silos": "4"}, "disco": {"min_participants": "5"}},
            "has silos = 4 in [data], and a round needs 5 peers",
        )
    ],
    "Give `min_participants` a value in that range.": [
        (
            {"disco": {"min_participants": "2"}},
            "`min_participants` must be an integer, 3 or above; it is 2",
        )
    ],
    "about how many records there are, and not taken from the data.": [
        ({"privacy": RECORD}, 'lacks `divisor` in [disco] for unit = "record" in [privacy]')
    ],
    'Leave it out, or write unit = "record" under [privacy].': [
        ({"disco": DIVIDED}, 'gives `divisor` in [disco] for unit = "silo" in [privacy]')
    ],
    "Give `divisor` a value in that range.": [
        (
            {"privacy": RECORD, "disco": {"divisor": "0"}},
            "`divisor` must be an integer, 1 or above; it is 0",
        )
    ],
    'Write clip = "fixed".': [
        (
            {"privacy": RECORD, "disco": {**DIVIDED, "clip": '"quantile"'}},
            "Such a clip follows the updates of whole peers.",
        ),
        (
            {"privacy": RECORD, "disco": {**DIVIDED, "clip": '"previous"'}},
            'has clip = "previous" in [disco] and unit = "record" in [privacy]',
        ),
    ],
    'Write unit = "silo", or leave it out.': [
        (
            {"privacy": {"unit": '"user"'}},
            "disco promises privacy for all records of a silo together or one record",
        ),
        ({"privacy": {"unit": '"entry"'}}, "needs `unit` in [privacy] to be silo or record"),
    ],
    'Write neighbours = "replace-one", or leave it out.': [
        ({"privacy": {"neighbours": other}}, "disco is accounted under replace-one alone")
        for other in ('"add-remove"', '"zero-out"')
    ],
    'Name "model", "peer" and "coordinator"; ': [
        ({"privacy": other}, "There is no server among peers, and every silo is one")
        for other in ({"observer": '"server"'}, {"observers": '["model", "silo"]'})
    ],
    "privplan explain delta": [
        ({"privacy": {"delta": "0.6"}}, "`delta` must be below 0.5; it is 0.6"),
    ],
    "Leave `sampling_rate` out": [
        (
            {"privacy": {"sampling_rate": "0.5"}},
            "gives `sampling_rate` in [privacy], and disco has no use for it",
        )
    ],
    "Leave `weighting` out": [
        (
            {"training": {"weighting": '"records"'}},
            "gives `weighting` in [training], and disco has no use for it",
        )
    ],
    "Did you mean `noise`?": [
        ({"disco": {"nosie": '"local"'}}, "has an unknown key `nosie` in [disco]")
    ],
    'Did you mean noise = "shared"?': [
        (
            {"disco": {"noise": '"sharde"'}},
            "`noise` must be one of shared, local, as_published; it is 'sharde'",
        )
    ],
    "Give `clip` a value in that range.": [
        ({"disco": {"clip": '"largest"'}}, "`clip` must be one of fixed, previous, quantile")
    ],
    "Give `clip_by` a value in that range.": [
        ({"disco": {"clip_by": '"layer"'}}, "`clip_by` must be one of model, tensor")
    ],
}
"""By the way out: what is written, and what is said of it."""


@for_each(
    "way_out, tables, said", [(way, *given) for way, rows in REFUSED.items() for given in rows]
)
def test_a_configuration_that_contradicts_itself_is_refused(
    way_out: str, tables: dict[str, dict[str, str]], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        configuration(**tables)
    assert said in str(caught.value)
    assert caught.value.next_step is not None
    assert way_out in caught.value.next_step
    assert caught.value.why


def test_every_rule_refuses_something() -> None:
    """Rules are asked by themselves: another one in front could hide that one says nothing."""
    complaints = {
        "shares_for_shared_noise": {"security": {"aggregation": "plain"}},
        "all_peers": {"security": {"dropouts": 2}},
        "enough_peers": {"data": {"name": "breast-cancer", "silos": 2}},
        "records_as_unit": {"disco": {"divisor": 3}},
        "frames_of_peers": {
            "disco": {"time_frames": ["a frame"]},
            "security": {"aggregation": "masked"},
        },
        "votes_of_all": {
            "evaluation": {"test": "held-out"},
            "disco": {"time_frames": ["a frame"]},
        },
    }
    for rule in RULES:
        if rule.__name__.startswith("published_"):  # see the tests of the published program
            continue
        base: Any = {"run": {"system": "disco"}, "data": {"name": "breast-cancer", "silos": 5}}
        given = GivenSettings({**base, **complaints.pop(rule.__name__, {})})
        complaint = rule(given)
        assert complaint is not None, rule.__name__
        assert all(complaint), rule.__name__
        assert rule(GivenSettings(base)) is None
    assert not complaints


def test_defaults_of_the_table_are_those_of_the_settings() -> None:
    usual = DiscoSettings()
    for key in TABLE.keys:
        if key.name not in ("divisor", "time_frames"):  # said in words
            assert str(getattr(usual, key.name)) == key.default.strip('"')
    assert usual.divisor is None
    assert usual.time_frames == ()


def test_what_a_file_leaves_out() -> None:
    # No dropouts are no complaint.
    assert configuration(security={"dropouts": "0", "aggregation": '"masked"'}, disco=LOCAL)
    own = configuration()
    assert own.security.aggregation == "shares"
    assert own.privacy.unit == "silo"
    assert own.privacy.neighbours == "replace-one"
    assert own.privacy.observer == "peer"
    assert own.table == DiscoSettings()
    assert declaration_of("disco").relations == ("replace-one",)


# --- what a program builds by itself -----------------------------------------------------------

needs_extra = needs("cryptography")

BUILT: dict[str, list[dict[str, Any]]] = {
    'Write neighbours = "replace-one", or leave it out.': [
        {"privacy": {"neighbours": "add-remove"}}
    ],
    'Write noise = "local" under [disco], or aggregation = "shares".': [
        {"noise": "shared", "aggregation": other} for other in ("masked", "plain")
    ],
    "Write silos = 3 or more under [data].": [
        {"noise": "local", "aggregation": "plain", "silos": 2}
    ],
    "Write silos = 5 or more under [data].": [{"silos": 4, "min_participants": 5}],
    'Leave it out, or write unit = "record" under [privacy].': [{"divisor": 9}],
    "Write divisor = 500, for example": [{"unit": "record", "divisor": None}],
    'Write clip = "fixed".': [
        {"unit": "record", "clip": clip} for clip in ("quantile", "previous")
    ],
    "Lower `colluders`, or have more silos.": [{"silos": 4, "colluders": 2}],
    "sampling_rate": [{"privacy": {"sampling_rate": 0.5}}],
    "silo": [{"unit": "user"}],
}


@needs_extra
@for_each("way_out, given", [(way, given) for way, rows in BUILT.items() for given in rows])
def test_a_system_that_does_not_go_together_is_refused(way_out: str, given: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        built(settings(**given))
    assert way_out in str(caught.value)
    assert caught.value.why


@needs_extra
@for_each("silos", [3, 4, 20])
def test_as_many_colluders_as_leave_two_as_the_next_step_says(silos: int) -> None:
    built(settings(silos=silos, colluders=silos - 3))
    for more in (silos - 2, silos - 1):
        with pytest.raises(InvalidInput, match="colluders") as caught:
            built(settings(silos=silos, colluders=more))
    assert silos != 4 or "Name at most 1 of them" in caught.value.next_step


@needs_extra
def test_a_delta_that_a_silo_could_be_lost_for_is_refused(tmp_path: Any) -> None:
    pytest.importorskip("torch")
    import privplan as pp

    given = {
        "run": {"system": "disco", "rounds": 1},
        "data": {"name": "breast-cancer", "silos": 3},
        "privacy": {"noise_multiplier": 3.0, "delta": 0.4},
    }
    with pytest.raises(InvalidInput, match="delta"):
        pp.run(given, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@needs_extra
def test_peers_have_no_server_in_the_clear() -> None:
    system = built(settings("local", "plain", privacy={"observer": "server"}))
    with pytest.raises(InvalidInput, match="has no observer 'server'") as caught:
        system.plan()
    assert "model, peer, coordinator" in str(caught.value)


@needs_extra
def test_a_large_delta_is_held_against_the_peers_who_are_protected() -> None:
    """Nobody wrote how many users there are, and no user is promised anything."""
    import privplan as pp
    from privplan.fl.running.warnings import warnings_of

    given = {
        "run": {"system": "disco", "rounds": 1},
        "data": {"name": "breast-cancer", "silos": 20},
        "privacy": {"noise_multiplier": 3.0, "delta": 0.03},
    }
    (said,) = warnings_of(pp.plan_run(given).prepared)
    assert "not well below 1 / 20 silos" in said
    accepted = {**given["privacy"], "delta": 0.2, "accept_delta": True}
    (said,) = warnings_of(pp.plan_run({**given, "privacy": accepted}).prepared)
    assert "accepted for 20 silos" in said
    assert "an error" in said
    quiet = {**given["privacy"], "delta": 0.004}
    assert warnings_of(pp.plan_run({**given, "privacy": quiet}).prepared) == ()


@needs_extra
def test_the_range_of_delta_names_no_users() -> None:
    with pytest.raises(InvalidInput) as caught:
        read("disco", privacy={"delta": "1.0"})
    assert "1 / units" in (caught.value.why or "")
