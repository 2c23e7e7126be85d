"""Plans with a model of your own: any object with a name and a method `stream` will do.

Run it: `python own_model.py`. This model only follows a rule. Yours would send
`prompt.messages` (and `prompt.schema`) to a server, and pass on the pieces of the answer.
"""

import json
from collections.abc import AsyncIterator

from plansmith import Plansmith, tool
from plansmith.ports import Delta, ModelDone, PlanBrief, Prompt, TextDelta, Usage


class RuleModel:
    name = "rules-of-the-house"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        answer: dict[str, object]
        match prompt.brief:  # the task as data; the same is in words in prompt.messages
            case PlanBrief(request=request):
                city = request.rstrip("?").split()[-1]
                call = {"id": "now", "tool": "weather", "inputs": {"city": city}}
                tell = {"id": "tell", "say": f"It is {{{{now}}}} degrees in {city}."}
                answer = {"goal": request, "steps": [call, tell]}
            case _:  # triage: shall this be planned, answered at once, or asked about?
                answer = {"decision": "plan"}
        text = json.dumps(answer)
        for start in range(0, len(text), 40):
            yield TextDelta(text[start : start + 40])
        yield ModelDone(Usage(input_tokens=len(prompt.text) // 4, output_tokens=len(text) // 4))


@tool(effect="read")
def weather(city: str) -> int:
    """The temperature in a city."""
    return {"Oslo": 12, "Rome": 24}[city]


smith = Plansmith(RuleModel(), tools=[weather])
run = smith.do_sync("How warm is it in Oslo?")
print(run.plan)
print(run.answer)

# Prints:
# How warm is it in Oslo?
# 1. now: weather(city=Oslo)
# 2. tell: replies: It is {{now}} degrees in Oslo.
# It is 12 degrees in Oslo.
