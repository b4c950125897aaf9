"""A privacy accountant of dp_accounting whose numbers are certified from both sides.

It goes wherever that library, or one that stands on it, takes an accountant or makes one:

    accountant = CertifiedAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    dp_accounting.calibrate_dp_mechanism(CertifiedAccountant, make_event, 1.0, 1e-5)

`get_epsilon` and `get_delta` are upper ends; `get_epsilon_bounds` gives both.  The relations are
theirs: ADD_OR_REMOVE_ONE is add-remove, REPLACE_ONE replace-one, REPLACE_SPECIAL zero-out.

An event is supported where it means something here and an engine has mathematics for it under the
relation; that is more than their accountants know (Laplace noise under REPLACE_ONE, say).  Not
supported under ADD_OR_REMOVE_ONE are randomized response, whose number says nothing of who is
absent, and trees: who leaves a stream moves others to other leaves.
Replacing one record moves a sum by twice the contribution bound, for all events alike; their
RdpAccountant counts it once.  An event without any noise makes epsilon infinite at every delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from dp_accounting import dp_event, privacy_accountant
from dp_accounting.privacy_accountant import NeighboringRelation

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.account import account, bounds_on_delta, bounds_on_epsilon
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.guarantee import Bounds
from ...accountant.neighbours import Neighbours

ErrorDetails: TypeAlias = privacy_accountant.PrivacyAccountant.CompositionErrorDetails

RELATIONS: Final[Mapping[NeighboringRelation, Neighbours]] = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "add-remove",
    NeighboringRelation.REPLACE_ONE: "replace-one",
    NeighboringRelation.REPLACE_SPECIAL: "zero-out",
}
"""Our name of each of their relations."""

LARGE_EPSILON: Final = 1e4
"""An epsilon beyond which delta is only what no epsilon allows."""

ZCDP_ORDERS: Final = tuple(1.0 + 10.0 ** (step / 50.0) for step in range(-150, 251))
"""The orders at which a (xi, rho)-zCDP curve is stated: from 1.001 to 100,001."""

_NOTHING: Final = ev.Compose(())
_NO_NOISE: Final = ev.NoGuarantee("the noise is 0")


class CertifiedAccountant(privacy_accountant.PrivacyAccountant):  # type: ignore[misc]
    """An accountant of dp_accounting that answers with privplan's certified bounds.

    `neighboring_relation` is positional, as theirs.  Raises `InvalidInput`, a `ValueError`, for an
    event whose parameters make no sense, and their `UnsupportedEventError` for one that has no
    meaning or no mathematics here.
    Source: dp_accounting 0.6.0, class PrivacyAccountant; the numbers are those of `pp.account`.

    >>> accountant = CertifiedAccountant(NeighboringRelation.REPLACE_ONE)
    >>> accountant.compose(dp_event.GaussianDpEvent(1.0)).get_epsilon_bounds(1e-5).upper < 9.998
    True
    """

    def __init__(
        self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    ) -> None:
        if neighboring_relation not in RELATIONS:
            raise InvalidInput(
                f"`neighboring_relation` must be a NeighboringRelation; it is "
                f"{neighboring_relation!r:.60}.",
                "A guarantee must say which change of the data it hides.",
                "Give dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE.",
            )
        super().__init__(neighboring_relation)
        self._neighbours = RELATIONS[neighboring_relation]
        # How often each release was composed: what it is, and not in which order.
        self._counts: dict[ev.Event, int] = {}
        self._known: dict[float, Bounds] = {}

    def _maybe_compose(
        self, event: dp_event.DpEvent, count: int, do_compose: bool
    ) -> ErrorDetails | None:
        # `supports` asks about an event that happens not even once.
        times = validate.count_from(1 if do_compose else 0, count=count)
        if isinstance(event, dp_event.SelfComposedDpEvent):
            return self._maybe_compose(
                event.event, validate.count(count=event.count) * times, do_compose
            )
        if isinstance(event, dp_event.ComposedDpEvent):
            parts = (self._maybe_compose(part, times, do_compose) for part in event.events)
            return next((error for error in parts if error is not None), None)
        try:
            known = _meaning(event, self._neighbours)
            _require_mathematics(known, self._neighbours)
        except Unsupported as error:
            return ErrorDetails(event, _refusal(event, self._neighbours, error))
        if do_compose and known != _NOTHING:
            self._counts[known] = self._counts.get(known, 0) + times
            self._known.clear()
        return None

    @property
    def event(self) -> ev.Event:
        """All that was composed, as an event of privplan."""
        parts = [ev.Repeat(count, event) for event, count in self._counts.items()]
        return ev.Compose(tuple(parts))

    def get_epsilon(self, target_delta: float) -> float:
        """Return an epsilon, in nats, at which all that was composed is (epsilon, delta)-DP.

        Range: `target_delta` in [0, 1].  Raises `InvalidInput` outside of it.
        """
        return self.get_epsilon_bounds(target_delta).upper

    def get_epsilon_bounds(self, delta: float) -> Bounds:
        """Return both ends of the smallest epsilon at `delta` in [0, 1], in nats.

        Nothing below the lower end is true.  Raises `InvalidInput` outside of the range, and
        `Unsupported` where events are known one by one and not together.
        """
        target = validate.probability(delta=delta)
        if self._protects_nobody:
            return Bounds.exactly(math.inf)
        # At delta 1 everything is (0, 1)-DP.
        if not self._counts or target == 1.0:
            return Bounds.exactly(0.0)
        if target not in self._known:
            self._known[target] = bounds_on_epsilon(
                self.event, delta=target, neighbours=self._neighbours
            )
        return self._known[target]

    def get_delta(self, target_epsilon: float) -> float:
        """Return a delta at which all that was composed is (epsilon, delta)-DP.

        Range: `target_epsilon` 0 or above, infinity too.  Raises `InvalidInput` outside of it.
        """
        if self._protects_nobody:
            return 1.0
        if not self._counts:
            return 0.0
        # Delta falls with epsilon, so that at a large finite one bounds that at infinity.
        target = LARGE_EPSILON if target_epsilon == math.inf else target_epsilon
        return bounds_on_delta(self.event, epsilon=target, neighbours=self._neighbours).upper

    @property
    def _protects_nobody(self) -> bool:
        return any(_without_noise(event) for event in self._counts)


def _without_noise(event: ev.Event) -> bool:
    """Return whether an event, sampled or not, shows a unit's data as they are.

    Sampled, delta at its epsilons is the rate, and not 1; their accountants say 1, which holds too.
    """
    inner = getattr(event, "event", None)
    return isinstance(event, ev.NoGuarantee) or (
        isinstance(inner, ev.Event) and _without_noise(inner)
    )


def _meaning(event: dp_event.DpEvent, neighbours: Neighbours) -> ev.Event:
    """Return our event; raise `Unsupported` where there is none, `InvalidInput` where it is off.

    What shows nothing, or everything, at the edge of a parameter is said here: our own events have
    no such edges.
    """
    special = _SPECIAL.get(type(event).__name__)
    known = None if special is None else special(event, neighbours)
    return ev.from_dp_event(event) if known is None else known


def _of_poisson(event: Any, neighbours: Neighbours) -> ev.Event | None:
    rate = event.sampling_probability
    if not 0.0 <= rate <= 1.0:
        raise InvalidInput(
            f"Sampling rate must be from 0 to 1; it is {rate!r:.60}.",
            "It is the probability with which a record joins a step.",
            "Give a rate such as 0.01.",
        )
    return _NOTHING if rate == 0.0 else ev.Poisson(rate, _meaning(event.event, neighbours))


def _of_noise(event: Any, _: Neighbours) -> ev.Event | None:
    multiplier = event.noise_multiplier
    if multiplier < 0.0:
        raise InvalidInput(
            f"Noise multiplier must be non-negative; it is {multiplier!r:.60}.",
            "It is the noise divided by the contribution bound of one record.",
            "Give a noise multiplier such as 1.0.",
        )
    return _NO_NOISE if multiplier == 0.0 else None


def _of_discrete_laplace(event: Any, _: Neighbours) -> ev.Event | None:
    # exp(-0 |z|) is the law of no noise; their accountants take it for none.
    return _NO_NOISE if event.noise_parameter == 0.0 else None


def _of_response(event: Any, neighbours: Neighbours) -> ev.Event | None:
    """Return what a response tells; who is replaced by the special record answers uniformly.

    Of k answers p/k is the probability of each wrong one, 1 - p + p/k that of the true one, and
    1/k that of each for the special record: losses are ln(k - (k-1) p) and ln(1/p) at most.
    """
    parameter, answers = event.noise_parameter, event.num_buckets
    if neighbours == "add-remove":
        raise Unsupported(
            "Randomized response says nothing of somebody who is absent.",
            "Its epsilon compares two answers of one person, who answers in any case.",
            "Account for it under REPLACE_ONE or REPLACE_SPECIAL.",
        )
    if answers == 1 or parameter == 1.0:
        return _NOTHING
    if parameter == 0.0:
        return _NO_NOISE
    if neighbours == "zero-out" and 0.0 < parameter < 1.0 < answers:
        most = max(answers - (answers - 1) * parameter, 1.0 / parameter)
        return ev.Pure(math.nextafter(math.log(most) * (1.0 + 1e-15), math.inf))
    return None


def _of_mixture(event: Any, _: Neighbours) -> ev.Event | None:
    if all(sensitivity == 0.0 for sensitivity in event.sensitivities):
        return _NOTHING
    return _NO_NOISE if event.standard_deviation == 0.0 else None


def _of_truncated(event: Any, neighbours: Neighbours) -> ev.Event | None:
    sampled = event.sampling_probability and event.truncated_batch_size and event.dataset_size
    return _of_noise(event, neighbours) if sampled else _NOTHING


def _of_fixed_size(event: Any, neighbours: Neighbours) -> ev.Event | None:
    if event.sample_size == 0:
        return _NOTHING
    inner = _meaning(event.event, neighbours)
    return ev.FixedSize(event.sample_size, event.source_dataset_size, inner)


def _of_tree(event: Any, neighbours: Neighbours) -> ev.Event | None:
    counts = event.step_counts
    listed = counts if isinstance(counts, (list, tuple)) else [counts]
    if any(steps < 0 for steps in listed):
        raise InvalidInput(
            "Step counts must be non-negative; one of them is not.",
            "A tree has so many leaves.",
            "Give the number of steps of each tree.",
        )
    if neighbours == "add-remove":
        raise Unsupported(
            "A tree has no mathematics for records that come or go.",
            "Who leaves a stream moves others to other leaves, and with them other sums.",
            "Account for it under REPLACE_SPECIAL or REPLACE_ONE.",
        )
    return _of_noise(event, neighbours)


def _of_zcdp(event: Any, _: Neighbours) -> ev.Event | None:
    """Return the curve xi + rho x order, where there is a xi: our own zCDP has none."""
    if event.xi == 0.0 or not (event.xi > 0.0 and event.rho >= 0.0):
        return None
    return ev.Renyi(ZCDP_ORDERS, tuple(event.xi + event.rho * order for order in ZCDP_ORDERS))


_SPECIAL: Final[Mapping[str, Callable[[Any, Neighbours], ev.Event | None]]] = {
    "GaussianDpEvent": _of_noise,
    "LaplaceDpEvent": _of_noise,
    "DiscreteLaplaceDpEvent": _of_discrete_laplace,
    "RandomizedResponseDpEvent": _of_response,
    "MixtureOfGaussiansDpEvent": _of_mixture,
    "PoissonSampledDpEvent": _of_poisson,
    "SampledWithoutReplacementDpEvent": _of_fixed_size,
    "TruncatedSubsampledGaussianDpEvent": _of_truncated,
    "SingleEpochTreeAggregationDpEvent": _of_tree,
    "ZCDpEvent": _of_zcdp,
}
"""What a class of theirs means at an edge, or under one relation; None: as everywhere else."""


@lru_cache(maxsize=4096)
def _require_mathematics(event: ev.Event, neighbours: Neighbours) -> None:
    """Raise `Unsupported` where no engine answers for two of an event under a relation.

    Renyi curves are asked first: whether there is one takes less time than the best number.
    """
    if event == _NOTHING or _without_noise(event):
        return
    twice = ev.Repeat(2, event)
    try:
        account(twice, delta=1e-5, neighbours=neighbours, engine="rdp")
    except Unsupported:
        bounds_on_epsilon(twice, delta=1e-5, neighbours=neighbours)


def _refusal(event: dp_event.DpEvent, neighbours: Neighbours, error: Unsupported) -> str:
    """Return what is said of an event that is not supported, in their words for the relation."""
    name = type(event).__name__
    others = [theirs.name for theirs, ours in RELATIONS.items() if ours != neighbours]
    if isinstance(event, dp_event.RandomizedResponseDpEvent):
        allowed = " or ".join(f"`{relation}`" for relation in others)
        return f"neighboring_relation must be {allowed} for `{name}`. {error.why}"
    return f"{error.what} {error.why}"
