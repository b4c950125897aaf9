"""The table of a system in settings, and what earlier versions wrote in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Claim, Planned, Population, Randomness, RunOpen
from privplan.audit.configuration.logged_settings import settings_in
from privplan.fl.running.resumption import require_same_settings
from privplan.fl.settings.logged_tables import idle_tables
from privplan.fl.settings.schema import LogSettings
from privplan.fl.uldp.settings import UldpSettings

from .configured import read


def test_settings_hold_the_table_of_their_system_and_no_other() -> None:
    own = read("uldp-avg")
    assert own.of(UldpSettings) == UldpSettings()
    free = read("fedavg")
    assert free.table is None
    with pytest.raises(InvalidInput, match="fedavg have no UldpSettings"):
        free.of(UldpSettings)
    with pytest.raises(InvalidInput, match="fedavg has none"):
        replace(free, table=UldpSettings(as_published=True))
    with pytest.raises(InvalidInput, match="needs UldpSettings"):
        replace(own, table=3)
    assert replace(own, run=replace(own.run, system="fedavg")).table is None  # it said nothing


def test_a_bound_on_records_is_that_of_the_declared_key() -> None:
    assert read("uldp-group").most_records == 4
    assert read("uldp-group").privacy.group == 4
    assert read("uldp-avg").most_records is None


def test_a_table_that_earlier_versions_wrote_for_every_system_says_nothing() -> None:
    """A run of fedavg from before holds [uldp], all at its defaults, and goes on all the same."""
    now = read("fedavg").to_json()
    defaults = {"as_published": False, "group_records": None, "record_rate": None}
    for said, fits in (
        (defaults, True),
        ({"as_published": False}, True),
        ({**defaults, "as_published": True}, False),
        ({**defaults, "record_rate": "0.5"}, False),
        ({"shares": 3}, False),
        (3, False),
    ):
        opened = logged({**now, "uldp": said})
        assert idle_tables(opened.configuration) == (("uldp",) if fits else ())
        if fits:
            require_same_settings(opened, now)
            assert settings_in(opened) == replace(read("fedavg"), log=LogSettings())
        else:
            with pytest.raises(InvalidInput, match=r"changed: .*uldp"):
                require_same_settings(opened, now)
            with pytest.raises(InvalidInput, match="unknown table 'uldp'"):
                settings_in(opened)


def test_a_table_that_a_system_has_is_never_idle() -> None:
    own = read("uldp-avg").to_json()
    assert idle_tables(own) == ()
    with pytest.raises(InvalidInput, match="changed: "):
        require_same_settings(logged({**own, "uldp": {}}), own)


def logged(configuration: dict[str, Any]) -> RunOpen:
    """Return a first line with this configuration."""
    return RunOpen(
        run_id="run-1",
        system=configuration["run"]["system"],
        claim=Claim("user", "add-remove", 1e-5, None),
        plan=Planned(2, {}),
        population=Population(50, 4),
        randomness=Randomness("operating-system"),
        configuration=configuration,
    )
