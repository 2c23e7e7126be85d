"""Lets the model make another plan when a step has failed for good.

Run it: `python replan_on_failure.py`. The first plan only reads and runs at once. The new one calls
a tool that was not in it, so a person sees it first. Finished steps are kept and not run again.
"""

from plansmith import Limits, Plan, Plansmith, ToolFailed, tool
from plansmith.testing import ScriptedModel


@tool(effect="read")
def find_order(number: int) -> float:
    """The price of an order in euros."""
    print("  looks for order", number)
    return 200.0


@tool(effect="read")
def bank_rate(currency: str) -> float:
    """The exchange rate of our bank."""
    raise ToolFailed(f"the bank has no rate for {currency}")


@tool(effect="read")
def public_rate(currency: str) -> float:
    """The exchange rate that the central bank publishes."""
    return {"ISK": 142.5}[currency]


def approve(plan: Plan) -> bool:
    print(plan)
    return True  # here a person looks at the plan


def planned(rate_tool: str) -> dict[str, object]:
    steps = [
        {"id": "price", "tool": "find_order", "inputs": {"number": 7}},
        {"id": "rate", "tool": rate_tool, "inputs": {"currency": "ISK"}, "after": ["price"]},
        {"id": "answer", "say": "{{price}} euros at {{rate}} króna each"},
    ]
    return {"goal": "The price of order 7 in króna", "steps": steps}


triage = {"decision": "plan"}
model = ScriptedModel(triage, planned("bank_rate"), planned("public_rate"))  # or "openai:gpt-5"
limits = Limits(max_replans=2)
smith = Plansmith(model, tools=[find_order, bank_rate, public_rate], limits=limits)
run = smith.do_sync("What does order 7 cost in Icelandic króna?", approve=approve)
print(run.status, "after", run.replans, "new plan:", run.answer)

# Prints:
#   looks for order 7
# The price of order 7 in króna
# 1. price: find_order(number=7)
# 2. rate: public_rate(currency=ISK)
# 3. answer: replies: {{price}} euros at {{rate}} króna each
# done after 1 new plan: 200.0 euros at 142.5 króna each
