"""One private release of statistics, from which any number of fits follows at no further cost."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...accountant import records
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.guarantee import Guarantee
from ...accountant.mechanisms import Gate, NoisyGram, RoundDescription
from ...accountant.mechanisms.gram_rows import GramTotal, gram_total
from ...accountant.odometer import Odometer
from ...accountant.randomness import Streams
from ..aggregation.choice import aggregator
from ..aggregation.sums import Aggregator
from ..parties.network import silo_name
from ..settings.schema import SecuritySettings
from .door import HeldRows, admitted
from .public_terms import MOST_ROWS, PublicTerms, SizedRelease, delta_of, labels_of, range_of, sized
from .release_plan import PHASE, FitCosts, MemoryRecords, release_plan
from .statistics import Label, ReleasedStatistics

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class PrivateStatistics:
    """X^T X and X^T Y, released once with noise; every fit from them is free.

    Each row x is clipped to the norm `row_norm`, divided by it, and given a constant as its last
    entry; y is a class, or a number.  One release is (epsilon, delta)-DP for one unit: a record, a
    user of at most `rows_per_user` rows, or a silo of which at most `silo_rows` rows are kept.

    **All parameters are public**: fixed before the data are looked at.  `bound_source` says so, and
    'private' is refused.

    - `row_norm`: R, 1e-100 to 1e100, in the units of X; longer rows are clipped.
    - `classes`: how many (labels are 0 to c - 1), or all labels that there can be; or else
      `label_range`: (low, high) of numbers.  Without both there are no labels.
    - `epsilon` above 0; `delta` in (0, 1), by default 1e-5; Laplace noise needs none.
    - `neighbours`: add-remove, or replace-one.
    - `noise`: gaussian, or laplace (pure epsilon).
    - `intercept`: the share of a row's squared norm that the constant has, 0 (none), or 1e-6
      to 1 - 1e-6.
    - `label_weight`: a above 0: label sums get less noise for more on the matrix.
    - `rows_per_user`: protects users; it is divided evenly among the silos, and each silo keeps
      that many rows of a user, those that stand first.  `silo_rows`: protects silos.
    - `most_rows`: a public cap on all rows, from which the grid is chosen.
    - `by_class`: a Gram matrix for each class, which class weights need.
    - `silos`: how many holders there are; `observer`: before whom epsilon holds (`model` for all
      who see the release; `server`, `silo`, or `peer` where silos sum by shares).
    - `odometer`: the budget that releases are charged to; by default one that pays for a single
      release.
    - `seed`: repeats the noise, for tests; it protects nobody.  `recorder`: takes the records.

    Raises `InvalidInput` and `Unsupported` for what is out of range, before anything is spent.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(2000, 3)), rng.integers(0, 2, 2000)
    >>> stats = PrivateStatistics(row_norm=2.0, classes=2, epsilon=1.0, delta=1e-5)
    >>> stats.release(X, y).guarantee_.epsilon.upper <= 1.0
    True
    """

    def __init__(
        self,
        *,
        row_norm: float,
        epsilon: float,
        classes: int | Sequence[Label] | None = None,
        label_range: Sequence[float] | None = None,
        delta: float | None = None,
        neighbours: str = "add-remove",
        noise: Literal["gaussian", "laplace"] = "gaussian",
        rows_per_user: int | None = None,
        silo_rows: int | None = None,
        intercept: float = 0.2,
        label_weight: float = 1.0,
        most_rows: int = MOST_ROWS,
        by_class: bool = False,
        silos: int = 1,
        observer: str = "model",
        bound_source: str = "public",
        odometer: Odometer | None = None,
        seed: int | None = None,
        recorder: records.Recorder | None = None,
    ) -> None:
        self.terms: PublicTerms | None = PublicTerms(
            row_norm=row_norm,
            epsilon=epsilon,
            delta=delta_of(delta, noise),
            neighbours=neighbours,
            noise=noise,
            labels=labels_of(classes),
            label_range=range_of(label_range),
            rows_per_user=rows_per_user,
            silo_rows=silo_rows,
            intercept=intercept,
            label_weight=label_weight,
            most_rows=most_rows,
            by_class=by_class,
            silos=silos,
            observer=observer,
            bound_source=bound_source,
        )
        _check_odometer(odometer, self.terms)
        if recorder is not None and not callable(getattr(recorder, "append", None)):
            raise InvalidInput(
                "`recorder` must take records: `append`, `seal` and `settle`.",
                "What is to be released is written down before it is drawn.",
                "Leave it out to keep records in memory.",
            )
        self.odometer = odometer
        self.costs = FitCosts()
        self._streams = Streams.secure() if seed is None else Streams.seeded(seed)
        self._seeded = seed is not None
        self._recorder = recorder
        self._gate: Gate | None = None
        self._released: ReleasedStatistics | None = None
        self._rounds = 0
        self._lock = threading.Lock()

    @property
    def released(self) -> ReleasedStatistics:
        """What was released last; raises `InvalidInput` before the first release."""
        if self._released is None:
            raise InvalidInput(
                "Nothing has been released yet.",
                "Fits are made from released statistics alone.",
                "Call `release(X, y)` first.",
            )
        return self._released

    @property
    def guarantee_(self) -> Guarantee:
        """What is proven of the last release alone, for one unit before its observer."""
        return self.released.guarantee

    @property
    def cost(self) -> str:
        """What was spent on the last release, and what is computed from it, in a sentence."""
        return self.costs.sentence(self._released)

    def release(
        self,
        X: Any,  # noqa: N803 - the name that scikit-learn gives to a table of rows
        y: Any = None,
        *,
        silo: Any = None,
        user: Any = None,
        aggregation: Literal["plain", "masked", "shares", "local"] = "plain",
    ) -> PrivateStatistics:
        """Draw the noise once and release; each further call is charged to the odometer.

        - `X` (n, p): an array, one mapped from a file, or a sparse matrix; it is not copied whole.
        - `y` (n,): labels; None where the release has none.
        - `silo` (n,): who holds each row, 0 to silos - 1; `user` (n,): the user of each row.
        - `aggregation`: how silos' statistics are summed: `plain`, under masks (`masked`), or by
          additive shares among peers (`shares`); `local`: plain, with an observer `server`, so that
          each silo has noise enough of its own.

        Raises `InvalidInput` for what may not be released and `BudgetExceeded` where it is not paid
        for, both before anything is drawn.
        """
        terms = self._terms
        held = admitted(terms, X, y, silo, user)
        release = sized(terms, int(held.features.shape[1]), aggregation)
        by = _aggregator(aggregation, terms.silos)
        totals = _totals(terms, release.mechanism, held)
        # One thread at a time: two that each made an odometer would release twice for one price.
        with self._lock:
            released = self._drawn(terms, release, by, totals)
        _warn_beyond(released, terms.most_rows)
        return self

    def _drawn(
        self, terms: PublicTerms, release: SizedRelease, by: Aggregator, totals: list[GramTotal]
    ) -> ReleasedStatistics:
        """Pay, draw, and keep what is released of the exact sums of each silo."""
        gate = self._gate_for(release)
        number = self._rounds + 1
        about = RoundDescription(number, PHASE, views=release.views)
        with gate.open(release.mechanism.intent(about, terms.neighbours)) as ticket:
            self._rounds = number
            noisy = [
                partial(release.mechanism.share_steps, ticket, part.total, _stream_name(index))
                for index, part in enumerate(totals)
            ]
            steps = by.total(number, noisy, release.mechanism.gram.values).total
            ticket.close(
                values=len(steps),
                aggregate=steps.tobytes(),
                sealed=None if self._recorder is None else {"rows": _counts(totals)},
            )
        self._released = ReleasedStatistics.of_vector(
            release.mechanism.units(steps),
            release.mechanism,
            event=release.views[release.observer],
            delta=terms.delta,
            neighbours=terms.neighbours,
            intercept=terms.intercept,
            classes=terms.labels,
            label_range=terms.label_range,
            observer=release.observer,
            seeded=self._seeded,
        )
        self.costs = FitCosts(releases=number)
        return self._released

    @classmethod
    def from_released(cls, released: ReleasedStatistics) -> PrivateStatistics:
        """Return statistics that were released before: fits are free, and nothing else is possible.

        What `ReleasedStatistics.load` has read, say.
        """
        statistics = cls.__new__(cls)
        statistics.__setstate__({"costs": FitCosts(releases=1), "_released": released})
        return statistics

    @classmethod
    def from_run(
        cls,
        folder: str | Path,
        *,
        record: bool = True,
        key: Ed25519PrivateKey | None = None,
    ) -> PrivateStatistics:
        """Return the statistics of a finished run of the system `statistics`; fits are free.

        Their rows are in the units of the run's data set, after its normalisation.  With `record`
        each fit adds a line to the log of the run, before it is handed on; `key` is that of a
        signed log.  Raises `InvalidInput` for a folder without such a run.
        """
        from .finished_run import fit_recorder, statistics_of_run

        statistics = cls.from_released(statistics_of_run(folder))
        statistics.costs.record = fit_recorder(folder, key) if record else None
        return statistics

    @property
    def _terms(self) -> PublicTerms:
        if self.terms is None:
            raise Unsupported(
                "These statistics are a copy, or were released before, elsewhere.",
                "Another release needs its own terms, and a budget that pays for it.",
                "Make new PrivateStatistics.",
            )
        return self.terms

    def _gate_for(self, release: SizedRelease) -> Gate:
        """Return the gate of all releases; its odometer pays for one, where none was given."""
        if self._gate is None:
            if self.odometer is None:
                self.odometer = Odometer.for_plan(release_plan(self._terms, release))
            if self.odometer.mode == "adaptive" and release.observer not in self.odometer.observers:
                raise InvalidInput(
                    f"The odometer keeps no balance before {release.observer!r}.",
                    "The noise is sized for this observer, and nobody would count it.",
                    f"Make it with observers = [{release.observer!r}].",
                )
            self._gate = Gate(self.odometer, self._recorder or MemoryRecords(), self._streams)
        return self._gate

    def __sklearn_clone__(self) -> PrivateStatistics:
        # A clone of an estimator fits from the same release: a second one would cost again.
        return self

    def __getstate__(self) -> dict[str, object]:
        # Without streams and budget: a copy fits, and cannot release.
        return {"costs": FitCosts(self.costs.releases), "_released": self._released}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.terms = None
        self.odometer = None
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"PrivateStatistics({self._released!r})"


def _totals(terms: PublicTerms, mechanism: NoisyGram, held: HeldRows) -> list[GramTotal]:
    """Return the exact sums of each silo; no noise yet."""
    return [
        gram_total(
            mechanism,
            features,
            labels,
            intercept=terms.intercept,
            units=units,
            most_rows=terms.kept_rows(silo),
        )
        for silo, (features, labels, units) in enumerate(held.silos(terms.silos))
    ]


def _counts(totals: list[GramTotal]) -> dict[str, object]:
    """Return what only the sealed sidecar may hold: rows, those clipped and dropped, by silo."""
    return {
        name: [getattr(total, name) for total in totals] for name in ("rows", "clipped", "dropped")
    }


def _stream_name(silo: int) -> str:
    return f"noise/{silo_name(silo)}"


def _aggregator(aggregation: str, silos: int) -> Aggregator:
    """Return what adds up the silos' integers, modulo 2^64, so that no number is too large."""
    if aggregation == "masked" and silos < 2:
        raise InvalidInput(
            "Masks need two silos or more; `silos` is 1.",
            "The mask of each pair hides what either sends.",
            'Give more `silos`, or aggregation = "plain".',
        )
    if aggregation == "masked":
        security = SecuritySettings(aggregation="masked")
    elif aggregation == "shares":
        security = SecuritySettings(aggregation="shares")
    else:
        security = SecuritySettings()
    return aggregator(security, silos, whole_ring=True)


def _check_odometer(odometer: Odometer | None, terms: PublicTerms) -> None:
    """Refuse a budget that is about other neighbours, or another unit, than the release."""
    if odometer is None:
        return
    if not isinstance(odometer, Odometer):
        raise InvalidInput("`odometer` must be an Odometer.", next_step="Leave it out for one.")
    budget = odometer.spent()
    stated = {"neighbours": budget.neighbours, "unit": budget.unit}
    for name, value in stated.items():
        if getattr(terms, name) != value:
            raise InvalidInput(
                f"The odometer's {name} is {value!r}; the release's is {getattr(terms, name)!r}.",
                "One budget adds up costs of the same relation and unit alone.",
                "Make the odometer for the release.",
            )


def _warn_beyond(released: ReleasedStatistics, most_rows: int) -> None:
    """Warn where the released count says that sums may have wrapped around; released data only."""
    if not released.intercept:
        return
    margin = 10 * released.std / released.constant**2
    if released.count > most_rows + margin or released.count < -margin:
        warnings.warn(
            "The released number of rows lies beyond `most_rows`: sums may have wrapped around. "
            "Nothing was lost of the privacy; release again with a higher cap.",
            stacklevel=3,
        )
