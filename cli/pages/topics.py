"""The topics of `privplan explain`: each is a text file in this folder, named after its topic.

What findings of checks and audits mean is taken from the registry of their rules.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...audit.findings import Rule

PAGE_LINE_CHARACTERS: Final = 92
TEXT_COLUMN: Final = 22
"""Column of a key's meaning, behind its name."""

_TABLE_SUMMARIES: Final = {
    "run": "what is run",
    "data": "which records, and how they are dealt to users and silos",
    "privacy": "what is promised; not for a system that promises nothing",
    "training": "how models are trained; not for a system that trains none",
    "security": "what the server sees",
    "evaluation": "what the model is measured on",
    "log": "how the log is kept; not part of what is run",
    "ledger": "a budget that others spend from as well (privplan explain ledger)",
}


def filled(page: str) -> str:
    """Return the page with the declared systems and keys in the place of {systems} and {tables}."""
    return page.replace("{systems}", _systems()).replace("{tables}", _tables())


def _systems() -> str:
    """Return the list of systems, and what is wrong with those of other packages."""
    from ...fl.declarations.declaration import PRIVPLAN_PACKAGE
    from ...fl.declarations.packages import foreign_systems
    from ...fl.declarations.registry import declared

    lines = ["Systems"]
    for name, system in declared().items():
        whose = "" if system.package == PRIVPLAN_PACKAGE else f" (package {system.package})"
        lines += _entry(name, f"{system.summary}{whose}")
    # A package that cannot be loaded is listed too: its author reads here why.
    for entry in foreign_systems():
        if entry.trouble is not None:
            lines += _entry(entry.name, f"cannot be used.  {entry.trouble.what}")
    return "\n".join(lines)


def _tables() -> str:
    """Return every table of a configuration with its keys, an empty line between tables."""
    from ...fl.declarations.registry import keys_by_table, system_tables

    families = system_tables()
    tables = []
    for name, keys in keys_by_table(everywhere=True).items():
        about = families[name].about if name in families else _TABLE_SUMMARIES[name]
        lines = [f"[{name}]  {about}"]
        for key in keys:
            text = f"{key.meaning}{_for_whom(name, key.name)}.  Default: {key.default}."
            lines += _entry(key.name, text)
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def _for_whom(table: str, key: str) -> str:
    """Return which systems have a use for a shared key, where not all have one."""
    from ...fl.declarations.registry import declared, with_use_for
    from ...fl.declarations.toml_keys import OPTIONAL_KEYS

    if (table, key) not in OPTIONAL_KEYS:
        return ""
    users = with_use_for(table, key)
    concerned = [name for name, each in declared().items() if each.trains or table != "training"]
    others = [name for name in concerned if name not in users]
    # Whichever list is shorter says it.
    listed = f"not for {', '.join(others)}" if len(others) < len(users) else ", ".join(users)
    return f" ({listed})" if others else ""


def _entry(name: str, text: str, column: int = TEXT_COLUMN) -> list[str]:
    return textwrap.wrap(
        text,
        width=PAGE_LINE_CHARACTERS,
        initial_indent=f"  {name:<{column - 2}}",
        subsequent_indent=" " * column,
        break_on_hyphens=False,
    )


SUMMARIES: Final[Mapping[str, str]] = {
    "check": "is the number of somebody's run right",
    "causes": "why a reported number is wrong or in doubt",
    "opacus": "what the state of its accountant says, and what it lacks",
    "libraries": "logs of trainings with Flower, jax_privacy, or a loop of your own",
    "dp-sgd": "what a private training step must do",
    "events": "every event, with an example",
    "sampling": "who takes part in a step",
    "neighbours": "which change of the data is hidden",
    "delta": "the slack, and how small it must be",
    "risk": "what the best attack reaches, and noise for that",
    "engines": "the ways from an event to a number",
    "group": "from one record to a person with many",
    "shuffle": "hiding among users",
    "matrix": "rounds that share their noise: DP-FTRL, BandMF, BLT, trees",
    "plan": "one budget, several phases",
    "plots": "results in pictures and in characters, and how to read them",
    "run": "what a run is told, and what it leaves",
    "tables": "runs on your own files: whose rows they are, and what is public",
    "network": "a run over a network: guards, plans that silos sign, Flower",
    "models": "runs that train your own module: what it must be, and who executes it",
    "attack": "what was demonstrably lost, in tiers",
    "scores": "who was in the training data of a model that anybody trained",
    "canaries": "examples with secret coins in a training of your own",
    "log": "what a log proves, and against whom",
    "ledger": "a budget that many spend from: what it counts, and what it cannot know",
    "words": "what only privplan calls so",
    "statistics": "sums of x x^T and x y^T, released once",
    "uldp-fl": "Uldp-FL: privacy for users across silos",
    "flame": "FLAME: shuffled and sampled coordinates",
    "disco": "DISCO: local privacy with a radius from the data",
    "fedpower": "FedPower: private power iteration",
    "delm": "DELM: noisy objectives, PCA and a shuffler",
}
"""What each topic is about, in the order in which topics are listed."""

_ALIASES: Final[Mapping[str, str]] = {
    "libraries": "dashboard flower-dp jax jax-privacy local-dp loop loops metrics mlflow run-log "
    "runlog tensorboard wandb weights-and-biases",
    "tables": "csv data parquet patients schema table",
    "models": "batchnorm cnn dropout loss losses mlp model module pytorch torch",
    "matrix": "balls-in-bins banded bandmf blt bnb buffered-toeplitz correlated correlated-noise "
    "dp-ftrl factorization ftrl matrix-factorization matrix-gaussian matrix-mechanism "
    "participation sensitivity toeplitz tree trees",
    "engines": "curve curves gdp pld privacy-profile profile prv rdp renyi zcdp",
    "events": "best-of gaussian gaussian-mixture laplace mixture partition partition-selection "
    "selection threshold-selection truncated-geometric-selection tuning unit-in-silos",
    "sampling": "allocation amplification client-sampled client-sampling fixed-size poisson "
    "random-allocation shuffled-batches truncated-poisson with-replacement",
    "risk": "advantage attack-risk attacks bayes bayes-risk f-dp fdp fnr fpr mia mu reconstruction "
    "roc tpr trade-off",
    "neighbours": "add-remove neighbors neighboring replace-one zero-out",
    "shuffle": "shuffled shuffler shuffle-model",
    "group": "group-privacy groups user user-level users",
    "attack": "canary membership",
    "scores": "lira rmia shadows",
    "canaries": "draw-canaries inserted one-run",
    "ledger": "budget-service claims-on-budgets receipt receipts witness",
    "uldp-fl": "silo silos",
    "dp-sgd": "dpsgd sgd",
    "network": "flower flwr guard guards superlink supernode",
    "words": "glossary terms vocabulary",
    "plots": "chart charts figure figures graph matplotlib plot png svg",
}
"""Other names of what a topic explains, by the topic."""

TOPIC_BY_ALIAS: Final[Mapping[str, str]] = {
    alias: topic for topic, aliases in _ALIASES.items() for alias in aliases.split()
}
"""The topic that explains what goes by another name."""

TOPICS: Final = tuple(SUMMARIES)


def page(topic: str) -> str:
    """Return the page about `topic`, which is one of `TOPICS`, without its last line end."""
    text = _file(topic)
    if topic == "run":
        # Systems and keys come from their declarations, other packages' included.
        text = filled(text)
    if topic == "causes":
        text = filled_causes(text)
    return text.rstrip("\n")


def listing() -> str:
    """Return the topics, each with a few words."""
    width = max(map(len, TOPICS))
    lines = [f"  privplan explain {name:<{width}}   {about}" for name, about in SUMMARIES.items()]
    return "\n".join(["Topics:", *lines])


def _file(topic: str) -> str:
    from importlib import resources

    return resources.files(__package__).joinpath(f"{topic}.txt").read_text(encoding="utf-8")


CLOSING: Final = (
    "Causes of a run of privplan itself are the findings of `privplan audit budget`, under their "
    "own ids.  `privplan check --json` holds for each of those that its records can show, in "
    '`rules`, the cause above that stands for it elsewhere, or "not applicable".'
)
SOURCE: Final = "Source: the registry of rules, privplan.audit.findings.RULES."


def filled_causes(text: str) -> str:
    """Return the page about all findings; `text` is what stands before their table."""
    from ...audit.findings import FACTS

    rules = _rules_by_id()
    width = max(map(len, rules)) + 4
    lines = [text.rstrip("\n")]
    for name, says in FACTS.items():
        lines += _entry(f"[{name}]", says, width)
    lines.append("")
    for name, same in sorted(rules.items()):
        lines += _entry(name, f"{_gravest(same)}.  {_says(same)}", width)
    closing = f"{textwrap.fill(CLOSING, PAGE_LINE_CHARACTERS)}\n\n{SOURCE}"
    return "\n".join([*lines, "", closing])


def cause_page(name: str) -> str | None:
    """Return what a finding means, by its id; None where there is no such finding."""
    same = _rules_by_id().get(name)
    if same is None:
        return None
    of_check = any("case" in rule.needs for rule in same)
    who = "a cause that `privplan check` names" if of_check else "a finding of `privplan audit`"
    return f"{name}: {who} (privplan explain causes)\n\n" + "\n".join(rule.why for rule in same)


def _rules_by_id() -> dict[str, list[Rule]]:
    """Return all rules by id: some stand for a rule of descriptions and another one of logs."""
    from ...audit.check.causes import CAUSE_RULES
    from ...audit.hazards import LOG_RULES

    rules: dict[str, list[Rule]] = {}
    for rule in (*CAUSE_RULES.values(), *LOG_RULES.values()):
        rules.setdefault(rule.id, []).append(rule)
    return rules


def _gravest(rules: Sequence[Rule]) -> str:
    words = {rule.severity for rule in rules}
    return next(word for word in ("error", "warning", "note", "info") if word in words)


def _says(rules: Sequence[Rule]) -> str:
    return "  ".join(f"{rule.why} [{', '.join(rule.needs)}]" for rule in rules)
