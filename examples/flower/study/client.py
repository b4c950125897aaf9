"""A client: its records never leave it, and noise is added to what it sends as well."""

from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod

from privplan.audit.adapters.flower import local_plan, logged_mod

ROUNDS, DELTA = 3, 1e-3
MOD = LocalDpMod(clipping_norm=0.5, sensitivity=1.0, epsilon=0.9, delta=DELTA)
PLAN = local_plan(MOD, steps=ROUNDS, delta=DELTA)


def private(message: Message, context: Context, call_next: Any) -> Message:
    """Add noise as `LocalDpMod` does, and keep a log of it where this client's operator says."""
    mod = logged_mod(MOD, str(context.node_config["logs"]), plan=PLAN)
    reply: Message = mod(message, context, call_next)
    return reply


app = ClientApp(mods=[private])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Move the model towards the mean of this client's records."""
    name, record = next(iter(message.content.array_records.items()))
    (weights,) = record.to_numpy_ndarrays()
    silo = int(context.node_config["silo"])
    records = np.random.default_rng().normal(silo, 1.0, (50, len(weights)))
    after = weights + 0.5 * (records.mean(axis=0) - weights).astype(weights.dtype)
    content = RecordDict(
        {
            name: ArrayRecord({key: Array(after) for key in record}),
            # All clients weigh the same: a number of records would follow the data.
            "metrics": MetricRecord({"num-examples": 1.0}),
        }
    )
    return Message(content, reply_to=message)
