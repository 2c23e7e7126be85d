"""Prepares docstrings for the site: properties of ours, and arguments that methods share."""

import re
from typing import Any

from griffe import Attribute, Class, Docstring, Extension, Function

DECORATORS = {"made_once", "kept_property"}
SHARED = re.compile(r"^Args of methods:\n((?: {4}.*(?:\n|\Z))+)\n?", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+): .*(?:\n {8}.*)*", re.MULTILINE)


class Properties(Extension):
    """Shows what `made_once` and `kept_property` decorate as properties, not as methods."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Replaces the methods of a class that are properties."""
        for name, member in [*cls.members.items()]:
            if not isinstance(member, Function):
                continue
            if DECORATORS & {str(each.value) for each in member.decorators}:
                made = Attribute(
                    name,
                    annotation=member.returns,
                    docstring=member.docstring,
                    lineno=member.lineno,
                    endlineno=member.endlineno,
                    parent=cls,
                )
                made.labels = {"property"}
                cls.set_member(name, made)


class SharedArguments(Extension):
    """Adds what a class tells under `Args of methods` to each method that takes it."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Moves the section of the class into the docstrings of its methods."""
        if cls.docstring is None or not (found := SHARED.search(cls.docstring.value)):
            return
        shared = {entry[1]: entry[0] for entry in ENTRY.finditer(found[1])}
        cls.docstring.value = SHARED.sub("", cls.docstring.value).strip()
        for member in cls.members.values():
            if isinstance(member, Function) and member.docstring is not None:
                taken = [each.name for each in member.parameters if each.name in shared]
                _add(member.docstring, [shared[name] for name in taken])


def _add(docstring: Docstring, entries: list[str]) -> None:
    """Puts arguments behind those that a docstring has; before its other sections."""
    text = docstring.value
    known = {entry[1] for entry in ENTRY.finditer(text)}
    lines = "\n".join(each for each in entries if each.strip().partition(":")[0] not in known)
    if not lines:
        return
    if "\nArgs:\n" in text:
        head, _, tail = text.partition("\nArgs:\n")
        own, gap, rest = tail.partition("\n\n")
        docstring.value = f"{head}\nArgs:\n{own.rstrip()}\n{lines}{gap}{rest}"
        return
    section = re.search(r"^(?:Raises|Returns|Examples):\n", text, re.MULTILINE)
    at = section.start() if section else len(text)
    docstring.value = f"{text[:at].rstrip()}\n\nArgs:\n{lines}\n\n{text[at:]}".rstrip()
