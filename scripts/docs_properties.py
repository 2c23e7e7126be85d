"""Tells the site's reader of docstrings which decorators of ours make properties."""

from typing import Any

from griffe import Attribute, Class, Extension, Function

DECORATORS = {"made_once", "kept_property"}


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
