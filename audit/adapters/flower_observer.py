"""What a strategy of Flower is about to do, as the strategy and the replies say themselves."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from flwr.common import parameters_to_ndarrays
from flwr.server import strategy as earlier
from flwr.server.client_manager import SimpleClientManager
from flwr.server.strategy import dp_adaptive_clipping as earlier_adaptive
from flwr.server.strategy import dp_fixed_clipping as earlier_fixed
from flwr.serverapp import strategy as current
from flwr.serverapp.strategy import dp_adaptive_clipping as current_adaptive
from flwr.serverapp.strategy import dp_fixed_clipping as current_fixed
from flwr.supercore import differential_privacy

from ...accountant.errors import InvalidInput
from .training_plan import (
    CLIP_COUNT,
    Sampler,
    StepFacts,
    TrainingPlan,
    as_planned,
    unknown_draw,
)

_TWISTS: Final = 1024
"""How far back a seed is looked for: numbers are drawn from a state 624 words at a time."""


@dataclass(frozen=True)
class Kind:
    """One of the two interfaces of strategies, and how its replies are read.

    `average` is the strategy whose mean is one, `uniform` are those that draw a number of clients
    uniformly, without replacement, as it does.
    """

    name: str
    configure: str
    begins_with: tuple[str, ...]
    aggregate: str
    ends_with: tuple[str, ...]
    average: Any
    uniform: tuple[Any, ...]
    noisy_modules: tuple[Any, ...]

    def pool(self, given: Mapping[str, Any]) -> int:
        """Return how many clients are there to be chosen from."""
        if "grid" in given:
            return len(list(given["grid"].get_node_ids()))
        return int(given["client_manager"].num_available())

    def draws_uniformly(self, given: Mapping[str, Any]) -> bool:
        """Return whether who holds the clients draws as Flower does."""
        manager = given.get("client_manager")
        return manager is None or type(manager).sample is SimpleClientManager.sample

    def client(self, chosen: Any) -> object:
        """Return a name of a client that was chosen, with what it is sent."""
        return chosen[0].cid if self.name == "proxies" else chosen.metadata.dst_node_id

    def sent(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the arrays that a round begins with."""
        if "arrays" in given:
            return list(given["arrays"].to_numpy_ndarrays())
        return list(parameters_to_ndarrays(given["parameters"]))

    def contributions(self, replies: Sequence[Any], key: str) -> list[tuple[Any, list[Any]]]:
        """Return weight and arrays of each reply that can be in the mean."""
        if self.name == "proxies":
            fits = [fit for _, fit in replies]
            return [(each.num_examples, parameters_to_ndarrays(each.parameters)) for each in fits]
        parts = []
        for reply in replies:
            if reply.has_error():
                continue
            weights = [record.get(key) for record in reply.content.metric_records.values()]
            arrays = [
                array
                for record in reply.content.array_records.values()
                for array in record.to_numpy_ndarrays()
            ]
            parts.append((weights[0] if len(weights) == 1 else None, arrays))
        return parts


CURRENT: Final = Kind(
    "messages",
    "configure_train",
    ("server_round", "arrays", "config", "grid"),
    "aggregate_train",
    ("server_round", "replies"),
    current.FedAvg,
    (current.FedAvg, current.FedProx, current.FedAvgM, current.FedAdam),
    (current_fixed, current_adaptive),
)
EARLIER: Final = Kind(
    "proxies",
    "configure_fit",
    ("server_round", "parameters", "client_manager"),
    "aggregate_fit",
    ("server_round", "results", "failures"),
    earlier.FedAvg,
    (earlier.FedAvg, earlier.FedProx),
    (differential_privacy,),
)

STRATEGIES: Final[Mapping[type[Any], Kind]] = {
    current_fixed.DifferentialPrivacyServerSideFixedClipping: CURRENT,
    current_fixed.DifferentialPrivacyClientSideFixedClipping: CURRENT,
    current_adaptive.DifferentialPrivacyServerSideAdaptiveClipping: CURRENT,
    current_adaptive.DifferentialPrivacyClientSideAdaptiveClipping: CURRENT,
    earlier_fixed.DifferentialPrivacyServerSideFixedClipping: EARLIER,
    earlier_fixed.DifferentialPrivacyClientSideFixedClipping: EARLIER,
    earlier_adaptive.DifferentialPrivacyServerSideAdaptiveClipping: EARLIER,
    earlier_adaptive.DifferentialPrivacyClientSideAdaptiveClipping: EARLIER,
}


class ObservedRounds:
    """A strategy for privacy with the one that it wraps, and what its present round does."""

    def __init__(self, strategy: Any, plan: TrainingPlan, weight: float) -> None:
        kind = next((STRATEGIES[each] for each in STRATEGIES if isinstance(strategy, each)), None)
        if kind is None:
            raise InvalidInput(
                f"Nothing here observes a strategy {type(strategy).__name__}.",
                "Only the wrappers DifferentialPrivacy... of Flower clip and add noise; the "
                "deprecated DPFedAvgFixed and DPFedAvgAdaptive are not observed.",
                "Give the outermost strategy, such as DifferentialPrivacyServerSideFixedClipping.",
            )
        _require_plan_of_clients(plan)
        self.kind, self.strategy, self.plan, self.weight = kind, strategy, plan, weight
        self.averaging = strategy.strategy
        self.adapts = hasattr(strategy, "clip_norm_lr")
        self.values = self.replies = self._asked = self._available = 0
        self._sent: list[Any] = []
        self._uniform = self._within = self._drawn = self._once = False
        self._clip = float(strategy.clipping_norm)
        self._clips = 0
        self._choices: set[str] = set()

    def about(self) -> dict[str, object]:
        """Return public facts of the run: the classes of its parts."""
        return {
            "strategy": type(self.strategy).__name__,
            "averaging": type(self.averaging).__name__,
            "interface": self.kind.name,
            "weight": repr(float(self.weight)),
        }

    def choosing(self, configure: Callable[[], Any], given: Mapping[str, Any]) -> list[Any]:
        """Return the clients that a strategy chose, with what they are sent, and note how."""
        self._sent = self.kind.sent(given)
        self.values = max(sum(int(np.size(each)) for each in self._sent), 1)
        state = hashlib.sha256(repr(random.getstate()).encode()).hexdigest()
        before = self.kind.pool(given)
        chosen = list(configure())
        self._available, self._asked = min(before, self.kind.pool(given)), len(chosen)
        self._once = len({self.kind.client(each) for each in chosen}) == len(chosen)
        # Somebody who seeds in each round has the same clients drawn again.
        anew = state not in self._choices
        self._choices.add(state)
        self._drawn = anew and self._is_flowers_choice() and self.kind.draws_uniformly(given)
        return chosen

    def _is_flowers_choice(self) -> bool:
        """Return whether the wrapped strategy chooses clients by the code of Flower itself."""
        name, chosen = self.kind.configure, type(self.averaging)
        by_class = name not in vars(self.averaging)
        theirs = [getattr(each, name) for each in self.kind.uniform]
        return by_class and getattr(chosen, name) in theirs

    def begun(self) -> None:
        """Note what a round begins with, before anything of it is clipped."""
        self._clip = float(self.strategy.clipping_norm)
        self.replies, self._uniform, self._within = 0, False, False

    def will_count(self, given: Mapping[str, Any]) -> bool:
        """Return whether the replies of a round will be counted: none of them failed."""
        replies = list(given[next(name for name in ("replies", "results") if name in given)])
        if self.kind.name == "messages":
            return bool(replies) and not any(reply.has_error() for reply in replies)
        return bool(replies) and not given["failures"]

    def replied(self, replies: Sequence[Any]) -> None:
        """Note who is in the mean, by what weight, and whether everybody is clipped."""
        key = getattr(self.averaging, "weighted_by_key", "num-examples")
        parts = self.kind.contributions(replies, key)
        self.replies = len(parts)
        self._uniform = all(weight == self.weight for weight, _ in parts)
        self._within = all(self._is_clipped(arrays) for _, arrays in parts)

    def _is_clipped(self, arrays: Sequence[Any]) -> bool:
        if len(arrays) != len(self._sent):
            return False
        moved = rounded = 0.0
        for after, before in zip(arrays, self._sent, strict=True):
            if np.shape(after) != np.shape(before):
                return False
            held = np.asarray(before, dtype=np.float64)
            moved += float(np.sum((np.asarray(after, dtype=np.float64) - held) ** 2))
            kept = np.asarray(after).dtype
            unit = float(np.finfo(kept).eps) if np.issubdtype(kept, np.floating) else 0.0
            rounded += unit**2 * float(np.sum(held**2))
        # What a client adds to the model is rounded as the numbers of the model are.
        return bool(math.sqrt(moved) <= self._clip * (1.0 + 1e-4) + math.sqrt(rounded))

    def facts(self, deviation: float) -> StepFacts:
        """Return the facts of a round to whose mean noise of this deviation is about to be added.

        In the sum of the replies it is as many times as large as there are replies.
        """
        planned, batch = StepFacts.of(self.plan), self._batch
        noise = deviation * min(self.replies, batch)
        if self.replies < batch:
            # How many are missing is nobody's business: noise is rounded down, by halves.
            shown = deviation * batch
            while shown > noise > 0.0:
                shown /= 2.0
            noise = shown if noise > 0.0 else 0.0
        averaged = self._is_mean()
        return StepFacts(
            noise=as_planned(noise, planned.noise),
            clip=self._clip,
            sampler=self._sampler(),
            rate=planned.rate,
            bounded=averaged and self._within and self._uniform and self._once,
            divisor=None if not self._uniform else float(batch),
            realised=averaged and not self._uniform,
            released=self._has_adapted(),
        )

    def count_facts(self) -> StepFacts:
        """Return the facts of the noisy count by which a clip adapts.

        A client that is replaced moves it by 1, which is twice the bound of replace-one; one that
        goes moves it by 1.
        """
        bound = 0.5 if self.plan.neighbours == "replace-one" else 1.0
        noise = float(self.strategy.clipped_count_stddev)
        sampler = self._sampler()
        return StepFacts(noise, bound, sampler, StepFacts.of(self.plan).rate, phase=CLIP_COUNT)

    def unnoised_facts(self) -> StepFacts:
        """Return the facts of a round that was released without noise."""
        return StepFacts(0.0, self._clip, "none", 1.0, bounded=False)

    @property
    def _batch(self) -> int:
        assert self.plan.batch is not None
        return self.plan.batch

    def _has_adapted(self) -> bool:
        self._clips += 1
        return self.adapts and self._clips > 1

    def _sampler(self) -> Sampler:
        """Return how clients were drawn: none, where that is another way than the plan's.

        A count and a sum of one sample are not two samples, so neither of them is amplified.
        """
        if self.plan.sampling == "none" or self.adapts:
            return unknown_draw(self.plan)
        enough = self.plan.records is None or self._available >= self.plan.records
        drawn = self._drawn and enough and self._asked == self._batch
        return "fixed-size" if drawn else unknown_draw(self.plan)

    def _is_mean(self) -> bool:
        """Return whether the wrapped strategy returns the mean of the replies, and nothing else."""
        theirs = getattr(type(self.averaging), self.kind.aggregate, None)
        return theirs is getattr(self.kind.average, self.kind.aggregate)


def _require_plan_of_clients(plan: TrainingPlan) -> None:
    """Raise `InvalidInput` where no strategy of Flower can keep a plan."""
    if plan.unit != "user":
        raise InvalidInput(
            f"A plan of Flower is for clients; its unit is {plan.unit!r}.",
            "A strategy clips what one client sends, whoever's records it holds.",
            'Give unit="user", and let each client be one person\'s.',
        )
    if plan.batch is None:
        raise InvalidInput(
            "`batch` must say how many clients are in a round.",
            "Flower divides by the number of replies, so that number must be public and fixed.",
            "Give batch= as num_sampled_clients of the strategy.",
        )
    if plan.neighbours == "add-remove" and plan.sampling == "none":
        raise InvalidInput(
            "Without sampling, a client more or less is another number of replies.",
            "Flower divides by it, and the quotient shows it.",
            'Give neighbours="replace-one", or sampling="fixed-size" with `records`.',
        )


# --- the generator of the noise -------------------------------------------------------------------


def noise_state() -> str:
    """Return a name of the state that numpy draws noise from; it never leaves this process."""
    state: Any = np.random.get_state(legacy=False)
    parts = (state["state"]["key"].tobytes(), state["state"]["pos"], state["gauss"])
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def seeded_by_a_number() -> bool:
    """Return whether `np.random.seed` was given a number, of the last million draws or so.

    Such a seed n fills the words of the state by w(i) = 1812433253 (w(i-1) ^ w(i-1) >> 30) + i.
    The state is wound back to where it could have been filled.
    """
    state: Any = np.random.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        return False
    key = np.array(state["state"]["key"], dtype=np.uint32)
    for _ in range(_TWISTS):
        if _is_filled_by_a_number(key):
            return True
        key = _wound_back(key)
    return False


def _is_filled_by_a_number(key: Any) -> bool:
    # The first word is not known whole in a state that was wound back.
    before = key[1:-1].astype(np.uint64)
    numbers = np.arange(2, len(key), dtype=np.uint64)
    filled = (np.uint64(1812433253) * (before ^ (before >> np.uint64(30))) + numbers) & _WORD
    return bool(np.array_equal(filled, key[2:].astype(np.uint64)))


def _wound_back(key: Any) -> Any:
    """Return the state of the Mersenne twister before its last 624 words."""
    words = key.copy()
    for chunk in (np.arange(228, 624), np.arange(228)):
        drawn = words[chunk] ^ words[(chunk + 397) % 624]
        odd = (drawn & _UPPER) != 0
        high = (np.where(odd, drawn ^ _MATRIX, drawn) << np.uint32(1)) & _UPPER
        drawn = words[chunk - 1] ^ words[(chunk + 396) % 624]
        odd = (drawn & _UPPER) != 0
        low = (np.where(odd, drawn ^ _MATRIX, drawn) << np.uint32(1)) & _LOWER
        words[chunk] = high | low | odd.astype(np.uint32)
    return words


_WORD: Final = np.uint64(0xFFFFFFFF)
_UPPER: Final = np.uint32(0x80000000)
_LOWER: Final = np.uint32(0x7FFFFFFF)
_MATRIX: Final = np.uint32(0x9908B0DF)
