"""In how many rounds each silo has taken part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class SiloRounds:
    """Counts rounds by silo; those in which all silos take part are counted once for all."""

    def __init__(self) -> None:
        self._all = 0
        self._some: Counter[int] = Counter()

    def add(self, rounds: int, silos: Iterable[int] | None) -> None:
        """Count rounds in which these silos take part; None: all."""
        if silos is None:
            self._all += rounds
            return
        self._some.update(dict.fromkeys(silos, rounds))

    def most(self, silos: Iterable[int] | None = None) -> int:
        """Return the most rounds of any of these silos (None: of all), 0 before the first."""
        of = self._some if silos is None else silos
        return self._all + max((self._some[silo] for silo in of), default=0)
