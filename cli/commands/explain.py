"""`privplan explain`: how a number follows, or a page about a topic."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest
from ..inputs import options
from ..inputs.request import OutputOptions, QuestionOptions, takes
from ..pages.topics import TOPIC_BY_ALIAS, TOPICS
from ..terminal.output import Report

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[EVENT|TOPIC]",
        help="A JSON file, a Renyi curve in a .csv file, - for standard input, or a topic: "
        f"{', '.join(TOPICS)}.",
        show_default=False,
    ),
]

LIKE_A_TOPIC: Final = 0.75
"""How much like a topic a word must be, that the topic is suggested: see `decoding.nearest`."""


@options.option_group
class ExplainRequest(OutputOptions, QuestionOptions):
    """An event, a topic or a cause."""

    target: Target = None


@takes(ExplainRequest)
def explain(context: typer.Context, asked: ExplainRequest) -> Report:
    """Show how a number follows, or explain a topic.

    EVENT is what `account` reads; --delta, --epsilon, --neighbours, --group and --engine ask as
    there, and the number that it prints is explained.  TOPIC may also be the id of a cause that
    `privplan check` names, such as shuffled-loader, or another name of what a topic explains, such
    as bandmf or rdp.  Without EVENT or TOPIC, the topics are listed.
    """
    from ...accountant import validate
    from ...accountant.work_limit import require_little_work
    from ..inputs.curve_file import names_event, read_released
    from ..inputs.described_run import grouped
    from ..reports.account import Question

    target = asked.target
    # A topic wins over a file of the same name; ./NAME is always the file.
    if target is None or target in TOPICS:
        return _page(target)
    if not names_event(target):
        other = TOPIC_BY_ALIAS.get(target.lower().replace("_", "-"))
        if other is not None:
            return _page(other)
        cause = _cause(target)
        if cause is not None:
            return cause
        raise _unknown(target)
    size = options.checked(validate.count, group=asked.group)
    event = grouped(read_released(target, asked.neighbours), size)
    require_little_work(event)
    return Question.of(context, asked).answer_of(event).report(explained=True)


def _page(topic: str | None) -> Report:
    from ..pages import topics

    if topic is None:
        listed = topics.listing()
        return Report(result={"topics": list(TOPICS)}, text=listed, number=str(len(TOPICS)))
    text = topics.page(topic)
    return Report(result={"topic": topic, "text": text}, text=text, number=text)


def _cause(name: str) -> Report | None:
    """Return the page about a cause of `privplan check`, by its id."""
    from ..pages.topics import cause_page

    text = cause_page(name)
    if text is None:
        return None
    return Report(result={"topic": name, "text": text}, text=text, number=text)


def _unknown(word: str) -> Exception:
    close = nearest(word.lower(), (*TOPICS, *TOPIC_BY_ALIAS), least_ratio=LIKE_A_TOPIC)
    close = TOPIC_BY_ALIAS.get(close, close) if close else None
    return InvalidInput(
        f"{word!r} is neither a topic nor a file.",
        f"The topics are {', '.join(TOPICS)}; an event is a path, or - for standard input.",
        f"privplan explain {close}" if close else "privplan explain",
    )
