"""One module for each way of turning events into numbers.

- `pld/`: privacy loss distributions on grids, certified from both sides: the default.
- `rdp/`, `gdp`: Renyi curves; the closed form for Gaussian noise without sampling.
- `pure`, `largest_losses`, `loss_ranges`: epsilon at delta 0: the largest loss of each release,
  sampled or not, rounded outward.
- `blanket`: one shuffled round, straight from its blanket bound.
- `google`, `microsoft`, `microsoft_losses`, `library_workarounds`: second opinions: dp_accounting
  and prv_accountant, and what is worked around in them.
- `correlated_noise`: all rounds of correlated noise as one Gaussian release.
- `shuffled_epochs`: one epoch of shuffled batches under add-remove.
- `base`: the interface of engines, and the registry of one function for each event.
"""
