"""The systems: algorithms and protocols, which run under the accountant.

From the ground up; a layer imports only what stands above it here:

- `crypto/`, `parties/`, `files/`, `observers/`: cryptography, parties and messages, whole files,
  who sees what.
- `declarations/`, `settings/`: what a system declares of itself; the configuration, its keys and
  rules.
- `log/`: the hash chain, its writer and its reader.
- `models/`, `data/`, `datasets/`, `tables/`, `training/`: models, records by user and silo, files
  of records, local training.
- `aggregation/`, `secagg/`, `shuffling/`, `canaries/`: sums and their protocols, shufflers, units
  put in to be found.
- `frame/`: what every system is: setup, phases, rounds, promise.
- `uldp/`, `flame/`, `disco/`, `fedavg/`, `statistics/`, `fedpower/`, `delm/`: the systems.
- `running/`: a run from its configuration to its folder, and taken up again.
- `ledger_client/`, `network/`: a budget that others spend from; runs over a network.
"""
