"""Writes the exact versions of the templates that a plan runs into the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plansmith.plan.plan import Plan
from plansmith.plan.steps import AnyStep, MapStep, PlanStep
from plansmith.templates.template import Template, plan_steps, template_of, with_defaults


def pinned(plan: Plan, templates: Mapping[str, Template]) -> Plan:
    """Returns the plan with the version, content hash and parameters of each template written in.

    What runs is then exactly what was approved, whatever is saved under the same name later. A
    template that the program passes in has no version and keeps its name.
    """
    return _Pinning(templates).plan(plan)


def contents(plan: Plan, templates: Mapping[str, Template]) -> dict[str, Plan]:
    """Returns the plans of the templates that a pinned plan runs, at every depth, by name."""
    pinning = _Pinning(templates)
    found: dict[str, Plan] = {}
    pending = [step for _, step in plan_steps(plan)]
    while pending:
        step = pending.pop()
        template = template_of(step, templates)
        inner = pinning.content(template) if template else None
        if inner is not None and step.template not in found:
            found[step.template] = inner
            pending += [each for _, each in plan_steps(inner)]
    return found


class _Pinning:
    """Pins plans, each template once; a template that runs itself has no content."""

    def __init__(self, templates: Mapping[str, Template]) -> None:
        self._templates = templates
        self._made: dict[str, Plan | None] = {}

    def plan(self, plan: Plan) -> Plan:
        return plan.replace(steps=tuple(self._pin(step) for step in plan.steps))

    def content(self, template: Template) -> Plan | None:
        if template.full_name not in self._made:
            self._made[template.full_name] = None
            self._made[template.full_name] = self.plan(template.plan)
        return self._made[template.full_name]

    def _pin(self, step: AnyStep) -> AnyStep:
        if isinstance(step, MapStep):
            return step.replace(each=self._pin(step.each))
        if not isinstance(step, PlanStep):
            return step
        template = template_of(step, self._templates)
        if template is None:
            return step
        content = self.content(template)
        fields: dict[str, Any] = {
            "inputs": with_defaults(template, step.inputs),
            "content": content.hash if content else None,
        }
        if template.saved_at is not None:
            fields |= {"template": template.full_name, "version": template.version}
        return step.replace(**fields)
