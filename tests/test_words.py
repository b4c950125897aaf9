"""Names and prose of the four floors: whoever knows the field needs one page of words.

The share of private words may be lowered, never raised; what stays private is in the glossary.
"""

from __future__ import annotations

import ast
import doctest
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from .cases import for_each
from .source_tree import FLOORS, ROOT, parsed

MAX_PRIVATE_WORD_SHARE: Final = 0.001
MAX_GLOSSARY_WORDS: Final = 25

PRIVATE_WORDS: Final = frozenset({"own", "found", "made", "one", "place"})
"""Words that stand for a thing without saying which: a name uses the field's noun instead."""

REPLACED_WORDS: Final = frozenset({"bare", "beside", "crowd", "crowded", "crowds", "standing"})
"""Words that stood for something that the field, or plain English, has a word for."""

PUBLIC_NAMES: Final = ("`beside`", "beside: Phases", "self.beside", "beside=", '"beside"')
"""Where a public name keeps one of these words: a field of `Declaration`, and what `audit log`
says of the key of a signature."""

FIELD_NOUNS: Final = frozenset(
    {
        "Finding",
        "Packing",
        "Reading",
        "Sampling",
        "Scaling",
        "Setting",
        "Shuffling",
        "Training",
        "Tuning",
    }
)
"""Nouns in -ing that the field uses; any other class named by one participle says too little."""

PUBLIC_CLASSES: Final = frozenset({"Planned", "Sealed", "Unsupported"})
"""Classes that authors of other packages import by name."""


@cache
def counted() -> Mapping[Path, ast.Module]:
    """Return the syntax tree of every file of the floors."""
    return {path: parsed(path) for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))}


def bindings(tree: ast.AST) -> Iterator[str]:
    """Yield every name that an assignment, a loop, a comprehension or a `with` binds.

    >>> list(bindings(ast.parse("a = self.b = 1\\nfor c, d in x: pass\\n[e for e in x]")))
    ['a', 'b', 'c', 'd', 'e']
    """
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from _names(target)
            case (
                ast.AnnAssign(target=target)
                | ast.AugAssign(target=target)
                | ast.NamedExpr(target=target)
                | ast.For(target=target)
                | ast.comprehension(target=target)
                | ast.withitem(optional_vars=ast.expr() as target)
            ):
                yield from _names(target)


def _names(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _names(part)
        case ast.Starred(value=part):
            yield from _names(part)


def is_private(name: str) -> bool:
    """Return whether a name contains a word that says nothing.

    >>> is_private("_found"), is_private("first_one"), is_private("founder")
    (True, True, False)
    """
    return not PRIVATE_WORDS.isdisjoint(name.lower().strip("_").split("_"))


def is_participle(name: str) -> bool:
    """Return whether a class is named by a single participle.

    >>> is_participle("Shuffled"), is_participle("ShuffledBatches"), is_participle("Sampling")
    (True, False, False)
    """
    parts = re.findall(r"[A-Z][a-z]*", name)
    is_one = len(parts) == 1 and parts[0].endswith(("ed", "ing"))
    return is_one and parts[0] not in FIELD_NOUNS | PUBLIC_CLASSES


def number_of(node: ast.expr | None) -> int | float | None:
    """Return the number that literals alone make, or None.

    >>> [number_of(line.value) for line in ast.parse("-8 * 2**20\\nlen(x)\\nTrue").body]
    [-8388608, None, None]
    """
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()) | ast.BinOp():
            parts = [part for part in ast.walk(node) if isinstance(part, ast.expr)]
            if all(isinstance(part, (ast.Constant, ast.UnaryOp, ast.BinOp)) for part in parts):
                number = eval(compile(ast.Expression(node), "<constant>", "eval"))
                return number if isinstance(number, (int, float)) else None
    return None


def assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that a module assigns at its top, with the expression."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from ((name, node.value) for name in _names(target))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from ((name, node.value) for name in _names(node.target))


def test_examples() -> None:
    assert doctest.testmod(sys.modules[__name__]).failed == 0


def test_private_words_are_rare() -> None:
    names = [name for tree in counted().values() for name in bindings(tree)]
    share = sum(map(is_private, names)) / len(names)
    assert share <= MAX_PRIVATE_WORD_SHARE


def test_classes_are_nouns() -> None:
    named = sorted(
        f"{path.relative_to(ROOT).as_posix()}: {node.name}"
        for path, tree in counted().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and is_participle(node.name)
    )
    assert named == []


def words(source: str) -> list[str]:
    """Return the words of a text, those within names too, in lower case.

    >>> words("crowdPairs, _bare_BESIDE besides")
    ['crowd', 'pairs', 'bare', 'beside', 'besides']
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", source)]


def test_replaced_words_do_not_come_back() -> None:
    back = [
        f"{path.relative_to(ROOT).as_posix()}:{number}: {line.strip()}"
        for floor in FLOORS
        for path in sorted((ROOT / floor).rglob("*"))
        if path.suffix in (".py", ".txt", ".j2")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if not REPLACED_WORDS.isdisjoint(words(line))
        and not any(name in line for name in PUBLIC_NAMES)
    ]
    assert back == [], "say it with a word of the field, or in plain English"


def test_every_public_name_with_a_replaced_word_is_still_there() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in counted())
    assert [name for name in PUBLIC_NAMES if name not in text] == []


def glossary() -> list[str]:
    """Return the words that the page of words explains."""
    page = (ROOT / "cli" / "pages" / "words.txt").read_text(encoding="utf-8")
    return re.findall(r"^  ([a-z]+)  ", page, re.MULTILINE)


def test_the_glossary_is_short_and_explains_names_of_the_code() -> None:
    explained = glossary()
    assert explained == sorted(set(explained))
    assert len(explained) <= MAX_GLOSSARY_WORDS
    named = {
        word
        for path in counted()
        for word in words(f"{path.relative_to(ROOT)} {path.read_text(encoding='utf-8')}")
    }
    assert [word for word in explained if not {word, f"{word}s", f"{word[:-1]}ves"} & named] == []


def constants(trees: Iterable[ast.Module]) -> Mapping[str, set[float]]:
    """Return the numbers that modules give to each constant, by its name."""
    values: dict[str, set[float]] = defaultdict(set)
    for tree in trees:
        for name, expression in assigned(tree):
            number = number_of(expression)
            if name.isupper() and number is not None:
                values[name.strip("_")].add(number)
    return values


def test_a_constant_has_one_value() -> None:
    values = constants(counted().values())
    assert {name: sorted(numbers) for name, numbers in values.items() if len(numbers) > 1} == {}


def array_aliases() -> Mapping[str, list[str]]:
    """Return the aliases of `NDArray[...]`, by element type."""
    aliases: dict[str, list[str]] = defaultdict(list)
    for path, tree in counted().items():
        for name, expression in assigned(tree):
            alias = re.fullmatch(r"(?:\w+\.)*NDArray\[([\w.]+)\]", ast.unparse(expression))
            if alias is not None:
                aliases[alias[1]].append(f"{path.relative_to(ROOT).as_posix()}: {name}")
    return aliases


def sentences(tree: ast.AST) -> Iterator[str]:
    """Yield the sentences of five words or more in the texts of a tree, docstrings aside.

    >>> list(sentences(ast.parse("f(x, f'a {b} c d e f. Short.')")))
    ['a {} c d e f.']
    """
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)
            said |= {id(each) for each in node.values}
            text = "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
        ):
            text = node.value
        else:
            continue
        yield from (each for each in re.split(r"(?<=[.;])\s+", text) if each.count(" ") >= 4)


def complaints(tree: ast.Module) -> Iterator[str]:
    """Yield the sentences of rules between keys: what they say is wrong, why, and what to do."""
    for node in tree.body:
        returns = node.returns if isinstance(node, ast.FunctionDef) else None
        if returns is not None and "Complaint" in ast.unparse(returns):
            yield from sentences(node)


def test_a_sentence_of_a_rule_between_keys_stands_in_one_place() -> None:
    """A rule that a setup made by hand must meet as well is one function, and so one sentence."""
    times: dict[str, list[str]] = defaultdict(list)
    for path, tree in counted().items():
        for sentence in sentences(tree):
            times[sentence].append(path.relative_to(ROOT).as_posix())
    of_rules = {each for tree in counted().values() for each in complaints(tree)}
    assert len(of_rules) > 200
    of_rules -= {"Leave one of them out.", "data may be in other units."}  # steps, and no rules
    assert {each: times[each] for each in sorted(of_rules) if len(times[each]) > 1} == {}


def test_an_array_type_has_one_alias() -> None:
    spare = {element: names for element, names in array_aliases().items() if len(names) > 1}
    assert spare == {}


@for_each("word", sorted(PRIVATE_WORDS))
def test_a_private_word_is_seen_wherever_it_is_bound(word: str) -> None:
    sources = (f"{word} = 1", f"for _{word} in x: pass", f"[0 for last_{word} in x]")
    assert all(is_private(name) for text in sources for name in bindings(ast.parse(text)))
