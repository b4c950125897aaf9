"""Readers of tables, configurations and logs: CSV, JSON lines, `key: value`, training logs."""

from __future__ import annotations

from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.events import NoGuarantee
from privplan.audit.description.printed_number import PrintedNumber
from privplan.audit.description.run_description import Phase, Reading
from privplan.audit.readers import csv_history, jsonl_history, keyed_config, text_log
from privplan.audit.readers.content import ALIASES, role_of

from ..cases import for_each
from .reader_samples import CONFIG, CSV, JSONL, OPACUS_LOG, PHASES_CSV


def read_as(reader: Any, text: str) -> Reading:
    content = text.encode()
    assert reader.recognises(content, "file")
    reading = reader.read(content, "file")
    assert isinstance(reading, Reading)
    return reading


def values_of(reader: Any, text: str) -> dict[str, object]:
    return {key: fact.value for key, fact in read_as(reader, text).facts.items()}


def doubt(reader: Any, text: str, part: str) -> bool:
    return any(part in sentence for sentence in read_as(reader, text).doubts)


def test_no_name_stands_for_two_things() -> None:
    names = [name for group in ALIASES.values() for name in group]
    assert len(names) == len(set(names))
    assert all(role_of(name) == role for role, group in ALIASES.items() for name in group)


def test_a_table_of_epochs_claims_its_last_epsilon() -> None:
    for reader, text in ((csv_history, CSV), (jsonl_history, JSONL)):
        values = values_of(reader, text)
        assert values["claim.epsilon"] == PrintedNumber(0.71, 0.005)
        assert values["schedule.epochs"] == 2
    assert values_of(csv_history, CSV)["claim.delta"] == 1e-5


@for_each("delimiter", [",", ";", "\t", "|"])
@for_each("end", ["\n", "\r\n"])
def test_rows_with_noise_rate_and_steps_are_phases(delimiter: str, end: str) -> None:
    text = PHASES_CSV.replace(";", delimiter).replace("\n", end)
    phases = (Phase(1.3, 0.00427, 2000), Phase(1.1, 0.00427, 1516))
    assert values_of(csv_history, text) == {"schedule.phases": phases}


def test_rows_of_equal_settings_are_added() -> None:
    values = values_of(csv_history, "noise,rate,count\n1.1,0.00427,100\n1.1,0.00427,200.0\n")
    assert values == {
        "noise.noise_multiplier": 1.1,
        "sampling.rate": 0.00427,
        "schedule.steps": 300,
    }


def test_a_rising_count_beside_epsilon_counts_all_steps() -> None:
    values = values_of(csv_history, "steps,sigma,epsilon\n100,1.1,0.5\n200,1.1,0.7\n")
    assert values["schedule.steps"] == 200
    constant = "steps,sigma,epsilon\n100,1.1,0.5\n100,1.1,0.7\n"
    assert "schedule.steps" not in values_of(csv_history, constant)
    assert doubt(csv_history, constant, "of each row, or of the whole run")
    with pytest.raises(InvalidInput, match="`steps` neither rises nor is constant"):
        read_as(csv_history, "steps,sigma,epsilon\n100,1.1,0.5\n300,1.1,0.7\n200,1.1,0.8\n")


def test_a_table_of_several_runs_is_not_taken_for_phases() -> None:
    runs = "sigma,q,steps,epsilon\n1.3,0.004,1000,1.0\n1.1,0.004,1000,1.3\n"
    rising = "sigma,q,steps,epsilon\n1.3,0.004,1000,1.0\n1.1,0.004,2000,1.3\n"
    with pytest.raises(InvalidInput, match="`sigma`, `q`, `steps`, `epsilon`"):
        read_as(csv_history, rising)
    assert "noise.noise_multiplier" not in values_of(csv_history, runs)
    assert doubt(csv_history, runs, "`sigma` changes")


def test_a_counter_of_steps_is_taken_at_its_end_and_doubted() -> None:
    text = '{"step": 50, "eps": 0.52}\n{"step": 100, "eps": 0.71}\n'
    assert values_of(jsonl_history, text)["schedule.steps"] == 100
    assert doubt(jsonl_history, text, "ends at 100")
    from_zero = '{"step": 0, "eps": 0.52}\n{"step": 99, "eps": 0.71}\n'
    assert "schedule.steps" not in values_of(jsonl_history, from_zero)
    rounds = '{"round": 1, "eps": 0.52}\n{"round": 2, "eps": 0.71}\n'
    assert "schedule.steps" not in values_of(jsonl_history, rounds)


def test_noise_printed_as_zero_is_not_taken_for_zero() -> None:
    text = "epoch,noise_multiplier,epsilon\n1,0.0000,0.52\n2,0.0000,0.71\n"
    assert "noise.noise_multiplier" not in values_of(csv_history, text)
    assert doubt(csv_history, text, "0.0000")


def test_what_changes_from_row_to_row_is_doubted() -> None:
    falls = "epoch,epsilon\n1,0.71\n2,0.52\n"
    assert doubt(csv_history, falls, "goes down")
    assert not doubt(csv_history, CSV, "goes down")
    clips = "epoch,epsilon,clip\n1,0.5,1.0\n2,0.6,0.9\n"
    assert "noise.clip" not in values_of(csv_history, clips)
    assert doubt(csv_history, clips, "`clip` changes")
    noise = "epoch,epsilon,sigma\n1,0.5,1.0\n2,0.6,0.9\n"
    assert "noise.noise_multiplier" not in values_of(csv_history, noise)
    assert doubt(csv_history, noise, "`sigma` changes")
    evaluations = "epoch,epsilon\n1,0.5\n1,0.6\n2,0.7\n"
    assert "schedule.epochs" not in values_of(csv_history, evaluations)
    assert doubt(csv_history, evaluations, "may lie within epoch 2")
    resumed = "epoch,epsilon\n5,0.5\n6,0.6\n"
    assert "schedule.epochs" not in values_of(csv_history, resumed)
    assert doubt(csv_history, "sigma,q\n1,0.004\n", "0.004")


def test_blank_cells_are_passed_over() -> None:
    text = "step,epsilon,val_loss\n1,0.5,\n2,,0.3\n3,0.7,\n"
    assert values_of(csv_history, text)["claim.epsilon"] == PrintedNumber(0.7, 0.05)


@for_each(
    ("text", "named"),
    [
        ("epoch,epsilon,eps\n1,0.5,0.6\n", "`epsilon` and `eps`"),
        ("epoch,epsilon\n1\n", "Line 2 has 1 cells"),
        ("epoch,epsilon\n", "no rows"),
        ("epoch,epsilon\n1,nan\n", "epsilon in line 2"),
        ("epoch,epsilon\n\n1,inf\n", "epsilon in line 3"),
        ("epoch,epsilon\n1,-0.5\n", "epsilon in line 2"),
        ("epoch,epsilon\n1,1e999\n", "epsilon in line 2"),
        ("epoch,epsilon\n1,1e-99999999999\n", "epsilon in line 2"),
        ("epoch,epsilon\n1,sNaN\n", "epsilon in line 2"),
        ("epoch,epsilon\n1,low\n", "epsilon in line 2"),
        ("epoch,epsilon\n-1,1\n", "epoch in line 2"),
        ("epoch,epsilon\n1.5,1\n", "epoch in line 2"),
        ("epoch,epsilon,delta\n1,1,2\n", "delta in line 2"),
        ("sigma,q,steps\n1,1.5,1\n", "q in line 2"),
        ("sigma,q,steps\n1,0,1\n", "q in line 2"),
        ("sigma,q,steps\n-1,0.5,1\n", "sigma in line 2"),
        ("sigma,q,steps\n1,0.5,1e30\n", "steps in line 2"),
        ("sigma,q,steps\n1,0.5,0\n", "steps in line 2"),
        ('sigma,q\n1,"0.5\n', "is not CSV"),
    ],
)
def test_tables_that_cannot_be_are_refused_with_the_cell(text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_as(csv_history, text)


@for_each(
    ("text", "named"),
    [
        ('{"epoch": 1, "eps": 0.5}\n{"epoch": 2, "eps"\n{"epoch": 3, "eps": 0.5}', "Line 2 is no"),
        ('{"epoch": 1, "eps": 0.5}\n\n[1]\n{"epoch": 3, "eps": 0.5}', "Line 3 is no"),
        ('{"epoch": 1, "eps": true}\n{"epoch": 3, "eps": 0.5}', "`eps` must be a number"),
        ('{"epoch": 1, "eps": [1]}\n{"epoch": 3, "eps": 0.5}', "`eps` must be a number"),
        ('{"epoch": 1, "eps": NaN}\n{"epoch": 3, "eps": 0.5}', "eps in line 1"),
        ('{"epoch": 1, "eps": 1, "epsilon": 2}\n{"epoch": 3, "eps": 0.5}', "`eps` and `epsilon`"),
        ('{"epoch": 1, "eps": 1, "eps": 2}\n{"epoch": 3, "eps": 0.5}', "stands twice"),
    ],
)
def test_json_lines_that_cannot_be_are_refused(text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_as(jsonl_history, text)


def test_the_log_of_an_example_of_opacus() -> None:
    assert values_of(text_log, OPACUS_LOG) == {
        "claim.epsilon": PrintedNumber(1.19, 0.005),
        "claim.delta": 1e-5,
        "claim.accountant": "rdp",
        "schedule.epochs": 2,
    }
    assert doubt(text_log, OPACUS_LOG, "2 lines were understood")


@for_each(
    ("line", "epsilon"),
    [
        ("(ε = 2.31, δ = 1e-05)", PrintedNumber(2.31, 0.005)),
        ("done [epsilon: 2.3, delta: 1e-05]", PrintedNumber(2.3, 0.05)),
        ("(eps 2, delta 1e-05)", PrintedNumber(2.0)),
        ("epsilon = 3.0", PrintedNumber(3.0, 0.05)),
        ("2026-01-01 12:00:00,123 - INFO - Final epsilon: 3.00", PrintedNumber(3.0, 0.005)),
        ("step 7 | loss: 0.3 | epsilon=1.20 | acc=0.3", PrintedNumber(1.2, 0.005)),
        ("target epsilon = 8, epsilon = 3.0, delta=1e-5", PrintedNumber(3.0, 0.05)),
        ("ε = 3.", None),
    ],
)
def test_lines_of_the_grammar(line: str, epsilon: PrintedNumber | None) -> None:
    text = f"started\n{line}\nfinished: yes\n"
    if epsilon is None:
        assert values_of(text_log, text)["claim.epsilon"] == PrintedNumber(3.0)
    else:
        assert values_of(text_log, text)["claim.epsilon"] == epsilon


@for_each(
    "line",
    [
        "the epsilon was 3.0",
        "epsilon of 3.0",
        "my_epsilon = 3.0",
        "depsilon: 3.0",
        "epsilon = 3.0.1",
        "learning rate = 0.1, count: 3",
        "epsilon = x",
        "eps: 1e-08",
        "epsilon: 1e-08",
    ],
)
def test_lines_outside_the_grammar_are_no_log(line: str) -> None:
    assert not text_log.recognises(f"started\n{line}\n".encode(), "log")


def test_settings_in_a_log() -> None:
    text = (
        "Using sigma=1.1 and C=1.0\nnoise multiplier: 1.1, batch size: 256, epochs: 15\n"
        "sample rate = 0.00427\nnum_steps = 3516\nepsilon = 3.0\n"
    )
    values = values_of(text_log, text)
    assert values == {
        "claim.epsilon": PrintedNumber(3.0, 0.05),
        "noise.noise_multiplier": 1.1,
        "sampling.rate": 0.00427,
        "sampling.batch": 256,
        "schedule.steps": 3516,
        "schedule.epochs": 15,
    }


def test_the_middle_of_an_epoch_is_named() -> None:
    line = "Train Epoch: 3 [12800/60000 (21%)]\tLoss: 0.3 (ε = 1.19, δ = 1e-05)\n"
    assert doubt(text_log, line, "middle of epoch 3 (21%)")
    assert not doubt(text_log, line.replace("21%", "100%"), "middle of epoch")


def test_an_epsilon_of_an_optimizer_and_a_target_are_no_claims() -> None:
    text = "Adam(\n    epsilon: 1e-08\n    lr: 0.1\n)\ntarget epsilon: 8.0\nsigma=1.1\n"
    assert "claim.epsilon" not in values_of(text_log, text)
    assert doubt(text_log, text, "optimizer")
    assert doubt(text_log, text, "no claim")


@for_each(
    ("line", "named"),
    [
        ("epsilon = 3.0 (RDP), epsilon = 2.1 (PRV)", "two numbers for epsilon, 3.0 and 2.1"),
        ("(ε = 2.31, δ = 1e-05) and (ε = 2.11, δ = 1e-05)", "two numbers for epsilon"),
        ("epsilon = -3.0", "epsilon in line 1"),
        ("epsilon = nan", "epsilon in line 1"),
        ("(ε = inf, δ = 1e-05)", "epsilon in line 1"),
        ("(ε = 3, δ = 2)", "delta in line 1"),
        ("epsilon = 3.0, noise multiplier = -1", "noise in line 1"),
    ],
)
def test_lines_that_nobody_can_choose_from_are_refused(line: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_as(text_log, line)


def test_a_configuration_is_settings_and_its_target_no_claim() -> None:
    assert values_of(keyed_config, CONFIG) == {
        "claim.delta": 1e-5,
        "noise.noise_multiplier": 1.1,
        "noise.clip": 1.0,
        "sampling.batch": 256,
        "schedule.epochs": 15,
    }
    assert doubt(keyed_config, CONFIG, "`target_epsilon` 8")
    assert doubt(keyed_config, CONFIG, "nested entries, 1")


@for_each(
    ("text", "key", "value"),
    [
        ("sigma = 1.1\nepochs = 0.5\n", "schedule.epochs", 0.5),
        ("[dp]\nsigma = 1.1\nq = 0.01 ; of 60000\n", "sampling.rate", 0.01),
        ("sigma: '1.1'\npoisson_sampling: false\n", "sampling.method", "shuffled"),
        ("sigma: 1.1\npoisson_sampling: True\n", "sampling.method", "poisson"),
        ('{"sigma": 1.1, "epsilon": 2.31}', "claim.epsilon", PrintedNumber(2.31, 0.005)),
        ('{"sigma": 1.1, "epsilon": 2}', "claim.epsilon", PrintedNumber(2.0)),
        ("sigma: 1.1\nbatch_size: 256\nnum_microbatches: 256\n", "schedule.microbatches", 1),
        ("sigma: 1.1\nbatch_size: 256\nnum_microbatches: 64\n", "schedule.microbatches", 4),
        ("sigma: 1.1\nbatch_size: 256\nnum_microbatches: 3\n", "schedule.microbatches", None),
        ("sigma: 1.1\nmax_steps: -1\nq: 0.5\n", "schedule.steps", None),
        ("sigma: 0.0\nq: 0.5\n", "noise.noise_multiplier", None),
        ("sigma: auto\nq: 0.5\n", "noise.noise_multiplier", None),
        ("sigma: null\nq: 0.5\n", "noise.noise_multiplier", None),
        ("sigma: 1.1\nepsilon: 1e-8\n", "claim.epsilon", None),
        ("sigma: 1.1\nnum_examples: 60_000\n", "data.records", 60_000),
        ("sigma: 1.1\naccountant: RDP\n", "claim.accountant", "rdp"),
    ],
)
def test_keys_of_configurations(text: str, key: str, value: object) -> None:
    assert values_of(keyed_config, text).get(key) == value


@for_each(
    "text",
    [
        "sigma: 1.1\nsigma: 1.2\nq: 0.5\n",
        "sigma: 1.1\nq: 0.5\nEpoch: 1 Loss: 0.3\n",
        "sigma: 1.1\nq: 0.5\nhello\n",
        "sigma: 1.1\nlr: 0.5\n",
        "lr: 0.5\ndelta: 1\n",
        "[1, 2]",
    ],
)
def test_what_is_no_configuration(text: str) -> None:
    assert not keyed_config.recognises(text.encode(), "config.yaml")


@for_each(
    ("text", "named"),
    [
        ("sigma: 1.1\nnoise_multiplier: 1.2\n q: 1\nq: 1", "`sigma` and `noise_multiplier`"),
        ("sigma: -1\nq: 0.5\n", "sigma"),
        ("sigma: nan\nq: 0.5\n", "sigma"),
        ("sigma: 1\nq: 2\n", "q"),
        ("sigma: 1\nbatch_size: -4\n", "batch_size"),
        ("sigma: 1\nbatch_size: 4.5\n", "batch_size"),
        ("sigma: 1\nepochs: 0\n", "epochs"),
        ("sigma: 1\ndelta: 7\n", "delta"),
        ("sigma: 1\ndelta: 1x\n", "delta"),
        ('{"sigma": 1, "epsilon": Infinity}', "epsilon"),
    ],
)
def test_configurations_that_cannot_be_are_refused(text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_as(keyed_config, text)


def test_unknown_keys_of_configurations_are_named() -> None:
    for text in (
        "sigma: 1.1\nq: 0.5\nlr: 0.1\nn_seeds: 5\n",
        '{"sigma": 1.1, "q": 0.5, "lr": 0.1, "n_seeds": 5}',
    ):
        assert doubt(keyed_config, text, "2 keys that are not known here: `lr`, `n_seeds`")
    many = "sigma: 1.1\nq: 0.5\n" + "".join(f"key_{index}: 1\n" for index in range(20))
    assert doubt(keyed_config, many, "and 12 more")
    assert not doubt(keyed_config, "sigma: 1.1\nq: 0.5\n", "not known")


@for_each("key", ["restarts", "Restarts", "phases", "releases", "records_per_user"])
def test_keys_of_descriptions_are_refused_in_configurations(key: str) -> None:
    with pytest.raises(InvalidInput, match="is a key of a description"):
        read_as(keyed_config, f"sigma: 1.1\nq: 0.5\n{key}: 20\n")


@for_each(
    ("line", "off"),
    [
        ("disable_dp: true", True),
        ("disable-dp = 1", True),
        ("dpsgd: False", True),
        ("use_dp: no", True),
        ("disable_dp: false", False),
        ("private: true", False),
        ("dp: maybe", False),
    ],
)
def test_switched_off_privacy_leaves_no_guarantee(line: str, off: bool) -> None:
    reading = read_as(keyed_config, f"sigma: 1.1\nq: 0.5\n{line}\n")
    assert isinstance(reading.event, NoGuarantee) == off
    assert any("had no privacy" in sentence for sentence in reading.doubts) == off


@for_each("number", ["1_1", "1__000", "_1", "1_", "10_00"])
def test_stray_underscores_are_no_thousands(number: str) -> None:
    assert values_of(keyed_config, "sigma: 1.1\nsteps: 1_000\n")["schedule.steps"] == 1000
    if number == "_1":
        assert doubt(keyed_config, f"sigma: {number}\nq: 0.5\n", "no number")
        return
    with pytest.raises(InvalidInput, match="must be a number"):
        read_as(keyed_config, f"sigma: {number}\nq: 0.5\n")
