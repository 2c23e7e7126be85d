"""Gives a plan two tools of your own: one reads, one changes something and needs approval.

Run it: `python own_tools.py`. It needs no key: it uses a scripted model instead of a real one.
"""

from dataclasses import dataclass

from plansmith import Plan, Plansmith, ToolFailed, tool
from plansmith.testing import ScriptedModel


@dataclass
class Stock:
    item: str
    count: int


STOCK = {"bolt": 3, "nut": 250}


@tool(effect="read")
def stock(item: str) -> Stock:
    """How many of an item are in stock."""
    if item not in STOCK:
        raise ToolFailed(f"there is no item {item!r}")  # says for certain: nothing was changed
    return Stock(item, STOCK[item])


@tool(effect="write")
def order(item: str, count: int) -> str:
    """Order more of an item."""
    return f"ordered {count} of {item}"


def approve(plan: Plan) -> bool:
    print(plan)
    return True  # here a person looks at the plan, and says yes or no


few = {"below": ["{{have.count}}", 10]}
steps = [
    {"id": "have", "tool": "stock", "inputs": {"item": "bolt"}},
    {"id": "buy", "tool": "order", "inputs": {"item": "bolt", "count": 100}, "when": few},
    {"id": "answer", "say": "There were {{have.count}} bolts: {{buy}}."},
]
triage = {"decision": "plan"}
model = ScriptedModel(triage, {"goal": "Order bolts if there are few", "steps": steps})

smith = Plansmith(model, tools=[stock, order])  # a real model: Plansmith("openai:gpt-5", tools=…)
run = smith.do_sync("Order 100 bolts if fewer than 10 are left", approve=approve)
print(run.status, "-", run.answer)
print(run.result("have", Stock))

# Prints:
# Order bolts if there are few
# 1. have: stock(item=bolt)
# 2. buy: [only if have.count is below 10] order(item=bolt, count=100)
# 3. answer: replies: There were {{have.count}} bolts: {{buy}}.
# done - There were 3 bolts: ordered 100 of bolt.
# Stock(item='bolt', count=3)
