"""Which pieces a run of DELM's schemes has, with which part of epsilon: public facts alone.

A run and an audit read them from the same configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput
from .choice import ClientChoice
from .parts import Parts, given_parts, parts_by_ratio
from .settings import DIVERGENCE, WITHOUT_REPLACEMENT, DelmSettings, pieces_of

if TYPE_CHECKING:
    from ..declarations.shared_tables import PrivacySettings
    from ..frame.privacy import PrivacyTarget


@dataclass(frozen=True)
class Scheme:
    """What decides a run with its setup: the table, and whether clients are chosen by layers.

    `steps` is how many steps are taken in all.
    """

    table: DelmSettings
    chooses: bool
    steps: int

    def choice(self, clients: int, parts: Parts) -> ClientChoice | None:
        """Return how clients are chosen; None for the basic scheme, which takes all.

        Raises `InvalidInput` for more than there are.
        """
        if not self.chooses:
            return None
        chosen = selected_of(self.table.selected, clients)
        epsilon = parts.selection if self.table.selection == DIVERGENCE else None
        return ClientChoice(self.table.selection, chosen, clients, epsilon)


def selected_of(selected: int | None, clients: int) -> int:
    """Return k of n clients: half of them where nothing is said.

    Raises `InvalidInput` for more than there are.
    """
    chosen = max(1, clients // 2) if selected is None else selected
    if chosen > clients:
        raise InvalidInput(
            f"`selected` is {chosen:,} in [delm], and there are {clients:,} clients.",
            WITHOUT_REPLACEMENT,
            f"Give {clients:,} or fewer, or more `silos` in [data].",
        )
    return chosen


def parts_of(scheme: Scheme, epsilon: float, layers: int) -> Parts:
    """Return the parts of epsilon, which the table names or not; raises as `given_parts`."""
    given = given_parts(scheme.table, chooses=scheme.chooses)
    if given is not None:
        return given
    has_pca, has_choice = pieces_of(scheme.table, chooses=scheme.chooses)
    ratio = scheme.table.ratio
    return parts_by_ratio(epsilon, ratio, layers, has_pca=has_pca, has_choice=has_choice)


def claim_of(privacy: PrivacyTarget | PrivacySettings, name: str) -> float:
    """Return the epsilon that a run of the system `name` claims; raise `InvalidInput` without."""
    if privacy.epsilon is None or privacy.noise_multiplier is not None:
        raise InvalidInput(
            f"{name} takes `epsilon` in [privacy], and no `noise_multiplier`.",
            "Noise follows from the parts of epsilon.",
            "Give epsilon alone.",
        )
    return privacy.epsilon
