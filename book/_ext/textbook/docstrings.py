"""Fields of a docstring that share a line, ``low, high : float``, share one on the page too.

Napoleon gives each argument a line of its own with the same words; of attributes it takes the first names for a type.
"""

from __future__ import annotations

import re
from itertools import groupby, pairwise

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

SHARED = re.compile(r"(\w+(?:, \w+)+)( : .+)?")


def apart(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Give each attribute a field of its own, as Napoleon does with arguments."""
    whole, section = [*lines, ""], ""
    lines.clear()
    for number, (line, below) in enumerate(pairwise(whole)):
        if below and not below.strip("-"):
            section = line
        shared = SHARED.fullmatch(line) if section == "Attributes" else None
        if not shared:
            lines.append(line)
            continue
        names, kind = shared.groups(default="")
        words = []
        for under in whole[number + 1 :]:
            if not under.startswith(" "):
                break
            words.append(under)
        *first, last = names.split(", ")
        for one in first:
            lines += [one + kind, *words]
        lines.append(last + kind)


def said(item: nodes.list_item) -> tuple[bool, list[str]]:
    """Whether it is a field in one paragraph, and what stands there after its name."""
    name, *rest = item[0]
    return len(item) == 1 and isinstance(name, addnodes.literal_strong), [str(node) for node in rest]


def together(app: Sphinx, doctree: nodes.document) -> None:
    """Join neighbors of which the same is said."""
    for body in doctree.findall(nodes.field_body):
        for items in body.findall(nodes.bullet_list):
            for (is_field, _), same in groupby(list(items), said):
                first, *others = same if is_field else [None]
                for number, other in enumerate(others):
                    first[0][2 * number + 1 : 2 * number + 1] = [nodes.Text(", "), other[0][0]]
                    items.remove(other)


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", apart, priority=400)  # Napoleon comes at 500
    app.connect("doctree-read", together)
