"""What a person gives: options, the file of defaults, files of events and plans.

- `request`, `options`: what a command is asked, as a class of options; options that commands share.
- `described_run`, `schedule`, `gram`, `attack_risk`: events and targets by options.
- `plan_file`, `plan_design`: phases of `plan.toml`, and variations to compare.
- `curve_file`, `run_files`, `defaults_file`, `anchors`, `plot_target`: curves, files of one run,
  `privplan.toml`, keys and heads of a verifier, where a plot goes.
"""
