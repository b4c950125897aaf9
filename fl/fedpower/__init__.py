"""FedPower, private federated SVD: one Gram release, a power iteration, and three as published."""
