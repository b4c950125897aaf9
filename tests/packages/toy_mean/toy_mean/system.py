import numpy as np

from privplan.fl.frame.state import State
from privplan.fl.frame.user_sum import UserSum, features_of, of_user_sum


class ToyMean(UserSum):
    """Each round releases a velocity: half of the last one, and half of the noisy mean."""

    @property
    def parts(self):
        return {"features": (self.features,), "label": ()}

    @property
    def state(self):
        return State(velocity=(self.features + 1,))

    def row(self, held):
        return np.append(held.features.mean(axis=0), held.labels.mean())

    def server_step(self, parameters, noisy, state, number):
        velocity = 0.5 * state["velocity"] + 0.5 * noisy.mean
        return velocity, {"velocity": velocity}


def measure(prepared, released):
    return {"distance": np.linalg.norm(released[:-1] - prepared.federation.test_features.mean(0))}


DETERMINES = of_user_sum(lambda read: features_of(read) + 1)
