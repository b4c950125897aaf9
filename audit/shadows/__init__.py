"""Shadow models: who is in which of them, and how many are trained at once.

    plan = design(users, models=64, targets=16, rng=rng)
    models = replicas(settings, federation, plan.inside_records(federation.user), seed=1)

Shadows are an attacker's simulations.  What is made of private records without noise is as private
as the records: models stay in memory, and nothing here writes to a log.
"""

from .batched import train_batched
from .design import Design, design
from .replicas import Executor, JoblibExecutor, Replica, SerialExecutor, all_cores, replicas

__all__ = [
    "Design",
    "Executor",
    "JoblibExecutor",
    "Replica",
    "SerialExecutor",
    "all_cores",
    "design",
    "replicas",
    "train_batched",
]
