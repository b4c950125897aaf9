"""The settings that a configuration states, typed, whoever reads them: a run, or a log's stranger.

`given.privacy.neighbours` reads one key when it is asked for, so that a configuration which lacks a
key is refused by the key that something depends on, and by no other.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from ..observers.names import coalition_sizes
from .registry import declaration_of

if TYPE_CHECKING:
    from .data_table import DataSettings
    from .declaration import Declaration, Read, Table
    from .evaluation_table import EvaluationSettings
    from .shared_tables import PrivacySettings, RunSettings, SecuritySettings, TrainingSettings


class NotStated(Exception):
    """A fact depends on a key that the configuration lacks; the text names the key."""


class StatedTable:
    """One table of a configuration: each attribute is a key, read when it is asked for."""

    def __init__(self, read: Read, name: str) -> None:
        self._read, self._name = read, name

    def __getattr__(self, key: str) -> Any:
        """Return the value of a key; raises as the reader of the configuration does."""
        if key.startswith("__"):
            raise AttributeError(key)
        return self._read(self._name, key)


class StatedSettings:
    """The settings of a configuration by table, as `fl.settings.schema.Settings` names them.

    Whatever is asked raises as `read` does where a key is missing: `NotStated` of a log.
    """

    def __init__(self, read: Read) -> None:
        self.read = read
        self.run = cast("RunSettings", StatedTable(read, "run"))
        self.data = cast("DataSettings", StatedTable(read, "data"))
        self.privacy = cast("PrivacySettings", StatedTable(read, "privacy"))
        self.training = cast("TrainingSettings", StatedTable(read, "training"))
        self.security = cast("SecuritySettings", StatedTable(read, "security"))
        self.evaluation = cast("EvaluationSettings", StatedTable(read, "evaluation"))

    def of(self, table: Table) -> Any:
        """Return a table that only some systems have, each key of it read when it is asked for."""
        return StatedTable(self.read, table.name)

    def complete(self, table: Table) -> Any:
        """Return the settings of such a table, read now.

        A key that is missing has its default where the system has no use for it.
        """
        values = {}
        for item in fields(table.settings):
            try:
                values[item.name] = self.read(table.name, item.name)
            except NotStated:
                if self.system.has_use_for(table.name, item.name):
                    raise
        return table.settings(**values)

    @property
    def system(self) -> Declaration:
        """What the system declares."""
        return declaration_of(self.run.system)

    @property
    def name(self) -> str:
        """The system's name."""
        return self.run.system

    @property
    def rounds(self) -> int:
        """How many rounds are configured."""
        return self.run.rounds

    @property
    def users(self) -> int:
        """|U|, how many users there are, or at most."""
        return self.data.users

    @property
    def silos(self) -> int:
        """|S|, how many silos there are, where a log or the configuration says so."""
        return cast("int", self.data.silos)

    @property
    def aggregation(self) -> str:
        """What the server sees of the silos' updates."""
        return self.security.aggregation

    @property
    def coalitions(self) -> tuple[int, ...]:
        """The sizes of coalitions of the server with silos that guarantees are computed for."""
        asked = (self.privacy.observer, *self.privacy.observers)
        return coalition_sizes(self.aggregation, asked, self.security.colluders)
