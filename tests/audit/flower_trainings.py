"""Small runs with Flower's strategies for privacy under the observer, and those that are right.

The strategies, the mods and the applications of clients are Flower's own; messages are handed over
in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.common import (
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server import strategy as earlier
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.server import Server
from flwr.serverapp import Grid
from flwr.serverapp import strategy as current
from flwr.supercore.privacy_accounting import (
    NeighboringRelation,
    PrivacyConfig,
    SamplingMethod,
)
from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant
from flwr.supercore.task_identity import TaskIdentity

import privplan as pp
from privplan.audit.adapters.flower import local_plan, logged_mod

logging.getLogger("flwr").setLevel(logging.CRITICAL)
TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1

CLIENTS, BATCH, ROUNDS = 40, 10, 4
NOISE, CLIP, VALUES = 8.0, 0.5, 12
Reply = Callable[[int, np.ndarray[Any, Any]], tuple[np.ndarray[Any, Any], float]]


def plan(**changes: Any) -> pp.TrainingPlan:
    """Return the plan of a small run: 10 of 40 clients in each of 4 rounds."""
    usual: dict[str, Any] = {
        "steps": ROUNDS,
        "noise_multiplier": NOISE,
        "clip": CLIP,
        "delta": 1e-3,
        "unit": "user",
        "neighbours": "replace-one",
        "sampling": "fixed-size",
        "records": CLIENTS,
        "batch": BATCH,
        "steps_per_intent": 2,
    }
    return pp.TrainingPlan(**{**usual, **changes})


def moved(client: int, values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], float]:
    """Train at a client: a step that is longer than the clip, reported with weight 1."""
    return values + np.float32(0.3 + 0.01 * client), 1.0


def application(mods: list[Any], reply: Reply, metrics: Mapping[str, float]) -> ClientApp:
    """Return an application of a client, with mods."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        name, record = next(iter(message.content.array_records.items()))
        (values,) = record.to_numpy_ndarrays()
        after, weight = reply(context.node_id, values)
        content = RecordDict(
            {
                name: ArrayRecord({key: Array(after) for key in record}),
                "metrics": MetricRecord({"num-examples": weight, **metrics}),
            }
        )
        return Message(content, reply_to=message)

    return app


class InProcess(Grid):
    """Hands messages to the application of each client, in this process."""

    def __init__(self, clients: int, app: ClientApp, lost: int = 0) -> None:
        self.clients, self.app, self.lost = list(range(1, clients + 1)), app, lost

    def get_node_ids(self) -> Iterable[int]:
        """Return the clients."""
        return self.clients

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Return the replies to messages; of some clients none comes."""
        del timeout
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            held = Context(1, node, {}, RecordDict(), {})
            message.metadata.__dict__["_message_id"] = f"{node}"
            replies.append(self.app(message, held))
        return replies[self.lost :]

    def set_run(self, run: Any) -> None:
        """Take no run."""

    def create_message(self, *_: Any, **__: Any) -> Message:
        """Create none."""
        raise NotImplementedError

    @property
    def run(self) -> Any:
        """No run."""
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push none."""
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull none."""
        raise NotImplementedError


class Proxy(ClientProxy):
    """A client of the earlier interface, in this process."""

    def __init__(self, number: int, reply: Reply) -> None:
        super().__init__(str(number))
        self.number, self.reply = number, reply

    def fit(self, ins: Any, timeout: float | None, group_id: int | None) -> FitRes:
        """Train, and clip where the server says to what."""
        del timeout, group_id
        (before,) = parameters_to_ndarrays(ins.parameters)
        after, weight = self.reply(self.number, before)
        metrics = {}
        if "clipping_norm" in ins.config:
            norm = float(np.linalg.norm(after - before))
            scale = min(1.0, ins.config["clipping_norm"] / norm)
            after = before + (after - before) * np.float32(scale)
            metrics = {"norm_bit": scale < 1.0}
        status = Status(Code.OK, "")
        return FitRes(status, ndarrays_to_parameters([after]), int(weight), metrics)

    def get_properties(self, ins: Any, timeout: Any, group_id: Any) -> Any:
        """Return none."""
        raise NotImplementedError

    get_parameters = evaluate = reconnect = get_properties


def fedavg(**options: Any) -> current.FedAvg:
    """Return Flower's averaging, with no evaluation at clients."""
    usual = {"fraction_train": BATCH / CLIENTS, "fraction_evaluate": 0.0, "min_train_nodes": 1}
    return current.FedAvg(**{**usual, "min_available_nodes": 1, **options})


def server_side(averaging: Any = None, noise: float = NOISE, clip: float = CLIP) -> Any:
    """Return the strategy that clips at the server."""
    wrapped = fedavg() if averaging is None else averaging
    return current.DifferentialPrivacyServerSideFixedClipping(wrapped, noise, clip, BATCH)


def started(
    folder: Path,
    strategy: Any,
    planned: pp.TrainingPlan | None = None,
    *,
    mods: list[Any] | None = None,
    reply: Reply = moved,
    clients: int = CLIENTS,
    lost: int = 0,
    metrics: Mapping[str, float] | None = None,
    rounds: int = ROUNDS,
    **options: Any,
) -> Any:
    """Run a strategy under the observer, and return its results."""
    grid = InProcess(clients, application(mods or [], reply, metrics or {}), lost)
    arrays = ArrayRecord({"weights": Array(np.zeros(VALUES, dtype=np.float32))})
    with pp.logged(strategy, folder, plan=planned or plan(), **options):
        return strategy.start(grid, arrays, num_rounds=rounds, train_config=ConfigRecord({}))


def fitted(
    folder: Path, strategy: Any, planned: pp.TrainingPlan | None = None, reply: Reply = moved
) -> Any:
    """Run a strategy of the earlier interface under the observer, and return its server."""
    manager = SimpleClientManager()
    for number in range(1, CLIENTS + 1):
        manager.register(Proxy(number, reply))
    server = Server(client_manager=manager, strategy=strategy)
    with pp.logged(strategy, folder, plan=planned or plan()):
        server.fit(ROUNDS, timeout=None)
    return server


def earlier_fedavg() -> Any:
    """Return the averaging of the earlier interface."""
    return earlier.FedAvg(
        fraction_fit=BATCH / CLIENTS,
        fraction_evaluate=0.0,
        min_fit_clients=1,
        min_available_clients=1,
        initial_parameters=ndarrays_to_parameters([np.zeros(VALUES, dtype=np.float32)]),
    )


# --- right runs -----------------------------------------------------------------------------------


def clipped_at_the_server(folder: Path) -> None:
    """Server-side fixed clipping."""
    started(folder, server_side())


def clipped_at_clients(folder: Path) -> None:
    """Client-side fixed clipping, by Flower's mod."""
    strategy = current.DifferentialPrivacyClientSideFixedClipping(fedavg(), NOISE, CLIP, BATCH)
    started(folder, strategy, mods=[fixedclipping_mod])


def all_clients(folder: Path) -> None:
    """All clients in each round."""
    strategy = current.DifferentialPrivacyServerSideFixedClipping(
        fedavg(fraction_train=1.0), NOISE, CLIP, CLIENTS
    )
    started(folder, strategy, plan(sampling="none", batch=CLIENTS))


def under_zero_out(folder: Path) -> None:
    """The same under zero-out."""
    started(folder, server_side(), plan(neighbours="zero-out"))


def one_client_more(folder: Path) -> None:
    """A number of clients is drawn, of one client more or less."""
    started(folder, server_side(), plan(neighbours="add-remove"))


def proximal(folder: Path) -> None:
    """FedProx, which averages as FedAvg does."""
    averaging = current.FedProx(
        fraction_train=BATCH / CLIENTS,
        fraction_evaluate=0.0,
        min_train_nodes=1,
        min_available_nodes=1,
        proximal_mu=0.1,
    )
    started(folder, server_side(averaging))


def stopped_early(folder: Path) -> None:
    """A run of fewer rounds than planned."""
    started(folder, server_side(), rounds=2)


def public_weight(folder: Path) -> None:
    """Every client reports the same public number."""
    started(
        folder, server_side(), reply=lambda client, x: (moved(client, x)[0], 600.0), weight=600.0
    )


def with_flowers_accountant(folder: Path) -> None:
    """Flower's own accountant beside the log; it knows one relation and no sampling here."""
    config = PrivacyConfig(
        1e-3,
        CLIENTS,
        NeighboringRelation.ADD_OR_REMOVE_ONE,
        SamplingMethod.NO_AMPLIFICATION,
    )
    wrapper = current.DifferentialPrivacyServerSideFixedClipping
    accountant = RdpAccountant(config)
    started(folder, wrapper(fedavg(), NOISE, CLIP, BATCH, accountant=accountant))


def earlier_server_side(folder: Path) -> None:
    """The earlier interface, clipped at the server."""
    wrapper = earlier.DifferentialPrivacyServerSideFixedClipping
    fitted(folder, wrapper(earlier_fedavg(), NOISE, CLIP, BATCH))


def earlier_client_side(folder: Path) -> None:
    """The earlier interface, clipped at clients."""
    wrapper = earlier.DifferentialPrivacyClientSideFixedClipping
    fitted(folder, wrapper(earlier_fedavg(), NOISE, CLIP, BATCH))


def sent(mod: Any, clients: int) -> None:
    """Send one message to each of some clients with a mod, as a round of training."""
    grid = InProcess(clients, application([mod], moved, {}))
    arrays = ArrayRecord({"weights": Array(np.zeros(VALUES, dtype=np.float32))})
    for node in grid.clients:
        content = RecordDict({"arrays": arrays, "config": ConfigRecord({})})
        grid.send_and_receive([Message(content, dst_node_id=node, message_type="train")])


def local(folder: Path, mod: Any = None) -> None:
    """Noise at each of two clients, in all rounds."""
    chosen = LocalDpMod(CLIP, CLIP, 0.05, 1e-3) if mod is None else mod
    private = logged_mod(chosen, folder, plan=local_plan(chosen, steps=ROUNDS, delta=1e-3))
    for _ in range(ROUNDS):
        sent(private, 2)


RIGHT = (
    clipped_at_the_server,
    clipped_at_clients,
    all_clients,
    under_zero_out,
    one_client_more,
    proximal,
    stopped_early,
    public_weight,
    with_flowers_accountant,
    earlier_server_side,
    earlier_client_side,
)
