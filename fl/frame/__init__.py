"""What a system is: its declaration, and what the frame asks of it.

- `system`, `private_system`, `user_sum`: the protocol of systems, and bases that do most of it.
- `setup`, `requirements`, `system_checks`: what a system is made from, and whether it can be run.
- `privacy`, `budget`, `promise`: what is to be protected, how much noise that takes, and what is
  claimed.
- `terms`, `expected_log`, `expected_opening`, `opening`: what each release is, and what a log must
  say by the configuration alone.
- `phases`, `rounds`: phases, and one round: intent, noise, release.
- `model`, `initial_model`, `state`: the model as a vector, the first one, and what is kept with
  it.
- `private_normalisation`: moments of features that are released first.
- `held_out_setup`, `held_out_release`, `held_out_votes`, `held_out_messages`, `held_out_score`:
  votes of those held out of the training.
"""
