"""The server: Flower's own strategy for privacy; what is new are the lines that speak of `pp`."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

import privplan as pp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds, with noise in each."""
    settings = context.run_config
    clients, rounds = int(settings["clients"]), int(settings["rounds"])
    noise, clip = float(settings["noise"]), float(settings["clip"])
    averaging = FedAvg(
        fraction_train=1.0,
        fraction_evaluate=0.0,  # what clients evaluate is averaged without noise
        min_train_nodes=clients,
        min_available_nodes=clients,
    )
    strategy = DifferentialPrivacyServerSideFixedClipping(averaging, noise, clip, clients)
    plan = pp.TrainingPlan(
        steps=rounds,
        noise_multiplier=noise,
        clip=clip,
        delta=float(settings["delta"]),
        unit="user",
        neighbours="replace-one",
        sampling="none",
        batch=clients,
    )
    arrays = ArrayRecord({"weights": Array(np.zeros(8, dtype=np.float32))})
    with pp.logged(strategy, str(settings["log"]), plan=plan):
        strategy.start(grid, arrays, num_rounds=rounds)
