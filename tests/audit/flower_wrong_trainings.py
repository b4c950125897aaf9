"""Runs with Flower's strategies for privacy in which something is wrong, and what names it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.server import strategy as earlier
from flwr.serverapp import strategy as current

from .flower_trainings import (
    BATCH,
    CLIENTS,
    CLIP,
    NOISE,
    earlier_fedavg,
    fedavg,
    fitted,
    moved,
    plan,
    server_side,
    started,
)


def not_a_number(folder: Path) -> None:
    """A client whose numbers are none: Flower's clip lets them pass, and they show that client."""

    def reply(client: int, values: Any) -> Any:
        return values + np.float32("nan" if client % 2 else 0.3), 1.0

    started(folder, server_side(), reply=reply)


def without_noise(folder: Path) -> None:
    """No noise at all."""
    started(folder, server_side(noise=0.0))


def noise_left_out(folder: Path) -> None:
    """A subclass that adds no noise."""

    class Silent(current.DifferentialPrivacyServerSideFixedClipping):
        def _add_noise_to_aggregated_arrays(self, aggregated_arrays: ArrayRecord) -> ArrayRecord:
            return aggregated_arrays

    started(folder, Silent(fedavg(), NOISE, CLIP, BATCH))


def after_two_rounds(**changes: float) -> Any:
    """Return a strategy of which something changes after two rounds."""

    class Changing(current.DifferentialPrivacyServerSideFixedClipping):
        def configure_train(self, server_round: int, *arguments: Any) -> Any:
            if server_round == 3:
                for name, value in changes.items():
                    setattr(self, name, value)
            return super().configure_train(server_round, *arguments)

    return Changing(fedavg(), NOISE, CLIP, BATCH)


def less_noise(folder: Path) -> None:
    """Half of the noise from the third round on."""
    started(folder, after_two_rounds(noise_multiplier=NOISE / 2.0))


def larger_clip(folder: Path) -> None:
    """A clip that is raised in the course of the run."""
    started(folder, after_two_rounds(clipping_norm=2.0 * CLIP))


def other_clip(folder: Path) -> None:
    """A clip that is not the plan's."""
    started(folder, server_side(clip=2.0 * CLIP))


def without_the_mod(folder: Path) -> None:
    """Clients that should clip, and do not."""
    strategy = current.DifferentialPrivacyClientSideFixedClipping(fedavg(), NOISE, CLIP, BATCH)
    started(folder, strategy)


def mod_too_far_inside(folder: Path) -> None:
    """A mod that changes what was clipped, because it stands before the one that clips."""

    def enlarged(message: Message, context: Context, call_next: Any) -> Message:
        reply = call_next(message, context)
        for name, record in list(reply.content.array_records.items()):
            (values,) = record.to_numpy_ndarrays()
            larger = ArrayRecord({key: Array(values * np.float32(3.0)) for key in record})
            reply.content.array_records[name] = larger
        return reply

    strategy = current.DifferentialPrivacyClientSideFixedClipping(fedavg(), NOISE, CLIP, BATCH)
    started(folder, strategy, mods=[enlarged, fixedclipping_mod])


def replies_lost(folder: Path) -> None:
    """Fewer replies than the noise is for."""
    started(folder, server_side(), lost=3)


def fraction_too_small(folder: Path) -> None:
    """A fraction that draws fewer clients than the noise is for."""
    started(folder, server_side(fedavg(fraction_train=0.1)))


def fraction_too_large(folder: Path) -> None:
    """A fraction that draws more clients than the plan says."""
    started(folder, server_side(fedavg(fraction_train=0.5)))


def fewer_clients(folder: Path) -> None:
    """A pool of half of the clients that the plan counts on."""
    started(folder, server_side(fedavg(fraction_train=0.5)), clients=CLIENTS // 2)


def chosen_by_somebody(folder: Path) -> None:
    """Clients that are chosen, always the same ones."""

    class Chosen(current.FedAvg):
        def configure_train(self, *arguments: Any) -> Any:
            messages = list(super().configure_train(*arguments))
            for node, message in enumerate(messages, start=1):
                message.metadata.__dict__["_dst_node_id"] = node
            return messages

    averaging = Chosen(
        fraction_train=BATCH / CLIENTS,
        fraction_evaluate=0.0,
        min_train_nodes=1,
        min_available_nodes=1,
    )
    started(folder, server_side(averaging))


def chosen_twice(folder: Path) -> None:
    """Clients that are asked twice in a round, each of whose replies is clipped by itself."""

    class Twice(current.FedAvg):
        def configure_train(self, *arguments: Any) -> Any:
            messages = list(super().configure_train(*arguments))
            for first, second in zip(messages[::2], messages[1::2], strict=True):
                second.metadata.__dict__["_dst_node_id"] = first.metadata.dst_node_id
            return messages

    averaging = Twice(
        fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1
    )
    strategy = current.DifferentialPrivacyServerSideFixedClipping(averaging, NOISE, CLIP, CLIENTS)
    started(folder, strategy, plan(sampling="none", batch=CLIENTS))


def drawn_from_a_seed(folder: Path) -> None:
    """Somebody seeds the choice of clients in each round."""

    class Seeding(current.DifferentialPrivacyServerSideFixedClipping):
        def configure_train(self, *arguments: Any) -> Any:
            return super().configure_train(*arguments)

    strategy = Seeding(fedavg(), NOISE, CLIP, BATCH)
    held = random.getstate()

    def reply(client: int, values: Any) -> Any:
        random.setstate(held)
        return moved(client, values)

    started(folder, strategy, reply=reply)


def weighted(folder: Path) -> None:
    """Clients that are weighted by their numbers of examples, as Flower does."""
    started(folder, server_side(), reply=lambda client, x: (moved(client, x)[0], 50.0 + client))


def earlier_weighted(folder: Path) -> None:
    """The same with the earlier interface."""
    wrapper = earlier.DifferentialPrivacyServerSideFixedClipping
    strategy = wrapper(earlier_fedavg(), NOISE, CLIP, BATCH)
    fitted(folder, strategy, reply=lambda client, x: (moved(client, x)[0], 50.0 + client))


def server_optimizer(folder: Path) -> None:
    """An optimizer at the server, whose steps are noised in place of the mean."""
    averaging = current.FedAdam(
        fraction_train=BATCH / CLIENTS,
        fraction_evaluate=0.0,
        min_train_nodes=1,
        min_available_nodes=1,
    )
    started(folder, server_side(averaging))


def median(folder: Path) -> None:
    """A median, which one client moves by more than its part of a mean."""
    averaging = current.FedMedian(
        fraction_train=BATCH / CLIENTS,
        fraction_evaluate=0.0,
        min_train_nodes=1,
        min_available_nodes=1,
    )
    started(folder, server_side(averaging))


def wrapped_twice(folder: Path) -> None:
    """A wrapper in a wrapper."""
    started(folder, server_side(server_side()))


def metrics_released(folder: Path) -> None:
    """The clients' losses, averaged without noise."""
    started(folder, server_side(), metrics={"loss": 0.7})


def seeded(folder: Path) -> None:
    """Noise from a seed."""
    np.random.seed(42)
    started(folder, server_side())


def same_noise(folder: Path) -> None:
    """The same noise in each round: a client's code seeds."""
    held = np.random.get_state()

    def reply(client: int, values: Any) -> Any:
        np.random.set_state(held)
        return moved(client, values)

    started(folder, server_side(), reply=reply)


def adaptive(folder: Path) -> None:
    """A clip that adapts at the server."""
    wrapper = current.DifferentialPrivacyServerSideAdaptiveClipping
    started(folder, wrapper(fedavg(), NOISE, BATCH, CLIP, clipped_count_stddev=5.0))


def adaptive_at_clients(folder: Path) -> None:
    """A clip that adapts by what clients report, of which the exact mean is released."""
    wrapper = current.DifferentialPrivacyClientSideAdaptiveClipping
    strategy = wrapper(fedavg(), NOISE, BATCH, CLIP, clipped_count_stddev=5.0)
    started(folder, strategy, mods=[adaptiveclipping_mod])


def earlier_adaptive(folder: Path) -> None:
    """The same with the earlier interface, at the server."""
    wrapper = earlier.DifferentialPrivacyServerSideAdaptiveClipping
    fitted(folder, wrapper(earlier_fedavg(), NOISE, BATCH, CLIP, clipped_count_stddev=5.0))


def poisson_planned(folder: Path) -> None:
    """A plan of Poisson samples, which Flower does not draw."""
    rate = {"rate": 0.25, "rate_source": "10 of 40", "sampling": "poisson"}
    started(folder, server_side(), plan(**rate))


WRONG: dict[Callable[[Path], None], set[str]] = {
    not_a_number: {"private-bound"},
    without_noise: {"no-noise"},
    noise_left_out: {"no-noise"},
    less_noise: {"off-plan"},
    larger_clip: {"adaptive-clip"},
    other_clip: {"more-rounds"},
    without_the_mod: {"private-bound"},
    mod_too_far_inside: {"private-bound"},
    replies_lost: {"off-plan"},
    fraction_too_small: {"off-plan"},
    fraction_too_large: {"event-mismatch"},
    fewer_clients: {"event-mismatch"},
    chosen_by_somebody: {"event-mismatch"},
    chosen_twice: {"private-bound"},
    drawn_from_a_seed: {"event-mismatch"},
    weighted: {"private-bound", "realised-normaliser"},
    earlier_weighted: {"private-bound", "realised-normaliser"},
    server_optimizer: {"private-bound"},
    median: {"private-bound"},
    wrapped_twice: {"private-bound"},
    metrics_released: {"private-evaluation"},
    seeded: {"seeded"},
    same_noise: {"reused-randomness"},
    adaptive: {"off-plan"},
    adaptive_at_clients: {"off-plan", "private-evaluation"},
    earlier_adaptive: {"off-plan"},
    poisson_planned: {"shuffled-as-poisson"},
}
